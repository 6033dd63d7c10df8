"""Pixels without data, however they are marked, are left out; the rest agrees with NumPy."""

from __future__ import annotations

import itertools

import hyperscenes
import numpy as np
import pytest

import extarray as xa
from extarray.apps import hyperspectral as hs
from extarray.errors import ArgumentError, AxisError, ShapeError

spectral = pytest.importorskip("spectral")
linalg = pytest.importorskip("scipy.linalg")
optimize = pytest.importorskip("scipy.optimize")

#: Memory so small that even small scenes have many blocks.
LITTLE = 60_000

ROWS, COLUMNS, BANDS = 17, 19, 8


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with pytest.importorskip("threadpoolctl").threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def made():
    return hyperscenes.make(ROWS, COLUMNS, BANDS, 4, noise=0.02)


@pytest.fixture(scope="module")
def holes(made):
    """Return the pixels to leave out: a corner, a stretch, single ones; none is pure."""
    found = np.zeros((ROWS, COLUMNS), bool)
    found[:4, :5] = found[9, 3:16] = found[13, 13] = found[-1, -1] = True
    found[tuple(made.positions.T)] = False
    return found


@pytest.fixture(scope="module")
def rest(made, holes):
    """Return the spectra that remain: (pixels, bands)."""
    return made.data[~holes]


@pytest.fixture(scope="module")
def scene(made, holes):
    """Return the scene with NaN in one band of each hole, and -inf in another of a few."""
    data = made.data.copy()
    data[holes, 2] = np.nan
    data[9, holes[9], 5] = -np.inf
    return data


def filled(made, holes, value, dtype=float):
    """Return the scene in a dtype, with a value in one band of each hole."""
    data = made.data.astype(dtype)
    data[holes, 3] = value
    return data


def numbers(made):
    """Return the scene in whole numbers, none of them zero."""
    return np.rint(1 + 100 * made.data).astype("i2")


# -- marks of missing data -------------------------------------------------------------------------


def by_nan(made, holes, tmp_path):
    return filled(made, holes, np.nan), {}


def by_infinity(made, holes, tmp_path):
    return filled(made, holes, np.inf, "f4"), {}


def by_mask(made, holes, tmp_path):
    return filled(made, holes, 1e30), {"mask": holes}


def by_mask_on_disk(made, holes, tmp_path):
    mask = xa.from_array(holes, tmp_path / "mask", chunks=(5, 7))
    return filled(made, holes, 1e30), {"mask": mask}


def by_mask_and_nan(made, holes, tmp_path):
    data = filled(made, holes, 1e30)
    data[:4, :5, 1] = np.nan
    mask = holes.astype("u1")
    mask[:4, :5] = 0
    return data, {"mask": mask.tolist()}


def by_masked_array(made, holes, tmp_path):
    data = np.ma.array(filled(made, holes, 1e30))
    data[holes, 3] = np.ma.masked
    return data, {}


def by_fill_value(made, holes, tmp_path):
    a = xa.create(tmp_path / "a", made.data.shape, float, chunks=(5, 7, 3), fill_value=-9999)
    a[...] = filled(made, holes, -9999)
    return a, {}


def by_what_was_never_written(made, holes, tmp_path):
    a = xa.create(tmp_path / "a", (ROWS + 3, COLUMNS, BANDS), chunks=(5, 7, 3), fill_value=-9999)
    a[np.pad(~holes, ((0, 3), (0, 0)))] = made.data[~holes]
    return a.lazy[:ROWS], {}


def by_attribute(name, value=0):
    def give(made, holes, tmp_path):
        a = xa.from_array(filled(made, holes, 0), chunks=(5, 7, 3))
        a.attrs[name] = value
        return a, {}

    give.__name__ = f"by_{name}"
    return give


def by_view_of_an_array_with_an_attribute(made, holes, tmp_path):
    turned = np.ascontiguousarray(filled(made, holes, 0).transpose(2, 1, 0))
    a = xa.from_array(turned, chunks=(3, 7, 5))
    a.attrs["nodata"] = 0
    return a.T, {}


