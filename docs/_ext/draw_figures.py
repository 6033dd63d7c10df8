"""Draws the figure of ``explanation/mapping.md`` as SVG, from the growth history alone.

    python docs/_ext/draw_figures.py docs/_static

The addresses are found by replaying the history chunk by chunk, without the package: a test
compares them with it.
"""

import itertools
import sys
from pathlib import Path

#: Fill and frame of the segments, in the order of growth.
COLOURS = (
    ("#dbe9f6", "#4a7fb0"),
    ("#fde3c8", "#c77b28"),
    ("#d5efd7", "#3f8f4a"),
    ("#f7d4d8", "#b84a57"),
    ("#e6dcf2", "#7a5ca8"),
    ("#eee6b8", "#94852a"),
)

#: [drxmp2009], figure 3: the first grid, (axis, by) of each growth in chunks, the framed chunks.
FIGURE_3 = (
    (4, 3, 1),
    ((2, 1), (2, 1), (1, 1), (0, 2), (2, 1)),
    ((2, 1, 0), (3, 1, 2), (4, 2, 2)),
)

SIZE, GAP, LEFT, TOP = 40, 44, 34, 46


def replay(initial, extensions):
    """Return the final grid, {chunk index: (address, segment)} and a caption for each segment."""
    grid = list(initial)
    cells = {index: (q, 0) for q, index in enumerate(itertools.product(*map(range, grid)))}
    captions = [f"first {by_text(grid)}"]
    last_axis = 0
    for axis, by in extensions:
        if axis == last_axis:
            captions[-1] += f" and {by}"
        else:
            captions.append(f"axis {axis} by {by}")
        others = [range(n) for j, n in enumerate(grid) if j != axis]
        for new in range(grid[axis], grid[axis] + by):
            for rest in itertools.product(*others):
                index = (*rest[:axis], new, *rest[axis:])
                cells[index] = (len(cells), len(captions) - 1)
        grid[axis] += by
        last_axis = axis
    return tuple(grid), cells, captions


def by_text(grid):
    return " \N{MULTIPLICATION SIGN} ".join(map(str, grid))


def box(x, y, size, fill, stroke, width):
    return (
        f'<rect x="{x}" y="{y}" width="{size}" height="{size}" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="{width}"/>'
    )


def text(x, y, size, colour, words, more=""):
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}"{more}>{words}</text>'


def slices_svg(initial, extensions, framed=()):
    """Return an SVG of a 3-d grid as slices along the last axis; some chunks get a heavy frame."""
    grid, cells, captions = replay(initial, extensions)
    width = LEFT + grid[2] * (grid[1] * SIZE + GAP) - GAP + 14
    height = TOP + grid[0] * SIZE + 58
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        f'  width="{width}" height="{height}" text-anchor="middle"',
        '  font-family="DejaVu Sans, Helvetica, Arial, sans-serif">',
        f"<title>Addresses of the chunks of a {by_text(grid)} grid, by segment</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]

    def corner(i, j, k):
        return LEFT + k * (grid[1] * SIZE + GAP) + j * SIZE, TOP + i * SIZE

    for k in range(grid[2]):
        x0, _ = corner(0, 0, k)
        out.append(text(x0 + grid[1] * SIZE / 2, 16, 13, "#333", f"I\N{SUBSCRIPT TWO} = {k}"))
        out += [text(x0 + (j + 0.5) * SIZE, TOP - 8, 10, "#777", j) for j in range(grid[1])]
        out += [text(x0 - 9, TOP + (i + 0.5) * SIZE + 4, 10, "#777", i) for i in range(grid[0])]
        for i, j in itertools.product(range(grid[0]), range(grid[1])):
            address, segment = cells[i, j, k]
            x, y = corner(i, j, k)
            bold = ' font-weight="bold"' if (i, j, k) in framed else ""
            out.append(box(x, y, SIZE, *COLOURS[segment], 0.8))
            out.append(text(x + SIZE / 2, y + SIZE / 2 + 5, 14, "#222", address, bold))
    for index in framed:
        x, y = corner(*index)
        out.append(box(x + 2, y + 2, SIZE - 4, "none", "#222", 2.4))
    x, y = LEFT, height - 30
    for colours, caption in zip(COLOURS, captions, strict=False):
        out.append(box(x, y, 14, *colours, 1))
        out.append(text(x + 20, y + 12, 12, "#333", caption, ' text-anchor="start"'))
        x += 38 + 7 * len(caption)
    out.append("</svg>\n")
    return "\n".join(out)


if __name__ == "__main__":
    figure = Path(sys.argv[1], "drxmp2009-figure-3.svg")
    figure.write_text(slices_svg(*FIGURE_3), encoding="utf-8")
