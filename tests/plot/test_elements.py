"""`a.plot()`: the elements, where their coordinates say, and none of them hidden."""

from __future__ import annotations

import io

import numpy as np
import pytest

import extarray as xa
from extarray.common.limits import limits
from extarray.errors import ArgumentError, BoundsError

matplotlib = pytest.importorskip("matplotlib")

LATITUDES = np.arange(60.0, 0.0, -1.0)


def earth(**attrs):
    """Return a plane with a latitude for each row, from north to south."""
    values = np.arange(60.0 * 5).reshape(60, 5)
    coords = {
        "lat": {
            "dims": ["lat"],
            "data": LATITUDES.tolist(),
            "attrs": {"long_name": "latitude", "units": "degrees_north"},
        }
    }
    return xa.from_array(values, dims=("lat", "x"), attrs={"coords": coords, **attrs})


def zeros(shape, dims, dtype="f8"):
    """Return zeros on axes with names."""
    return xa.create(None, shape, dtype, dims=dims)


def pixels(figure, dpi=100):
    """Return the pixels of a figure."""
    file = io.BytesIO()
    figure.savefig(file, dpi=dpi)
    file.seek(0)
    return matplotlib.image.imread(file)[..., :3]


def ticks(axis):
    """Return the labels of the ticks inside the limits."""
    axis.figure.draw_without_rendering()
    low, high = sorted(axis.get_view_interval())
    which = 0 if axis.axis_name == "x" else 1
    return [t.get_text() for t in axis.get_ticklabels() if low <= t.get_position()[which] <= high]


