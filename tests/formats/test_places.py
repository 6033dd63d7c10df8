"""Places on the earth and in the sky: other libraries locate each element correctly.

An array read from a file grows at its starts and ends, and a view of it is written to another
file.  The other library must locate each value at its place in the first file.
"""

from __future__ import annotations

import itertools
import re
import warnings
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peers import quiet_georeference

import extarray as xa

#: The formats warn that they lose the names of axes, which does not matter here.
NAMES = r"ignore:[^;]* does not have the names of the axes [^;]*$:extarray.LossyWarning"
FILES = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Plan(NamedTuple):
    """Growths of an array, and a view of the result."""

    growths: list[tuple[int, int, str]]
    key: tuple[slice, ...]
    axes: tuple[int, ...]

    def view(self, a):
        for axis, by, side in self.growths:
            a.extend(axis, by, side=side)
        return a.lazy[self.key].transpose(self.axes)


@st.composite
def plans(draw, ndim, orders=None):
    """Draw plans for arrays of `ndim` axes; `orders` lists possible orders of the view's axes."""
    sides = st.sampled_from(["start", "end"])
    growths = st.tuples(st.integers(0, ndim - 1), st.integers(1, 4), sides)
    steps = st.sampled_from([None, 1, 2, 3, -1, -2])
    ends = st.none() | st.integers(-3, 4)
    key = tuple(slice(draw(ends), None, draw(steps)) for _ in range(ndim))
    axes = draw(st.sampled_from(orders or [tuple(range(ndim))]))
    return Plan(draw(st.lists(growths, max_size=4)), key, axes)


def numbered(shape, dtype="i4"):
    """Return distinct elements other than 0, the value of those that growth adds."""
    return np.arange(1, np.prod(shape) + 1, dtype=dtype).reshape(shape)


def check_places(x, y, old, new, atol=1e-6):
    """Require that `new` locates the values of `y`, part of `x`, where `old` does those of `x`."""
    first = {int(v): index for index, v in np.ndenumerate(x)}
    for index, v in np.ndenumerate(y):
        if v:
            np.testing.assert_allclose(new(index), old(first[int(v)]), rtol=0, atol=atol)


# -- GeoTIFF ---------------------------------------------------------------------------------------

AFFINES = ([10.0, 0.0, 500.0, 0.0, -10.0, 900.0], [8.0, 3.0, 500.0, -2.0, -9.0, 900.0])


@pytest.fixture
def rasterio():
    return pytest.importorskip("rasterio")


def test_a_tile_that_grows_to_the_west(tmp_path, rasterio):
    x = numbered((20, 20), "i2") + 1000
    attrs = {"crs": "EPSG:32618", "transform": AFFINES[0]}
    a = xa.from_array(x, chunks=(20, 20), dims=("y", "x"), attrs=attrs)
    xa.to_geotiff(a, tmp_path / "tile.tif")
    a = xa.from_geotiff(tmp_path / "tile.tif")
    a.append(numbered((1, 20, 20), "i2"), axis="x", side="start")
    xa.to_geotiff(a, tmp_path / "both.tif")
    with rasterio.open(tmp_path / "tile.tif") as f, rasterio.open(tmp_path / "both.tif") as g:
        places = [f.xy(i, j) for i in range(20) for j in range(20)]
        assert np.array_equal([*g.sample(places)], x.reshape(-1, 1))
        assert (g.bounds.left, g.bounds.top, g.width) == (300, 900, 40)
    assert a.attrs["transform"] == [10.0, 0.0, 300.0, 0.0, -10.0, 900.0]


@pytest.mark.slow
@FILES
@given(
    plan=plans(2, [(0, 1), (1, 0)]),
    affine=st.sampled_from(AFFINES),
    dims=st.sampled_from([None, "yx", "qp"]),
)
@pytest.mark.filterwarnings(NAMES)
def test_geotiff(tmp_path, rasterio, plan, affine, dims):
    x = numbered((5, 6))
    dims = None if dims is None else tuple(dims)
    a = xa.from_array(x, dims=dims, attrs={"transform": affine})
    with quiet_georeference():
        xa.to_geotiff(a, tmp_path / "a.tif", overwrite=True)
        view = plan.view(a)
        if 0 in view.shape:
            return
        xa.to_geotiff(view, tmp_path / "b.tif", overwrite=True)
        with rasterio.open(tmp_path / "a.tif") as f, rasterio.open(tmp_path / "b.tif") as g:
            check_places(x, g.read(1), lambda i: f.xy(*i), lambda i: g.xy(*i))