def by_data_array(made, holes, tmp_path):
    xarray = pytest.importorskip("xarray")
    return xarray.DataArray(filled(made, holes, np.nan), dims=("y", "x", "wavelength")), {}


def by_data_array_with_bands_first(made, holes, tmp_path):
    xarray = pytest.importorskip("xarray")
    data = filled(made, holes, -9999).transpose(2, 0, 1)
    return xarray.DataArray(data, dims=("band", "y", "x"), attrs={"_FillValue": -9999.0}), {}


def by_file_of_xarray(made, holes, tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    given = xarray.DataArray(filled(made, holes, np.nan), dims=("y", "x", "band"), name="a")
    given.to_netcdf(tmp_path / "a.nc", encoding={"a": {"_FillValue": -9999.0}})
    return xarray.open_dataarray(tmp_path / "a.nc", mask_and_scale=False), {}


def by_geotiff(made, holes, tmp_path):
    rasterio = pytest.importorskip("rasterio")
    data = filled(made, holes, -9999).transpose(2, 0, 1)
    shape = {"count": BANDS, "height": ROWS, "width": COLUMNS}
    options = {"dtype": "float64", "nodata": -9999, "crs": "EPSG:32633", **shape}
    transform = rasterio.Affine(30, 0, 500_000, 0, -30, 5_000_000)
    with rasterio.open(
        tmp_path / "a.tif", "w", driver="GTiff", transform=transform, **options
    ) as file:
        file.write(data)
    return xa.from_geotiff(tmp_path / "a.tif"), {}


def envi(made, holes, tmp_path, value=-9999, **metadata):
    more = {"data ignore value": value, **metadata}
    spectral.envi.save_image(
        str(tmp_path / "a.hdr"), filled(made, holes, value), dtype="float64", metadata=more
    )
    return str(tmp_path / "a.hdr")


def by_envi(made, holes, tmp_path):
    return xa.from_envi(envi(made, holes, tmp_path)), {}


def by_image_of_spy(made, holes, tmp_path):
    return spectral.open_image(envi(made, holes, tmp_path)), {}


def by_zeros_of_spy(made, holes, tmp_path):
    return spectral.open_image(envi(made, holes, tmp_path, 0)), {}


def by_array_of_spy(made, holes, tmp_path):
    return spectral.open_image(envi(made, holes, tmp_path)).load(dtype="f8"), {}


def by_part_of_an_image_of_spy(made, holes, tmp_path):
    larger = hyperscenes.make(ROWS + 4, COLUMNS + 3, BANDS, 4)
    larger.data[2:-2, 3:] = made.data
    wide = np.pad(holes, ((2, 2), (3, 0)))
    image = spectral.open_image(envi(larger, wide, tmp_path))
    part = spectral.io.spyfile.SubImage(image, [2, 2 + ROWS], [3, 3 + COLUMNS])
    return part, {}


SAID = [
    by_nan,
    by_infinity,
    by_mask,
    by_mask_on_disk,
    by_mask_and_nan,
    by_masked_array,
    by_fill_value,
    by_what_was_never_written,
    by_attribute("nodata"),
    by_attribute("data ignore value", "0.0"),
    by_attribute("_FillValue", np.array([0.0])),
    by_attribute("missing_value", [-1, 0]),
    by_view_of_an_array_with_an_attribute,
    pytest.param(by_data_array, marks=pytest.mark.slow),
    by_data_array_with_bands_first,
    pytest.param(by_file_of_xarray, marks=pytest.mark.slow),
    pytest.param(by_geotiff, marks=pytest.mark.slow),
    by_envi,
    by_image_of_spy,
    by_zeros_of_spy,
    by_array_of_spy,
    by_part_of_an_image_of_spy,
]


@pytest.mark.parametrize("say", SAID, ids=lambda say: say.__name__)
def test_whoever_says_so(made, holes, rest, tmp_path, say):
    a, options = say(made, holes, tmp_path)
    tolerance = 1e-5 if np.dtype(a.dtype) == np.float32 else 1e-9
    found = hs.pct(a, max_memory=LITTLE, **options)
    np.testing.assert_allclose(found.mean, rest.mean(axis=0), rtol=tolerance)
    wanted = np.linalg.eigvalsh(np.cov(rest.T))[::-1]
    np.testing.assert_allclose(found.variances, wanted, rtol=1e3 * tolerance)
    scores = np.asarray(found.scores)
    np.testing.assert_array_equal(np.isnan(scores), np.repeat(holes[..., None], BANDS, axis=2))
    projected = (rest - rest.mean(axis=0)) @ found.components.T
    np.testing.assert_allclose(scores[~holes], projected, atol=100 * tolerance)
    for each in (a, getattr(a, "base", None), options.get("mask")):
        if hasattr(each, "close"):
            each.close()


@pytest.mark.parametrize("scale", [1, 100])
def test_whole_numbers_of_spy(made, holes, tmp_path, scale):
    data = numbers(made)
    data[holes, 3] = -9999
    metadata = {"data ignore value": -9999, "reflectance scale factor": scale}
    path = str(tmp_path / "a.hdr")
    spectral.envi.save_image(path, data, metadata=metadata)
    image = spectral.open_image(path)
    wanted = data[~holes].mean(axis=0)
    for a, divisor in (
        (image, scale),
        (image.load(), scale),
        (image.load(scale=False), 1),
        (xa.from_envi(path, mask_and_scale=True), scale),
        (xa.from_envi(path, mask_and_scale=False), 1),
    ):
        found = hs.pct(a, 2)
        np.testing.assert_allclose(found.mean, wanted / divisor, rtol=1e-6)
        np.testing.assert_array_equal(np.isnan(found.scores[..., 0]), holes)


def test_a_transformed_image_of_spy(made, holes, tmp_path):
    turned = spectral.principal_components(made.data).reduce(num=3)
    image = turned.transform(spectral.open_image(envi(made, holes, tmp_path)))
    wanted = np.cov(turned.transform(made.data)[~holes].T)
    found = hs.pct(image)
    np.testing.assert_allclose(found.variances, np.linalg.eigvalsh(wanted)[::-1])
    np.testing.assert_array_equal(np.isnan(found.scores[..., 0]), holes)


def test_a_value_for_none_can_be_trusted(made, holes):
    data = filled(made, holes, -9999)
    a = xa.create(None, data.shape, float, fill_value=-9999)
    a[...] = data
    for given in (data, a):
        options = {"mask": False} if given is a else {}
        found = hs.pct(given, 2, **options)
        np.testing.assert_allclose(found.mean, data.mean(axis=(0, 1)))
        assert not np.isnan(found.scores).any()
    # A number that the dtype cannot hold marks no pixel.
    a = xa.from_array(numbers(made))
    a.attrs.update({"nodata": 1e9, "missing_value": 0.5, "_FillValue": "none"})
    np.testing.assert_allclose(hs.pct(a).mean, numbers(made).mean(axis=(0, 1)))


def test_bands_are_where_names_say(made):
    xarray = pytest.importorskip("xarray")
    turned = np.ascontiguousarray(made.data.transpose(2, 0, 1))
    wanted = hs.pct(made.data, 3).scores
    a = xa.from_array(turned, chunks=(3, 5, 7))
    np.testing.assert_array_equal(hs.pct(a, 3, band_axis=0).scores, wanted)
    a.dims = ("Bands", "y", "x")
    np.testing.assert_array_equal(hs.pct(a, 3).scores, wanted)
    np.testing.assert_array_equal(hs.pct(a, 3, band_axis="Bands").scores, wanted)
    named = xarray.DataArray(turned, dims=("channel", "y", "x"))
    np.testing.assert_array_equal(hs.pct(named, 3, band_axis="channel").scores, wanted)
    assert hs.pct(named, 3).scores.shape == (BANDS, ROWS, 3)
    with pytest.raises(AxisError, match=r"no axis is named 'band'; the axes are \('channel'"):
        hs.pct(named, 3, band_axis="band")


def test_no_mask(made, holes):
    with pytest.raises(ShapeError, match=r"rows and columns of the scene, \(17, 19\)"):
        hs.pct(made.data, mask=holes.T)
    with pytest.raises(ShapeError):
        hs.pct(made.data, mask=True)
    with pytest.raises(ArgumentError, match="True leaves a pixel out"):
        hs.pct(made.data, mask=holes.astype(float))


@pytest.mark.parametrize(
    "call",
    [
        lambda a: hs.pct(a, 2),
        lambda a: hs.mnf(a, 2),
        lambda a: hs.hfc(a),
        lambda a: hs.hysime(a),
        lambda a: hs.atgp(a, 2),
        lambda a: hs.vca(a, 2),
        lambda a: hs.nfindr(a, 2),
        lambda a: hs.ppi(a, 5),
    ],
)
def test_no_pixel_is_left(made, call):
    data = made.data.copy()
    data[..., 5] = np.nan
    with pytest.raises(ArgumentError, match="no pixel of the scene has data in all bands"):
        call(data)


# -- every function, against other computations ---------------------------------------------------


def test_mnf_is_of_the_pairs_that_remain(made, holes, rest, scene):
    pairs = ~holes[:-1, :-1] & ~holes[1:, 1:]
    noise = np.cov((made.data[:-1, :-1] - made.data[1:, 1:])[pairs].T) / 2
    wanted = linalg.eigh(np.cov(rest.T), noise, eigvals_only=True)[::-1]
    found = hs.mnf(scene, max_memory=LITTLE)
    np.testing.assert_allclose(found.variances, wanted)
    np.testing.assert_array_equal(np.isnan(found.scores[..., 0]), holes)
    np.testing.assert_allclose(np.var(found.scores[~holes], axis=0, ddof=1), wanted)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e-30, 12345.678])
