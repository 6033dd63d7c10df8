"""Arrays in pictures: ``plot`` draws them into files or the terminal, ``view`` in the browser."""

from __future__ import annotations

import shutil
import sys
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
from extarray.cli.look import opened
from extarray.common.terminal import print_text

__all__ = ["plot", "view"]

_KINDS = ("growth", "slice", "layout", "zones", "plan")
_WIDTH = 100  # characters, where the output is no terminal

#: Options that not all pictures have, by their parameters.
_USED_BY = {
    "axis": ("growth", "zones"),
    "at": ("growth", "zones", "slice"),
    "axes": ("slice",),
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
        raise click.BadParameter(f"{text!r} is not AXIS=INDEX") from None


@command(
    "plot",
    "draw an array: its growth, a plane of elements, the layout of its file, zones, a plan",
    array_path(),
    click.Argument(["kind"], metavar="[KIND]", type=click.Choice(_KINDS), default="growth"),
    option(
        "-o --output",
        "FILE",
        "the picture, in the format of its suffix (.png, .svg, .pdf); - for a PNG on stdout",
    ),
    flag("--text", "draw with characters, in the terminal"),
    option("--title", "TEXT", "title of the picture"),
    option("--axis", "AXIS", "of growth and zones: the axis of the panels", type=axis_of),
    option(
        "--at",
        "AXIS=INDEX",
        "hold an axis, at a chunk index or, of a slice, at an index; may be repeated",
        type=_axis_at,
        multiple=True,
    ),
    option("--axes", "AXIS,AXIS", "of a slice: the axes of the plane", type=names),
    option("-s --selection", "SELECTION", "of a layout: what is marked, such as '[:, 0]'"),
    option("--ranks", "N", "of zones: how many ranks (default: 4)", type=click.IntRange(min=1)),
    option("--chunks", "N,...", "of a plan: chunk shape of the new array", type=integers),
    option("--max-memory", "BYTES", "of a plan: memory at most"),
    details="KIND is growth (default): the grid of chunks and how it grew; slice: a plane of "
    "elements; layout: where in the file the chunks lie; zones: which chunks the ranks of MPI "
    "have; plan: how rechunk would go about it.",
)
def plot(
    path: str, kind: str, output: str | None, text: bool, title: str | None, **given: Any
) -> None:
    """Draw a picture into a file, or print it."""
    given = {name: value for name, value in given.items() if value not in (None, ())}
    for name in given:
        if kind not in _USED_BY[name]:
            raise usage_error(f"--{name.replace('_', '-')} is not for {kind}")
    if text == (output is not None):
        raise usage_error("give -o FILE, or --text")
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
            print_text(_text(a, kind, given))
            return
        try:
            place = sys.stdout.buffer if output == "-" else output
            getattr(a.plot, kind)(**given, title=title, path=place)
        except ValueError as error:
            if "not supported" in str(error):  # of matplotlib, for the suffix
                raise WrongCall(str(error)) from None
            raise


def _plan(a: Any, given: dict[str, Any]) -> Any:
    import extarray as xa

    chunks = given.pop("chunks", None)
    if chunks is None:
        raise usage_error("a plan needs --chunks")
    return xa.rechunk_plan(a, chunks=chunks[0] if len(chunks) == 1 else chunks, **given)


def _text(a: Any, kind: str, given: dict[str, Any]) -> str:
    """Return a picture as text."""
    from extarray.plot import text

    if kind == "plan":
        return repr(given["plan"])
    width = shutil.get_terminal_size((_WIDTH, 24)).columns or _WIDTH
    if kind == "zones":
        return text.zones_text(a, a.plot.boxes(given.pop("n")), **given, width=width)
    if kind == "slice":
        return text.slice_text(a, **given, width=width)
    draw = text.growth_text if kind == "growth" else text.layout_text
    return draw(a, **given, width=width)


@command(
    "view",
    "look at an array, or at the arrays of a folder, in the browser",
    array_path(),
    option("--port", "N", "port to listen on (default: a free one)", type=int, default=0),
    flag("--no-browser", "only print the address, and open no browser"),
    details="Shown also while it grows.  Only this machine can connect, and only who has the "
    "address that is printed.  Ctrl-C ends.",
)
def view(path: str, port: int, no_browser: bool) -> None:
    """Serve the page until Ctrl-C."""
    from extarray.view import serve

    with wrong_calls():
        serve(path, port=port, browser=not no_browser)