def test_what_no_transform_says(tmp_path, rasterio):
    a = xa.from_array(numbered((3, 5, 6)), dims=("band", "y", "x"), attrs={"transform": AFFINES[0]})
    with quiet_georeference():
        for view in (a.lazy[:, [0, 1, 4]], a.lazy[:, 2], np.transpose(a, (1, 2, 0))):
            with pytest.warns(xa.LossyWarning, match="attribute 'transform'"):
                xa.to_geotiff(view, tmp_path / "b.tif", overwrite=True)
            with rasterio.open(tmp_path / "b.tif") as g:
                assert g.transform.is_identity
        view = a.lazy[:, [0, 2, 4]].lazy[..., 5:6]
        xa.to_geotiff(view, tmp_path / "b.tif", overwrite=True)
        with rasterio.open(tmp_path / "b.tif") as g:
            assert g.xy(1, 0) == (555, 875)
    with pytest.warns(xa.LossyWarning, match="rechunk: .* attribute 'transform'"):
        b = xa.rechunk(a.lazy[:, [0, 1, 4]], None)
    assert "transform" not in b.attrs


def test_what_bands_have(tmp_path, rasterio):
    """Entries stay with their bands; an added band has none."""
    x = numbered((3, 4, 5))
    attrs = {
        "transform": AFFINES[0],
        "scales": [0.5, 0.25, 0.125],
        "offsets": [1.0, 2.0, 3.0],
        "units": ["K", "m", "s"],
        "colors": ["red", "green", "blue"],
        "coords": {"band": ["r", "g", "b"]},
    }
    a = xa.from_array(x, dims=("band", "y", "x"), attrs=attrs)
    a.extend("band", 1, side="start")
    file = tmp_path / "b.tif"
    with quiet_georeference():
        for key, want in ((np.s_[1:], [0, 1, 2]), (np.s_[:0:-1], [2, 1, 0]), ([3, 1], [2, 0])):
            xa.to_geotiff(a, file, selection=key, overwrite=True)
            with rasterio.open(file) as g:
                assert np.array_equal(g.read(), x[want])
                assert list(g.scales) == [attrs["scales"][j] for j in want]
                assert list(g.units) == [attrs["units"][j] for j in want]
                assert [c.name for c in g.colorinterp] == [attrs["colors"][j] for j in want]
                assert g.descriptions == tuple("rgb"[j] for j in want)
        with pytest.warns(xa.LossyWarning, match="does not have coordinate 'band'$"):
            xa.to_geotiff(a, file, selection=3, overwrite=True)
        with rasterio.open(file) as g:
            assert (g.scales, g.offsets, g.units) == ((0.125,), (3.0,), ("s",))
        a.extend("band", 1)
        with pytest.warns(xa.LossyWarning, match="'scales' of the bands 1, 5, which get 1.0"):
            xa.to_geotiff(a, file, overwrite=True)
        with rasterio.open(file) as g:
            assert list(g.scales) == [1.0, 0.5, 0.25, 0.125, 1.0]
            assert g.descriptions == (None, "r", "g", "b", None)
        b = xa.from_array(x[:2], attrs={"scales": [1.0, 2.0, 3.0]})
        with pytest.warns(
            xa.LossyWarning, match="'scales' .it does not have one entry for each of 2 bands"
        ):
            xa.to_geotiff(b, file, overwrite=True)


# -- FITS ------------------------------------------------------------------------------------------

SKY = {"CTYPE1": "RA---TAN", "CTYPE2": "DEC--TAN", "CRVAL1": 150.0, "CRVAL2": 2.0}
SKY |= {"CRPIX1": 4.0, "CRPIX2": 3.5}
DELTAS = {"CDELT1": -0.01, "CDELT2": 0.02}
MATRIX = {"CD1_1": -0.01, "CD1_2": 0.001, "CD2_1": 0.002, "CD2_2": 0.012}
ALTERNATE = {"CTYPE1B": "xxx", "CRVAL1B": 7.0, "CRPIX1B": 2.0, "CDELT1B": 0.5, "CRVAL2B": 1.0}
SPECTRAL = {"CTYPE3": "FREQ", "CRVAL3": 1e9, "CRPIX3": 2.0}
POLYNOMIALS = {"A_ORDER": 2, "B_ORDER": 2, "A_2_0": 1e-3, "A_1_1": 2e-3, "B_0_2": 3e-3}
POLYNOMIALS |= {"B_2_0": -1e-3, "CTYPE1": "RA---TAN-SIP", "CTYPE2": "DEC--TAN-SIP"}

