"""A backend for ome-writers: streams of frames become recordings.

Importing this module makes the backend known to ome-writers::

    import ome_writers
    from extarray.interop.ome_writers import ExtArraySettings

    settings = ExtArraySettings(root_path="run", dimensions=[...], dtype="uint16")
    with ome_writers.create_stream(settings) as stream:
        ...

Needs ome-writers, the extra ``[ome-writers]``.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from extarray.array.folders import open_group
from extarray.codecs.codec import Codec
from extarray.common.errors import ClosedError
from extarray.common.extras import require
from extarray.interop.recording import Recording, labels, steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["ExtArrayBackend", "ExtArrayFormat", "ExtArraySettings"]

_PURPOSE = "the backend for ome-writers"
ome_writers: Any = require("ome_writers", "ome-writers", _PURPOSE)
# ome-writers has no public way to add a backend: its list of them, and their base class.
_known: Any = require("ome_writers._stream", "ome-writers", _PURPOSE)
_backends: Any = require("ome_writers._backends._backend", "ome-writers", _PURPOSE)

_NAME = "extarray"
# Our codec for each name of a compression; blosc shuffles bytes before it compresses them.
_COMPRESSIONS = {
    None: None,
    "none": None,
    "zstd": Codec("zstd"),
    "blosc-zstd": Codec("zstd", filter="shuffle"),
    "blosc-lz4": Codec("lz4", filter="shuffle"),
}


class ExtArrayFormat(ome_writers.ScratchFormat):  # type: ignore[misc]
    """The format of an `AcquisitionSettings` whose stream is recorded in arrays that grow.

    It is one of ome-writers' scratch formats, of which the path is taken as it is given.

    Examples
    --------
    >>> import numpy as np, ome_writers
    >>> from extarray.interop.ome_writers import ExtArrayFormat
    >>> dims = ome_writers.dims_from_standard_axes({"t": None, "c": 2, "y": 4, "x": 6})
    >>> settings = ome_writers.AcquisitionSettings(
    ...     root_path="movie", format=ExtArrayFormat(), dimensions=dims, dtype="uint16"
    ... )
    >>> with ome_writers.create_stream(settings) as stream:
    ...     for i in range(6):
    ...         stream.append(np.full((4, 6), i, "u2"))
    >>> import extarray as xa
    >>> with xa.open("movie/frames") as frames:
    ...     frames.lazy.split().shape
    (3, 2, 4, 6)
    """

    backend: Literal["extarray"] = "extarray"


class ExtArraySettings(ome_writers.AcquisitionSettings):  # type: ignore[misc]
    """Settings of ome-writers whose stream is recorded in arrays that grow.

    pymmcore-plus takes them as an output, and adds the dimensions itself.

    Parameters
    ----------
    **settings
        As for ome-writers' `AcquisitionSettings`; the path is that of the new group.

    Examples
    --------
    >>> from extarray.interop.ome_writers import ExtArraySettings
    >>> ExtArraySettings(root_path="run").format.backend
    'extarray'
    """

    format: ExtArrayFormat = ExtArrayFormat()

    def __init__(self, **settings: Any) -> None:
        # Without a format, ome-writers would choose one by the suffix of the path.
        super().__init__(**{"format": ExtArrayFormat(), **settings})

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """Return the settings as a dict, in which the format stays an object.

        pymmcore-plus makes settings of its own of the dict, and a dict in it would be one of
        ome-writers' formats.

        Parameters
        ----------
        **options
            As for pydantic's `BaseModel`.

        Returns
        -------
        dict
        """
        hidden = options.pop("exclude", None) or set()
        if options.get("mode", "python") != "python" or "format" in hidden:
            found: dict[str, Any] = super().model_dump(exclude=hidden or None, **options)
            return found
        found = super().model_dump(exclude={*hidden, "format"}, **options)
        return {**found, "format": self.format}


class ExtArrayBackend(_backends.ArrayBackend):  # type: ignore[misc]
    """The backend "extarray" of ome-writers, which `create_stream` makes.

    Frames go to one array, in the order in which they come, whatever the order of storage is;
    positions are one of the axes for which they stand.
    """

    def __init__(self) -> None:
        self._recording: Recording | None = None
        self._settings: Any = None

    def is_incompatible(self, settings: Any) -> Literal[False] | str:
        """Return why settings cannot be carried out, or False.

        Parameters
        ----------
        settings : AcquisitionSettings

        Returns
        -------
        str or False
        """
        if settings.compression not in _COMPRESSIONS:
            return (
                f"compression {settings.compression!r}; give one of "
                f"{[name for name in _COMPRESSIONS if name]}"
            )
        if not settings.root_path:
            return "no root_path; give the name of a new folder"
        return False

    def prepare(self, settings: Any, router: Any) -> None:
        """Make the group.

        Parameters
        ----------
        settings : AcquisitionSettings
        router : FrameRouter

        Raises
        ------
        ExistsError
            A FileExistsError: the name is taken.
        """
        *lead, y, x = settings.dimensions
        chunks = (1, y.chunk_size or y.count, x.chunk_size or x.count)
        given = {dim.name: dim.chunk_size for dim in lead if (dim.chunk_size or 1) != 1}
        if given:
            warnings.warn(
                f"the chunk sizes {given} are ignored: a recording's chunks are parts of one "
                "frame; give None, and call rechunk afterwards for chunks of several frames",
                stacklevel=2,
            )
        coords: dict[str, Any] = {}
        for dim in settings.dimensions:
            coords.update(_coordinates(dim))
        about = settings.model_dump(mode="json", exclude={"format", "root_path", "overwrite"})
        self._settings = settings
        self._recording = Recording(
            settings.output_path,
            {dim.name: dim.count for dim in lead},
            (y.count, x.count),
            settings.dtype,
            dims=(y.name, x.name),
            coords=coords,
            attrs={"ome_writers": {"version": ome_writers.__version__, **about}},
            overwrite=settings.overwrite,
            chunks=chunks,
            compression=_COMPRESSIONS[settings.compression],
        )
        for dim in lead:
            if dim.count is None and dim.scale:
                self._recording.label_steps(
                    dim.name, dim.scale, dim.translation or 0.0, dim.unit or ""
                )

    def write(
        self,
        position_index: int,
        index: tuple[int, ...],
        frame: NDArray[Any],
        *,
        frame_metadata: dict[str, Any] | None = None,
    ) -> None:
        """Append a frame, with what is known about it.

        Parameters
        ----------
        position_index : int
        index : tuple of int
            In the order of storage.
        frame : ndarray
        frame_metadata : dict, optional
            Numbers, each of which becomes an element of the array of its name; and other values
            for JSON.

        Raises
        ------
        ClosedError
            A RuntimeError: the stream is closed.
        """
        recording = self._open("write a frame")
        recording.write(self._place(position_index, index), frame, frame_metadata)

    def advance(self, indices: Sequence[tuple[int, tuple[int, ...]]]) -> None:
        """Skip frames, which read as zero, and take no space.

        Parameters
        ----------
        indices : sequence of (int, tuple of int)
            Position and index of each.
        """
        recording = self._open("skip frames")
        if indices:
            recording.skip(1 + max(self._place(*place) for place in indices))

    def finalize(self) -> None:
        """Close the files."""
        if self._recording is not None:
            self._recording.close()

    def get_arrays(self) -> Sequence[Any]:
        """Return what has come at each position, in the order of storage, as it is when read."""
        recording = self._made("read frames")
        settings = self._settings
        return [_Position(recording, settings, i) for i in range(len(settings.positions))]

    def get_metadata(self) -> dict[str, Any]:
        """Return the attributes of the group."""
        return dict(self._made("read attributes").group.attrs)

    def update_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Set attributes of the group, also when the stream is closed.

        Parameters
        ----------
        metadata : mapping
        """
        recording = self._made("set attributes")
        if not recording.closed:
            recording.group.attrs.update(metadata)
            return
        with open_group(recording.path, "r+") as group:
            group.attrs.update(metadata)

    def set_global_metadata(self, namespace: str, metadata: Mapping[str, Any]) -> None:
        """Set an attribute of the group, also when the stream is closed.

        Parameters
        ----------
        namespace : str
        metadata : mapping
        """
        self.update_metadata({namespace: dict(metadata)})

    def _made(self, what: str) -> Recording:
        if self._recording is None:
            raise RuntimeError(f"cannot {what}: the backend has no files yet; call prepare first")
        return self._recording

    def _open(self, what: str) -> Recording:
        recording = self._made(what)
        if recording.closed:
            raise _FinalizedError(f"cannot {what}: '{recording.path}' is closed; make a new stream")
        return recording

    def _place(self, position: int, index: tuple[int, ...]) -> int:
        """Return the number of a frame at an index in the order of storage."""
        order = self._settings.storage_index_permutation or range(len(index))
        acquired = [0] * len(index)
        for axis, i in zip(order, index, strict=True):
            acquired[axis] = i
        axis = self._settings.position_dimension_index
        if axis is not None:
            acquired.insert(axis, position)
        return self._made("write a frame").place(acquired)