class TestLines:
    def test_names_units_and_a_coordinate(self):
        a = xa.from_array(
            np.array([1.0, 2.0, 4.0]),
            dims=["t"],
            attrs={
                "long_name": "depth",
                "units": "m",
                "coords": {"t": {"dims": ["t"], "data": [0, 10, 30], "attrs": {"units": "s"}}},
            },
        )
        (ax,) = a.plot().axes
        assert ax.lines[0].get_xydata().tolist() == [[0, 1], [10, 2], [30, 4]]
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("t [s]", "depth [m]")

    def test_a_spike_among_millions_is_there(self):
        values = np.zeros(2_000_003, np.float32)
        values[1_234_567] = 1e6
        (ax,) = xa.from_array(values).plot().axes
        x, y = ax.lines[0].get_data()
        assert x[y == 1e6].tolist() == [1_234_567]
        assert len(y) < 10_000
        assert "least and greatest of every" in ax.get_title(loc="right")

    def test_too_many_to_read_and_the_picture_says_so(self, monkeypatch):
        monkeypatch.setattr(limits, "plotted_bytes", 10_000)
        (ax,) = xa.from_array(np.arange(6000), dims=["t"]).plot().axes
        assert ax.get_title(loc="right") == "shows only every 3rd element along t"
        assert ax.lines[0].get_ydata().tolist() == list(range(0, 6000, 3))

    def test_no_line_leads_from_name_to_name(self):
        a = xa.from_array(np.arange(3.0), dims=["n"], attrs={"coords": {"n": ["b", "a", "c"]}})
        (ax,) = a.plot().axes
        assert ax.lines[0].get_linestyle() == "None"
        assert ticks(ax.xaxis) == ["b", "a", "c"]

    def test_an_element_between_gaps_shows(self):
        values = np.zeros(200)
        values[::2] = np.nan
        values[101:] = 3
        (ax,) = xa.from_array(values).plot().axes
        _, dots = ax.lines
        assert dots.get_xdata().tolist() == list(range(1, 100, 2))

    def test_dates_on_both_axes(self):
        days = np.array(["2024-01-01", "NaT", "2024-03-01"], "M8[D]")
        coords = {"d": {"dims": ["d"], "data": ["2020-01-01", "2020-01-02", "2020-01-05"]}}
        coords["d"]["dtype"] = "<M8[D]"
        (ax,) = xa.from_array(days, dims=["d"], attrs={"coords": coords}).plot().axes
        x, y = ax.lines[0].get_data()
        assert np.diff(x).tolist() == [1, 3]
        assert y[2] - y[0] == 60
        assert np.isnan(y[1])
        assert any("2024" in text for text in ticks(ax.yaxis))

    def test_times_of_netcdf(self):
        coords = {"t": {"dims": ["t"], "data": [0, 12, 36]}}
        coords["t"]["attrs"] = {"units": "hours since 2024-05-01 06:00", "long_name": "time"}
        (ax,) = xa.from_array(np.zeros(3), dims=["t"], attrs={"coords": coords}).plot().axes
        np.testing.assert_allclose(np.diff(ax.lines[0].get_xdata()), [0.5, 1.0])
        assert ax.get_xlabel() == "time"
        assert matplotlib.dates.num2date(ax.lines[0].get_xdata()[0]).hour == 6

    @pytest.mark.parametrize(
        "values",
        [
            np.arange(4, dtype="m8[h]"),
            np.array([True, False]),
            np.array([3 + 4j, 0]),
            np.arange(3, dtype=">i2"),
            np.arange(3, dtype="f2"),
        ],
    )
    def test_kinds_of_numbers(self, values):
        (ax,) = xa.from_array(values).plot().axes
        want = np.abs(values) if values.dtype.kind == "c" else values
        assert ax.lines[0].get_ydata().tolist() == want.astype(float).tolist()

    def test_integers_that_floats_cannot_tell_apart(self):
        least = 2**63 - 20
        (ax,) = xa.from_array(np.arange(20) + np.int64(least)).plot().axes
        assert ax.lines[0].get_ydata().tolist() == list(range(20))
        assert ax.get_title(loc="right") == f"values minus {least}"
        values = np.arange(2**64 - 20, 2**64, dtype="u8").reshape(4, 5)
        ax = xa.from_array(values).plot().axes[0]
        assert ax.images[0].get_array().tolist() == np.arange(20).reshape(4, 5).tolist()
        ax = xa.from_array(values).plot(vmin=0).axes[0]
        assert ax.get_title(loc="right") == ""

    @pytest.mark.parametrize("shape", [(4,), (2, 2)])
    def test_the_picture_says_why_it_is_blank(self, shape):
        values = np.array([1, 2, np.inf, np.nan]).reshape(shape)
        ax = xa.from_array(values).plot().axes[0]
        assert ax.get_title(loc="right") == "infinite elements are blank"
        ax = xa.full(shape, np.nan).plot().axes[0]
        assert ax.get_title(loc="right") == "all elements are missing"
        low, high = ax.get_xlim()
        assert low < 0 and high > shape[-1] - 1

    def test_false_and_true(self):
        (ax,) = xa.from_array(np.array([True, False, True])).plot().axes
        assert ticks(ax.yaxis) == ["False", "True"]

    def test_missing_and_packed_elements(self):
        attrs = {"_FillValue": np.int16(-9), "scale_factor": 0.5, "add_offset": 10.0}
        a = xa.from_array(np.array([2, -9, 4], "i2"), attrs=attrs)
        np.testing.assert_array_equal(a.plot().axes[0].lines[0].get_ydata(), [11, np.nan, 12])

    def test_a_field_of_records(self):
        values = np.array([(1.5, b"a"), (2.5, b"b")], [("depth", "f8"), ("tag", "S1")])
        a = xa.from_array(values)
        (ax,) = a.plot(field="depth").axes
        assert ax.lines[0].get_ydata().tolist() == [1.5, 2.5]
        assert ax.get_ylabel() == "depth"
        with pytest.raises(ArgumentError, match="field='depth'"):
            a.plot()
        with pytest.raises(ArgumentError, match="the fields are depth, tag"):
            a.plot(field="x")
        with pytest.raises(ArgumentError, match="are not numbers$"):
            a.plot(field="tag")


