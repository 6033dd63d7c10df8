"""FITS cards that locate pixels: world coordinate systems, and others that count pixels.

The pixel axes of an image change, its world axes stay: a step, a flip or another order of the axes
goes into the matrix (``CD`` or ``PC``) or into ``CDELT``, a shift into ``CRPIX``, in the primary
system and in the alternate ones, A to Z.  A dropped axis has a single pixel, as FITS allows, behind
the image's axes.  The polynomials of distortions (SIP) change as well, and so do ``LTV`` and
``LTM``, with which IRAF locates a section in its whole image.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Pixels", "Run", "is_card", "move_cards"]

_CARD = re.compile(
    r"(?:(CRPIX|CDELT|CROTA|CRVAL|CTYPE|CUNIT)([1-9]\d?)"
    r"|(CD|PC)(?:([1-9]\d?)_([1-9]\d?)|(0\d\d)(0\d\d))"
    r"|(WCSAXES))([A-Z]?)"
)
_DISTORTION = re.compile(r"(A|B|AP|BP)_(?:(\d)_(\d)|ORDER|DMAX)")
_LOGICAL = re.compile(r"LTV([1-9])|LTM([1-9])_([1-9])")
#: Sections of the image in its own pixels: ``[1:1024,1:4096]``.
_SECTIONS = ("DATASEC", "TRIMSEC", "BIASSEC", "GOODSEC", "STATSEC")
_SECTION = re.compile(r"\[(\d+:\d+(?:,\d+:\d+)*)\]")
_MOST_AXES = 99  # card names have no room for larger numbers
_UNEVEN = "pixels are not evenly spaced"


class Run(NamedTuple):
    """The pixels along an axis of an image that another image takes.

    Attributes
    ----------
    first, step : int
        Pixel i, from 0, is pixel ``first + step * i`` of the old image.  A step of 0: pixels are
        not evenly spaced.
    axis : int
        Axis of the new image, from 1.
    """

    first: int
    step: int
    axis: int


class Pixels(NamedTuple):
    """The pixel axes of an image made from another one.

    Attributes
    ----------
    runs : dict
        Runs by axis of the old image, from 1.
    ndim : int
        Axes of the new image.  Axes with higher numbers have a single pixel.
    """

    runs: Mapping[int, Run]
    ndim: int


def is_card(name: str) -> bool:
    """Tell whether an attribute of this name is a card that locates pixels."""
    return name in _SECTIONS or any(
        pattern.fullmatch(name) for pattern in (_CARD, _DISTORTION, _LOGICAL)
    )


def move_cards(cards: dict[str, Any], pixels: Pixels, lost: list[str]) -> None:
    """Adapt the cards among attributes to an image made from the one that they describe.

    Parameters
    ----------
    cards : dict
    pixels : Pixels
    lost : list of str
        Gains descriptions of cards that cannot describe the new image, and are left out.

    Examples
    --------
    >>> cards = {"CRPIX1": 5.0, "CDELT1": 0.1}
    >>> move_cards(cards, Pixels({1: Run(-20, 1, 1), 2: Run(0, 1, 2)}, 2), [])
    >>> cards
    {'CRPIX1': 25.0, 'CDELT1': 0.1}
    """
    letters: dict[str, list[str]] = {}
    for key in cards:
        card = _CARD.fullmatch(key)
        if card is not None:
            letters.setdefault(card[card.re.groups], []).append(key)
    for letter, keys in letters.items():
        _System(letter, {key: cards[key] for key in keys}).move(cards, pixels, lost)
    _move_distortion(cards, pixels, lost)
    _move_logical(cards, pixels, lost)
    _move_sections(cards, pixels, lost)


def _is_number(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 1 << 63
    return isinstance(value, (float, np.floating, np.integer))


def _number(value: Any) -> Any:
    if not _is_number(value):
        raise TypeError("not a number")
    return value


def _moved(pixel: Any, run: Run) -> Any:
    """Return the new number of a pixel, counted from 1."""
    return pixel - run.first if run.step == 1 else (pixel - 1 - run.first) / run.step + 1


class _System:
    """A world coordinate system: the values of its cards, by axes.

    Parameters
    ----------
    letter : str
        Letter of an alternate system; empty for the primary one.
    cards : dict
    """

    def __init__(self, letter: str, cards: dict[str, Any]) -> None:
        self._letter, self._cards = letter, cards
        self._by_axis: dict[str, dict[int, Any]] = {}
        self._matrix: dict[tuple[int, int], Any] = {}
        self._kind = ""
        self._count = 0
        for key, value in cards.items():
            name, axis, kind, *indices, axes, _ = _CARD.fullmatch(key).groups()  # type: ignore[union-attr]
            if name:
                self._by_axis.setdefault(name, {})[int(axis)] = value
                self._count = max(self._count, int(axis))
            elif kind:
                i, j = (int(n) for n in indices if n)
                self._matrix[i, j] = value
                self._kind = kind
                self._count = max(self._count, i, j)
            elif axes and isinstance(value, int) and value <= _MOST_AXES:
                self._count = max(self._count, value)

    def move(self, cards: dict[str, Any], pixels: Pixels, lost: list[str]) -> None:
        """Adapt the cards of the system, among others."""
        n = self._count
        runs = self._runs(pixels)
        known = [runs[j] for j in range(1, n + 1)]
        if all(run == (0, 1, j) for j, run in enumerate(known, 1)):
            return
        if any(run.step == 0 for run in known):
            new = None
            which = f" {self._letter!r}" if self._letter else ""
            lost.append(f"the cards of the world coordinate system{which} ({_UNEVEN})")
        else:
            try:
                new = self._moved(n, runs, pixels.ndim)
            except (TypeError, ZeroDivisionError):  # cards that are not numbers
                return
        items = list(cards.items())
        cards.clear()
        for key, value in items:
            if key not in self._cards:
                cards[key] = value
            elif new is not None:  # all, WCSAXES first, at the place of the old first card
                cards.update(new)
                new = None

    def _runs(self, pixels: Pixels) -> dict[int, Run]:
        """Return the runs of all axes, including those that already had a single pixel."""
        runs = dict(pixels.runs)
        last = max([pixels.ndim, *(run.axis for run in runs.values())])
        for j in range(len(runs) + 1, self._count + 1):
            last += 1
            runs[j] = Run(0, 1, last)
        return runs

    def _moved(self, n: int, runs: Mapping[int, Run], ndim: int) -> dict[str, Any]:
        """Return the cards of the new image."""
        own = self._by_axis
        deltas, turns = dict(own.get("CDELT", {})), dict(own.get("CROTA", {}))
        matrix, kind = self._matrix, self._kind
        fresh: tuple[int, ...] = ()
        used = {j: runs[j] for j in range(1, n + 1)}
        is_permuted = any(run.axis != j for j, run in used.items())
        if is_permuted and {run.axis for run in used.values()} != set(used):
            # Axes without cards change places with others, or new axes come between them.
            for j in range(n + 1, len(runs) + 1):
                used[j] = Run(0, 1, runs[j].axis)
            taken = {run.axis for run in used.values()}
            fresh = tuple(j for j in range(1, max(taken) + 1) if j not in taken)
        has_steps = any(run.step != 1 for run in used.values())
        if not kind and (is_permuted or has_steps):
            if any(turns.values()):
                matrix, kind, turns = self._rotation(deltas, turns), "PC", {}
            elif is_permuted:
                kind = "PC"
        if not is_permuted:
            # Beside a CD matrix, CDELT serves readers that do not know the matrix.
            for j, run in used.items():
                if run.step != 1 and kind != "PC" and (not kind or j in deltas):
                    deltas[j] = _number(deltas.get(j, 1.0)) * run.step
        if kind and (is_permuted or has_steps):
            matrix = _matrix(matrix, kind, n, used, fresh)
        new = {}
        letter, axes = self._letter, max([n, *(run.axis for run in used.values()), *fresh])
        if f"WCSAXES{letter}" in self._cards or axes > ndim:
            new[f"WCSAXES{letter}"] = axes
        for key, value in self._cards.items():
            name = _CARD.fullmatch(key)[1]  # type: ignore[index]
            if name and name not in ("CRPIX", "CDELT", "CROTA"):
                new[key] = value
        for j, run in used.items():
            if j in own.get("CRPIX", {}) or (j <= n and (run.first, run.step) != (0, 1)):
                pixel = _number(own.get("CRPIX", {}).get(j, 0.0))
                new[f"CRPIX{run.axis}{letter}"] = _moved(pixel, run)
        new.update({f"CDELT{j}{letter}": value for j, value in deltas.items()})
        new.update({f"CROTA{j}{letter}": value for j, value in turns.items()})
        new.update({f"{kind}{i}_{j}{letter}": value for (i, j), value in matrix.items()})
        return new

    def _rotation(
        self, deltas: dict[int, Any], turns: dict[int, Any]
    ) -> dict[tuple[int, int], Any]:
        """Return the matrix PC for the angle CROTA of the latitude."""
        types = {j: str(v) for j, v in self._by_axis.get("CTYPE", {}).items()}
        lats = [j for j, t in types.items() if re.match(r"DEC-|.LAT|..LT", t)]
        lons = [j for j, t in types.items() if re.match(r"RA--|.LON|..LN", t)]
        i, j = (lons or [1])[0], (lats or [2])[0]
        angle = math.radians(_number(turns.get(j) or turns.get(i) or 0.0))
        ratio = _number(deltas.get(j, 1.0)) / _number(deltas.get(i, 1.0))
        cos, sin = math.cos(angle), math.sin(angle)
        return {(i, i): cos, (i, j): -sin * ratio, (j, i): sin / ratio, (j, j): cos}


def _matrix(
    old: Mapping[tuple[int, int], Any],
    kind: str,
    n: int,
    runs: Mapping[int, Run],
    fresh: tuple[int, ...],
) -> dict[tuple[int, int], Any]:
    """Return the elements of a matrix for changed pixel axes, without default elements.

    `n` is the number of axes with cards; the others are linear, and so are `fresh` ones.
    """

    def default(i: int, j: int) -> float:
        return float(kind == "PC" and i == j)

    whole = {
        (i, run.axis): _number(old.get((i, j), float(i == j > n) or default(i, j))) * run.step
        for i in runs
        for j, run in runs.items()
    }
    worlds = len(runs)
    whole.update({(worlds + k, axis): 1.0 for k, axis in enumerate(fresh, 1)})
    size = range(1, worlds + len(fresh) + 1)
    return {
        (i, j): whole.get((i, j), 0.0) + 0.0
        for i in size
        for j in size
        if whole.get((i, j), 0.0) != default(i, j)
    }


def _move_distortion(cards: dict[str, Any], pixels: Pixels, lost: list[str]) -> None:
    """Adapt the polynomials of SIP, which concern the first two axes, from CRPIX on."""
    own = [key for key in cards if _DISTORTION.fullmatch(key)]
    if not any(f"{name}_ORDER" in own for name in ("A", "B", "AP", "BP")):
        return
    runs = [pixels.runs.get(j, Run(0, 1, j)) for j in (1, 2)]
    if [run[1:] for run in runs] == [(1, 1), (1, 2)]:
        return
    old = {key: cards[key] for key in own}
    if not all(map(_is_number, old.values())):
        return
    for key in own:
        del cards[key]
    if {run.axis for run in runs} != {1, 2} or not all(run.step for run in runs):
        lost.append("the cards of the distortion (SIP), which is about the first two axes")
        for key in ("CTYPE1", "CTYPE2"):
            if isinstance(cards.get(key), str):
                cards[key] = cards[key].removesuffix("-SIP")
        return
    steps = [float(run.step) for run in runs]
    is_swapped = runs[0].axis == 2
    for key, value in old.items():
        name, p, q = _DISTORTION.fullmatch(key).groups()  # type: ignore[union-attr]
        own_step = steps["AB".index(name[0])]
        new = {"A": "B", "B": "A"}[name[0]] + name[1:] if is_swapped else name
        if p is None:
            suffix = key.partition("_")[2]
            cards[f"{new}_{suffix}"] = value / abs(own_step) if suffix == "DMAX" else value
        else:
            factor = steps[0] ** int(p) * steps[1] ** int(q) / own_step
            place = f"{q}_{p}" if is_swapped else f"{p}_{q}"
            cards[f"{new}_{place}"] = value * factor


def _move_logical(cards: dict[str, Any], pixels: Pixels, lost: list[str]) -> None:
    """Adapt LTV and LTM: pixel = LTM * (pixel of the whole image) + LTV."""
    own = {key: cards[key] for key in cards if _LOGICAL.fullmatch(key)}
    if not own or not all(map(_is_number, own.values())):
        return
    n = max(int((m := _LOGICAL.fullmatch(key))[1] or m[2]) for key in own)  # type: ignore[index]
    runs = {j: pixels.runs.get(j, Run(0, 1, j)) for j in range(1, n + 1)}
    for key in own:
        del cards[key]
    if not all(run.step for run in runs.values()):
        lost.append(f"the cards LTV and LTM ({_UNEVEN})")
        return
    for i, run in runs.items():
        cards[f"LTV{run.axis}"] = _moved(own.get(f"LTV{i}", 0.0), run)
        for j in runs:
            value = own.get(f"LTM{i}_{j}", float(i == j))
            value = value if run.step == 1 else value / run.step
            if value != (run.axis == j) or f"LTM{i}_{j}" in own:
                cards[f"LTM{run.axis}_{j}"] = value


def _move_sections(cards: dict[str, Any], pixels: Pixels, lost: list[str]) -> None:
    """Adapt cards that name sections by pixel numbers."""
    for key in _SECTIONS:
        value = cards.get(key)
        found = _SECTION.fullmatch(value.replace(" ", "")) if isinstance(value, str) else None
        if found is None:
            continue
        ends = [[int(n) for n in each.split(":")] for each in found[1].split(",")]
        runs = [pixels.runs.get(j, Run(0, 1, j)) for j in range(1, len(ends) + 1)]
        if any(abs(run.step) != 1 or run.axis != j for j, run in enumerate(runs, 1)):
            del cards[key]
            lost.append(f"attribute {key!r} (its pixels are not those of the image)")
            continue
        texts = [
            ":".join(str(int(_moved(n, run))) for n in pair)
            for pair, run in zip(ends, runs, strict=True)
        ]
        cards[key] = f"[{','.join(texts)}]"