SYSTEMS = {
    "cdelt": SKY | DELTAS | ALTERNATE,
    "pc": SKY | DELTAS | {"PC1_1": 0.9, "PC1_2": 0.1, "PC2_1": -0.2, "PC2_2": 1.1} | ALTERNATE,
    "cd": SKY | MATRIX | ALTERNATE,
    "rotated": SKY | DELTAS | {"CROTA2": 30.0},
    "distorted": SKY | MATRIX | POLYNOMIALS,
    "cube": SKY | DELTAS | SPECTRAL | {"CDELT3": 1e6, "PC1_3": 0.25},
    "cube of a matrix": SKY | MATRIX | SPECTRAL | {"CD3_3": 1e6},
    "few": {"WCSAXES": 3, "CTYPE3": "FREQ", "CRVAL3": 1e9, "CRPIX1": 1.0},
}


def worlds(header, letter=" "):
    """Return a function from elements to world coordinates; dropped axes have one pixel."""
    from astropy.wcs import WCS, FITSFixedWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FITSFixedWarning)
        system = WCS(header, key=letter, naxis=2 if "A_ORDER" in header else None)
    n = system.naxis
    return lambda index: system.all_pix2world([[*reversed(index), *[0] * n][:n]], 0)[0]


@pytest.mark.slow
@FILES
@given(data=st.data(), kind=st.sampled_from(sorted(SYSTEMS)))
def test_fits(tmp_path, data, kind):
    fits = pytest.importorskip("astropy.io.fits")
    cards = SYSTEMS[kind]
    shape = (2, 3, 4) if "CTYPE3" in cards else (3, 4)
    plan = data.draw(plans(len(shape), list(itertools.permutations(range(len(shape))))))
    x = numbered(shape)
    image = fits.PrimaryHDU(x)
    image.header.update(cards)
    image.writeto(tmp_path / "a.fits", overwrite=True)
    view = plan.view(xa.from_fits(tmp_path / "a.fits"))
    if 0 in view.shape:
        return
    gone = data.draw(st.integers(0, view.ndim - 1) | st.none())
    if gone is not None:
        place = data.draw(st.integers(0, view.shape[gone] - 1))
        view = view.lazy[(slice(None),) * gone + (place,)]
    xa.to_fits(view, tmp_path / "b.fits", overwrite=True)
    headers = [fits.getheader(tmp_path / name) for name in ("a.fits", "b.fits")]
    for letter in " B" if "CRVAL1B" in cards else " ":
        old, new = (worlds(header, letter) for header in headers)
        n = len(old((0,) * len(shape)))
        check_places(x, fits.getdata(tmp_path / "b.fits"), old, lambda i, new=new, n=n: new(i)[:n])


def test_systems_of_the_sky_get_axes(tmp_path):
    fits = pytest.importorskip("astropy.io.fits")
    a = xa.from_array(numbered((3, 4)), attrs=SYSTEMS["cd"])
    old = worlds(fits.Header(a.attrs.asdict() | {"NAXIS": 2, "NAXIS1": 4, "NAXIS2": 3}))
    for position in (0, 1, 2):
        b = a.copy()
        b.add_axis(position)
        b.extend(position, 2, side="start")
        xa.to_fits(b, tmp_path / "b.fits", overwrite=True)
        new = worlds(fits.getheader(tmp_path / "b.fits"))
        y = fits.getdata(tmp_path / "b.fits")
        check_places(a[...], y, old, lambda i, new=new: new(i)[:2])


