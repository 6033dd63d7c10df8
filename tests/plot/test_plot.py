"""Growth maps and composites show the right chunks, legibly."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

import extarray as xa
from extarray import plot
from extarray.common.limits import limits
from extarray.errors import ArgumentError, MissingExtraError, ShapeError

matplotlib = pytest.importorskip("matplotlib")

# [otoo2006], figure 3a: the first grid, the extensions (axis, by), the addresses.
OTOO_3A = (
    (4, 3),
    ((1, 2), (0, 3), (1, 3), (0, 2), (1, 2)),
    [
        [0, 1, 2, 12, 16, 35, 42, 49, 72, 81],
        [3, 4, 5, 13, 17, 36, 43, 50, 73, 82],
        [6, 7, 8, 14, 18, 37, 44, 51, 74, 83],
        [9, 10, 11, 15, 19, 38, 45, 52, 75, 84],
        [20, 21, 22, 23, 24, 39, 46, 53, 76, 85],
        [25, 26, 27, 28, 29, 40, 47, 54, 77, 86],
        [30, 31, 32, 33, 34, 41, 48, 55, 78, 87],
        [56, 57, 58, 59, 60, 61, 62, 63, 79, 88],
        [64, 65, 66, 67, 68, 69, 70, 71, 80, 89],
    ],
)
# [drxmp2009], figure 3.
DRXMP_3 = ((4, 3, 1), ((2, 1), (2, 1), (1, 1), (0, 2), (2, 1)))


def grown(grid, extensions):
    """Return an array in memory with chunks of one element and this history."""
    a = xa.create(None, shape=grid, dtype="u1", chunks=1)
    for axis, by in extensions:
        a.extend(axis=axis, by=by)
    return a


def many_segments():
    """Return an array grown along three axes in turn: more segments than a legend lists."""
    return grown((1, 1, 1), [(axis, 1) for _ in range(5) for axis in range(3)])


def panels(figure):
    return [ax for ax in figure.axes if ax.get_visible()]


def cells(ax):
    """Return the image: one colour a cell."""
    (image,) = ax.images
    return np.asarray(image.get_array())


def numbers(ax):
    """Return the addresses that the cells show, at their places."""
    shown = np.full(cells(ax).shape[:2], -1)
    for text in ax.texts:
        x, y = text.get_position()
        shown[int(y), int(x)] = int(text.get_text())
    return shown


def luminance(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


class TestSegments:
    def test_published_history(self):
        found = plot.segments(grown(*OTOO_3A[:2]))
        assert found == [
            plot.Segment(axis=0, start_index=0, by=4, start_address=0, size=12),
            plot.Segment(axis=1, start_index=3, by=2, start_address=12, size=8),
            plot.Segment(axis=0, start_index=4, by=3, start_address=20, size=15),
            plot.Segment(axis=1, start_index=5, by=3, start_address=35, size=21),
            plot.Segment(axis=0, start_index=7, by=2, start_address=56, size=16),
            plot.Segment(axis=1, start_index=8, by=2, start_address=72, size=18),
        ]

    def test_takes_an_axial_as_well(self):
        a = grown(*DRXMP_3)
        assert plot.segments(a.axial) == plot.segments(a)
        assert [s.axis for s in plot.segments(a)] == [0, 2, 1, 0, 2]

    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
    def test_axes_that_began_at_length_0(self, order):
        """Records without chunks are no segments; the sizes add up to the grid."""
        a = grown((0, 0, 0), [(axis, 2) for axis in order * 2])
        found = plot.segments(a)
        assert found[0].start_address == 0
        ends = [s.start_address + s.size for s in found]
        assert [s.start_address for s in found[1:]] == ends[:-1]
        assert ends[-1] == np.prod(a.grid)
        assert all(s.size > 0 and s.by > 0 for s in found)

    def test_nothing_yet(self):
        assert plot.segments(grown((0, 3), ())) == []


class TestGrowthMap:
    def test_published_addresses_and_segments(self):
        grid, extensions, addresses = OTOO_3A
        (ax,) = panels(plot.growth_map(grown(grid, extensions)))
        np.testing.assert_array_equal(numbers(ax), addresses)
        colours = cells(ax)
        starts = np.array([0, 12, 20, 35, 56, 72, 90])
        owner = np.searchsorted(starts, addresses, side="right") - 1
        for one, other in itertools.product(range(6), repeat=2):
            same = (colours[owner == one][:, None] == colours[owner == other]).all(axis=-1)
            assert same.all() if one == other else not same.any()

    def test_one_axis(self):
        (ax,) = panels(plot.growth_map(grown((3,), [(0, 5)])))
        np.testing.assert_array_equal(numbers(ax), [range(8)])

    @pytest.mark.sampled(1)
    @pytest.mark.parametrize("axis", [0, 1, 2, -1])
    def test_three_axes_one_panel_an_index(self, axis):
        a = grown(*DRXMP_3)
        shown = panels(plot.growth_map(a, axis=axis))
        assert len(shown) == a.grid[axis]
        for number, ax in enumerate(shown):
            want = np.array([a.axial.address(index) for index in np.ndindex(a.grid)]).reshape(
                a.grid
            )
            np.testing.assert_array_equal(numbers(ax), np.take(want, number, axis=axis))
            assert ax.get_title() == f"axis {axis % 3}, chunk {number}"

    @pytest.mark.slow
    def test_more_axes_are_held_at_an_index(self):
        a = grown((2, 3, 2, 2, 1), [(4, 2), (0, 1)])
        shown = panels(plot.growth_map(a, at={3: 1, -1: 2}, axis=0))
        assert len(shown) == 3
        for i, ax in enumerate(shown):
            want = [[a.axial.address((i, j, k, 1, 2)) for k in range(2)] for j in range(3)]
            np.testing.assert_array_equal(numbers(ax), want)

    def test_three_axes_with_one_held_are_one_panel(self):
        a = grown(*DRXMP_3)
        (ax,) = panels(plot.growth_map(a, at={2: 3}))
        assert numbers(ax).min() == 72

    @pytest.mark.parametrize(
        ("shape", "options", "message"),
        [
            ((2, 2, 2, 2), {}, r"cannot draw 4 axes .* hold axes at one chunk index with at="),
            ((), {}, "cannot draw 0 axes"),
            ((2,), {"at": {0: 1}}, "cannot draw 0 axes"),
            ((0, 3), {}, r"grid \(0, 3\): it has no chunk"),
            ((2, 2, 2), {"axis": 3}, r"axis 3 has no panels: choose one of \[0, 1, 2\]"),
            ((2, 2, 2, 2), {"at": {1: 0}, "axis": 1}, r"choose one of \[0, 2, 3\]"),
            ((2, 2), {"at": {2: 0}}, "at names axis 2, but the array has 2 axes"),
            ((2, 2), {"at": {1: 2}}, "chunk index 2 for axis 1, which has 2"),
            ((2, 2, 99), {}, "axis 2 has 99 chunk indices"),
            ((2, 2), {"names": ["rows"]}, "names has 1 entries, but the array has 2 axes"),
        ],
    )
    def test_refusals(self, shape, options, message):
        with pytest.raises(ArgumentError, match=message):
            plot.growth_map(grown(shape, ()), **options)

    def test_frozen_chunks_have_a_corner(self, tmp_path):
        def corners(a):
            (ax,) = panels(plot.growth_map(a))
            return [
                tuple(path.vertices[0] - 0.5)
                for each in ax.collections
                if each.get_gid() == "frozen"
                for path in each.get_paths()
            ]

        with xa.create(tmp_path / "a", (4, 6), chunks=2, compression="zlib", freeze="never") as a:
            assert corners(a) == []
            a[...] = 1
            a.freeze()
            for value in range(limits.rewrites + 1):  # the last write thaws the chunk
                a[2, 3] = value
            found = sorted((int(y), int(x)) for x, y in corners(a))
        assert found == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2)]

    @pytest.mark.sampled(1)
    @pytest.mark.parametrize("make", [lambda: grown(*OTOO_3A[:2]), many_segments])
    def test_addresses_stand_out_from_their_cells(self, make):
        """Accessibility guidelines ask for a contrast ratio of 4.5."""
        for ax in panels(plot.growth_map(make())):
            colours = cells(ax)
            assert len(ax.texts) == colours[..., 0].size
            for text in ax.texts:
                x, y = text.get_position()
                both = [
                    luminance(matplotlib.colors.to_rgb(text.get_color())),
                    luminance(colours[int(y), int(x)]),
                ]
                assert (max(both) + 0.05) / (min(both) + 0.05) >= 4.5

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "make",
        [
            lambda: grown(*OTOO_3A[:2]),
            lambda: grown(*DRXMP_3),
            lambda: grown((8,), [(0, 9)]),
            lambda: grown((1,), ()),
            lambda: grown((2, 40), [(0, 1)]),
            lambda: grown((40, 2), [(1, 1)]),
            lambda: grown((40, 30), [(1, 1)]),
            many_segments,
        ],
    )
    def test_nothing_overlaps(self, make):
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure = plot.growth_map(make(), title="A title")
        renderer = FigureCanvasAgg(figure).get_renderer()
        figure.draw_without_rendering()
        for ax in panels(figure):
            height, width = cells(ax).shape[:2]
            box = ax.get_window_extent()
            assert ax.texts, "the grid is small enough for addresses"
            for text in ax.texts:
                extent = text.get_window_extent(renderer)
                assert extent.width < 0.96 * box.width / width
                assert extent.height < 0.96 * box.height / height
        boxes = [ax.get_tightbbox(renderer) for ax in panels(figure)]
        boxes += [legend.get_window_extent(renderer) for legend in figure.legends]
        boxes += [figure._suptitle.get_window_extent(renderer)]
        for box in boxes:
            assert box.x0 >= -0.5
            assert box.y0 >= -0.5
            assert box.x1 <= figure.bbox.x1 + 0.5
            assert box.y1 <= figure.bbox.y1 + 0.5
        for one, other in itertools.combinations(boxes, 2):
            across = min(one.x1, other.x1) - max(one.x0, other.x0)
            down = min(one.y1, other.y1) - max(one.y0, other.y0)
            assert min(across, down) < 1.0, (one, other)

    @pytest.mark.slow
    def test_addresses_are_left_out_where_there_is_no_room(self):
        (ax,) = panels(plot.growth_map(grown((200, 150), [(1, 50)])))
        assert not ax.texts
        assert cells(ax).shape[:2] == (200, 200)

    @pytest.mark.slow
    def test_legend_lists_few_segments_and_sums_up_many(self):
        figure = plot.growth_map(grown(*OTOO_3A[:2]), names=("y", "x"))
        (legend,) = figure.legends
        assert [text.get_text() for text in legend.get_texts()] == [
            "0 to 11: first segment",
            "12 to 19: x by 2",
            "20 to 34: y by 3",
            "35 to 55: x by 3",
            "56 to 71: y by 2",
            "72 to 89: x by 2",
        ]
        (legend,) = plot.growth_map(many_segments()).legends
        assert [text.get_text() for text in legend.get_texts()] == [
            "first segment",
            "axis 0: 4 segments, early to late",
            "axis 1: 5 segments, early to late",
            "axis 2: 5 segments, early to late",
        ]
        assert plot.growth_map(many_segments(), legend=False).legends == []

    @pytest.mark.slow
    def test_given_axes(self):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 3))
        axes = figure.subplots(1, 4)
        assert plot.growth_map(grown(*DRXMP_3), axes) is axes
        assert [len(ax.texts) for ax in axes] == [24] * 4
        assert figure.legends == []
        with pytest.raises(ArgumentError, match="ax has 2 axes, but there are 4 panels"):
            plot.growth_map(grown(*DRXMP_3), axes[:2])
        parts = Figure(figsize=(9, 3))
        left, _ = parts.subfigures(1, 2)
        plot.growth_map(grown(*OTOO_3A[:2]), left.subplots())
        assert len(left.axes) == len(parts.axes) == 1

    @pytest.mark.slow
    def test_writes_a_file(self, tmp_path):
        path = tmp_path / "map.png"
        figure = plot.growth_map(grown(*OTOO_3A[:2]), path=path, dpi=50)
        width, height = figure.get_size_inches() * 50
        assert path.read_bytes().startswith(b"\x89PNG\r\n")
        assert matplotlib.image.imread(path).shape[:2] == (int(height), int(width))
        plot.growth_map(grown((3,), ()), path=tmp_path / "map.svg")
        assert b"<svg" in (tmp_path / "map.svg").read_bytes()


class TestStretch:
    def test_each_channel_for_itself(self):
        image = np.zeros((10, 10, 3))
        image[..., 0] = np.arange(100).reshape(10, 10)
        image[..., 1] = 7
        image[..., 2] = -image[..., 0]
        shown = plot.stretch(image, (0, 100))
        np.testing.assert_allclose(shown[..., 0], image[..., 0] / 99, rtol=1e-6)
        assert (shown[..., 1] == 0).all()
        np.testing.assert_allclose(shown[..., 2], 1 - image[..., 0] / 99, atol=1e-6)

    def test_percentiles_clip(self):
        image = np.arange(1001.0).reshape(7, 11, 13)[..., :1]
        shown = plot.stretch(image, (10, 90))
        assert shown.min() == 0
        assert shown.max() == 1
        assert 0.15 < np.mean((shown == 0) | (shown == 1)) < 0.25

    def test_what_is_not_finite_becomes_black(self):
        image = np.array([[[0.0], [np.nan], [np.inf], [1.0]]])
        assert plot.stretch(image, (0, 100)).ravel().tolist() == [0, 0, 0, 1]
        assert plot.stretch(np.full((1, 2, 1), np.nan)).ravel().tolist() == [0, 0]

    @pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 2, 3), (2, 2, 2, 2)])
    def test_refusals(self, shape):
        with pytest.raises(ShapeError, match="rows, columns, channels"):
            plot.stretch(np.zeros(shape))


class TestComposite:
    def test_reads_three_bands(self, tmp_path):
        rng = np.random.default_rng(0)
        scene = rng.integers(0, 1000, (12, 9, 6), dtype="u2")
        with xa.from_array(scene, chunks=4) as a:
            path = tmp_path / "composite.png"
            figure = plot.composite(a, (5, 0, 2), title="Three bands", path=path)
        (ax,) = figure.axes
        np.testing.assert_array_equal(cells(ax), plot.stretch(scene[:, :, [5, 0, 2]]))
        assert ax.get_title() == "Three bands"
        assert path.read_bytes().startswith(b"\x89PNG\r\n")

    def test_given_axes(self):
        from matplotlib.figure import Figure

        ax = Figure().subplots()
        assert plot.composite(np.zeros((2, 2, 3)), (0, 1, 2), ax) is ax

    def test_refusals(self):
        with pytest.raises(ShapeError, match="rows, columns, bands"):
            plot.composite(np.zeros((2, 2)), (0, 1, 2))
        with pytest.raises(ArgumentError, match="three bands, not 2"):
            plot.composite(np.zeros((2, 2, 3)), (0, 1))


@pytest.mark.parametrize(
    "call",
    [
        lambda: plot.growth_map(grown((2,), ())),
        lambda: plot.composite(np.zeros((1, 1, 3)), (0,) * 3),
    ],
)
def test_without_matplotlib_the_extra_is_named(call, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="needs 'matplotlib'.*pip install matplotlib"):
        call()


@pytest.mark.slow
def test_neither_display_nor_pyplot(script):
    """Pictures leave matplotlib's global state alone; importing the module needs only NumPy."""
    script(
        "import sys, extarray as xa, extarray.plot as plot\n"
        "assert 'matplotlib' not in sys.modules\n"
        "plot.growth_map(xa.create(None, shape=(2, 2), dtype='u1', chunks=1))\n"
        "assert 'matplotlib' in sys.modules\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