@pytest.mark.parametrize("n", [None, 1])
def test_mnf_of_a_constant_scene_is_refused(value, n):
    constant = np.full((9, 12, 5), value) * np.arange(1, 6)
    with pytest.raises(ArgumentError, match=r"no noise: none of 88 pairs .* a constant scene"):
        hs.mnf(constant, n)
    constant[4, 4] = np.nan
    with pytest.raises(ArgumentError, match=r"no noise: none of 86 pairs"):
        hs.mnf(constant, n)


@pytest.mark.parametrize("number", [hs.hfc, hs.hysime])
def test_numbers_of_endmembers_are_those_of_the_rest(rest, scene, number):
    assert number(scene, max_memory=LITTLE) == number(rest[:, None])


def places(holes, pixels):
    """Return the positions of remaining pixels, numbered among these."""
    return np.argwhere(~holes)[pixels]


def test_atgp_is_that_of_the_rest(holes, rest, scene):
    chosen = [int((rest**2).sum(axis=1).argmax())]
    for _ in range(4):
        u = rest[chosen].T
        left = rest.T - u @ np.linalg.pinv(u) @ rest.T
        chosen.append(int((left**2).sum(axis=0).argmax()))
    found = hs.atgp(scene, 5, max_memory=LITTLE)
    np.testing.assert_array_equal(found.positions, places(holes, chosen))
    np.testing.assert_array_equal(found.endmembers, rest[chosen])