def test_what_no_system_of_the_sky_says(tmp_path):
    fits = pytest.importorskip("astropy.io.fits")
    a = xa.from_array(numbered((3, 4)), attrs=SYSTEMS["distorted"] | ALTERNATE)
    with pytest.warns(xa.LossyWarning, match=r"world coordinate system \(pixels are not evenly"):
        xa.to_fits(a, tmp_path / "b.fits", selection=np.s_[[0, 2, 1]])
    header = fits.getheader(tmp_path / "b.fits")
    assert not {"CTYPE1", "CD1_1", "CRPIX1B", "A_ORDER"} & set(header)
    with pytest.warns(xa.LossyWarning, match=r"the distortion \(SIP\)"):
        xa.to_fits(a, tmp_path / "c.fits", selection=np.s_[1:, :, None])
    header = fits.getheader(tmp_path / "c.fits")
    assert header["CTYPE1"] == "RA---TAN" and header["CRPIX3"] == 2.5 and "A_ORDER" not in header


def test_pixels_of_sections():
    """`LTV` and `LTM` lead to the pixels of the whole image; sections count those of the file."""
    cards = {"LTV1": -10.0, "LTV2": 0.0, "LTM1_1": 0.5, "LTM2_2": 1.0, "DATASEC": "[2:4,1:3]"}
    a = xa.from_array(numbered((3, 4)), attrs=cards | {"TRIMSEC": "none"})

    def whole(attrs, *pixel):
        ltv = np.array([attrs["LTV1"], attrs["LTV2"]])
        ltm = np.array([[attrs.get(f"LTM{i}_{j}", 0.0) for j in (1, 2)] for i in (1, 2)])
        return pytest.approx(np.linalg.solve(ltm, np.array(pixel) - ltv))

    want = [26, 2]  # place of element [1, 2]
    assert whole(cards, 3, 2) == want
    a.extend(1, 5, side="start")
    assert a.attrs["DATASEC"] == "[7:9,1:3]" and a.attrs["TRIMSEC"] == "none"
    assert whole(a.attrs, 8, 2) == want
    b = xa.rechunk(a.lazy[::-1, 1:], None)
    assert b.attrs["DATASEC"] == "[6:8,3:1]" and whole(b.attrs, 7, 2) == want
    with pytest.warns(xa.LossyWarning, match="'DATASEC'"):
        b = xa.rechunk(a.lazy[:, 1::3].T, None)
    assert "DATASEC" not in b.attrs and whole(b.attrs, 2, 3) == want


# -- ENVI ------------------------------------------------------------------------------------------

PLANE = "UTM, {}, {}, 500000.0, 4000000.0, {}, 13, North, WGS-84, units=Meters"
IMAGES = {
    "plain": PLANE.format(2.5, 3, "30.0, 20.0"),
    "rotated": PLANE.format(1, 2.5, "30.0, 30.0") + ", rotation=-13.5",
}


@pytest.mark.slow
@FILES
@given(plan=plans(2), kind=st.sampled_from(sorted(IMAGES)))
def test_envi(tmp_path, rasterio, plan, kind):
    x = numbered((5, 6))
    attrs = {"map info": IMAGES[kind].split(", "), "x start": "11", "y start": "21"}
    attrs["geo points"] = ["1.5", "2.5", "45.0", "7.0"]
    a = xa.from_array(x, dims=("y", "x"), attrs=attrs)
    with quiet_georeference():
        xa.to_envi(a, tmp_path / "a.hdr", overwrite=True)
        view = plan.view(xa.rechunk(xa.from_envi(tmp_path / "a.hdr").lazy[:, :, 0], None))
        if 0 in view.shape:
            return
        steps = [p.step or 1 if n > 1 else 1 for p, n in zip(plan.key, view.shape, strict=True)]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", xa.LossyWarning)
            xa.to_envi(view, tmp_path / "b.hdr", overwrite=True)
        lost = {key for each in told for key in re.findall("attribute '(.*?)'", str(each.message))}
        starts = dict(zip(("y start", "x start"), steps, strict=True))
        expected = {key for key, step in starts.items() if step != 1}
        if kind == "rotated" and steps != [1, 1]:  # tie point not at the first pixel
            expected.add("map info")
        assert lost == expected
        b = xa.from_envi(tmp_path / "b.hdr")
        assert not lost & set(b.attrs)
        with rasterio.open(tmp_path / "a.img") as f, rasterio.open(tmp_path / "b.img") as g:
            y = g.read(1)
            if "map info" not in lost:
                check_places(x, y, lambda i: f.xy(*i), lambda i: g.xy(*i))
    for place in np.argwhere(y)[:1]:
        index = np.array(divmod(int(y[tuple(place)]) - 1, 6))
        # Starts count pixels of the whole image, of which the file has a part.
        for name, first, i, j in zip(starts, (21, 11), index, place, strict=True):
            assert name in lost or int(b.attrs[name]) + j == first + i
        # The outer edge of the first pixel is 1, its centre is 1.5.
        points = np.array(b.attrs["geo points"][1::-1], float) - 1.5
        assert (points - place) * steps == pytest.approx([1.0, 0.0] - index)