class _FinalizedError(ClosedError, RuntimeError):
    """The stream is closed: ome-writers expects a RuntimeError."""


class _Position:
    """The frames of one position, as an array of the order of storage; zero before they come.

    Parameters
    ----------
    recording : Recording
    settings : AcquisitionSettings
    position : int
    """

    def __init__(self, recording: Recording, settings: Any, position: int) -> None:
        self._recording, self._position = recording, position
        self._axis = settings.position_dimension_index
        self._order = settings.storage_index_permutation

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents: of an axis without an end, as far as frames have come."""
        shape: tuple[int, ...] = self._now().shape
        return shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the elements."""
        return self._recording.frames.dtype

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self._now()[key])

    def _now(self) -> Any:
        frames, lengths = self._recording.frames, dict(self._recording.lengths)
        block = math.prod(n for n in lengths.values() if n is not None)
        whole: dict[str, Any] = {
            name: max(1, -(-len(frames) // block)) if n is None else n
            for name, n in lengths.items()
        }
        view = frames.lazy.split(self._recording.axis, **(whole or {self._recording.axis: 1}))
        if not whole:
            return view.lazy[0]
        if self._axis is not None:
            view = view.lazy[(*(slice(None),) * self._axis, self._position)]
        if self._order is None:
            return view
        n = len(self._order)
        return view.transpose(*self._order, n, n + 1)


def _coordinates(dim: Any) -> dict[str, Any]:
    """Return the coordinates of an axis of a stream, by name."""
    name = dim.name
    if dim.coords and dim.type in ("channel", "position"):
        about = [each.model_dump(mode="json") for each in dim.coords]
        found = {}
        for field in about[0]:
            values = [each[field] for each in about]
            if any(value is not None for value in values):
                found[name if field == "name" else field] = labels(name, _filled(values))
        return found
    if dim.coords:
        return {name: labels(name, dim.coords, dim.unit or "")}
    # A scale of 0 is that of a microscope that does not know it.
    if dim.count is not None and dim.scale:
        first = dim.translation or 0.0
        return {name: steps(name, dim.count, dim.scale, first, dim.unit or "")}
    return {}


def _filled(values: list[Any]) -> list[Any]:
    """Return labels with NaN or an empty text in place of None."""
    missing: Any = "" if any(isinstance(value, str) for value in values) else math.nan
    return [missing if value is None else value for value in values]


def _register() -> None:
    """Let ome-writers know the backend."""
    if _NAME in _known.AVAILABLE_BACKENDS:
        return
    backend = _known.BackendMetadata(
        name=_NAME,
        module_path=__name__,
        class_name="ExtArrayBackend",
        format="scratch",
        is_available=lambda: True,
    )
    _known.BACKENDS.append(backend)
    _known.VALID_BACKEND_NAMES.append(_NAME)
    _known.AVAILABLE_BACKENDS[_NAME] = backend


_register()
