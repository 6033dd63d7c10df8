"""A reader for napari, which shows arrays, and follows them while they grow.

napari finds it by itself::

    napari movie.xmd                    # an array, or a packed file
    napari --plugin extarray run        # all arrays in a folder

Axes for which others stand are shown as these, by the attribute ``"split"``; each channel is a
layer of its own.

Needs napari, the extra ``[napari]``.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray.array.array import ExtArray
from extarray.array.creation import open as open_array
from extarray.array.folders import open_group
from extarray.common.errors import ArgumentError, ExtArrayError
from extarray.common.extras import require
from extarray.format.labels import SPLIT, coordinate_form, coordinate_values, known_split
from extarray.format.suffixes import METADATA, PACKED, split_name
from extarray.interop.recording import FRAMES
from extarray.maintenance.group_index import names_in_group
from extarray.storage.filesystem import has_files, walk_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from os import PathLike

__all__ = ["Shown", "follow", "layers", "reader", "update"]

LayerData = tuple[Any, dict[str, Any], str]

_PURPOSE = "the reader for napari"
# Milliseconds between two looks at the files.
_INTERVAL = 250
# Files that are looked at to tell whether a folder has arrays.
_MOST_FILES = 10_000
# The names of an axis of channels, and the most that are layers of their own.
_CHANNELS, _MOST_CHANNELS = ("c", "channel", "channels"), 16
_COLORS = {1: ["gray"], 2: ["magenta", "green"]}
_MANY_COLORS = ["cyan", "magenta", "yellow", "blue", "green", "red"]


def reader(path: str | PathLike[str] | Sequence[str]) -> Callable[[Any], list[LayerData]] | None:
    """Return what reads a path for napari, or None.

    Parameters
    ----------
    path : str, PathLike, or sequence of str
        An array, or a folder or packed file with arrays; a stack of several is refused.

    Returns
    -------
    callable or None

    Examples
    --------
    >>> import extarray as xa
    >>> from extarray.interop.napari import reader
    >>> xa.create("movie", (0, 4, 6), "u1").close()
    >>> reader("movie.xmd") is None, reader("other.tif") is None
    (False, True)
    """
    if not isinstance(path, (str, os.PathLike)):
        return None
    return _read if _is_ours(os.fspath(path)) else None


def _is_ours(path: str) -> bool:
    if split_name(os.path.basename(path))[1]:
        return True
    if os.path.isdir(path):
        found = (name for _, _, names in walk_folders(path) for name in names)
        looked_at = itertools.islice(found, _MOST_FILES)
        return any(split_name(name)[1] == METADATA for name in looked_at)
    return has_files(path) or (os.path.isfile(path) and path.endswith(PACKED))


def _read(path: Any) -> list[LayerData]:
    """Read a path for the viewer that napari shows, and follow its arrays there."""
    found = layers(path)
    napari: Any = require("napari", "napari", _PURPOSE)
    viewer = napari.current_viewer()
    if viewer is not None:
        follow(viewer)
    return found


def layers(path: str | PathLike[str]) -> list[LayerData]:
    """Return the layers of an array, or of all arrays in a folder or packed file.

    Parameters
    ----------
    path : str or PathLike

    Returns
    -------
    list of (LazyView, dict, str)
        Data, arguments and kind of layers, as napari's readers return them.

    Raises
    ------
    ArgumentError
        A ValueError: no array has two axes of numbers, or more.
    MissingError
        A FileNotFoundError: there is no array.

    Examples
    --------
    >>> import extarray as xa
    >>> from extarray.interop.napari import layers
    >>> xa.create("cells", (2, 3, 4, 6), "u2", dims=[*"tcyx"]).close()
    >>> [(view.shape, about["name"]) for view, about, _ in layers("cells")]
    [((2, 4, 6), 'cells: 0'), ((2, 4, 6), 'cells: 1'), ((2, 4, 6), 'cells: 2')]
    """
    text = os.fspath(path)
    stem, suffix = split_name(text)
    text = stem if suffix else text
    found = [
        layer for name, array in _arrays(text) if _is_image(array) for layer in _of(array, name)
    ]
    if not found:
        raise ArgumentError(
            f"cannot show '{text}': napari shows arrays of two axes or more, of booleans, integers "
            "or real numbers, and there is none"
        )
    return found


def _arrays(path: str) -> list[tuple[str, ExtArray]]:
    """Open the arrays of a path for reading; return them with names of their layers."""
    base = Path(path).name
    is_folder = os.path.isdir(path) and not has_files(path)
    if not is_folder and names_in_group(path) is None:
        return [(base, open_array(path))]
    group = open_group(path)
    found = [(name, item) for name, item in group.walk() if isinstance(item, ExtArray)]
    return [(base if name == FRAMES else name, array) for name, array in found]


def _is_image(array: ExtArray) -> bool:
    return array.ndim >= 2 and array.dtype.kind in "biuf"


class Shown:
    """An array of which a layer shows a channel, or all; in the layer's metadata.

    Parameters
    ----------
    array : ExtArray
    channel : tuple of (int, int), optional
        Axis of the channels, and the number of the one.
    """

    def __init__(self, array: ExtArray, channel: tuple[int, int] | None = None) -> None:
        self.array, self.channel = array, channel

    def __deepcopy__(self, memo: Any) -> Shown:
        # A duplicate of the layer shows the same files.
        return self

    def view(self) -> Any:
        """Return the elements that are there now."""
        view = _view(self.array)
        if 0 in view.shape:
            # napari shows no layer without elements.
            shape = tuple(n or 1 for n in view.shape)
            view = np.broadcast_to(np.asarray(view.fill_value, view.dtype), shape)
        if self.channel is None:
            return view
        axis, i = self.channel
        place: Any = (*(slice(None),) * axis, i)
        return view[place] if isinstance(view, np.ndarray) else view.lazy[place]


def _view(array: ExtArray) -> Any:
    """Return a view of an array, with the axes for which one of its own stands."""
    if known_split(array.attrs.get(SPLIT), array.dims):
        return array.lazy.split()
    return array.lazy[...]


def _of(array: ExtArray, name: str) -> Iterator[LayerData]:
    """Yield the layers of an array."""
    view = _view(array)
    dims = list(view.dims or (f"dim_{i}" for i in range(view.ndim)))
    options: dict[str, Any] = {"rgb": dims[-1] == "s" and view.shape[-1] in (3, 4)}
    if options["rgb"]:
        dims.pop()
    axis = next((i for i, dim in enumerate(dims[:-2]) if dim in _CHANNELS), None)
    coords = _Coords(array)
    if axis is None or not _is_fixed(array, dims[axis]) or view.shape[axis] > _MOST_CHANNELS:
        shown = Shown(array)
        yield shown.view(), {**options, **coords.places(dims), **_of_layer(name, shown)}, "image"
        return
    count, labels = view.shape[axis], coords.texts(dims[axis])
    colors = coords.texts("color")
    others = dims[:axis] + dims[axis + 1 :]
    for i in range(count):
        label = labels[i] if i < len(labels) else str(i)
        shown = Shown(array, (axis, i))
        known = _COLORS.get(count, _MANY_COLORS)
        own = {
            "colormap": colors[i] if i < len(colors) and colors[i] else known[i % len(known)],
            "blending": "additive" if i else "translucent_no_depth",
        }
        about = {**options, **coords.places(others), **_of_layer(f"{name}: {label}", shown), **own}
        yield shown.view(), about, "image"


def _of_layer(name: str, shown: Shown) -> dict[str, Any]:
    return {"name": name, "metadata": {"extarray": shown}}


def _is_fixed(array: ExtArray, dim: str) -> bool:
    """Tell whether an axis has elements, and as many of them when frames come."""
    for lengths in known_split(array.attrs.get(SPLIT), array.dims).values():
        if dim in lengths:
            return lengths[dim] != -1
    dims = array.dims or ()
    return dim in dims and array.shape[dims.index(dim)] > 0


class _Coords:
    """Coordinates of an array, as napari has use for them."""

    def __init__(self, array: ExtArray) -> None:
        self._forms: dict[str, tuple[Any, str]] = {}
        found = array.attrs.get("coords")
        for name, form in found.items() if isinstance(found, dict) else ():
            try:
                form = coordinate_form(name, form)
                values = coordinate_values(form)
            except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
                continue
            about = form.get("attrs")
            unit = about.get("units") if isinstance(about, dict) else None
            if values.ndim == 1:
                self._forms[name] = values, unit if isinstance(unit, str) else ""

    def texts(self, name: str) -> list[str]:
        """Return the labels of a coordinate."""
        return [str(value) for value in self._forms[name][0]] if name in self._forms else []

    def places(self, dims: Sequence[str]) -> dict[str, Any]:
        """Return names, sizes, offsets and units of axes."""
        steps, firsts, units = [], [], []
        for dim in dims:
            values, unit = self._forms.get(dim, (np.zeros(0), ""))
            step = _even(values)
            steps.append(step or 1.0)
            firsts.append(float(values[0]) if step else 0.0)
            units.append(unit if step and _is_unit(unit) else "pixel")
        return {
            "axis_labels": tuple(dims),
            "scale": tuple(steps),
            "translate": tuple(firsts),
            "units": tuple(units),
        }


def _even(values: Any) -> float | None:
    """Return the step of numbers that have one."""
    if values.size < 2 or values.dtype.kind not in "iuf":
        return None
    values = values.astype("f8")
    step = float(values[-1] - values[0]) / (values.size - 1)
    even = values[0] + step * np.arange(values.size)
    return step if step and np.allclose(values, even, 0, 1e-6 * abs(step)) else None


def _is_unit(text: str) -> bool:
    pint: Any = require("pint", "napari", _PURPOSE)
    try:
        pint.get_application_registry().Unit(text)
    except Exception:  # noqa: BLE001 -- of pint, of its parser, or of Python's
        return False
    return bool(text)


# -- growth ----------------------------------------------------------------------------------------


def update(viewer: Any) -> bool:
    """Show what has come to the arrays of a viewer's layers; return whether anything has.

    A slider that was at its end moves on to the new one.

    Parameters
    ----------
    viewer : napari.Viewer

    Returns
    -------
    bool

    Examples
    --------
    >>> import numpy as np, extarray as xa
    >>> from napari.components import ViewerModel
    >>> from extarray.interop.napari import layers, update
    >>> movie = xa.create("grown", (3, 4, 6), "u1", dims=[*"tyx"])
    >>> viewer = ViewerModel()
    >>> for data, about, _ in layers("grown"):
    ...     _ = viewer.add_image(data, **about)
    >>> movie.append(np.ones((2, 4, 6), "u1"))
    >>> update(viewer), viewer.layers["grown"].data.shape
    (True, (5, 4, 6))
    >>> movie.close()
    """
    shown = [(layer, of) for layer in viewer.layers if (of := _shown(layer)) is not None]
    changed = set()
    for array in {id(of.array): of.array for _, of in shown}.values():
        try:
            if array.refresh(on_replaced="reopen"):
                changed.add(id(array))
        except (ExtArrayError, OSError):
            # The files are gone, or damaged: what was read stays on show.
            continue
    if not changed:
        return False
    dims = viewer.dims
    before = dims.nsteps
    at_end = [step == n - 1 for step, n in zip(dims.current_step, before, strict=True)]
    for layer, of in shown:
        if id(of.array) in changed:
            view = of.view()
            if view.ndim == layer.data.ndim:
                layer.data = view
    for axis, (was, n) in enumerate(zip(before, dims.nsteps, strict=False)):
        if n > was and at_end[axis]:
            dims.set_current_step(axis, n - 1)
    for layer, of in shown:
        if id(of.array) in changed and list(layer.contrast_limits) == [0, 1]:
            # So it is as long as what was on show had one value.
            layer.reset_contrast_limits()
    return True


def _shown(layer: Any) -> Shown | None:
    found = layer.metadata.get("extarray")
    return found if isinstance(found, Shown) else None


def follow(viewer: Any, interval: int = _INTERVAL) -> Any:
    """Let a viewer show what comes to its arrays; its window has to be on this thread.

    The reader does so by itself, for the viewer in which napari opens a path.

    Parameters
    ----------
    viewer : napari.Viewer
    interval : int
        Milliseconds between two looks at the files.

    Returns
    -------
    QTimer
        Ends with the viewer's window, or by its method ``stop``.
    """
    qt: Any = require("qtpy.QtCore", "napari", _PURPOSE)
    window = viewer.window._qt_window
    timer = window.findChild(qt.QTimer, "extarray")
    if timer is None:
        timer = qt.QTimer(window)
        timer.setObjectName("extarray")
        timer.timeout.connect(lambda: update(viewer))
    timer.start(interval)
    return timer