@pytest.mark.parametrize("interleave", ["bsq", "bip"])
def test_bands_of_an_image(tmp_path, rasterio, interleave):
    envi = pytest.importorskip("spectral.io.envi")
    labels = {"wavelength": [450.0, 550.0, 650.0], "fwhm": [1.0, 2.0, 3.0], "bbl": [1.0, 1.0, 0.0]}
    labels["band_name"] = ["b", "g", "r"]
    attrs = {"default bands": ["3", "2", "1"], "data gain values": ["0.5", "0.25", "0.125"]}
    attrs["coords"] = {name: {"dims": ["band"], "data": data} for name, data in labels.items()}
    a = xa.from_array(numbered((2, 2, 3)), dims=("y", "x", "band"), attrs=attrs)
    a.extend("band", 1, side="start")
    xa.to_envi(a, tmp_path / "b.hdr", selection=np.s_[..., 3:0:-1], interleave=interleave)
    image = envi.open(str(tmp_path / "b.hdr"))
    assert image.bands.centers == [650, 550, 450] and image.bands.bandwidths == [3, 2, 1]
    assert image.metadata["band names"] == ["r", "g", "b"] and image.metadata["bbl"] == [0, 1, 1]
    assert image.metadata["default bands"] == ["1", "2", "3"]
    assert image.metadata["data gain values"] == ["0.125", "0.25", "0.5"]
    a.extend("band", 1)
    with pytest.warns(xa.LossyWarning, match="'bbl', since .* 'data gain values', since"):
        xa.to_envi(a, tmp_path / "c.hdr", interleave=interleave)
    image = envi.open(str(tmp_path / "c.hdr"))
    np.testing.assert_array_equal(image.bands.centers, [np.nan, 450, 550, 650, np.nan])
    assert image.metadata["band names"] == ["", "b", "g", "r", ""]
    assert image.metadata["default bands"] == ["4", "3", "2"]
    assert not {"bbl", "data gain values"} & set(image.metadata)
    with quiet_georeference(), rasterio.open(tmp_path / "c.img") as f:
        assert f.tags(3)["wavelength"] == "550.0"
    with pytest.warns(
        xa.LossyWarning, match=r"'default bands' \(some of these bands are left out\)"
    ):
        xa.to_envi(a, tmp_path / "d.hdr", selection=np.s_[..., :3])


def test_images_with_other_axes(tmp_path):
    attrs = {"map info": IMAGES["plain"].split(", ")}
    a = xa.from_array(numbered((5, 6)), dims=("y", "x"), attrs=attrs)
    b = xa.from_array(a[...], attrs=attrs)
    for view, what in ((a.T, "the axes are"), (b.T, "are swapped")):
        with pytest.warns(xa.LossyWarning, match=f"attribute 'map info'.*{what}"):
            xa.to_envi(view, tmp_path / "b.hdr", overwrite=True)
        assert "map info" not in (tmp_path / "b.hdr").read_text()


# -- netCDF ----------------------------------------------------------------------------------------


@pytest.mark.slow
@FILES
@given(plan=plans(2, [(0, 1), (1, 0)]))
def test_netcdf(tmp_path, plan):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    x = numbered((3, 4))
    days = np.array(["2024-05-01", "2024-05-02", "2024-05-03"], "M8[D]")
    coords = {
        "day": days,
        "lon": np.arange(4) * 10.0,
        "letter": {"dims": ["lon"], "data": list("abcd")},
        "lat": {"dims": ["day", "lon"], "data": x / 2},
        "crs": {"data": 0, "attrs": {"GeoTransform": "-5 10 0 1 0 -1"}},
    }
    a = xa.from_array(x, dims=("day", "lon"), attrs={"coords": coords, "grid_mapping": "crs"})
    view = plan.view(a)
    if 0 in view.shape:
        return
    (tmp_path / "b.nc").unlink(missing_ok=True)
    xa.to_netcdf(view, tmp_path / "b.nc", "v")
    with xr.open_dataset(tmp_path / "b.nc", decode_coords="all") as b:
        v = b.v.load().transpose("day", "lon")
        for i, j in np.argwhere(v.values > 0):
            row, column = divmod(int(v[i, j]) - 1, 4)
            assert v.sel(day=days[row], lon=column * 10.0) == x[row, column]
            assert v.letter[j] == "abcd"[column] and v.lat[i, j] == x[row, column] / 2
            place = np.array([i, j] if b.v.dims == v.dims else [j, i]) + 0.5  # in the file's order
            x0, width, across, y0, down, height = map(float, b.crs.GeoTransform.split())
            assert x0 + width * place[1] + across * place[0] == pytest.approx(column * 10)
            assert y0 + down * place[1] + height * place[0] == pytest.approx(0.5 - row)
        if (v.values > 0).any():
            assert np.isnan(v.lat.values[v.values == 0]).all()


