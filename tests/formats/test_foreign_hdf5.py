"""HDF5 files made by h5py and the HDF5 library: layouts, filters, types, places."""

from __future__ import annotations

import io

import numpy as np
import pytest
from compare import same_values

import extarray as xa

h5py = pytest.importorskip("h5py")

X = np.random.default_rng(0).integers(-100, 100, (13, 17)).astype("i4")
RECORD = np.dtype(
    {"names": ["a", "b"], "formats": ["i1", ">f8"], "offsets": [0, 8], "itemsize": 32}
)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file.h5"


def agrees(file, name="x", **options):
    """Require that we and h5py read the same, and that h5py reads our copy alike."""
    with h5py.File(file) as f:
        want, fill = np.asarray(f[name][()]), f[name].fillvalue
    a = xa.from_hdf5(file, name, **options)
    assert (a.dtype, a.shape) == (want.dtype, want.shape)
    assert same_values(a[...], want)
    assert same_values(np.asarray(a.fill_value, a.dtype), np.asarray(fill, a.dtype))
    copy = file.with_name("copy.h5")
    xa.to_hdf5(a, copy, "y")
    with h5py.File(copy) as f:
        assert f["y"].dtype == want.dtype
        assert same_values(np.asarray(f["y"][()]), want)
    return a


# -- layouts and filters -------------------------------------------------------------------------

LAYOUTS = {
    "gzip": {"compression": "gzip", "compression_opts": 9, "shuffle": True, "fletcher32": True},
    "lzf": {"compression": "lzf"},
    "scaleoffset": {"scaleoffset": 0},
    "fletcher32": {"fletcher32": True},
    "rows": {"chunks": (1, 17)},
    "columns": {"chunks": (13, 1), "maxshape": (None, None)},
    "chunks larger than the data": {"chunks": (20, 30), "maxshape": (100, 100)},
    "resizable, one axis": {"chunks": (4, 4), "maxshape": (None, 17)},
}


@pytest.mark.parametrize("options", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("library", ["earliest", "latest"])
def test_layouts_and_filters(file, options, library):
    with h5py.File(file, "w", libver=library) as f:
        f.create_dataset("x", data=X, **options)
    agrees(file)


def test_a_compact_dataset(file):
    with h5py.File(file, "w") as f:
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        made.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((3,))
        x = h5py.h5d.create(f.id, b"x", h5py.h5t.NATIVE_INT32, space, made)
        x.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(3, dtype="i4"))
    agrees(file)


@pytest.mark.parametrize(
    "options",
    [
        {"userblock_size": 1024},
        {"fs_strategy": "page", "fs_page_size": 4096, "fs_persist": True},
        {"track_order": True},
        {"driver": "core"},
    ],
    ids=lambda options: next(iter(options)),
)
@pytest.mark.parametrize("chunks", [None, (4, 5)])
def test_files_of_other_kinds(file, options, chunks):
    with h5py.File(file, "w", **options) as f:
        f.create_dataset("x", data=X, chunks=chunks)
    agrees(file)


@pytest.mark.parametrize("kind", [h5py.h5d.ALLOC_TIME_EARLY, h5py.h5d.ALLOC_TIME_LATE])
@pytest.mark.parametrize("fill_time", ["never", "ifset", "alloc"])
def test_times_of_space_and_fill_values(file, kind, fill_time):
    with h5py.File(file, "w") as f:
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        made.set_alloc_time(kind)
        options = {"fillvalue": 7, "fill_time": fill_time, "chunks": (3, 3), "dcpl": made}
        f.create_dataset("x", (6, 6), "f4", **options)[:3] = 1
        if fill_time == "never":
            f["x"][3:] = 2  # otherwise unwritten space may hold anything
    agrees(file)


def test_a_file_in_memory():
    with h5py.File(io.BytesIO(), "w") as f:
        f["x"] = X
        assert same_values(xa.from_hdf5(f["x"])[...], X)
        assert same_values(xa.from_hdf5(f, "x")[...], X)


# -- types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["?", "u1", ">i2", "i8", ">u8", "<f2", ">f2", ">f8", "c8", ">c16", "g", "G", "S5"]
)
@pytest.mark.parametrize("chunks", [None, (5, 6)])
def test_types(file, dtype, chunks):
    with h5py.File(file, "w") as f:
        f.create_dataset("x", data=np.abs(X).astype(dtype), chunks=chunks)
    agrees(file)


@pytest.mark.parametrize("chunks", [None, (2,)])
@pytest.mark.parametrize(
    ("bits", "first"),
    [(12, 4), (31, 0), (20, 12), (17, 8)],
    ids=["12 at 4", "31", "20 at 12", "17"],
)
def test_integers_of_fewer_bits_than_their_bytes(file, bits, first, chunks):
    """Detectors write such integers; the library moves the bits and extends the sign."""
    kind = h5py.h5t.STD_I32LE.copy()
    kind.set_precision(bits)
    kind.set_offset(first)
    values = np.array([1, -2, 100, -3], "i4")
    with h5py.File(file, "w") as f:
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if chunks:
            made.set_chunk(chunks)
        x = h5py.h5d.create(f.id, b"x", kind, h5py.h5s.create_simple((4,)), made)
        x.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    assert agrees(file)[...].tolist() == values.tolist()


