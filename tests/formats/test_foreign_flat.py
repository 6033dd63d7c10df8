"""Files of NumPy, SciPy and Spectral Python: .npy, .npz, .mat and ENVI, with all types."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from compare import same_values
from numpy.lib import format as npy

import extarray as xa

X = np.random.default_rng(0).integers(0, 100, (7, 5))
CUBE = np.random.default_rng(0).integers(0, 1000, (7, 5, 4))


# -- NumPy ---------------------------------------------------------------------------------------

DTYPES = ["f8", ">i2", "f2", "?", "S3", "U2", ">U2", "M8[ns]", "M8[D]", "m8[s]", ">M8[s]", "c16"]
DTYPES += ["g", "G", "V3", "i1", "u8"]
RECORDS = [
    np.dtype([("ä", "i4"), ("b", "f8", (2,))]),
    np.dtype([("a", "i1"), ("b", "f8")], align=True),
    np.dtype([("a", [("b", ">i2"), ("c", "S2")])]),
    np.dtype({"names": ["a", "b"], "formats": ["i2", "i4"], "offsets": [0, 8], "itemsize": 16}),
]


def sample(dtype):
    dtype = np.dtype(dtype)
    if dtype.kind in "Mm":
        return X.astype("i8").astype(dtype)
    if dtype.kind == "V":
        return np.frombuffer(np.random.default_rng(0).bytes(6 * dtype.itemsize), dtype, 6)
    return X.astype(dtype)


@pytest.mark.parametrize("dtype", [*DTYPES, *RECORDS], ids=str)
@pytest.mark.parametrize("order", "CF")
def test_npy(tmp_path, dtype, order):
    x = np.asarray(sample(dtype), order=order)
    np.save(tmp_path / "a.npy", x)
    a = xa.from_npy(tmp_path / "a.npy")
    assert a.dtype == x.dtype
    assert a[...].tobytes() == np.ascontiguousarray(x).tobytes()
    xa.to_npy(a, tmp_path / "b.npy")
    again = np.load(tmp_path / "b.npy")
    assert again.dtype == x.dtype and again.tobytes() == np.ascontiguousarray(x).tobytes()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions_of_npy(tmp_path, version):
    with open(tmp_path / "a.npy", "wb") as stream:
        npy.write_array(stream, X, version=version)
    assert same_values(xa.from_npy(tmp_path / "a.npy")[...], X)


@pytest.mark.parametrize("x", [np.array(3), np.zeros((0, 3)), np.zeros((2, 0, 4), "u1")], ids=str)
def test_npy_without_axes_and_without_elements(tmp_path, x):
    np.save(tmp_path / "a.npy", x)
    a = xa.from_npy(tmp_path / "a.npy")
    assert a.shape == x.shape and same_values(a[...], x)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    save(tmp_path / "a.npz", p=X, q=X / 7, **{"name with/slash": X + 1})
    with np.load(tmp_path / "a.npz") as f:
        for name in f:
            assert same_values(xa.from_npz(tmp_path / "a.npz", name)[...], f[name])
    with pytest.raises(xa.VariableError, match="'p', 'q'"):
        xa.from_npz(tmp_path / "a.npz", "r")
    xa.to_npz(xa.from_array(X * 2), tmp_path / "a.npz", "r")
    with np.load(tmp_path / "a.npz") as f:
        assert sorted(f) == ["name with/slash", "p", "q", "r"]
        assert same_values(f["r"], X * 2) and same_values(f["q"], X / 7)


def test_a_zip_file_with_more_than_arrays(tmp_path):
    data = io.BytesIO()
    np.save(data, X)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as f:
        f.writestr("x.npy", data.getvalue())
        f.writestr("README", "text")
        f.writestr("bad.npy", b"no array")
    assert same_values(xa.from_npz(tmp_path / "a.npz", "x")[...], X)
    with pytest.raises(xa.FormatError):
        xa.from_npz(tmp_path / "a.npz", "bad")


def test_objects_are_not_unpickled(tmp_path):
    np.save(tmp_path / "a.npy", np.array([1, None], object))
    np.savez(tmp_path / "a.npz", x=np.array([1, None], object))
    for call in (xa.from_npy, xa.from_npz):
        with pytest.raises(xa.DTypeError, match="allow_pickle"):
            call(tmp_path / ("a.npy" if call is xa.from_npy else "a.npz"))


@pytest.mark.parametrize("dtype", ["<i2", ">f4", "u1", "c8"])
@pytest.mark.parametrize("order", "CF")
def test_files_of_tofile_and_memmap(tmp_path, dtype, order):
    x = X.astype(dtype)
    m = np.memmap(tmp_path / "a.raw", dtype, "w+", offset=16, shape=x.shape, order=order)
    m[...] = x
    m.flush()
    a = xa.from_raw(tmp_path / "a.raw", dtype=dtype, shape=x.shape, offset=16, order=order)
    assert same_values(a[...], x)
    xa.to_raw(a, tmp_path / "b.raw", order=order)
    again = np.fromfile(tmp_path / "b.raw", dtype).reshape(x.shape, order=order)
    assert same_values(again, x)


# -- MATLAB --------------------------------------------------------------------------------------


@pytest.fixture
def matlab():
    return pytest.importorskip("scipy.io")


@pytest.mark.parametrize(
    "dtype",
    ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "c8", "c16", ">f8", ">i2", "?"],
)
@pytest.mark.parametrize("packed", [False, True])
def test_matrices(tmp_path, matlab, dtype, packed):
    x = X.astype(dtype) * (1 + 2j if dtype.startswith("c") else 1)
    x = x.astype(dtype) if dtype != "?" else X > 50
    matlab.savemat(tmp_path / "a.mat", {"x": x, "other": X}, do_compression=packed)
    want = matlab.loadmat(tmp_path / "a.mat")["x"]
    a = xa.from_mat(tmp_path / "a.mat", "x")
    assert a.dtype == (bool if dtype == "?" else want.dtype)
    assert same_values(a[...].astype(want.dtype), want)
    xa.to_mat(a, tmp_path / "b.mat", "y")
    again = matlab.loadmat(tmp_path / "b.mat")["y"]
    assert again.dtype == want.dtype and same_values(again, want)


@pytest.mark.parametrize(
    ("x", "options"),
    [
        (X[0], {}),
        (X[0], {"oned_as": "column"}),
        (CUBE, {}),
        (np.zeros((0, 3)), {}),
        (3.5, {}),
        (np.asfortranarray(X), {}),
        (X[::-1, ::2], {}),
        (np.arange(24.0).reshape(1, 2, 3, 4, 1), {}),
    ],
    ids=["row", "column", "cube", "empty", "scalar", "F", "strides", "five axes"],
)
def test_shapes_of_matrices(tmp_path, matlab, x, options):
    matlab.savemat(tmp_path / "a.mat", {"x": x}, **options)
    want = matlab.loadmat(tmp_path / "a.mat")["x"]
    a = xa.from_mat(tmp_path / "a.mat")
    assert a.shape == want.shape and same_values(a[...], want)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ("text", "text"),
        (np.array(["ab", "cd"]), "text"),
        (np.array([1, "a"], object), "cells"),
        ({"a": 1}, "a struct"),
    ],
    ids=["text", "texts", "cells", "struct"],
)
def test_what_is_no_matrix(tmp_path, matlab, x, words):
    matlab.savemat(tmp_path / "a.mat", {"x": x, "y": X})
    with pytest.raises(xa.DTypeError, match=f"is {words}"):
        xa.from_mat(tmp_path / "a.mat", "x")
    assert same_values(xa.from_mat(tmp_path / "a.mat", "y")[...], X)


def test_sparse_matrices_and_version_4_are_refused(tmp_path, matlab):
    sparse = pytest.importorskip("scipy.sparse")
    matlab.savemat(tmp_path / "a.mat", {"x": sparse.csc_matrix(X)})
    with pytest.raises(xa.DTypeError, match="sparse"):
        xa.from_mat(tmp_path / "a.mat", "x")
    matlab.savemat(tmp_path / "b.mat", {"x": X.astype("f8")}, format="4")
    with pytest.raises(xa.FormatError, match="version 5 or 7.3"):
        xa.from_mat(tmp_path / "b.mat")


# -- ENVI ----------------------------------------------------------------------------------------


@pytest.fixture
def envi():
    return pytest.importorskip("spectral.io.envi")


@pytest.mark.parametrize(
    "dtype", ["u1", "i2", "i4", "f4", "f8", "c8", "c16", "u2", "u4", "i8", "u8"]
)
@pytest.mark.parametrize("interleave", ["bsq", "bil", "bip"])
@pytest.mark.parametrize("order", [0, 1])
def test_images(tmp_path, envi, dtype, interleave, order):
    x, name = CUBE.astype(dtype), tmp_path / "a.hdr"
    options = {"interleave": interleave, "byteorder": order, "dtype": dtype}
    envi.save_image(str(name), x, **options)
    a = xa.from_envi(name)
    assert a.dtype == np.dtype(dtype).newbyteorder("<>"[order])
    assert same_values(a[...].astype(dtype), x)
    xa.to_envi(a, tmp_path / "b.hdr", interleave=interleave)
    again = envi.open(str(tmp_path / "b.hdr"))
    assert again.metadata["interleave"] == interleave
    assert same_values(np.asarray(again.open_memmap(interleave="bip")).astype(dtype), x)


@pytest.mark.parametrize("extension", [".dat", ".img", "", ".raw"])
def test_names_of_the_elements(tmp_path, envi, extension):
    meta = {"wavelength": [1, 2, 3, 4], "description": "a, b", "default bands": [3, 2, 1]}
    envi.save_image(str(tmp_path / "a.hdr"), CUBE.astype("i2"), ext=extension, metadata=meta)
    a = xa.from_envi(tmp_path / "a.hdr")
    assert same_values(a[...], CUBE.astype("i2"))
    assert a.attrs["coords"]["wavelength"]["data"].tolist() == [1, 2, 3, 4]
    assert a.attrs["description"] == "a, b" and a.attrs["default bands"] == ["3", "2", "1"]
    assert same_values(xa.from_envi(tmp_path / f"a{extension}")[...], a[...])


def test_classes(tmp_path, envi):
    classes, colours = np.arange(35).reshape(7, 5) % 3, [(0, 0, 0), (1, 2, 3), (4, 5, 6)]
    options = {"class_names": ["a", "b", "c"], "class_colors": colours}
    envi.save_classification(str(tmp_path / "a.hdr"), classes.astype("u1"), **options)
    a = xa.from_envi(tmp_path / "a.hdr")
    assert same_values(a[..., 0], classes.astype("u1"))
    assert a.attrs["class names"] == ["a", "b", "c"]
    xa.to_envi(a, tmp_path / "b.hdr")
    again = envi.open(str(tmp_path / "b.hdr"))
    assert again.metadata["class names"] == ["a", "b", "c"]
    assert again.metadata["class lookup"] == [str(v) for colour in colours for v in colour]
