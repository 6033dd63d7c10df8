"""``extarray demo``: a real scene arrives in pieces; one process grows an array, another reads it.

The scene is cut into swaths of rows, swaths of columns and blocks of bands, which arrive in random
order.  A piece along one axis has everything that has arrived along the others (new rows, for
instance, come for the present columns and bands), so each arrival is one `append` of real data.
The array holds the pieces in order of arrival; its attributes map each piece to the scene.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from extarray.apps.scene_pictures import draw_composite, draw_unmixing, unmix
from extarray.apps.scenes import AXES, Arrival, Mosaic, Scene, load, schedule
from extarray.cli import _report
from extarray.cli._checks import Checker, CheckError
from extarray.cli._command import WrongCall, click, command, integers, option
from extarray.cli._progress import Progress
from extarray.cli._reader import Reader
from extarray.common.errors import ArgumentError, ExistsError, ExtArrayError
from extarray.common.extras import require
from extarray.common.limits import limits
from extarray.common.terminal import print_text
from extarray.storage.filesystem import has_files

__all__ = ["demo"]

_MADE_BY = "extarray demo"
_PIECES = (24, 24, 20)  # approximate number of pieces along each axis
_GRID = (10, 10, 8)  # largest grid of chunks that is legible as a growth map
_LAG = 8  # the reader must see a new state at least once in this many arrivals


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise click.BadParameter(f"{text!r} is not a positive number of seconds")
    return value


@command(
    "demo",
    "grow an array along three axes while another process reads it",
    option(
        "--scene",
        "FILE",
        "a scene (rows, columns, bands) in a .npy, .npz or .mat file (default: AVIRIS Indian "
        "Pines, from the package tensorly)",
    ),
    option("--variable", "NAME", "array to use if FILE has several"),
    option(
        "--bands",
        "R,G,B",
        "bands shown as red, green and blue",
        type=integers,
    ),
    option(
        "--out",
        "FOLDER",
        "folder for the array and the pictures (default: demo-out)",
        type=Path,
        default="demo-out",
    ),
    option(
        "--seed",
        "N",
        "random seed of the order and of the checked boxes (default: 0)",
        type=click.IntRange(min=0),
        default=0,
    ),
    option(
        "--chunks",
        "N[,N,N]",
        "chunk shape: one number, or one for each axis (default: a grid of about 10 x 10 x 8)",
        type=integers,
    ),
    option(
        "--limit",
        "SECONDS",
        "fail if the array is not complete after this time (default: 60)",
        type=_seconds,
        default="60",
    ),
    option(
        "--ranks",
        "N",
        "number of processes that unmix the scene (default: 2 if MPI is available, else 1)",
        type=click.IntRange(min=1, max=256),
    ),
    details="A hyperspectral scene arrives in swaths and blocks of bands, in random order.  An "
    "array on disk grows along all three axes while a second process reads it; both compare all "
    "that they see with the scene.  Prints the growth history, the storage used, and the "
    "time compared with rewriting a conventional file at each growth, and draws the scene "
    "and the growth map.  Finally, several processes find the purest pixels and their "
    "abundance in every pixel.",
)
def demo(**options: Any) -> None:
    """Run the demo; raise `ExtArrayError` if a check fails."""
    _run(SimpleNamespace(**options))


def _run(args: SimpleNamespace) -> None:
    import extarray as xa

    began = time.perf_counter()
    # Check for matplotlib first, so that the demo does not fail at its end.
    require("matplotlib", "demo", "extarray demo")
    scene = load(args.scene, args.variable)
    bands = _choose_bands(args.bands, scene)
    chunks = _choose_chunks(args.chunks, scene.data.shape)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "scene"
    overwrite = _is_ours(path)

    # Separate random streams, so that the order does not depend on the checks.
    for_order, *for_checks = np.random.SeedSequence(args.seed).spawn(3)
    arrivals = schedule(scene.data.shape, _PIECES, np.random.default_rng(for_order))
    _report.print_start(scene, path, chunks, arrivals, args.seed)
    mosaic = Mosaic()
    for arrival in arrivals[:3]:
        mosaic.add(arrival)
    a = xa.create(
        path,
        shape=(0, *mosaic.shape[1:]),
        dtype=scene.data.dtype,
        chunks=chunks,
        overwrite=overwrite,
        attrs={"made_by": _MADE_BY, "scene": scene.title, "pieces": mosaic.pieces},
    )
    with a:
        writer, report, growths = _take_in(a, scene, mosaic, arrivals, for_checks, args)

    with xa.open(path, mode="r") as a:
        stored = _check_file(a, scene)
        _report.print_checks(writer, report, len(arrivals) - 2)
        _report.print_history(a)
        _report.print_storage(a.info())
        _report.print_times(growths)
        pictures = _draw(a, stored, scene, bands, args.out)
        pieces = a.attrs["pieces"]
    pictures += _unmix(path, pieces, scene, args)
    print_text(f"Pictures {', '.join(map(str, pictures))}")
    print_text(
        f"Done in {time.perf_counter() - began:.1f} s; for details, run: extarray info {path}"
    )


def _take_in(
    a: Any,
    scene: Scene,
    mosaic: Mosaic,
    arrivals: Sequence[Arrival],
    seeds: Sequence[np.random.SeedSequence],
    args: SimpleNamespace,
) -> tuple[Checker, dict[str, Any], list[_report.Growth]]:
    """Append each arrival while the reader reads, and check the array.

    Returns the checks of the writer, the report of the reader, and the cost of each growth.
    """
    deadline = time.monotonic() + args.limit
    writer = Checker(scene.data, np.random.default_rng(seeds[0]))
    growths = []
    with _Conventional(args.out / "rewritten.npy", args.limit * limits.rewriting_share) as other:
        data = mosaic.expected(scene.data, _whole(mosaic.shape))
        _append(a, data, 0)
        other.start(data)
        writer.box(a, mosaic, _whole(a.shape))
        writer.addresses(a)
        seed = int(seeds[1].generate_state(1)[0])
        with Reader(a.path, scene.path, args.variable, seed, args.limit) as reader:
            reader.wait_for_states(1)
            print_text(f"Reader   process {reader.pid} has opened the array and follows it")
            with Progress(len(arrivals), "growing", "pieces") as progress:
                progress.step(f"from {_report.by(a.shape)} on", 3)
                for number, arrival in enumerate(arrivals[3:], start=1):
                    growths.append(_grow(a, arrival, mosaic, scene, writer, other))
                    progress.step(f"now {_report.by(a.shape)}")
                    if number % _LAG == 0:
                        reader.wait_for_states(1 + number // _LAG)
                    if time.monotonic() > deadline:
                        raise CheckError(
                            f"{number + 3} of {len(arrivals)} pieces after {args.limit:g} s; "
                            "allow more time with --limit"
                        )
            if a.shape != scene.data.shape:
                raise CheckError(f"the array has shape {a.shape} at the end")
            writer.box(a, mosaic, _whole(a.shape))
            a.attrs["complete"] = True
            report = reader.finish()
    if tuple(report["shape"]) != scene.data.shape:
        raise CheckError(f"the reader saw shape {report['shape']} at the end")
    return writer, report, growths


@final
class _Conventional:
    """The same array in a conventional file, which is rewritten at each growth.

    The current array stays in memory, so the time is the least that a program needs to update the
    .npy file.  No growth is tried once the budget of seconds is spent.  The file is removed at the
    end.
    """

    def __init__(self, path: Path, budget: float) -> None:
        self._path, self._left = path, budget
        self._data: NDArray[Any] = np.empty(0)

    def start(self, data: NDArray[Any]) -> None:
        """Write the first data."""
        self._data = data
        np.save(self._path, data)

    def grow(self, data: NDArray[Any], axis: int) -> float | None:
        """Append `data` along `axis` and rewrite the file; return the seconds."""
        if self._left < 0:
            return None
        began = time.perf_counter()
        self._data = np.concatenate((self._data, data), axis=axis)
        np.save(self._path, self._data)
        took = time.perf_counter() - began
        self._left -= took
        if self._left < 0:
            self._data = np.empty(0)  # free memory
        return took

    def __enter__(self) -> _Conventional:
        return self

    def __exit__(self, *error: object) -> None:
        self._path.unlink(missing_ok=True)


def _whole(shape: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(0, n) for n in shape)


def _append(a: Any, data: NDArray[Any], axis: int) -> None:
    a.append(data, axis=axis)


def _grow(
    a: Any, arrival: Arrival, mosaic: Mosaic, scene: Scene, writer: Checker, other: _Conventional
) -> _report.Growth:
    """Append one piece of the scene, and check the array."""
    axis, before = arrival.axis, a.shape
    mosaic.add(arrival)
    part = tuple(
        slice(before[j] if j == axis else 0, after) for j, after in enumerate(mosaic.shape)
    )
    data = mosaic.expected(scene.data, part)

    began = time.perf_counter()
    # Announce the piece before appending it, so that every reader of the growth can identify it.
    a.attrs["pieces"] = mosaic.pieces
    _append(a, data, axis)
    ours = time.perf_counter() - began
    rewriting = other.grow(data, axis)

    if a.shape != mosaic.shape:
        raise CheckError(f"the array has shape {a.shape}, not {mosaic.shape}, after an append")
    writer.box(a, mosaic, part)
    writer.random_box(a, mosaic)
    writer.addresses(a)
    return _report.Growth(axis, data.nbytes, ours, rewriting)


def _check_file(a: Any, scene: Scene) -> NDArray[Any]:
    """Read the closed file, reorder it, and compare it with the scene.

    Returns the array as stored.  The other checks work the other way round: they reorder the scene
    like the array.
    """
    mosaic = Mosaic(a.attrs["pieces"])
    stored: NDArray[Any] = a[...]
    ordered = _in_order(stored, mosaic)
    if ordered.dtype != scene.data.dtype or ordered.tobytes() != scene.data.tobytes():
        raise CheckError("the file, read again and reordered, differs from the scene")
    indices = np.indices(a.grid).reshape(a.ndim, -1).T
    addresses = a.axial.addresses(np.ascontiguousarray(indices))
    if not np.array_equal(a.axial.indices(addresses), indices):
        raise CheckError("the inverse mapping does not return the chunk indices")
    return stored


def _in_order(stored: NDArray[Any], mosaic: Mosaic) -> NDArray[Any]:
    """Return the array with its rows, columns and bands in the scene's order."""
    ordered = np.empty_like(stored)
    ordered[np.ix_(*(mosaic.indices(axis) for axis in range(stored.ndim)))] = stored
    return ordered