def test_large_chunks_of_integers_of_fewer_bits(file):
    """Large chunks are read in place only if their elements have the form of an array's."""
    kind = h5py.h5t.STD_I32LE.copy()
    kind.set_precision(12)
    kind.set_offset(4)
    values = np.arange(1 << 17, dtype="i4") % 4000 - 2000
    with h5py.File(file, "w") as f:
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        made.set_chunk((1 << 16,))
        x = h5py.h5d.create(f.id, b"x", kind, h5py.h5s.create_simple(values.shape), made)
        x.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    assert same_values(agrees(file)[...], values)


def test_bfloat16(file):
    kind = h5py.h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_precision(16)
    kind.set_ebias(127)
    with h5py.File(file, "w") as f:
        x = h5py.h5d.create(f.id, b"x", kind, h5py.h5s.create_simple((3,)))
        x.write(h5py.h5s.ALL, h5py.h5s.ALL, np.array([1, -2, 100.5], "f4"))
    assert agrees(file)[...].tolist() == [1, -2, 100.5]


def test_integers_of_three_bytes_are_refused(file):
    kind = h5py.h5t.STD_I32LE.copy()
    kind.set_size(3)
    kind.set_precision(24)
    with h5py.File(file, "w") as f:
        h5py.h5d.create(f.id, b"x", kind, h5py.h5s.create_simple((3,)))
    with pytest.raises(xa.DTypeError, match="a type that h5py cannot read"):
        xa.from_hdf5(file, "x")


@pytest.mark.parametrize("unit", ["M8[D]", "M8[ns]", "m8[s]"])
def test_times_as_h5py_keeps_them(file, unit):
    x = np.array([0, 1, 18000], "i8").astype(unit)
    with h5py.File(file, "w") as f:
        f["x"] = x.astype(h5py.opaque_dtype(x.dtype))
    assert agrees(file).dtype == unit


@pytest.mark.parametrize(
    "x",
    [
        np.array([(1, 0.5), (2, -0.25)], RECORD),
        np.array([(1, b"ab")], [("n", "i4"), ("s", "S3")]),
        np.array([(1, True)], [("n", "i4"), ("s", "?")]),
        np.zeros(2, [("p", "f4", (2, 3)), ("q", [("r", "i2"), ("s", "u1")])]),
        np.array([b"ab\0d", b"abcd"], "V4"),
        np.array(3.5),
        np.zeros((0, 5), "f4"),
    ],
    ids=["offsets", "texts", "bools", "inner records", "opaque", "scalar", "empty"],
)
def test_records_and_small_things(file, x):
    with h5py.File(file, "w") as f:
        f.create_dataset("x", data=x)
    agrees(file)


@pytest.mark.parametrize(
    ("padding", "lost"),
    [
        (h5py.h5t.STR_NULLTERM, None),
        (h5py.h5t.STR_NULLPAD, None),
        (h5py.h5t.STR_SPACEPAD, "spaces"),
    ],
    ids=["term", "null", "space"],
)
def test_texts_padded_in_three_ways(file, padding, lost, recwarn):
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(6)
    kind.set_strpad(padding)
    values = np.array([b"ab    " if lost else b"ab", b"cd e"], "S6")
    with h5py.File(file, "w") as f:
        x = h5py.h5d.create(f.id, b"x", kind, h5py.h5s.create_simple((2,)))
        x.write(h5py.h5s.ALL, h5py.h5s.ALL, values, mtype=kind)
    agrees(file)
    found = [str(w.message) for w in recwarn if issubclass(w.category, xa.LossyWarning)]
    assert [lost in text for text in found] == ([True] if lost else [])


def test_texts_of_variable_length_get_one_length(file):
    values = ["a", "bcd", "ä", ""]
    with h5py.File(file, "w") as f:
        f.create_dataset("x", data=values, dtype=h5py.string_dtype())
        of_others = [v.encode() for v in values]
        f.create_dataset("ascii", data=of_others, dtype=h5py.string_dtype("ascii"))
        f.create_dataset("never", (2,), h5py.string_dtype())
        f.create_dataset("latin", data=[b"\xe4"], dtype=h5py.string_dtype("ascii"))
    for name in ("x", "ascii"):
        assert xa.from_hdf5(file, name).dtype == "U3"
        assert xa.from_hdf5(file, name)[...].tolist() == values
    assert xa.from_hdf5(file, "never")[...].tolist() == ["", ""]
    with pytest.raises(xa.DTypeError, match="not UTF-8.*text='S'"):
        xa.from_hdf5(file, "latin")
    assert xa.from_hdf5(file, "latin", text="S")[...].tolist() == [b"\xe4"]
    with pytest.warns(xa.LossyWarning, match="'latin'"):
        group = xa.from_hdf5(file, path=file.with_suffix(""))
    with group:
        assert sorted(group) == ["ascii", "never", "x"]
    assert xa.from_hdf5(file, "x", text="S")[...].tolist() == [v.encode() for v in values]
    with pytest.raises(xa.CastingError, match="a string of length 3, but <U2 holds 2"):
        xa.from_hdf5(file, "x", text="U2")