class TestPlanes:
    @pytest.mark.parametrize("draw", [lambda a: a.plot(), lambda a: a.plot.slice()])
    def test_coordinates_and_not_indices(self, draw):
        ax, bar = draw(earth(long_name="height", units="m")).axes
        assert ax.get_ylim() == (0.5, 60.5)
        assert ax.images[0].get_extent() == [-0.5, 4.5, 0.5, 60.5]
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "latitude [degrees_north]")
        assert bar.get_ylabel() == "height [m]"

    def test_north_is_up_whichever_way_the_rows_go(self):
        a = earth()
        b = xa.from_array(a[::-1], dims=a.dims, attrs={"coords": {"lat": LATITUDES[::-1].tolist()}})
        one, other = (pixels(each.plot(colorbar=False)) for each in (a, b))
        inside = np.s_[30:-60, 90:-30]
        np.testing.assert_array_equal(one[inside], other[inside])

    def test_rows_without_coordinates_begin_at_the_top(self):
        ax = xa.zeros((4, 3)).plot().axes[0]
        assert ax.get_ylim() == (3.5, -0.5)

    def test_arrays_beside_it_are_its_coordinates(self, tmp_path):
        xa.from_array(np.array([1.0, 2.0, 4.0]), tmp_path / "y", dims=["y"]).close()
        with xa.from_array(np.zeros((3, 2)), tmp_path / "a", dims=("y", "x")) as a:
            ax, bar = a.plot().axes
        assert ax.get_ylim() == (0.5, 5.0)
        assert bar.get_ylabel() == "a"

    def test_uneven_cells_are_where_they_belong(self):
        coords = {"x": [0.0, 1.0, 10.0]}
        a = xa.from_array(np.array([[0.0, 1.0, 0.0]]), dims=("y", "x"), attrs={"coords": coords})
        figure = a.plot(cmap="gray", colorbar=False, aspect="auto")
        ax = figure.axes[0]
        shown = pixels(figure)
        for x, want in ((-0.3, 0), (0.4, 0), (0.6, 1), (5.4, 1), (5.6, 0), (14, 0)):
            column, row = ax.transData.transform((x, 0))
            assert shown[int(shown.shape[0] - row), int(column), 0] == want

    @pytest.mark.parametrize("dpi", [30, 100, 300])
    @pytest.mark.parametrize("shape", [(1100, 900), (2300, 900)])
    def test_a_spike_shows_at_any_size(self, shape, dpi):
        values = np.zeros(shape, np.float32)
        values[701, 333] = 1
        figure = xa.from_array(values).plot(cmap="gray", colorbar=False)
        ax = figure.axes[0]
        figure.draw_without_rendering()
        image = ax.images[0]
        shown, *_ = image.make_image(None, dpi / figure.dpi)
        inside = shown[..., 3] > 0
        assert (shown[inside][:, 0] == 255).any()
        row, column = np.argwhere(shown[..., 0] == 255).mean(axis=0) / shown.shape[:2]
        want = ax.transAxes.inverted().transform(ax.transData.transform((333, 701)))
        assert (column, row) == pytest.approx(
            tuple(want), abs=3 * max(1 / min(shown.shape[:2]), 0.01)
        )

    def test_pixels_of_a_zoomed_image(self):
        values = np.arange(2000.0 * 30).reshape(2000, 30) % 977
        figure = xa.from_array(values).plot(colorbar=False)
        ax = figure.axes[0]
        for limits_of_y in ((120.5, 128.5), (128.5, 120.5)):
            ax.set(xlim=(3.5, 6.5), ylim=limits_of_y)
            figure.draw_without_rendering()
            shown, left, bottom, _ = ax.images[0].make_image(None, 1.0)
            colours = ax.images[0].to_rgba(values, bytes=True)
            for row in range(121, 129):
                for column in (4, 5, 6):
                    x, y = ax.transData.transform((column, row))
                    here = shown[int(y - bottom), int(x - left)]
                    np.testing.assert_array_equal(here, colours[row, column])

    def test_a_plane_too_large_to_read_says_so(self, monkeypatch):
        monkeypatch.setattr(limits, "plotted_bytes", 10_000)
        ax = zeros((4100, 3), ("y", "x"), dtype="u1").plot().axes[0]
        assert ax.get_title(loc="right") == "shows only every 3rd element along y"
        assert ax.images[0].get_array().shape == (1367, 3)

    def test_the_word_for_names(self):
        coords = {"n": ["one", "two", "three"]}
        a = xa.from_array(np.eye(3), dims=("n", "x"), attrs={"coords": coords})
        ax = a.plot().axes[0]
        assert ticks(ax.yaxis) == ["one", "two", "three"]

    def test_in_given_axes(self):
        from matplotlib.figure import Figure

        figure = Figure()
        ax = figure.subplots()
        assert xa.zeros((3, 4)).plot(ax=ax) is ax
        assert len(figure.axes) == 2
        xa.zeros((3, 4)).plot(ax=ax, colorbar=False)
        assert len(figure.axes) == 2

    def test_an_argument_that_there_is_not(self):
        with pytest.raises(TypeError, match="a picture has no argument 'colour'"):
            xa.zeros((3, 4)).plot(colour="red")

    def test_nothing_but_nan(self):
        figure = xa.full((3, 4), np.nan).plot()
        assert pixels(figure).std() > 0