def test_grid_mappings_of_a_group(tmp_path):
    nc = pytest.importorskip("netCDF4")
    with xa.open_group(tmp_path / "g", "w") as g:
        g.create("crs", (), "i4", attrs={"GeoTransform": "500 10 0 900 0 -10", "name": "utm"})
        for name in ("a", "in/b"):
            g.create(name, (3, 4), dims=("y", "x"), attrs={"grid_mapping": "crs"})
        g["a"].extend("x", 20, side="start")
        g["in/b"].extend("x", 20)
        with pytest.warns(xa.LossyWarning, match="'GeoTransform' of 'crs', as the arrays begin"):
            xa.to_netcdf(g, tmp_path / "two.nc")
        g["in/b"].shrink("x", 20)
        g["in/b"].extend("x", 20, side="start")
        xa.to_netcdf(g, tmp_path / "one.nc")
    with nc.Dataset(tmp_path / "one.nc") as one, nc.Dataset(tmp_path / "two.nc") as two:
        assert one["crs"].GeoTransform == "300.0 10.0 0.0 900.0 0.0 -10.0"
        assert two["crs"].ncattrs() == ["name"]


def test_units_of_all_bands(tmp_path, rasterio):
    a = xa.from_array(numbered((2, 3, 4)), dims=("band", "y", "x"), attrs={"units": "mm"})
    with quiet_georeference():
        xa.to_geotiff(a, tmp_path / "b.tif")
        with rasterio.open(tmp_path / "b.tif") as g:
            assert g.units == ("mm", "mm")


@pytest.mark.parametrize("attrs", [{}, {"_FillValue": np.int32(-1)}], ids=["plain", "filled"])
def test_labels_that_are_integers(tmp_path, attrs):
    nc = pytest.importorskip("netCDF4")
    labels = {"dims": ["x"], "data": np.array([5, 6], "i4"), "attrs": attrs}
    a = xa.from_array([1.0, 2.0], dims=("x",), attrs={"coords": {"x": labels}})
    a.extend(0, 1, side="start")
    if attrs:
        xa.to_netcdf(a, tmp_path / "b.nc", "v")
    else:
        with pytest.warns(xa.LossyWarning, match="integers of coordinate 'x', but as floats"):
            xa.to_netcdf(a, tmp_path / "b.nc", "v")
    with nc.Dataset(tmp_path / "b.nc") as f:
        assert np.ma.masked_invalid(f["x"][:]).tolist() == [None, 5, 6]
        assert f["x"].dtype == ("i4" if attrs else "f8")


def test_labels_that_nothing_can_stand_for(tmp_path):
    nc = pytest.importorskip("netCDF4")
    coords = {
        "big": {"dims": ["x"], "data": np.array([2**60, 1])},
        "true": {"dims": ["x"], "data": [True, False]},
        "none": {"dims": ["x"], "data": [7.0], "origin": [5]},
        "lost": {"dims": ["x"], "data": [7.0], "origin": [None]},
    }
    a = xa.from_array([1.0, 2.0], dims=("x",), attrs={"coords": coords})
    a.extend(0, 1)
    with pytest.warns(xa.LossyWarning) as told:
        xa.to_netcdf(a, tmp_path / "b.nc", "v")
    said = str(told[0].message)
    assert re.findall(r"coordinate '(\w+)'", said) == ["big", "true", "lost"]
    with nc.Dataset(tmp_path / "b.nc") as f:
        assert set(f.variables) == {"v"}