def test_ppi_counts_are_those_of_the_rest(holes, rest, scene):
    skewers = np.random.default_rng(3).normal(size=(150, BANDS))
    along = rest @ skewers.T
    wanted = np.zeros((ROWS, COLUMNS), int)
    np.add.at(wanted, tuple(places(holes, along.argmax(axis=0)).T), 1)
    np.add.at(wanted, tuple(places(holes, along.argmin(axis=0)).T), 1)
    found = hs.ppi(scene, skewers, max_memory=LITTLE)
    np.testing.assert_array_equal(found.counts, wanted)


@pytest.mark.parametrize("init", ["atgp", "vca", "random"])
def test_no_pixel_of_the_rest_enlarges_the_simplex(holes, rest, scene, init):
    found = hs.nfindr(scene, 4, 1, init=init, max_memory=LITTLE)
    axes = np.linalg.eigh(np.cov(rest.T))[1][:, -3:]
    scores = np.hstack([np.ones((len(rest), 1)), (rest - rest.mean(axis=0)) @ axes])
    at = {tuple(place): k for k, place in enumerate(places(holes, slice(None)).tolist())}
    chosen = [at[tuple(place)] for place in found.positions.tolist()]
    assert abs(np.linalg.det(scores[chosen])) / 6 == pytest.approx(found.volume)
    larger = np.abs(scores @ np.linalg.inv(scores[chosen]))
    assert larger.max() <= 1 + 1e-6