class TestSeveral:
    def test_an_image_for_each_index(self):
        values = np.arange(24.0).reshape(2, 3, 4)
        coords = {"t": {"dims": ["t"], "data": ["2024-01-01", "2024-02-01"], "dtype": "<M8[D]"}}
        a = xa.from_array(values, dims=("t", "y", "x"), attrs={"coords": coords})
        figure = a.plot(title="T")
        one, other, _ = figure.axes
        assert [ax.get_title() for ax in (one, other)] == ["t = 2024-01-01", "t = 2024-02-01"]
        for ax, plane in zip((one, other), values, strict=True):
            np.testing.assert_array_equal(ax.images[0].get_array(), plane)
            assert ax.images[0].get_clim() == (0, 23)
        assert figure.get_suptitle() == "T"

    def test_a_line_for_each_index(self):
        values = np.arange(12.0).reshape(3, 4)
        figure = xa.from_array(values, dims=("y", "x")).plot(axes=["x"], panels="y")
        panels = [ax for ax in figure.axes if ax.get_visible()]
        assert [ax.get_title() for ax in panels] == ["y = 0", "y = 1", "y = 2"]
        assert [ax.lines[0].get_ydata().tolist() for ax in panels] == values.tolist()

    def test_of_many_some_and_the_picture_says_so(self):
        figure = zeros((3, 100, 4, 5), ("c", "t", "y", "x")).plot(panels="t", at={"c": 2})
        assert figure.get_suptitle() == "c = 2, 12 of the 100 indices along t"
        shown = [ax.get_title() for ax in figure.axes if ax.images]
        assert (shown[0], shown[-1]) == ("t = 0", "t = 99")

    def test_axes_by_name(self):
        a = xa.from_array(np.arange(24.0).reshape(2, 3, 4), dims=("t", "y", "x"))
        (ax,) = a.plot(at={"t": 1, "x": -1}).axes
        assert ax.lines[0].get_ydata().tolist() == [15, 19, 23]
        assert ax.get_title() == "t = 1, x = 3"
        ax = a.plot(axes=("x", "t"), panels="y").axes[2]
        np.testing.assert_array_equal(ax.images[0].get_array(), a[:, 2].T)

    def test_in_given_axes(self):
        from matplotlib.figure import Figure

        a = zeros((5, 3, 4), ("t", "y", "x"))
        axes = Figure().subplots(1, 2)
        assert a.plot(axes) is axes
        assert [ax.get_title() for ax in axes] == ["t = 0", "t = 4"]
        ax = Figure().subplots()
        a.plot(ax, at={"t": 3})
        assert ax.get_title() == "t = 3"

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"axes": ("t", "t")}, ArgumentError),
            ({"axes": ("t", "y", "x")}, ArgumentError),
            ({"axes": ("y", "x"), "at": {"y": 0}}, ArgumentError),
            ({"panels": "x"}, ArgumentError),
            ({"at": {"t": 2}}, BoundsError),
        ],
    )
    def test_refusals(self, options, error):
        with pytest.raises(error):
            zeros((2, 3, 4), ("t", "y", "x")).plot(**options)