def sequences(f):
    f.create_dataset("x", (2,), h5py.vlen_dtype("i4"))


def references(f):
    f["y"] = 1
    f.create_dataset("x", data=[f["y"].ref], dtype=h5py.ref_dtype)


def texts_in_records(f):
    f.create_dataset("x", (1,), [("n", "i4"), ("s", h5py.string_dtype())])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (sequences, "sequences of variable length"),
        (references, "references"),
        (texts_in_records, r"\['s'\]"),
    ],
)
def test_what_has_no_fixed_size_is_refused(file, make, words):
    with h5py.File(file, "w") as f:
        make(f)
    with pytest.raises(xa.DTypeError, match=words):
        xa.from_hdf5(file, "x")


def test_what_a_dtype_does_not_say_is_named(file):
    with h5py.File(file, "w") as f:
        f.create_dataset("null", data=h5py.Empty("f4"))
        f.create_dataset("arrays", (3,), np.dtype(("i2", (2, 2))))
        f.create_dataset("utf8", data=[b"a", b"bcd"], dtype=h5py.string_dtype("utf-8", 6))
        space = h5py.h5s.create_simple((3,))
        bits = h5py.h5d.create(f.id, b"bits", h5py.h5t.STD_B8LE, space)
        flags = np.arange(3, dtype="u1")
        bits.write(h5py.h5s.ALL, h5py.h5s.ALL, flags, mtype=h5py.h5t.NATIVE_B8)
    for name, words, shape in (
        ("null", "the dataset is empty", (0,)),
        ("arrays", r"arrays of shape \(2, 2\)", (3, 2, 2)),
        ("utf8", "UTF-8", (2,)),
        ("bits", "bit fields", (3,)),
    ):
        with pytest.warns(xa.LossyWarning, match=words):
            a = xa.from_hdf5(file, name)
        assert a.shape == shape
    assert a[...].tolist() == [0, 1, 2]


# -- names and attributes ------------------------------------------------------------------------


def test_names_and_links(file, tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as f:
        f["z"] = X + 1
    with h5py.File(file, "w") as f:
        f["grüße/ä b"] = X
        f["soft"] = h5py.SoftLink("/grüße/ä b")
        f["away"] = h5py.ExternalLink("other.h5", "z")
        f["nowhere"] = h5py.SoftLink("/none")
        f["a.b"] = X * 2
    agrees(file, "grüße/ä b")
    assert same_values(xa.from_hdf5(file, "soft")[...], X)
    assert same_values(xa.from_hdf5(file, "away")[...], X + 1)
    assert same_values(xa.from_hdf5(file, "a.b")[...], X * 2)
    with pytest.raises(xa.VariableError, match="nowhere"):
        xa.from_hdf5(file, "nowhere")


ATTRS = {
    "text": "täxt",
    "bytes": b"bytes",
    "float": np.float32(1.5),
    "big": np.arange(3, dtype=">i2"),
    "texts": ["a", "bc"],
    "bool": True,
    "complex": 1j,
    "plane": np.zeros((2, 2), "u1"),
    "nan": np.nan,
    "none": np.zeros(0, "i4"),
}


@pytest.mark.parametrize(("name", "value"), ATTRS.items(), ids=ATTRS)
def test_attributes_come_back_to_h5py(file, name, value):
    with h5py.File(file, "w") as f:
        f["x"] = X
        f["x"].attrs[name] = value
    a = agrees(file)
    with h5py.File(file) as before, h5py.File(file.with_name("copy.h5")) as after:
        old, new = before["x"].attrs[name], after["y"].attrs[name]
        assert name in a.attrs
        assert np.asarray(new).dtype == np.asarray(old).dtype
        assert same_values(np.asarray(new), np.asarray(old)) or list(new) == list(old)


def test_scales_of_axes_are_coordinates(file):
    with h5py.File(file, "w") as f:
        f["x"] = X
        f["lat"], f["lon"], f["also"] = np.arange(13.0), np.arange(17, dtype=">i2"), np.ones(17)
        for scale in ("lat", "lon", "also"):
            f[scale].make_scale()
        f["x"].dims[0].attach_scale(f["lat"])
        f["x"].dims[1].attach_scale(f["lon"])
        f["x"].dims[1].attach_scale(f["also"])
        f["x"].dims[0].label = "y"
    a = xa.from_hdf5(file, "x")
    coords = a.attrs["coords"]
    assert a.dims[0] == "y" and set(coords) == {"lat", "lon", "also"}
    assert coords["lat"]["data"].tolist() == list(range(13))
    xa.to_hdf5(a, file.with_name("copy.h5"), "z")
    with h5py.File(file.with_name("copy.h5")) as f:
        assert f["z"].dims[0].label == "y"
        assert sorted(s.name for s in f["z"].dims[1].values()) == ["/also", "/lon"]
