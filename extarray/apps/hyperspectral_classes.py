"""Spectral angles and classes of pixels, and their accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from extarray import ArgumentError, ShapeError
from extarray.apps.hyperspectral_blocks import (
    Block,
    Floats,
    Spectra,
    spectra_given,
    with_endmembers,
)
from extarray.apps.hyperspectral_pixels import Raster
from extarray.apps.hyperspectral_unmixing import LARGE, Fit
from extarray.common.extras import require

__all__ = ["Accuracy", "Matching", "accuracy", "angles", "classify", "match", "sam"]


# -- spectral angles and classes -------------------------------------------------------------------


def sam(
    a: Any,
    endmembers: ArrayLike,
    *,
    band_axis: int | str | None = None,
    mask: Any = None,
    comm: Any = None,
    max_memory: int | str | None = None,
    path: str | Path | None = None,
) -> Any:
    """Map the spectral angles between the pixels of a scene and endmembers.

    Parameters
    ----------
    a : ExtArray, array, DataArray or image of SPy
        Scene of three axes.
    endmembers : array, (p, bands)
        Their spectra.
    band_axis : int or str, optional
        The axis of the bands, or its name; see `pct`.
    mask : array of bool, (rows, columns), optional
        True for pixels to leave out; see `pct`.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work; see `pct`.
    max_memory : int or str, optional
        Bytes of temporary memory per rank.
    path : path, optional
        Path of a new array for the result.

    Returns
    -------
    ndarray or ExtArray, (rows, columns, p)
        In radians, from 0 to pi; pi / 2 for pixels that are zero in all bands, NaN for pixels
        without data.

    Examples
    --------
    >>> import numpy as np
    >>> from extarray.apps import hyperspectral
    >>> hyperspectral.sam([[[3.0, 3.0]]], [[1, 0], [2, 2]]).round(4).tolist()
    [[[0.7854, 0.0]]]
    """
    spectra, members = with_endmembers(a, endmembers, band_axis, comm, max_memory, mask)
    return spectra.map(lambda x: angles(x, members), len(members), path=path)


def angles(x: Floats, y: Floats) -> Floats:
    """Return the spectral angles, (n, m), between spectra (n, bands) and (m, bands)."""
    lengths = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(y, axis=1)
    cosines = (x @ y.T) / np.where(lengths == 0, 1.0, lengths)
    found: Floats = np.arccos(np.clip(cosines, -1.0, 1.0))
    return found


def classify(
    a: Any,
    endmembers: ArrayLike,
    method: str = "sam",
    *,
    classes: Sequence[int] | None = None,
    threshold: float | None = None,
    band_axis: int | str | None = None,
    mask: Any = None,
    comm: Any = None,
    max_memory: int | str | None = None,
    path: str | Path | None = None,
) -> Any:
    """Label each pixel with its most similar or most abundant endmember.

    Parameters
    ----------
    a : ExtArray, array, DataArray or image of SPy
        Scene of three axes.
    endmembers : array, (p, bands)
        Their spectra.
    method : {"sam", "fcls", "nnls", "scls", "ucls"}
        Classify by the least spectral angle, or by the greatest abundance.
    classes : sequence of int, optional
        Label of each endmember, from 1; several may share one.  Default: 1 to p.
    threshold : float, optional
        Pixels beyond it get the label 0: the greatest angle, or the least abundance.
    band_axis : int or str, optional
        The axis of the bands, or its name; see `pct`.
    mask : array of bool, (rows, columns), optional
        True for pixels to leave out; see `pct`.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work; see `pct`.
    max_memory : int or str, optional
        Bytes of temporary memory per rank.
    path : path, optional
        Path of a new array for the result.

    Returns
    -------
    ndarray or ExtArray of int32, (rows, columns)
        0 for pixels without data.

    Examples
    --------
    >>> import numpy as np
    >>> from extarray.apps import hyperspectral
    >>> scene = np.array([[[9.0, 1.0], [1.0, 2.0], [5.0, 5.0]]])
    >>> hyperspectral.classify(scene, [[1, 0], [0, 1]], threshold=0.7).tolist()
    [[1, 2, 0]]
    """
    large = [] if method == "sam" else [LARGE]
    spectra, members = with_endmembers(a, endmembers, band_axis, comm, max_memory, mask, *large)
    labels = np.arange(1, len(members) + 1) if classes is None else np.asarray(classes)
    if (
        labels.shape != (len(members),)
        or labels.dtype.kind not in "iu"
        or not 1 <= labels.min() <= labels.max() <= np.iinfo(np.int32).max
    ):
        raise ArgumentError(
            f"classes must be {len(members)} integers from 1 to {np.iinfo(np.int32).max}, one for "
            "each endmember"
        )
    score: Callable[[Floats], Floats]
    if method == "sam":
        limit = None if threshold is None else -threshold

        def score(x: Floats) -> Floats:
            return -angles(x, members)
    else:
        limit, score = threshold, spectra.once(lambda: Fit.of(members, method))

    def label(x: Floats) -> NDArray[np.int32]:
        scores = score(x)
        best = scores.argmax(axis=1)
        found: NDArray[np.int32] = labels[best].astype(np.int32)
        if limit is not None:
            found[np.take_along_axis(scores, best[:, None], axis=1)[:, 0] < limit] = 0
        return found

    return spectra.map(label, None, np.int32, path, 0)


# -- accuracy --------------------------------------------------------------------------------------


class Matching(NamedTuple):
    """Pairs of spectra: ``endmembers[order[k]]`` belongs to reference k.

    Attributes
    ----------
    order : ndarray of int, (m,)
        For each reference the index of its endmember.
    angles : ndarray, (m,)
        Spectral angle of each pair, in radians.
    """

    order: NDArray[np.int64]
    angles: Floats


def match(endmembers: ArrayLike, references: ArrayLike) -> Matching:
    """Pair each reference spectrum with an endmember, minimizing the sum of the angles.

    Parameters
    ----------
    endmembers : array, (p, bands)
        Spectra that were found.
    references : array, (m, bands)
        Known spectra; m is at most p.

    Returns
    -------
    Matching

    Raises
    ------
    ArgumentError
        There are more references than endmembers.

    Examples
    --------
    >>> from extarray.apps import hyperspectral
    >>> hyperspectral.match([[0, 1], [1, 0]], [[2, 0], [0, 3]]).order.tolist()
    [1, 0]
    """
    known = np.atleast_2d(references)
    known = spectra_given(known, known.shape[-1], "references")
    found = spectra_given(np.atleast_2d(endmembers), known.shape[1], "endmembers")
    if len(known) > len(found):
        raise ArgumentError(f"cannot pair {len(known)} references with {len(found)} endmembers")
    optimize = require("scipy.optimize", "apps", "matching endmembers")
    between = angles(known, found)
    _, order = optimize.linear_sum_assignment(between)
    return Matching(order, between[np.arange(len(known)), order])


@dataclass
class Accuracy:
    """Agreement of labels with the truth.

    Attributes
    ----------
    overall : float
        Share of the labelled pixels that have the right label.
    per_class : ndarray, (k,)
        The same for the pixels of each class of the truth.
    kappa : float
        Cohen's: `overall` beyond chance, 1 at best; nan if chance alone reaches 1.
    classes : ndarray of int, (k,)
        The classes of the truth.
    confusion : ndarray of int, (k, k + 1)
        Pixels of each class of the truth by label; the last column counts all other labels.
    histogram : float
        Agreement of the sizes of classes alone, wherever their pixels lie.
    """

    overall: float
    per_class: Floats
    kappa: float
    classes: NDArray[Any]
    confusion: NDArray[np.int64]

    @property
    def histogram(self) -> float:
        """Agreement of the sizes of classes alone, as [nimako2014]_, tables 9.4 and 9.5, has it.

        One minus the sum of the differences over the number of pixels.  Labels that are all wrong,
        but as frequent as the right ones, reach 1.
        """
        of_truth, of_labels = self.confusion.sum(axis=1), self.confusion[:, :-1].sum(axis=0)
        return float(1 - np.abs(of_labels - of_truth).sum() / of_truth.sum())


def accuracy(labels: Any, truth: Any, *, mask: Any = None, comm: Any = None) -> Accuracy:
    """Compare labels with the truth, pixel by pixel; 0 in the truth means unknown.

    Parameters
    ----------
    labels, truth : ExtArray, array or DataArray of int, (rows, columns) or (n,)
        Label of each pixel, or of some of them, such as a test set.
    mask : array of bool, of the same shape, optional
        True for pixels to leave out; see `pct`.
    comm : mpi4py.MPI.Intracomm, optional
        Ranks that share the work; see `pct`.

    Returns
    -------
    Accuracy

    Raises
    ------
    ShapeError, ArgumentError
        The shapes differ, or the truth labels no pixel that counts.

    Examples
    --------
    >>> from extarray.apps import hyperspectral
    >>> found = hyperspectral.accuracy([[1, 1, 2], [2, 2, 2]], [[1, 2, 2], [2, 2, 0]])
    >>> found.overall, found.per_class.tolist(), round(found.kappa, 3)
    (0.8, [1.0, 0.75], 0.545)
    """
    shapes = np.shape(labels), np.shape(truth)
    if shapes[0] != shapes[1]:
        raise ShapeError(f"labels have shape {shapes[0]}, but the truth has {shapes[1]}")
    given, known = _label_map(labels, "labels", mask), _label_map(truth, "truth", None)
    image = Spectra(known, comm=getattr(labels, "comm", None) if comm is None else comm)

    def pairs(block: Block) -> dict[tuple[int, int], int]:
        label, unlabelled = given.read(block.rows, block.columns)
        right, unknown = known.read(block.rows, block.columns)
        there = right[..., 0] != 0
        for missing in (unlabelled, unknown):
            if missing is not None:
                there &= ~missing
        both = np.stack([right[there, 0].astype(np.int64), label[there, 0].astype(np.int64)], 1)
        kinds, counts = np.unique(both, axis=0, return_counts=True)
        return dict(zip(map(tuple, kinds.tolist()), counts.tolist(), strict=True))

    def merge(
        one: dict[tuple[int, int], int], other: dict[tuple[int, int], int]
    ) -> dict[tuple[int, int], int]:
        return {key: one.get(key, 0) + other.get(key, 0) for key in {**one, **other}}

    counts = image.fold(pairs, merge)
    if not counts:
        raise ArgumentError("the truth has no labelled pixel: it is 0 or masked everywhere")
    classes = np.unique([right for right, _ in counts])
    places = {int(c): k for k, c in enumerate(classes)}
    confusion = np.zeros((len(classes), len(classes) + 1), dtype=np.int64)
    for (right, label), number in counts.items():
        confusion[places[right], places.get(label, len(classes))] += number
    total, hits = int(confusion.sum()), confusion.diagonal()
    of_truth = confusion.sum(axis=1)
    overall = float(hits.sum() / total)
    chance = float(of_truth @ confusion[:, :-1].sum(axis=0)) / total**2
    kappa = (overall - chance) / (1 - chance) if chance < 1 else float("nan")
    return Accuracy(overall, hits / of_truth, kappa, classes, confusion)


def _label_map(labels: Any, name: str, mask: Any) -> Raster:
    """Return labels as a scene of one band; those of a single axis become a row."""
    array = labels if hasattr(labels, "shape") else np.asarray(labels)
    if len(array.shape) not in (1, 2) or np.dtype(array.dtype).kind not in "biu":
        raise ShapeError(
            f"{name} must be integers of shape (rows, columns) or (n,), not {array.dtype} of "
            f"shape {array.shape}"
        )
    single = len(array.shape) == 1
    if mask is not None and single:
        mask = np.asarray(mask)[None]
    return Raster(_OneBand(array, single), 2, mask)


class _OneBand:
    """Labels with an axis of one band at the end, and if `single` one of one row in front."""

    def __init__(self, labels: Any, single: bool) -> None:
        self._labels, self._single = labels, single
        self.dtype = labels.dtype
        self.shape = (*([1] if single else []), *labels.shape, 1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._labels, name)

    def __getitem__(self, key: tuple[slice, slice, slice]) -> NDArray[Any]:
        found: NDArray[Any] = np.asanyarray(self._labels[key[1] if self._single else key[:2]])
        return found[None, :, None] if self._single else found[..., None]