def _is_ours(path: Path) -> bool:
    """Tell whether the array at this path was made by an earlier demo, and may be replaced."""
    import extarray as xa

    if not has_files(path):
        return False
    try:
        with xa.open(path, mode="r") as a:
            ours = a.attrs.get("made_by") == _MADE_BY
    except ExtArrayError:
        ours = False
    if not ours:
        raise ExistsError(
            f"{str(path)!r} already exists and was not made by the demo; remove it, or choose "
            "another folder with --out"
        )
    return True


def _choose_chunks(given: Sequence[int] | None, shape: Sequence[int]) -> tuple[int, ...]:
    if given is None:
        return tuple(-(-n // g) for n, g in zip(shape, _GRID, strict=True))
    if len(given) not in (1, 3) or min(given) < 1:
        raise WrongCall(
            f"--chunks takes one or three positive integers, not {_report.by(given, ',')}"
        )
    return tuple(given) if len(given) == 3 else tuple(given) * 3


def _choose_bands(given: Sequence[int] | None, scene: Scene) -> tuple[Sequence[int], str]:
    """Return the bands of the composite, and their description."""
    if given is None:
        return scene.composite, scene.composite_title
    count = scene.data.shape[2]
    if len(given) != 3 or not all(0 <= band < count for band in given):
        raise WrongCall(
            f"--bands takes three bands from 0 to {count - 1}, not {_report.by(given, ',')}"
        )
    return given, f"bands {given[0]}, {given[1]} and {given[2]} as red, green and blue"


def _draw(
    a: Any,
    stored: NDArray[Any],
    scene: Scene,
    bands: tuple[Sequence[int], str],
    out: Path,
) -> list[Path]:
    """Draw the composite, as stored and in the order of the scene, and the growth map."""
    from extarray.plot import growth_map

    pictures = [out / "composite.png", out / "growth-map.png"]
    draw_composite(stored, Mosaic(a.attrs["pieces"]), scene, *bands, pictures[0])
    growth_map(
        a,
        names=AXES,
        title=f"{scene.title}: address of each chunk, coloured by the growth step that added it",
        path=pictures[1],
    )
    return pictures


def _unmix(path: Path, pieces: Any, scene: Scene, args: SimpleNamespace) -> list[Path]:
    """Unmix the stored scene if possible, and draw its materials."""
    pictures = [args.out / "endmembers.png", args.out / "abundances.png"]
    try:
        found = unmix(path, args.ranks, args.limit)
    except ArgumentError as error:
        if args.ranks is not None and "ranks need" in str(error):
            raise
        print_text(f"Unmixed  skipped: {error}")
        for picture in pictures:  # left by an earlier scene
            picture.unlink(missing_ok=True)
        return []
    _report.print_unmixing(found)
    return draw_unmixing(found, Mosaic(pieces), scene, args.out)