def test_vca_finds_what_is_pure(made, scene):
    found = hs.vca(scene, 4, max_memory=LITTLE)
    assert sorted(found.positions.tolist()) == sorted(made.positions.tolist())


def test_as_many_endmembers_as_pixels_at_most(made):
    only = np.ones((ROWS, COLUMNS), bool)
    only[3, 4] = only[7, 8] = only[11, 12] = False
    assert hs.nfindr(made.data, 3, init="random", mask=only).volume > 0
    with pytest.raises(ArgumentError, match="from 2 to 3, not 4"):
        hs.nfindr(made.data, 4, mask=only)


@pytest.mark.slow
@pytest.mark.parametrize("memory", [LITTLE, 10_000])
def test_amee_looks_at_neighbours_that_have_data(holes, scene, memory):
    black = (6, 6)
    data = scene.copy()
    data[black] = 0  # black has no angle to other spectra
    there = ~holes
    there[black] = False
    unit = data / np.linalg.norm(data, axis=2, keepdims=True).clip(1e-300)

    def window(i, j, r):
        rows = range(max(0, i - r), min(ROWS, i + r + 1))
        box = itertools.product(rows, range(max(0, j - r), min(COLUMNS, j + r + 1)))
        return [place for place in box if there[place]]

    def angle(one, other):
        return 0.0 if one == other else float(np.arccos(np.clip(unit[one] @ unit[other], -1, 1)))

    wanted = np.where(holes, np.nan, 0.0)
    for r in (1, 2):
        pixels = [place for place in np.ndindex(ROWS, COLUMNS) if there[place]]
        mean = {
            here: np.mean([angle(here, q) for q in window(*here, r) if q != here] or [0.0])
            for here in pixels
        }
        for centre in pixels:
            near = window(*centre, r)
            purest, mixed = max(near, key=mean.get), min(near, key=mean.get)
            wanted[purest] = max(wanted[purest], angle(purest, mixed))
    found = hs.amee(data, 5, (3, 5), max_memory=memory)
    np.testing.assert_allclose(found.scores, wanted, atol=1e-9)
    best = np.argsort(-np.nan_to_num(wanted), axis=None, kind="stable")[:5]
    assert (found.positions @ [COLUMNS, 1]).tolist() == best.tolist()


def test_pixels_without_data_are_no_endmembers_of_amee(made):
    data = made.data.copy()
    lost = [(3, 3), (8, 14), (12, 5)]
    for place in lost:
        data[place] = 0
    a = xa.from_array(data, chunks=(5, 7, 3))
    assert not {*map(tuple, hs.amee(a, 5).positions.tolist())} & {*lost}
    a.attrs["data ignore value"] = 0
    assert np.argwhere(np.isnan(hs.amee(a, 5).scores)).tolist() == sorted(map(list, lost))


