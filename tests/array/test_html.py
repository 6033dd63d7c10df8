"""A notebook shows an array as one HTML element: whole, bounded and harmless, for any array.

`Reader` is an HTML parser that checks this.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from strategies import built, cases
from systems import needs_any_names

import extarray as xa
from extarray.grid.address_runs import segment_boxes
from extarray.grid.html import describe

_TABLE = {"div", "table", "tbody", "tr", "th", "td", "b", "span", "code"}
_ELEMENTS = _TABLE | {"svg", "g", "path", "rect", "text"}
_PLACE = {"style", "colspan", "width", "height", "transform", "x", "y", "rx", "d"}
_LOOK = {"fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray"}
_ATTRIBUTES = _PLACE | _LOOK | {"text-anchor", "font-size", "role", "aria-label"}


class Reader(HTMLParser):
    """Checks that tags are harmless and closed in order, and collects the text between them."""

    def __init__(self, source: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict]] = []
        self.words: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag in _ELEMENTS
        assert {name for name, _ in attrs} <= _ATTRIBUTES
        assert not any("url" in value or "nan" in value for _, value in attrs)
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def colours(self) -> set[str]:
        return {
            attrs["fill"] for tag, attrs in self.elements if tag == "path" and "stroke" in attrs
        } - {"none"}


def show(array) -> Reader:
    return Reader(array._repr_html_())


@given(case=cases())
def test_any_array_is_shown(factory, case):
    with built(factory, case) as (array, model):
        reader = show(array)
        for value in (model.shape, array.chunks, array.grid, model.dtype):
            assert str(value) in reader.text
        n_segments = array.axial.segments
        assert f"{n_segments} segment{'s' if n_segments > 1 else ''}," in reader.text
        with_chunks = [
            1
            for *_, start, stop in segment_boxes(array.axial)
            if all(a < b for a, b in zip(start, stop, strict=True))
        ]
        is_empty = not with_chunks or 0 in model.shape
        assert ("no chunks yet" in reader.text) == is_empty
        assert bool(re.search(r"first \d", reader.text)) == (len(with_chunks) > 1 and not is_empty)


def cells(array) -> dict[str, float]:
    """Return the pixels of each colour in the picture of a plane."""
    found: dict[str, float] = {}
    for tag, attrs in show(array).elements:
        if tag == "path" and attrs["stroke"] == attrs["fill"]:
            steps = re.findall(r"l(\S+) 0 0 (\S+) ", attrs["d"])
            found[attrs["fill"]] = sum(float(wide) * float(tall) for wide, tall in steps)
    return found


def test_the_areas_of_a_plane_are_those_of_the_growths():
    array = xa.zeros((4, 8), chunks=(2, 2))
    array.extend(1, 4)
    array.extend(0, 8)
    areas = cells(array)
    assert len(areas) == 3
    whole = sum(areas.values())
    elements = [4 * 8, 4 * 4, 8 * 12]
    for area, expected in zip(areas.values(), elements, strict=True):
        assert area / whole == pytest.approx(expected / 144, rel=0.02)


def test_growths_are_told_in_words():
    array = xa.zeros((4, 8), chunks=(2, 2))
    assert "first" not in show(array).text
    array.extend(1, 4)
    array.extend(0, 8)
    text = show(array).text
    assert "first 2×4" in text
    assert "axis 1 +2" in text
    assert "axis 0 +4" in text
    for axis in (0, 1) * 20:
        array.extend(axis, 2)
    text = show(array).text
    assert "… 38 more" in text
    assert text.count("+") == 3


def test_colours_of_a_long_history_are_shared_evenly():
    array = xa.zeros((1, 1), chunks=1)
    for n in range(63):
        array.extend(n % 2, 1)
    areas = list(cells(array).values())
    assert len(areas) == 16
    # Colour k ends with growth 4 k + 3.
    totals = np.array([(2 * k + 3) * (2 * k + 2) for k in range(16)])
    expected = np.diff(totals, prepend=0) / totals[-1]
    np.testing.assert_allclose(np.array(areas) / sum(areas), expected, rtol=0.05)


def test_axes_have_their_names():
    array = xa.create(None, (4, 2, 6, 3), chunks=1, dims=("time", "level", "<lat>", "x" * 40))
    array.extend(2, 5)
    text = show(array).text
    assert "time, level, <lat>, xxxx" in text
    assert "time · 4" in text
    assert "<lat> · 11" in text
    assert "<lat> +5" in text
    assert "level: first chunk" in text
    assert "xxxxxxxxxxxxxxx… · 3" in text


@pytest.mark.parametrize("shape", [(1, 1000), (1000, 1), (1, 1, 1000), (1000, 1, 1), (1, 1000, 1)])
def test_every_axis_has_a_label(shape):
    text = show(xa.create(None, shape, "u1", chunks=1)).text
    for axis, n in enumerate(shape):
        assert f"axis {axis} · {n:,}" in text


def test_the_box_has_three_sides_and_says_what_it_leaves_out():
    array = xa.zeros((3, 4, 5, 2, 6), chunks=1)
    reader = show(array)
    assert "axis 1, axis 3: first chunk" not in reader.text
    assert "axis 0, axis 3: first chunk" in reader.text
    assert len([1 for _, attrs in reader.elements if attrs.get("fill-opacity") == ".2"]) == 2


@pytest.mark.parametrize("axis", [1, 2])
def test_each_growth_is_seen(axis):
    array = xa.zeros((2, 2, 2), chunks=1)
    for count, grown in enumerate([axis, 0, 3 - axis], start=2):
        array.extend(grown, 1)
        assert len(show(array).colours() - {"#fff", "#000"}) == count


def test_attributes_are_shown_and_cut():
    attrs = {"unit": "<mm>", "gain": list(range(100))}
    text = show(xa.create(None, (2,), dims=["x"], attrs=attrs)).text
    assert "unit: '<mm>'" in text
    assert "gain: [0, 1, 2" in text
    assert "99" not in text
    assert "Attributes" not in show(xa.create(None, (2,), dims=["x"])).text


def test_an_enormous_grid_is_bounded():
    uniform = {
        "path": None,
        "dims": None,
        "attrs": {},
        "offset": (0, 0, 0),
        "dtype": np.dtype("f8"),
        "order": "C",
        "fill_value": 0.0,
        "utilisation": 1.0,
        "logical_bytes": 2**62,
        "mode": "r+",
    }
    rng = np.random.default_rng(3)
    grid = [10, 10, 10]
    growths = [(0, 0, (0,) * len(grid), tuple(grid))]
    for _ in range(5000):
        axis = int(rng.integers(3))
        grid[axis] += int(rng.integers(1, 10**6))
        growths.append((axis, 0, (0,) * len(grid), tuple(grid)))
    asked = []

    def growth(n):
        asked.append(n)
        return growths[n]

    facts = {"shape": tuple(grid), "chunks": (1, 1, 1), "grid": tuple(grid), "segments": 5001}
    text = describe({**uniform, **facts}, len(growths), growth)
    Reader(text)
    assert len(text) < 60_000
    assert len(asked) < 50, "the work does not depend on the length of the history"


def test_a_long_and_thin_array():
    reader = show(xa.create(None, (10**9, 2), "u1", chunks=(10**6, 1)))
    assert "1,000,000,000" in reader.text


@needs_any_names
@pytest.mark.parametrize("name", ["<script>", 'a"b', "&amp;", "'"])
def test_names_are_escaped(tmp_path, name):
    with xa.create(tmp_path / name, 3, dtype=[(name, "u1")]) as array:
        text = array._repr_html_()
        assert name in Reader(text).text
        assert "<script" not in text


def test_long_names_are_cut():
    array = xa.create(None, 3, dtype=[(f"field{i}", "u1") for i in range(1000)])
    assert len(array._repr_html_()) < 8_000


def test_files_are_named_with_their_mode(path):
    xa.zeros((4, 3), path=path).close()
    with xa.open(path) as array:
        assert f"{path} (" in show(array).text
        assert "mode r" in show(array).text
    assert show(array).text == repr(array)


# -- views ---------------------------------------------------------------------------------------


@needs_any_names
def test_a_view_is_a_table(tmp_path):
    with xa.create(tmp_path / "<b>", (10, 8, 6), "f4", dims=("t", "y", "<i>"), fill_value=1) as a:
        for view, shape, index in (
            (a.lazy[2:9:3, 4], "(3, 6)", "[2:11:3, 4, 0:6]"),
            (a.lazy[::-1], "(10, 8, 6)", "[9::-1, 0:8, 0:6]"),
            (a.lazy[:, [1, 1, 5]].T, "(6, 3, 10)", "[0:10, 3 indices, 0:6]"),
            (a.lazy[None, 0, 0, 0], "(1,)", "[0, 0, 0]"),
        ):
            text = show(view).text
            for words in (shape, index, "(10, 8, 6)", "float32", "mode r+"):
                assert words in text
        assert "t, y, <i>" in show(a.lazy[1:]).text
    assert show(view).text.startswith("<extarray.LazyView")


def test_a_view_of_a_field_has_the_type_of_the_field():
    a = xa.zeros((4, 3), [("x", "i2"), ("v", "f8")])
    text = show(a.lazy["v"]).text
    assert "float64" in text
    assert "96 B" in text


def test_a_view_of_what_is_gone_has_a_text():
    a = xa.zeros((4, 3))
    view = a.lazy[1:]
    a.add_axis()
    assert show(view).text.startswith("<extarray.LazyView")
