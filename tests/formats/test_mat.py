"""MATLAB: variables that are no matrices of numbers, several variables, byte orders, versions."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from systems import HAS_LONG_DOUBLES

import extarray as xa

sio = pytest.importorskip("scipy.io")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file.mat"


def test_what_is_no_matrix_of_numbers_is_refused(file):
    import scipy.sparse

    others = {
        "word": "text",
        "some": {"a": 1},
        "cells": np.array([1, "a"], object),
        "sparse": scipy.sparse.eye_array(3).tocsc(),
    }
    sio.savemat(file, {**others, "x": np.arange(3.0)})
    for name, words in zip(others, ("text", "a struct", "cells", "a sparse"), strict=True):
        with pytest.raises(xa.DTypeError, match=f"'{name}' is {words}"):
            xa.from_mat(file, name)
    assert xa.file_formats()["mat"].names(file) == [*others, "x"]
    assert xa.from_mat(file, "x")[...].tolist() == [[0, 1, 2]]
    with pytest.raises(xa.VariableError, match="'word', 'some'"):
        xa.from_mat(file)


def test_what_is_none_in_version_7_3(file):
    h5py = pytest.importorskip("h5py")
    with h5py.File(file, "w", userblock_size=512) as f:
        for name, said in (("word", "char"), ("cells", "cell"), ("flags", "logical")):
            f[name] = np.ones((2, 3), "u2" if name == "word" else "u1")
            f[name].attrs["MATLAB_class"] = np.bytes_(said)
        f.create_group("some").attrs["MATLAB_class"] = np.bytes_("struct")
        f.create_group("#refs#")
        f.create_group("sparse").attrs.update({"MATLAB_class": "double", "MATLAB_sparse": 3})
        f["plain"] = np.ones((2, 3))
        f["empty"] = np.array([0, 3], "u8")
        f["empty"].attrs["MATLAB_class"] = np.bytes_("double")
        f["empty"].attrs["MATLAB_empty"] = np.uint8(1)
    kinds = {"word": "char", "cells": "cell", "some": "struct", "sparse": "a sparse", "plain": "no"}
    for name, words in kinds.items():
        with pytest.raises(xa.DTypeError, match=words):
            xa.from_mat(file, name)
    flags = xa.from_mat(file, "flags")
    assert flags.dtype == bool and flags.shape == (3, 2)
    assert xa.from_mat(file, "empty").shape == (0, 3)
    assert "#refs#" not in xa.file_formats()["mat"].names(file)


@pytest.mark.parametrize("version", ["5", "7.3"])
def test_variables_beside_each_other(file, version):
    if version == "7.3":
        pytest.importorskip("h5py")
    x = np.arange(24.0).reshape(2, 3, 4)
    xa.to_mat(xa.from_array(x), file, "a", version=version)
    xa.to_mat(xa.from_array(x > 3), file, "b")
    xa.to_mat(xa.from_array(x * 1j), file, "c")
    with pytest.raises(xa.ExistsError, match="'b'"):
        xa.to_mat(xa.from_array(x), file, "b")
    xa.to_mat(xa.from_array(x[0, 0]), file, "b", overwrite=True)
    for name, wanted in (("a", x), ("b", x[:1, 0]), ("c", x * 1j)):
        assert np.array_equal(xa.from_mat(file, name)[...], wanted)
    if version == "5":
        there = sio.loadmat(file)
        assert np.array_equal(there["c"], x * 1j) and np.array_equal(there["b"], x[:1, 0])
    with pytest.raises(xa.ArgumentError, match=f"version {version}"):
        xa.to_mat(xa.zeros((2,)), file, "d", version={"5": "7.3", "7.3": "5"}[version])


def test_a_big_endian_file(file):
    """Old machines wrote such files; SciPy reads but never writes them."""
    x = np.array([[1, 2, 3], [4, 5, 6]], ">i2")
    parts = [(6, struct.pack(">II", 10, 0)), (5, struct.pack(">ii", 2, 3)), (1, b"level")]
    parts.append((3, x.tobytes(order="F")))
    said = b"".join(
        struct.pack(">II", kind, len(data)) + data + b"\0" * (-len(data) % 8)
        for kind, data in parts
    )
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack(">H", 0x0100) + b"MI"
    file.write_bytes(head + struct.pack(">II", 14, len(said)) + said)
    assert np.array_equal(sio.loadmat(file)["level"], x)
    a = xa.from_mat(file)
    assert np.array_equal(a[...], x) and a.dtype == ">i2"
    before = file.read_bytes()
    with pytest.raises(xa.FormatError, match="non-native byte order"):
        xa.to_mat(a, file, "copy")
    assert file.read_bytes() == before
    xa.to_mat(a, file.with_name("new.mat"), "copy")
    assert np.array_equal(sio.loadmat(file.with_name("new.mat"))["copy"], x)


def matrix(name, values, name_type=1, dims_type=5, kind=9, flags=6):
    """Return a variable of a file of version 5, byte by byte."""

    def part(code, data):
        return struct.pack("<II", code, len(data)) + data + b"\0" * (-len(data) % 8)

    x = np.asarray(values)
    said = part(6, struct.pack("<II", flags, 0)) + part(
        dims_type, np.array(x.shape, "i4").tobytes()
    )
    return part(14, said + part(name_type, name) + part(kind, x.tobytes(order="F")))


HEAD = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"


@pytest.mark.parametrize(("name_type", "dims_type"), [(1, 5), (16, 5), (1, 6), (16, 6)])
def test_files_of_other_programs(file, name_type, dims_type):
    """Some programs write names in UTF-8, and unsigned extents."""
    file.write_bytes(HEAD + matrix(b"x", [[1.5, 2.5]], name_type, dims_type))
    assert xa.from_mat(file, "x")[...].tolist() == sio.loadmat(file)["x"].tolist() == [[1.5, 2.5]]
    xa.to_mat(xa.from_array([1]), file, "y")
    assert sorted(sio.loadmat(file)) == ["__globals__", "__header__", "__version__", "x", "y"]
    assert xa.from_mat(file, "x")[...].tolist() == [[1.5, 2.5]]


def test_objects_of_matlab_keep_their_places(file):
    data = [
        matrix(b"a", [[1.0]]),
        matrix(b"b", [[2.0]]),
        matrix(b"", np.uint8([[0, 1]]), 1, 5, 2, 9),
    ]
    file.write_bytes(HEAD + b"".join(data) + matrix(b"c", [[3.0]]))
    with pytest.raises(xa.FormatError, match="MATLAB objects after 'b'"):
        xa.to_mat(xa.from_array([[5.0]]), file, "b", overwrite=True)
    xa.to_mat(xa.from_array([[5.0]]), file, "c", overwrite=True)
    assert file.read_bytes()[: 128 + sum(map(len, data))] == HEAD + b"".join(data)
    assert [xa.from_mat(file, name)[0, 0] for name in "abc"] == [1, 2, 5]


def test_what_is_damaged_is_said(file):
    good = HEAD + matrix(b"x", [[1.5, 2.5]])
    for bad in (good[:-9], good[:150], good[:100], good[:126] + b"XX" + good[128:]):
        file.write_bytes(bad)
        with pytest.raises(xa.FormatError):
            xa.from_mat(file, "x")
        before = file.read_bytes()
        with pytest.raises(xa.ExtArrayError):
            xa.to_mat(xa.from_array([1]), file, "x")
        assert file.read_bytes() == before


@pytest.mark.parametrize("version", ["5", "7.3"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "?"])
def test_an_empty_matrix_keeps_its_type(file, version, dtype):
    if version == "7.3":
        pytest.importorskip("h5py")
    xa.to_mat(xa.zeros((0, 3), dtype), file, "x", version=version)
    a = xa.from_mat(file, "x")
    assert a.dtype == dtype and a.shape == (0, 3)


def test_types_of_matlab_in_version_7_3(file):
    h5py = pytest.importorskip("h5py")
    pair = np.zeros((1, 2), [("real", "i2"), ("imag", "i2")])
    pair["real"], pair["imag"] = [[1, 2]], [[3, 4]]
    with h5py.File(file, "w", userblock_size=512) as f:
        for name, values in (("x", np.array([[1, 2]], "i2")), ("z", pair)):
            f[name] = values
            f[name].attrs["MATLAB_class"] = np.bytes_("double")
    assert xa.from_mat(file, "x").dtype == "i2"
    for name, dtype, wanted in (("x", "f8", [[1], [2]]), ("z", "c16", [[1 + 3j], [2 + 4j]])):
        a = xa.from_mat(file, name, mat_dtype=True)
        assert a.dtype == dtype and a[...].tolist() == wanted


def test_complex_numbers_keep_their_imaginary_parts_in_any_type(file):
    """SciPy, with its own ``mat_dtype=True``, drops the imaginary parts."""
    sio.savemat(file, {"z": np.array([[1 + 2j]], "c8")})
    for option in (False, True):
        a = xa.from_mat(file, mat_dtype=option)
        assert a.dtype == "c8" and a[0, 0] == 1 + 2j


def test_a_logical_sparse_matrix_is_refused(file):
    import scipy.sparse

    sio.savemat(file, {"s": scipy.sparse.eye_array(3, dtype=bool).tocsc()})
    with pytest.raises(xa.DTypeError, match="'s' is a sparse matrix"):
        xa.from_mat(file)


def test_whole_numbers_are_stored_as_integers(file):
    """MATLAB stores them so; SciPy does not."""
    x = np.array([[1, 2], [3, 300]], "<i2")
    sio.savemat(file, {"x": x})
    data = bytearray(file.read_bytes())
    assert data[128 + 16] == 10  # the class: int16
    data[128 + 16] = 6  # double
    file.write_bytes(data)
    assert xa.from_mat(file).dtype == sio.loadmat(file)["x"].dtype == "i2"
    a = xa.from_mat(file, mat_dtype=True)
    assert a.dtype == "f8" and np.array_equal(a[...], x)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize("kind", ["f8", "i2", "c16", "?"])
def test_large_matrices(file, tmp_path, kind, is_compressed):
    x = (np.random.default_rng(0).random((300, 200, 40)) * 99).astype(kind)
    sio.savemat(file, {"first": 1.0, "x": x}, do_compression=is_compressed)
    a = xa.from_mat(file, "x", path=tmp_path / "a", chunks=(64, 64, 16))
    assert np.array_equal(a[...], x)
    xa.to_mat(a, tmp_path / "copy.mat", "x")
    assert np.array_equal(sio.loadmat(tmp_path / "copy.mat")["x"], x)
    a.close()


def test_what_a_file_cannot_be(file):
    for dtype in ("f2", "S3", "M8[s]", [("a", "i4")], *("g" * HAS_LONG_DOUBLES)):
        with pytest.raises(xa.DTypeError, match="astype"):
            xa.to_mat(xa.zeros((2, 2), dtype), file, "x")
    for name in ("1x", "a b", "", "ä", "a" * 64):
        with pytest.raises(xa.ArgumentError, match="not a valid MATLAB variable name"):
            xa.to_mat(xa.zeros((2, 2)), file, name)
    a = xa.create(file.with_name("large"), (1 << 16, 1 << 16), "u1", sparse=True)
    with a, pytest.raises(xa.LimitError, match=r"7\.3"):
        xa.to_mat(a, file, "x", version="5")
    assert not file.exists()
    sio.savemat(file, {"x": [1]}, format="4")
    with pytest.raises(xa.FormatError, match="version 5"):
        xa.from_mat(file)
