"""Pictures of `a.plot`: what their artists show and where; pictures as text."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import extarray as xa
from extarray import cli, plot
from extarray.common.limits import limits
from extarray.errors import ArgumentError, BoundsError
from extarray.plot.layout import layout_of
from extarray.plot.text import growth_text, layout_text, slice_text, zones_text

matplotlib = pytest.importorskip("matplotlib")


def scene():
    """Return an array with a history along both axes; its bounds cut chunks on three sides."""
    a = xa.create(None, (10, 9), "i4", chunks=(4, 3), dims=("y", "x"))
    a.extend("x", 2)
    a.extend("y", 4)
    a.extend("y", 1, side="start")
    a[...] = np.arange(a.size).reshape(a.shape)
    return a


def outside(ax):
    """Return the hatched boxes (left, top, right, bottom), in chunks."""
    found = []
    for patch in ax.patches:
        if patch.get_gid() == "outside":
            assert patch.get_hatch()
            x, y = patch.get_xy()
            found.append(
                (x + 0.5, y + 0.5, x + 0.5 + patch.get_width(), y + 0.5 + patch.get_height())
            )
    return found


class TestGrowth:
    @pytest.mark.slow
    def test_the_accessor_draws_the_growth_map(self):
        a = scene()
        for figure in (a.plot.growth(title="G"), plot.growth_map(a, title="G")):
            (ax,) = figure.axes
            assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "y")
            assert sorted(int(text.get_text()) for text in ax.texts) == list(range(20))
            assert figure.get_suptitle() == "G"

    def test_chunks_that_the_bounds_cut_look_cut(self):
        a = scene()
        assert (a.grid, a.info()["offset"], a.shape) == ((5, 4), (3, 0), (15, 11))
        (ax,) = a.plot.growth().axes
        # The bounds have elements 3 to 17 of 20 rows, and 0 to 10 of 12 columns.
        boxes = outside(ax)
        area = sum((right - left) * (bottom - top) for left, top, right, bottom in boxes)
        assert area == pytest.approx(20 - 15 * 11 / 12)
        for one, other in itertools.combinations(boxes, 2):
            across = min(one[2], other[2]) - max(one[0], other[0])
            down = min(one[3], other[3]) - max(one[1], other[1])
            assert min(across, down) <= 1e-9
        assert min(top for _, top, _, _ in boxes) == 0
        assert max(round(left, 3) for left, *_ in boxes) == round(11 / 3, 3)

    def test_nothing_is_hatched_where_nothing_is_cut(self):
        a = xa.create(None, (8, 6), "i4", chunks=(4, 3))
        (ax,) = a.plot.growth().axes
        assert outside(ax) == []

    def test_panels_that_were_cut_off_are_hatched_wholly(self):
        a = xa.create(None, (2, 2, 3), "i4", chunks=1)
        a.shrink(2, 1)
        first, _, last = a.plot.growth().axes
        assert outside(first) == []
        assert outside(last) == [(0, 0, 2, 2)]

    def test_numbers_stand_inside_the_bounds_where_there_is_room(self):
        a = scene()
        (ax,) = a.plot.growth().axes
        for text in ax.texts:
            x, y = (place + 0.5 for place in text.get_position())
            column, row = int(x), int(y)
            assert int(text.get_text()) == a.axial.address((row, column))
            if row not in (0, 4):
                assert x < 11 / 3


class TestSlice:
    def test_a_plane(self):
        a = scene()
        figure = a.plot.slice(chunks=True)
        ax, scale = figure.axes
        (image,) = ax.images
        np.testing.assert_array_equal(image.get_array(), a[...])
        assert image.get_extent() == [-0.5, 10.5, 14.5, -0.5]
        assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("x", "y", "")
        ends = {line.get_xdata()[0] for line in ax.lines} | {
            line.get_ydata()[0] for line in ax.lines
        }
        assert ends >= {2.5, 5.5, 8.5, 0.5, 4.5, 12.5}, "where chunks end, cut ones sooner"
        assert scale.get_ylabel() == ""

    def test_axes_and_indices_by_name(self):
        values = np.arange(24.0).reshape(2, 3, 4)
        a = xa.from_array(values, dims=("t", "y", "x"), attrs={"long_name": "depth", "units": "m"})
        figure = a.plot.slice(axes=("x", "t"), at={"y": -1})
        ax, scale = figure.axes
        np.testing.assert_array_equal(ax.images[0].get_array(), values[:, 2].T)
        assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("t", "x", "y = 2")
        assert scale.get_ylabel() == "depth [m]"

    def test_a_line(self):
        a = xa.from_array(np.arange(5.0), dims=["t"])
        (ax,) = a.plot.slice().axes
        np.testing.assert_array_equal(ax.lines[0].get_xydata(), np.stack([range(5)] * 2, 1))
        assert ax.get_xlabel() == "t"

    def test_a_large_plane_shows_cells_of_several_elements(self):
        a = xa.create(None, (9000, 3), "u1", chunks=(1000, 3))
        a[4321, 0] = 1
        ax = a.plot.slice().axes[0]
        assert np.argwhere(ax.images[0].get_array()).tolist() == [[864, 0]]
        assert ax.images[0].get_array().shape == (1800, 3)
        assert ax.images[0].get_extent() == [-0.5, 2.5, 8999.5, -0.5]

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"axes": (0, 0)}, ArgumentError),
            ({"axes": (0,)}, ArgumentError),
            ({"at": {"y": 0}}, ArgumentError),
            ({"axes": ("y", "t"), "at": {"x": 99}}, BoundsError),
        ],
    )
    def test_refusals(self, options, error):
        a = xa.create(None, (2, 3, 4), dims=("t", "y", "x"))
        with pytest.raises(error):
            a.plot.slice(**options)

    def test_records_are_no_numbers(self):
        with pytest.raises(ArgumentError, match="are not numbers"):
            xa.create(None, (2, 3), "i4,f8").plot.slice()


class TestLayout:
    def bars(self, ax):
        (collection,) = ax.collections
        return [path.get_extents() for path in collection.get_paths()]

    def test_each_chunk_at_its_offset(self):
        a = scene()
        (ax,) = a.plot.layout().axes
        for bar, index in zip(self.bars(ax), np.ndindex(a.grid), strict=True):
            address = a.axial.address(index)
            assert (bar.x0, bar.x1) == (address * a.chunk_bytes, (address + 1) * a.chunk_bytes)
            assert (bar.y0 + bar.y1) / 2 == pytest.approx(np.ravel_multi_index(index, a.grid))
        assert ax.get_ylabel() == "chunk in the grid (y, x)"
        assert ax.get_ylim() == (19.5, -0.5)

    @pytest.mark.parametrize(
        "selection",
        [np.s_[0], np.s_[:, 4], np.s_[2:9, ::4], np.s_[..., [0, 10]], np.s_[::-5], np.s_[0:0]],
    )
    def test_what_a_selection_touches(self, selection):
        a = scene()
        marks = np.zeros(a.shape, np.bool_)
        key = selection if isinstance(selection, tuple) else (selection,)
        marks[key] = True
        touched = set()
        for index in zip(*np.nonzero(marks), strict=True):
            chunk = [(i + o) // c for i, o, c in zip(index, (3, 0), a.chunks, strict=True)]
            touched.add(a.axial.address(chunk))
        found = layout_of(a, selection)
        assert set(found.addresses[found.touched].tolist()) == touched
        spans = [n for start, stop in found.extents for n in range(start, stop)]
        assert spans == sorted(touched)
        assert len(found.extents) == sum(n - 1 not in touched for n in touched)

    def test_the_strip_shows_the_extents(self):
        a = scene()
        figure = a.plot.layout(np.s_[:, 0])
        ax, strip = figure.axes
        found = layout_of(a, np.s_[:, 0])
        spans = [path.get_extents() for path in strip.collections[0].get_paths()]
        assert [(box.x0, box.x1) for box in spans] == [
            (low * a.chunk_bytes, high * a.chunk_bytes) for low, high in found.extents
        ]
        count = len(found.extents)
        assert ax.get_title() == f"5 of 20 chunks, 240 B, in {count} extents"
        colours = ax.collections[0].get_facecolors()[:, :3]
        assert colours[~found.touched].min() > colours[found.touched].max(axis=0).min()

    def test_refusals(self):
        with pytest.raises(ArgumentError, match="it has no chunk"):
            xa.create(None, (0, 3)).plot.layout()
        with pytest.raises(ArgumentError, match="at most 100000 are"):
            xa.create(None, (400, 400), "u1", chunks=1).plot.layout()
        for selection in ((None,), "field", np.s_[..., ...], np.s_[0, 0, 0]):
            with pytest.raises(ArgumentError):
                scene().plot.layout(selection)
        with pytest.raises(IndexError):
            scene().plot.layout(99)


class TestZones:
    @pytest.mark.parametrize(
        ("n", "options"),
        [(1, {}), (4, {}), (6, {"process_grid": (3, 2)}), (4, {"kind": "block_cyclic"}), (50, {})],
    )
    def test_each_chunk_has_its_rank(self, n, options):
        a = scene()
        (ax,) = a.plot.zones(n, **options).axes
        shown = {}
        for text in ax.texts:
            x, y = (int(place + 0.5) for place in text.get_position())
            shown[y, x] = int(text.get_text())
        want = {}
        for rank, boxes in enumerate(a.plot.boxes(n, **options)):
            for box in boxes:
                for index in itertools.product(*(range(part.start, part.stop) for part in box)):
                    chunk = tuple(
                        (i + o) // c for i, o, c in zip(index, (3, 0), a.chunks, strict=True)
                    )
                    assert want.setdefault(chunk, rank) == rank
        assert shown == want

    def test_neighbours_have_other_colours(self):
        a = xa.create(None, (4, 4), chunks=1)
        (ax,) = a.plot.zones(4).axes
        cells = np.asarray(ax.images[0].get_array())
        assert len({tuple(colour) for colour in cells.reshape(-1, 3)}) == 4

    def test_three_axes_are_panels(self):
        a = xa.create(None, (3, 4, 5), chunks=1, dims=("t", "y", "x"))
        figure = a.plot.zones(2, axis="t")
        assert [ax.get_title() for ax in figure.axes] == [f"t, chunk {k}" for k in range(3)]

    def test_no_rank(self):
        with pytest.raises(ArgumentError):
            plot.zones(scene(), [])


class TestPlan:
    def test_templates_and_chunks(self):
        a = xa.create(None, (160, 144), "u1", chunks=(32, 9), dims=("y", "x"))
        plan = xa.rechunk_plan(a, chunks=(5, 16), max_memory=900)
        figure = a.plot.plan(plan, title="P")
        whole, template = figure.axes
        (one,) = plan.passes
        assert whole.get_xlim() == (0, 144)
        assert whole.get_ylim() == (160, 0)
        assert (template.get_xlim(), template.get_ylim()) == ((0, 32), (160, 0))
        assert (whole.get_xlabel(), whole.get_ylabel()) == ("x", "y")
        found = [sorted({s[0][1] for s in c.get_segments()}) for c in template.collections]
        assert list(range(32, 160, 32)) in found
        assert list(range(5, 160, 5)) in found
        across = [{s[0][0] for s in c.get_segments()} for c in whole.collections]
        assert set(range(32, 144, 32)) in across, "the last template is cut off at 144"
        assert str(one.template) in template.get_title()

    def test_each_pass_has_a_column(self):
        plan = xa.rechunk_plan(
            (820, 819), source_chunks=(16, 409), chunks=(409, 16), max_memory="128 KiB"
        )
        figure = plot.rechunk_passes(plan)
        assert len(plan.passes) == 3
        assert len(figure.axes) == 6
        assert figure.axes[0].get_ylabel() == "axis 0"

    def test_refusals(self):
        with pytest.raises(ArgumentError, match="no pass"):
            plot.rechunk_passes(xa.rechunk_plan((0, 3), chunks=1))
        with pytest.raises(ArgumentError, match="fewer"):
            plot.rechunk_passes(xa.rechunk_plan((9,), source_chunks=2, chunks=3))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["__call__", "growth", "slice", "layout", "zones", "plan"])
def test_pictures_are_written_and_nothing_leaves_them(tmp_path, kind):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    a = scene()
    given = {"zones": (4,), "plan": (xa.rechunk_plan(a, chunks=2),), "layout": (np.s_[:, 0],)}
    path = tmp_path / "picture.png"
    figure = getattr(a.plot, kind)(*given.get(kind, ()), path=path, title="A title")
    pixels = matplotlib.image.imread(path)
    assert math.prod(pixels.shape[:2]) > 10_000
    assert pixels[..., :3].std() > 0.02, "something is drawn"
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    for ax in figure.axes:
        box = ax.get_tightbbox(renderer)
        assert box.x0 >= -0.5
        assert box.y0 >= -0.5
        assert box.x1 <= figure.bbox.x1 + 0.5
        assert box.y1 <= figure.bbox.y1 + 0.5


@pytest.mark.parametrize("kind", ["__call__", "slice", "layout"])
def test_pictures_in_given_axes(kind):
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert getattr(scene().plot, kind)(ax=ax) is ax
    assert ax.has_data()


class TestText:
    def test_growth(self):
        a = scene()
        lines = growth_text(a).splitlines()
        assert lines[0] == "y down, x to the right"
        numbers = [
            [int(word) for word in line.replace("|", " ").split()]
            for line in lines[1:]
            if "-" not in line
        ]
        want = [[a.axial.address((i, j)) for j in range(4)] for i in range(5)]
        assert numbers == want
        assert growth_text(a, width=4).count("\n") == 5

    def test_what_was_cut_off_is_in_parentheses(self):
        a = xa.create(None, (3,), chunks=1)
        a.shrink(0, 1)
        assert growth_text(a).splitlines()[1] == " 0  1 (2)"

    def test_zones(self):
        a = xa.create(None, (2, 2), chunks=1)
        assert zones_text(a, a.plot.boxes(4)).splitlines()[1:] == [" 0 | 1", "---+---", " 2 | 3"]

    def test_slice(self):
        a = xa.from_array(np.array([[0.0, np.nan], [np.inf, 9.0]]))
        assert slice_text(a).splitlines()[1:] == [" ?", "?@"]
        assert "3.0 to 3.0" in slice_text(xa.full((2, 2), 3.0))

    def test_a_slice_says_how_much_it_shows(self, monkeypatch):
        days = np.arange("2024-01-01", "2024-01-09", dtype="M8[D]").reshape(2, 4)
        a = xa.from_array(days, dims=("y", "x"))
        head = slice_text(a, axes=["x"], width=2).splitlines()[0]
        assert head == ("x to the right, 2024-01-02 to 2024-01-04, y = 0, extremes of 2 elements")
        tall = slice_text(xa.zeros((1000, 3)), width=50).splitlines()
        assert len(tall) == 26
        assert tall[0].endswith("extremes of 40 × 20 elements")
        monkeypatch.setattr(limits, "plotted_bytes", 100)
        assert "one of 40 × 20 elements" in slice_text(xa.zeros((1000, 3)), width=50)

    def test_a_map_says_which_chunks_it_leaves_out(self):
        head = growth_text(xa.zeros((9, 9), chunks=1), width=4).splitlines()[0]
        assert head == "axis 0 down, axis 1 to the right, one of 3 chunks each way"

    def test_layout(self):
        a = xa.create(None, (4, 4), "u1", chunks=1)
        assert layout_text(a, np.s_[0], width=4).splitlines() == [
            "4 of 16 chunks, 4 B, in 1 extent",
            "#...",
            "0 B to 16 B",
        ]
        assert layout_text(a, np.s_[:, 0], width=4).splitlines()[1] == "++++"


class TestCommand:
    @pytest.fixture
    def stored(self, path):
        scene().copy(path, progress=False).close()
        return str(path)

    @pytest.mark.sampled(1)
    @pytest.mark.parametrize(
        "words",
        [
            [],
            ["growth"],
            ["--axes", "x,y"],
            ["slice", "--axes", "x,y"],
            ["layout", "-s", "[:, 0]"],
            ["zones", "--ranks", "2"],
            ["plan", "--chunks", "2"],
        ],
    )
    def test_pictures(self, stored, tmp_path, capsys, words):
        file = tmp_path / "picture.svg"
        assert cli.main(["plot", stored, *words, "-o", str(file), "--title", "T"]) == 0
        assert b"<svg" in file.read_bytes()
        assert cli.main(["plot", stored, *words, "--text"]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        assert len(captured.out.splitlines()) >= 3

    def test_a_title_of_text(self, stored, capsys):
        assert cli.main(["plot", stored, "--text", "--title", "Scene"]) == 0
        assert capsys.readouterr().out.startswith("Scene\n")
        assert cli.main(["plot", stored, "--text", "-o", "a.png"]) == 2
        assert "give one of them" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "words",
        [
            [],
            ["--text", "-o", "a.png"],
            ["-o", "a.nothing"],
            ["pie", "--text"],
            ["slice", "--ranks", "2", "--text"],
            ["--panels", "x", "--text"],
            ["plan", "--text"],
            ["growth", "--at", "x", "--text"],
            ["layout", "-s", "f(x)", "--text"],
        ],
    )
    def test_wrong_calls(self, stored, tmp_path, monkeypatch, capsys, words):
        monkeypatch.chdir(tmp_path)
        assert cli.main(["plot", stored, *words]) == 2
        assert capsys.readouterr().out == ""

    @pytest.mark.parametrize("kind", ["elements", "growth", "slice"])
    def test_an_axis_that_the_array_lacks(self, stored, capsys, kind):
        assert cli.main(["plot", stored, kind, "--at", "z=1", "--text"]) == 1
        assert "no axis is named 'z'" in capsys.readouterr().err

    def test_an_element_as_text(self, stored, capsys):
        """Axes that are all held leave one element, not the array."""
        with xa.open(stored) as array:
            expected = f"{array[1, 0]}\n"
        assert cli.main(["plot", stored, "--at", "0=1", "--at", "1=0", "--text"]) == 0
        assert capsys.readouterr().out == expected
