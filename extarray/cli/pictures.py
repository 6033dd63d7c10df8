"""Show arrays: ``plot`` in files or the terminal, ``view`` in the browser, ``serve`` in viewers."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from typing import Any

from extarray.cli._command import (
    WrongCall,
    array_path,
    axis_of,
    click,
    command,
    flag,
    integers,
    names,
    option,
    usage_error,
    wrong_calls,
)
from extarray.cli._selection import parse_selection
from extarray.cli.look import is_group, opened, opened_group
from extarray.common.terminal import print_text, printable

__all__ = ["plot", "serve", "view"]

_KINDS = ("elements", "growth", "slice", "layout", "zones", "plan")
_WIDTH = 100  # characters, if the output is not a terminal

#: Parameters of options that apply to some kinds of pictures only.
_USED_BY = {
    "axis": ("growth", "zones"),
    "at": ("elements", "growth", "zones", "slice"),
    "axes": ("elements", "slice"),
    "panels": ("elements",),
    "field": ("elements", "slice"),
    "selection": ("layout",),
    "ranks": ("zones",),
    "chunks": ("plan",),
    "max_memory": ("plan",),
}


def _axis_at(text: str) -> tuple[int | str, int]:
    axis, _, index = text.partition("=")
    try:
        return axis_of(axis), int(index)
    except ValueError:
        raise click.BadParameter(f"{text!r} does not have the form AXIS=INDEX") from None


@command(
    "plot",
    "draw the elements, the growth, the file layout, the zones or a rechunk plan of an array",
    array_path(),
    click.Argument(["kind"], metavar="[KIND]", type=click.Choice(_KINDS), default="elements"),
    option(
        "-o --output",
        "FILE",
        "picture file (.png, .svg or .pdf); - writes PNG to standard output",
    ),
    flag("--text", "draw with characters in the terminal"),
    option("--title", "TEXT", "title of the picture"),
    option("--axis", "AXIS", "growth, zones: axis to spread over panels", type=axis_of),
    option(
        "--at",
        "AXIS=INDEX",
        "fix an axis at an index (growth, zones: at a chunk index); may be repeated",
        type=_axis_at,
        multiple=True,
    ),
    option("--axes", "AXIS,AXIS", "elements, slice: axes of the plane", type=names),
    option("--panels", "AXIS", "elements: axis with a panel for each index", type=axis_of),
    option("--field", "NAME", "elements, slice: field of records"),
    option("-s --selection", "SELECTION", "layout: selection to highlight, such as '[:, 0]'"),
    option("--ranks", "N", "zones: number of ranks (default: 4)", type=click.IntRange(min=1)),
    option("--chunks", "N,...", "plan: chunk shape of the new array", type=integers),
    option("--max-memory", "BYTES", "plan: memory limit"),
    details="KIND is elements (default): a line, an image, or several; growth: the grid of chunks "
    "and how it grew; slice: one plane of elements; layout: where the chunks lie in the file; "
    "zones: which chunks each MPI rank owns; plan: the passes of a rechunk.",
)
def plot(
    path: str, kind: str, output: str | None, text: bool, title: str | None, **given: Any
) -> None:
    """Draw a picture to a file, or print it."""
    given = {name: value for name, value in given.items() if value not in (None, ())}
    for name in given:
        if kind not in _USED_BY[name]:
            raise usage_error(f"--{name.replace('_', '-')} does not apply to {kind}")
    if text and output is not None:
        raise usage_error("--text prints, and -o writes a file; give one of them")
    if not text and output is None:
        raise usage_error("no output; give -o FILE or --text")
    if "at" in given:
        given["at"] = dict(given["at"])
    if "selection" in given:
        given["selection"] = parse_selection(given["selection"])
    with opened(path) as a, wrong_calls():
        if kind == "plan":
            given = {"plan": _plan(a, given)}
        elif kind == "zones":
            given["n"] = given.pop("ranks", 4)
        if text:
            drawn = _text(a, kind, given)
            print_text(drawn if title is None else f"{printable(title)}\n{drawn}")
            return
        try:
            place = sys.stdout.buffer if output == "-" else output
            draw = a.plot if kind == "elements" else getattr(a.plot, kind)
            draw(**given, title=title, path=place)
        except ValueError as error:
            if "not supported" in str(error):  # matplotlib does not know the suffix
                raise WrongCall(str(error)) from None
            raise


def _plan(a: Any, given: dict[str, Any]) -> Any:
    import extarray as xa

    chunks = given.pop("chunks", None)
    if chunks is None:
        raise usage_error("plan requires --chunks")
    return xa.rechunk_plan(a, chunks=chunks[0] if len(chunks) == 1 else chunks, **given)


def _text(a: Any, kind: str, given: dict[str, Any]) -> str:
    """Return a picture as text."""
    from extarray.plot import text

    if kind == "plan":
        return repr(given["plan"])
    width = shutil.get_terminal_size((_WIDTH, 24)).columns or _WIDTH
    if kind == "zones":
        return text.zones_text(a, a.plot.boxes(given.pop("n")), **given, width=width)
    if kind in ("elements", "slice"):
        if "panels" in given:
            raise usage_error("--panels does not apply to --text; fix the axis with --at")
        return text.slice_text(a, **given, width=width)
    draw = text.growth_text if kind == "growth" else text.layout_text
    return draw(a, **given, width=width)


@command(
    "view",
    "browse arrays, folders of them, or files of other formats in a web browser",
    array_path("paths", "PATH...", nargs=-1, required=True),
    option("--port", "N", "port to listen on (default: a free one)", type=int, default=0),
    flag("--no-browser", "print the address without opening a browser"),
    details="PATH is an array, a folder, a packed file, or a file of another format, such as HDF5, "
    "netCDF, Zarr, TIFF, FITS or .npy, which is read in place; or FILE:/NAME, an array or a group "
    "in it.  The page follows arrays as they grow.  It is served to this machine only, and "
    "requires the key in the printed address.  Press Ctrl-C to stop.",
)
def view(paths: tuple[str, ...], port: int, no_browser: bool) -> None:
    """Serve the page until Ctrl-C."""
    from extarray.view import serve

    with wrong_calls():
        serve(*paths, port=port, browser=not no_browser)


@command(
    "serve",
    "serve an array as OME-Zarr, or as Zarr, for viewers that open an address",
    array_path(),
    option("--port", "N", "port to listen on (default: a free one)", type=int, default=0),
    flag("--plain", "serve Zarr without the metadata of images; always for a folder"),
    details="Viewers of images, such as napari and those in the browser, open the printed address "
    "and see the array as it is when they do, with the levels of its pyramid, if it has one.  It "
    "is served to this machine only.  Press Ctrl-C to stop.",
)
def serve(path: str, port: int, plain: bool) -> None:
    """Serve Zarr until Ctrl-C."""
    with contextlib.ExitStack() as stack:
        if is_group(path):
            store = stack.enter_context(opened_group(path)).as_zarr_store()
        else:
            with wrong_calls():
                store = stack.enter_context(opened(path)).as_zarr_store(ome=not plain)
        with wrong_calls():
            served = stack.enter_context(store.serve(port))
        print_text(printable(f"serving {path!r} at {served.url}"))
        print_text("Press Ctrl-C to stop.")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(0.5)  # in one call, Windows would not notice Ctrl-C