class TestNothing:
    @pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (3, 0, 4), (0, 3, 4)])
    @pytest.mark.parametrize("kind", ["__call__", "slice"])
    def test_no_elements(self, shape, kind):
        names = ("t", "y", "x")[-len(shape) :]
        a = zeros(shape, names)
        (ax,) = getattr(a.plot, kind)().axes
        assert [text.get_text() for text in ax.texts] == [f"no elements: the shape is {shape}"]
        assert ax.get_xlabel() == "x"
        assert ax.get_ylabel() == ("y" if len(shape) > 1 else "")

    def test_one_element_of_no_axes(self):
        a = xa.from_array(np.array(2.5), attrs={"long_name": "depth", "units": "m"})
        (ax,) = a.plot().axes
        assert [text.get_text() for text in ax.texts] == ["depth [m] = 2.5"]


@pytest.mark.parametrize("name", ["growth", "layout", "plan", "__call__"])
def test_a_dark_style(name):
    """Text outside of the areas that the picture colours is light."""
    from matplotlib import style

    with style.context("dark_background"):
        a = xa.create(None, (4, 6), "f4", chunks=2, dims=("y", "x"))
        given = {"layout": (np.s_[:, 0],), "plan": (xa.rechunk_plan(a, chunks=3),)}
        figure = getattr(a.plot, name)(*given.get(name, ()))
        lines = [line for legend in figure.legends for line in legend.get_lines()]
        assert all(min(matplotlib.colors.to_rgb(line.get_color())) > 0.1 for line in lines)
        for ax in figure.axes:
            for spine in ax.spines.values():
                if spine.get_visible():
                    assert min(matplotlib.colors.to_rgb(spine.get_edgecolor())) > 0.5


SHOWN = """
import sys, types
import matplotlib
from matplotlib import _pylab_helpers, backend_bases
from matplotlib.backends import backend_agg

backend = types.ModuleType("recorder")
class Canvas(backend_agg.FigureCanvasAgg):
    required_interactive_framework = None
class Manager(backend_bases.FigureManagerBase):
    @classmethod
    def pyplot_show(cls, *, block=None):
        print("shown", len(_pylab_helpers.Gcf.get_all_fig_managers()))
Canvas.manager_class = Manager
backend.FigureCanvas, backend.FigureManager = Canvas, Manager
sys.modules["recorder"] = backend
matplotlib.use("module://recorder")
import extarray as xa
a = xa.zeros((3, 4), chunks=2)
"""


@pytest.mark.slow
def test_a_window_shows_what_was_drawn(script, tmp_path):
    """``plt.show()`` shows new figures; those in files and in given axes are nobody's windows."""
    done = script(
        SHOWN + "import matplotlib.pyplot as plt\n"
        "a.plot()\n"
        "a.plot.growth()\n"
        "a.plot.layout()\n"
        "a.plot(path=sys.argv[1])\n"
        "plt.show()\n"
        "plt.close('all')\n"
        "figure, ax = plt.subplots()\n"
        "a.plot(ax=ax)\n"
        "plt.show()\n",
        tmp_path / "a.png",
    )
    assert done.splitlines() == ["shown 3", "shown 1"]


@pytest.mark.slow
@pytest.mark.process
def test_a_notebook_shows_each_picture_once():
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cells = {
        "import extarray as xa; a = xa.zeros((4, 5), chunks=2)": 0,
        "a.plot()": 1,
        "a.plot.growth()": 1,
        "kept = a.plot()": 1,
        "kept": 1,
        "a.plot(); a.plot.layout()": 2,
        "import matplotlib.pyplot as plt": 0,
        "a.plot.growth()\nplt.show()": 1,
        "ax = plt.subplots()[1]\na.plot(ax=ax)": 1,
    }
    notebook = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
    nbclient.NotebookClient(notebook, timeout=200).execute()
    for cell, count in zip(notebook.cells, cells.values(), strict=True):
        shown = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        assert len(shown) == count, cell.source
