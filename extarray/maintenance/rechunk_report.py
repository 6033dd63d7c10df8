"""A plan as its reader sees it: figures, a table, a picture."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from extarray.common.formatting import format_bytes

if TYPE_CHECKING:
    from extarray.maintenance.rechunk_pass import Pass

__all__ = ["RechunkPlan"]

_SIDE = 240  # of a picture, in pixels
_MOST_LINES = 200


@dataclass(frozen=True, repr=False)
class RechunkPlan:
    """The plan of a layout transformation, as `extarray.rechunk_plan` returns it.

    Attributes
    ----------
    shape : tuple of int
        Elements along each axis of the target.
    passes : tuple of Pass
        Each reads and writes the whole array.  A pass has ``source_chunks`` and ``target_chunks``;
        ``template``, the elements of a template, in which each chunk is read once; ``traversal``,
        the axes along which a template is swept, fastest first; ``bytes_read``, ``bytes_written``;
        and ``memory``, the bytes that each thread of `rechunk` takes.
    table_bytes : int
        Further bytes for the tables of orders "Z" and "H".

    Examples
    --------
    >>> import extarray as xa
    >>> xa.rechunk_plan((160, 144), source_chunks=(32, 9), chunks=(5, 16), dtype="u1",
    ...                 max_memory=900)
    rechunk (160, 144) from (32, 9) to (5, 16)
    pass  chunks              template   swept  read      written   memory
    1     (32, 9) -> (5, 16)  (160, 32)  1, 0   28.1 KiB  22.5 KiB  896 B
    reads 1.25 times the array, writes 1.00 times, in 896 B of memory
    """

    shape: tuple[int, ...]
    passes: tuple[Pass, ...]
    table_bytes: int = 0

    @property
    def bytes_read(self) -> int:
        """Bytes that all passes read together, in whole chunks."""
        return sum(p.bytes_read for p in self.passes)

    @property
    def bytes_written(self) -> int:
        """Bytes that all passes write together."""
        return sum(p.bytes_written for p in self.passes)

    @property
    def memory(self) -> int:
        """Most bytes in memory at a time."""
        return self.table_bytes + max((p.memory for p in self.passes), default=0)

    def __repr__(self) -> str:
        if not self.passes:
            return f"rechunk {self.shape}: no elements, nothing to do"
        head = ("pass", "chunks", "template", "swept", "read", "written", "memory")
        rows = [head, *(self._row(i, p) for i, p in enumerate(self.passes, 1))]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(f"{text:<{n}}" for text, n in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        first, last = self.passes[0], self.passes[-1]
        read = self._times(self.bytes_read, first.task.itemsize)
        written = self._times(self.bytes_written, last.task.cast_itemsize or last.task.itemsize)
        memory = format_bytes(self.memory)
        return "\n".join(
            [
                f"rechunk {self.shape} from {first.source_chunks} to {last.target_chunks}",
                *lines,
                f"reads {read} times the array, writes {written} times, in {memory} of memory",
            ]
        )

    def _times(self, nbytes: int, itemsize: int) -> str:
        once = itemsize
        for n in self.shape:
            once *= n
        return f"{nbytes / once:.2f}"

    @staticmethod
    def _row(i: int, p: Pass) -> tuple[str, ...]:
        return (
            str(i),
            f"{p.source_chunks} -> {p.target_chunks}",
            str(p.template),
            ", ".join(map(str, p.traversal)) or "no",
            format_bytes(p.bytes_read),
            format_bytes(p.bytes_written),
            format_bytes(p.memory),
        )

    def _repr_html_(self) -> str:
        pictures = "".join(_picture(p) for p in self.passes)
        return f"<pre>{escape(repr(self))}</pre>{pictures}"


def _picture(p: Pass) -> str:
    """Draw the chunks of a template along the last two axes: source ones grey, target ones red."""
    axes = range(len(p.shape))[-2:]
    if len(axes) < 2:
        return ""
    height, width = (min(p.template[j], p.shape[j]) for j in axes)
    scale = _SIDE / max(height, width)
    y, x = (max(8, round(n * scale)) for n in (height, width))
    lines = []
    for chunks, colour, dash in (
        (p.source_chunks, "#777", ""),
        (p.target_chunks, "#c33", ' stroke-dasharray="4 2"'),
    ):
        for j, extent, across in zip(axes, (height, width), (True, False), strict=True):
            if extent > _MOST_LINES * chunks[j]:
                continue  # the lines would merge
            for at in range(0, extent + 1, chunks[j]):
                end = f'x1="0" x2="{x}" y1="{{0}}" y2="{{0}}"'
                if not across:
                    end = f'y1="0" y2="{y}" x1="{{0}}" x2="{{0}}"'
                place = end.format(round(at * scale, 1))
                lines.append(f'<line {place} stroke="{colour}"{dash}/>')
    title = f"template of {height} x {width}: source chunks grey, target chunks red"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{x + 2}" height="{y + 2}" '
        f'viewBox="-1 -1 {x + 2} {y + 2}" role="img"><title>{title}</title>{"".join(lines)}</svg>'
    )