@pytest.mark.parametrize("method", ["nnls", "ucls", "scls", "fcls"])
def test_abundances_of_the_rest(made, holes, rest, scene, method):
    found = hs.abundances(scene, made.endmembers, method, max_memory=LITTLE)
    assert np.isnan(found[holes]).all()
    if method == "nnls":
        wanted = np.array([optimize.nnls(made.endmembers.T, pixel)[0] for pixel in rest])
    elif method == "ucls":
        wanted = spectral.unmix(rest[:, None], made.endmembers)[:, 0]
    else:  # least squares with a great weight on the sum
        rows = np.vstack([made.endmembers.T, np.full((1, 4), 1e6)])
        solve = optimize.nnls if method == "fcls" else np.linalg.lstsq
        wanted = np.array([solve(rows, np.append(pixel, 1e6))[0] for pixel in rest])
    np.testing.assert_allclose(found[~holes], wanted, atol=1e-6)


def test_angles_and_labels_of_the_rest(made, holes, rest, scene):
    wanted = spectral.spectral_angles(rest[:, None], made.endmembers)[:, 0]
    found = hs.sam(scene, made.endmembers, max_memory=LITTLE)
    assert np.isnan(found[holes]).all()
    np.testing.assert_allclose(found[~holes], wanted, atol=1e-7)
    for method in ("sam", "fcls"):
        labels = hs.classify(scene, made.endmembers, method, max_memory=LITTLE)
        assert (labels[holes] == 0).all() and labels[~holes].all()
    np.testing.assert_array_equal(
        hs.classify(scene, made.endmembers)[~holes], wanted.argmin(axis=1) + 1
    )


def test_results_without_data_at_a_path(made, holes, scene, tmp_path):
    with hs.abundances(scene, made.endmembers, path=tmp_path / "a", max_memory=LITTLE) as found:
        np.testing.assert_array_equal(np.isnan(found[..., 0]), holes)
        # The result is a scene again, with the same pixels left out.
        assert hs.pct(found, 2).mean == pytest.approx(found[...][~holes].mean(axis=0))


class TestAccuracy:
    @pytest.fixture
    def maps(self):
        rng = np.random.default_rng(0)
        truth = rng.choice([0, 2, 3, 7], (30, 20))
        labels = np.where(rng.random((30, 20)) < 0.6, truth, rng.integers(0, 9, (30, 20)))
        return labels, truth, rng.random((30, 20)) < 0.3

    def same(self, found, labels, truth):
        metrics = pytest.importorskip("sklearn.metrics")
        known = truth > 0
        assert found.overall == pytest.approx(metrics.accuracy_score(truth[known], labels[known]))
        assert found.kappa == pytest.approx(metrics.cohen_kappa_score(truth[known], labels[known]))
        assert found.confusion.sum() == known.sum()

    def test_a_split(self, maps):
        labels, truth, test = maps
        for make in (np.asarray, np.ndarray.tolist, lambda x: xa.from_array(x, chunks=(50,))):
            found = hs.accuracy(make(labels[test]), make(truth[test]))
            self.same(found, labels[test], truth[test])
        out = np.arange(test.sum()) % 3 == 0
        found = hs.accuracy(labels[test], truth[test], mask=out)
        self.same(found, labels[test][~out], truth[test][~out])
        with pytest.raises(ShapeError, match=r"\(600,\), but the truth has \(30, 20\)"):
            hs.accuracy(labels.reshape(-1), truth)
        with pytest.raises(ShapeError):
            hs.accuracy(labels[None], truth[None])

    def test_what_is_left_out(self, maps):
        xarray = pytest.importorskip("xarray")
        labels, truth, out = maps
        nodata = xa.from_array(np.where(out, 255, truth), chunks=(7, 7))
        nodata.attrs["nodata"] = 255
        for options in (
            {"labels": labels, "truth": truth, "mask": out},
            {"labels": np.ma.array(labels, mask=out), "truth": truth},
            {"labels": labels, "truth": np.ma.array(truth, mask=out)},
            {"labels": xarray.DataArray(labels), "truth": nodata},
        ):
            self.same(hs.accuracy(**options), labels[~out], truth[~out])
        with pytest.raises(ArgumentError, match="0 or masked everywhere"):
            hs.accuracy(labels, truth, mask=np.ones_like(out))
