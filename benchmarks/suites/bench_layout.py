"""Layout transformation: other chunks and permuted axes, beside a plain copy of the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

from benchmarks.model import Case, Group, Operation, Target
from benchmarks.sizes import NUMPY, OURS, Layout, Scale
from benchmarks.workspace import Workspace

from .common import Suite

Shape = tuple[int, ...]

#: Chunks of an array: 512 KiB each at full scale.
CHUNKS = 2048


def layout(scale: Scale) -> Group:
    rows = 8 * scale.side
    columns = scale.side**3 // rows
    size = scale.side**3 // CHUNKS
    long = min(rows, columns)
    thin = max(1, size // long)
    square = (max(1, isqrt(size)),) * 2
    box = (scale.chunks[0],) * 3

    def prepared(
        shape: Shape, chunks: Shape, run: Callable[[Workspace], object]
    ) -> Callable[[Workspace], Operation]:
        def prepare(workspace: Workspace) -> Operation:
            array = workspace.new(Layout(shape, chunks))
            array.write(..., workspace.source.reshape(shape))
            return Operation(
                lambda: run(workspace), before=workspace.target, after=workspace.target
            )

        return prepare

    def converting(
        name: str, shape: Shape, old: Shape, new: Shape, axes: Shape | None = None
    ) -> Case:
        order = axes or tuple(range(len(shape)))

        def run(workspace: Workspace) -> None:
            workspace.other.convert(workspace.folder / "target", new, order)

        return Case(name, prepared(shape, old, run), (Target(1.5, PLAIN, same_candidate=True),))

    def copying(workspace: Workspace) -> None:
        workspace.other.duplicate(workspace.folder / "target")

    sheet, cube = (rows, columns), (scale.side,) * 3
    return Group(
        "layout",
        "Layout transformation, to a fresh file",
        (
            Case(PLAIN, prepared(sheet, (thin, long), copying)),
            converting("rows to columns", sheet, (thin, long), (long, thin)),
            converting("rows to squares", sheet, (thin, long), square),
            converting("squares to columns", sheet, square, (long, thin)),
            converting("squares, transposed", sheet, square, square, (1, 0)),
            converting("planes to cubes", cube, (1, *cube[1:]), box),
            converting("cubes to planes", cube, box, (1, *cube[1:])),
            converting("cubes to cubes that do not fit", cube, box, tuple(n * 3 // 4 for n in box)),
        ),
        disk=2 * scale.cube_bytes,
        candidates=(NUMPY, *OURS),
    )


PLAIN = "plain copy of the bytes"


class Layouts(Suite):
    group = staticmethod(layout)
