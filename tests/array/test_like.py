"""Arrays made like others: properties that are taken over, and those that are left out."""

from __future__ import annotations

import numpy as np
import pytest

import extarray as xa


@pytest.fixture
def scene(path):
    with xa.create(
        path,
        (6, 5),
        ">f4",
        chunks=(4, 3),
        fill_value=-9,
        order="F",
        sparse=True,
        attrs={"units": "K", "coords": {"x": [0, 1, 2, 3, 4]}},
        dims=("y", "x"),
        growth=("linear", 3),
        checksum=True,
    ) as a:
        a[...] = np.arange(30).reshape(6, 5)
        yield a


def told(a):
    """Return the properties that an array has."""
    return {
        name: getattr(a, name)
        for name in ("shape", "dtype", "chunks", "fill_value", "order", "dims", "growth")
    } | {"attrs": a.attrs.asdict()}


MAKERS = {
    "create": lambda like, **options: xa.create(options.pop("path", None), like=like, **options),
    "empty": lambda like, **options: xa.empty(like=like, **options),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_all_is_taken_over_but_the_elements(scene, make, tmp_path):
    for target in (None, tmp_path / "b"):
        with make(scene, path=target) as b:
            assert told(b) == told(scene)
            assert (b[...] == -9).all()


def test_checksums_and_holes(scene, tmp_path):
    with xa.create(tmp_path / "b", like=scene) as b:
        b[...] = 1
    raw = bytearray((tmp_path / "b.xta").read_bytes())
    raw[0] ^= 255
    (tmp_path / "b.xta").write_bytes(raw)
    assert not xa.check(tmp_path / "b", data=True).ok  # the checksum shows it
    with xa.create(None, like=scene) as c:  # none in memory
        assert c.shape == scene.shape


GIVEN = {
    "shape": ((2, 5), lambda b: b.shape == (2, 5) and b.chunks == (4, 3)),
    "dtype": ("i2", lambda b: b.dtype == "i2" and b.fill_value == -9),
    "chunks": (2, lambda b: b.chunks == (2, 2)),
    "fill_value": (0, lambda b: b.fill_value == 0),
    "order": ("C", lambda b: b.order == "C"),
    "attrs": ({"a": 1}, lambda b: b.attrs.asdict() == {"a": 1, "dims": ["y", "x"]}),
    "dims": (("lat", "lon"), lambda b: b.dims == ("lat", "lon")),
    "growth": ("doubling", lambda b: b.growth == "doubling"),
}


@pytest.mark.parametrize("name", GIVEN)
def test_what_is_given_counts(scene, name):
    value, holds = GIVEN[name]
    b = xa.create(None, like=scene, **{name: value})
    assert holds(b)
    want = told(scene)
    left_out = {name} if name != "dims" else {"dims", "attrs"}
    left_out |= {"attrs"} if name == "shape" else set()
    for key in want.keys() - left_out:
        assert told(b)[key] == want[key]


def test_what_does_not_fit_is_left_out(scene):
    b = xa.create(None, (4, 6, 5), like=scene)
    assert (b.dims, b.attrs.asdict()) == (None, {"units": "K"})
    assert b.chunks == xa.create(None, (4, 6, 5), scene.dtype).chunks
    assert b.fill_value == -9
    c = xa.create(None, (9, 5), like=scene)  # its labels belong to other elements
    assert c.attrs.asdict() == {"units": "K", "dims": ["y", "x"]}
    assert xa.create(None, like=scene, dtype="u2").fill_value == 0  # u2 has no -9
    nans = xa.create(None, 3, fill_value=np.nan)
    assert xa.create(None, like=nans, dtype=bool).fill_value == False  # noqa: E712
    assert np.isnan(xa.create(None, like=nans, dtype="f2").fill_value)
    texts = xa.create(None, 3, "U4", fill_value="none")
    assert xa.create(None, like=texts, dtype="i4").fill_value == 0


def test_zeros_ones_full(scene):
    for made, value in (
        (xa.zeros(like=scene), 0),
        (xa.ones(like=scene), 1),
        (xa.full(fill_value=7, like=scene), 7),
        (xa.full((6, 5), 7, like=scene), 7),
    ):
        assert made.fill_value == value
        assert (made[...] == value).all()
        assert made.dtype == scene.dtype
        want = told(scene) | {"fill_value": value}
        assert told(made) == want
    assert xa.full((2, 2), 7, "i2", like=scene).dtype == "i2"


def test_labels_stay_right_where_the_start_has_moved(path):
    a = xa.create(
        path,
        (3,),
        attrs={"coords": {"x": {"dims": ["x"], "data": [5, 6, 7, 8], "origin": [0]}}},
        dims=("x",),
    )
    with a:
        a.extend(0, 1)
        a.shrink(0, 1, side="start")
        b = xa.create(None, like=a)
        assert b.origin == (0,)
        assert b.attrs.asdict() == a.copy().attrs.asdict() != a.attrs.asdict()


def test_views(scene):
    b = xa.create(None, like=scene.lazy[1:, ::-1].T)
    assert (b.shape, b.dims, b.dtype, b.fill_value) == ((5, 5), ("x", "y"), ">f4", -9)
    labels = {"x": {"dims": ["x"], "data": [4, 3, 2, 1, 0], "origin": [0]}}
    assert b.attrs.asdict() == {"units": "K", "dims": ["x", "y"], "coords": labels}
    c = xa.create(None, (4, 5), like=scene.lazy[1:])  # its labels belong to other elements
    assert c.attrs.asdict() == {"units": "K", "dims": ["y", "x"]}
    records = xa.create(None, (4,), [("k", "i2"), ("v", "f4")], fill_value=(1, 2.5))
    v = xa.create(None, like=records.lazy["v"])
    assert (v.dtype, v.fill_value) == ("f4", 2.5)
    assert xa.create(None, like=scene.astype("f8")).dtype == "f8"


@pytest.mark.parametrize(
    "like",
    [
        np.zeros((2, 3), "i2"),
        [[1, 2, 3], [4, 5, 6]],
        np.ma.zeros((2, 3)),
        np.zeros((2, 3), "F").T.T,
    ],
    ids=["array", "list", "masked", "complex"],
)
def test_arrays_of_numpy(like):
    want = np.zeros_like(like)
    for made in (xa.create(None, like=like), xa.zeros(like=like), xa.empty(like=like)):
        assert (made.shape, made.dtype) == (want.shape, want.dtype)
        assert (made[...] == want).all()


def test_datasets_of_h5py(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "f.h5", "w") as file:
        d = file.create_dataset("d", (8, 6), "i4", chunks=(4, 3), fillvalue=5)
        d.attrs["units"] = "m"
        d.dims[0].label, d.dims[1].label = "y", "x"
        b = xa.create(None, like=d)
        assert (b.shape, b.dtype, b.chunks, b.fill_value) == ((8, 6), "i4", (4, 3), 5)
        assert (b.dims, b.attrs["units"]) == (("y", "x"), "m")


def test_arrays_of_zarr():
    zarr = pytest.importorskip("zarr")
    z = zarr.create_array(
        {},
        shape=(8, 6),
        dtype="f4",
        chunks=(4, 3),
        fill_value=5,
        attributes={"units": "m"},
        dimension_names=("y", "x"),
    )
    b = xa.create(None, like=z)
    assert (b.shape, b.dtype, b.chunks, b.fill_value) == ((8, 6), "f4", (4, 3), 5)
    assert (b.dims, b.attrs["units"]) == (("y", "x"), "m")


@pytest.mark.parametrize("kind", ["ndarray", "array", "view", "foreign"])
def test_from_array(scene, kind, tmp_path):
    x = np.arange(35.0).reshape(7, 5)
    source = {
        "ndarray": x,
        "array": xa.from_array(x, chunks=2),
        "view": xa.from_array(x.T).lazy[...].T,
        "foreign": memoryview_like(x),
    }[kind]
    with xa.from_array(source, tmp_path / "b", like=scene) as b:
        want = told(scene) | {"shape": (7, 5), "attrs": {"units": "K", "dims": ["y", "x"]}}
        assert told(b) == want
        assert (b[...] == x).all()
    with xa.from_array(source, like=scene, chunks=(7, 5), dims=("a", "b")) as c:
        assert (c.chunks, c.dims) == ((7, 5), ("a", "b"))


class memoryview_like:  # noqa: N801
    """A stand-in for an array of another library: shape, dtype, slices."""

    def __init__(self, x):
        self._x, self.shape, self.dtype, self.ndim = x, x.shape, x.dtype, x.ndim

    def __getitem__(self, key):
        return self._x[key]


def test_from_array_of_what_is_masked(scene):
    x = np.ma.array(np.ones((6, 5)), mask=np.eye(6, 5, dtype=bool))
    assert (xa.from_array(x, like=scene)[...] == np.where(np.eye(6, 5), -9, 1)).all()


def test_what_is_refused(scene, path):
    with pytest.raises(xa.ArgumentTypeError, match="open it, and give the array"):
        xa.create(None, like=path)
    with pytest.raises(xa.ArgumentTypeError, match="give a shape"):
        xa.create(None)
    for make in (xa.zeros, xa.ones, xa.empty):
        with pytest.raises(TypeError, match="give a shape"):
            make()
    with pytest.raises(TypeError, match="no fill value"):
        xa.full(like=scene)
    with pytest.raises(xa.CastingError, match="same_kind"):
        xa.from_array(np.ones((2, 2), "c16"), like=scene)
    b = xa.zeros(3)
    b.close()
    with pytest.raises(xa.ClosedError):
        xa.create(None, like=b)


def test_the_files_of_the_other_stay_as_they_are(scene, path):
    scene.flush()
    before = path.with_name(path.name + ".xmd").read_bytes()
    xa.create(None, like=scene)
    assert path.with_name(path.name + ".xmd").read_bytes() == before
