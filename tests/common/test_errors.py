"""Each wrong argument raises the right class with the right message; the cases are records."""

from __future__ import annotations

import errno
import inspect
import operator
import pickle
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from compare import assert_same, assert_same_outcome

import extarray as xa
from extarray import errors


@dataclass(frozen=True)
class Fails:
    """A failing call on an array (mode "r+", shape (4, 3), chunks (2, 2), named "scene")."""

    id: str
    call: Callable
    error: type[Exception]
    builtin: type[Exception]
    message: str


WRONG_ARGUMENT = [
    # Index
    Fails("index", lambda a: a[4], xa.BoundsError, IndexError,
          "index 4 is out of bounds for axis 0 with size 4"),
    Fails("negative index", lambda a: a[0, -4], xa.BoundsError, IndexError,
          "index -4 is out of bounds for axis 1 with size 3"),
    Fails("too many", lambda a: a[0, 0, 0], xa.BoundsError, IndexError,
          "too many indices for array: array is 2-dimensional, but 3 were indexed"),
    Fails("mask", lambda a: a[np.ones(5, bool)], xa.SelectionError, IndexError,
          "boolean index did not match indexed array along axis 0; size of axis is 4"),
    Fails("index array", lambda a: a[[0, 4]], xa.BoundsError, IndexError,
          "index 4 is out of bounds for axis 0 with size 4"),
    Fails("flat", lambda a: a.flat[12], xa.BoundsError, IndexError,
          "index 12 is out of bounds for size 12"),
    Fails("flat list", lambda a: a.flat[[0, -13]], xa.BoundsError, IndexError,
          "index -13 is out of bounds for size 12"),
    Fails("write flat", lambda a: a.flat.__setitem__(12, 1), xa.BoundsError, IndexError,
          "index 12 is out of bounds for size 12"),
    Fails("field", lambda a: a["x"], xa.SelectionError, IndexError, "only integers, slices"),
    Fails("write index", lambda a: a.__setitem__((0, 3), 1), xa.BoundsError, IndexError,
          "index 3 is out of bounds for axis 1 with size 3"),
    Fails("chunk", lambda a: a.chunk((2, 0)), xa.BoundsError, IndexError,
          "chunk index 2 .* axis 0 with 2 chunks"),
    Fails("address", lambda a: a.axial.address((0, 2)), xa.BoundsError, IndexError, "2"),
    # Axis
    Fails("extend axis", lambda a: a.extend(2, 1), xa.AxisError, np.exceptions.AxisError,
          "axis 2 is out of bounds for array of dimension 2"),
    Fails("extend axis -3", lambda a: a.extend(-3, 1), xa.AxisError, ValueError,
          "axis -3 is out of bounds for array of dimension 2"),
    Fails("append axis", lambda a: a.append(np.zeros((1, 3)), axis=5), xa.AxisError, IndexError,
          "axis 5 is out of bounds for array of dimension 2"),
    Fails("axis 1.0", lambda a: a.extend(1.0, 1), xa.ArgumentTypeError, TypeError, "axis"),
    Fails("axis None", lambda a: a.append(np.zeros((1, 3)), axis=None), xa.ArgumentTypeError,
          TypeError, "axis"),
    Fails("axis name", lambda a: a.extend("x", 1), xa.ArgumentTypeError, TypeError,
          r"axis must be an int, not 'x': the axes are unnamed; name them with a\.dims"),
    Fails("axis True", lambda a: a.extend(True, 1), xa.ArgumentTypeError, TypeError, "axis"),
    # Shape
    Fails("broadcast", lambda a: a.__setitem__(slice(0, 2), np.zeros((3, 3))), xa.ShapeError,
          ValueError, r"could not broadcast input array from shape \(3,3\) into shape \(2,3\)"),
    Fails("append rank", lambda a: a.append(np.zeros(3)), xa.ShapeError, ValueError,
          r"\(3,\).*\(4, 3\)"),
    Fails("append extent", lambda a: a.append(np.zeros((1, 4))), xa.ShapeError, ValueError,
          r"\(1, 4\).*\(4, 3\)"),
    Fails("resize rank", lambda a: a.resize((5,)), xa.ShapeError, ValueError, r"\(4, 3\)"),
    Fails("resize float", lambda a: a.resize((4.0, 3)), xa.ArgumentTypeError, TypeError, "4.0"),
    Fails("resize text", lambda a: a.resize("43"), xa.ArgumentTypeError, TypeError, "43"),
    # Growth and shrinking
    Fails("shrink too much", lambda a: a.shrink(0, 5), xa.ArgumentError, ValueError,
          "cannot remove 5 elements from axis 0: it has 4"),
    Fails("shrink by less than nothing", lambda a: a.shrink(0, -1), xa.ArgumentError, ValueError,
          "by must be at least 0, not -1"),
    Fails("side", lambda a: a.extend(0, 1, "left"), xa.ArgumentError, ValueError,
          "side 'left' is not valid; use 'end' or 'start'"),
    Fails("reserve", lambda a: a.reserve((9,)), xa.ShapeError, ValueError,
          r"cannot reserve \(9,\): the array has 2 axes"),
    Fails("by -1", lambda a: a.extend(0, -1), xa.ArgumentError, ValueError, "-1"),
    Fails("by 1.5", lambda a: a.extend(0, 1.5), xa.ArgumentTypeError, TypeError, "1.5"),
    Fails("by 2.0", lambda a: a.extend(0, 2.0), xa.ArgumentTypeError, TypeError, "2.0"),
    Fails("by True", lambda a: a.extend(0, True), xa.ArgumentTypeError, TypeError, "True"),
    Fails("by text", lambda a: a.extend(0, "1"), xa.ArgumentTypeError, TypeError, "1"),
    Fails("by None", lambda a: a.extend(0, None), xa.ArgumentTypeError, TypeError, "None"),
    # Casting
    Fails("append cast", lambda a: a.append(np.zeros((1, 3), "c16")), xa.CastingError, TypeError,
          "complex128.*float64.*same_kind"),
    Fails("out cast", lambda a: a.read(out=np.zeros((4, 3), "i8")), xa.CastingError, TypeError,
          "float64.*int64.*same_kind"),
    # Absurd bounds
    Fails("extend absurd", lambda a: a.extend(0, 2**63), xa.LimitError, OverflowError, r"2\*\*63"),
    Fails("extend 10**30", lambda a: a.extend(1, 10**30), xa.LimitError, OverflowError, r"2\*\*63"),
    Fails("extend product", lambda a: a.extend(0, 2**62), xa.LimitError, OverflowError, r"2\*\*63"),
    Fails("resize absurd", lambda a: a.resize((2**40, 2**40)), xa.LimitError, OverflowError,
          r"2\*\*63"),
    Fails("resize 10**30", lambda a: a.resize((10**30, 3)), xa.LimitError, OverflowError,
          r"2\*\*63"),
]  # fmt: skip


def check(case, *args):
    with pytest.raises(case.error, match=case.message) as caught:
        case.call(*args)
    assert isinstance(caught.value, case.builtin)
    assert isinstance(caught.value, xa.ExtArrayError)
    assert str(caught.value)


@pytest.fixture(params=["disk", "memory"])
def array(request, path):
    options = {"shape": (4, 3), "dtype": "f8", "chunks": (2, 2), "fill_value": 2}
    with xa.create(path if request.param == "disk" else None, **options) as array:
        yield array


@pytest.mark.parametrize("case", WRONG_ARGUMENT, ids=lambda case: case.id)
def test_wrong_argument(array, case):
    """The error leaves the array unchanged and usable."""
    before = array.info()
    check(case, array)
    after = array.info()
    for key in ("shape", "grid", "segments", "allocated_bytes", "file_bytes"):
        assert after.get(key) == before.get(key), key
    assert (array[...] == 2).all()
    array.extend(0, 3)
    assert array.shape == (7, 3)
    assert (array[...] == 2).all()


WRONG_CREATION = [
    Fails("negative shape", {"shape": (2, -1)}, xa.ShapeError, ValueError, "-1"),
    Fails("float shape", {"shape": (2.0,)}, xa.ArgumentTypeError, TypeError, "2.0"),
    Fails("text shape", {"shape": "22"}, xa.ArgumentTypeError, TypeError, "22"),
    Fails("bool shape", {"shape": (True,)}, xa.ArgumentTypeError, TypeError, "True"),
    Fails("no shape", {"shape": None}, xa.ArgumentTypeError, TypeError, "shape"),
    Fails("rank 33", {"shape": (1,) * 33}, xa.ShapeError, ValueError, "32"),
    Fails("absurd shape", {"shape": (2**63,)}, xa.LimitError, OverflowError, r"2\*\*63"),
    Fails("absurd size", {"shape": (2**32, 2**32)}, xa.LimitError, OverflowError, r"2\*\*63"),
    Fails("absurd bytes", {"shape": (2**61,), "dtype": "f8"}, xa.LimitError, OverflowError,
          r"2\*\*63"),
    Fails("chunks 0", {"shape": (2,), "chunks": 0}, xa.ChunksError, ValueError, "0"),
    Fails("chunks -1", {"shape": (2, 2), "chunks": (1, -1)}, xa.ChunksError, ValueError, "-1"),
    Fails("chunks rank", {"shape": (2, 2), "chunks": (1,)}, xa.ChunksError, ValueError, "chunks"),
    Fails("chunks rank 3", {"shape": (2, 2), "chunks": (1, 1, 1)}, xa.ChunksError, ValueError, "3"),
    Fails("chunks 1.5", {"shape": (2,), "chunks": 1.5}, xa.ArgumentTypeError, TypeError, "1.5"),
    Fails("chunks True", {"shape": (2,), "chunks": True}, xa.ArgumentTypeError, TypeError, "True"),
    Fails("chunks text", {"shape": (2,), "chunks": "auto"}, xa.ArgumentTypeError, TypeError,
          "auto"),
    Fails("chunks absurd", {"shape": (2,), "chunks": 2**62}, xa.LimitError, OverflowError,
          r"2\*\*63"),
    Fails("chunks 10**30", {"shape": (2,), "chunks": 10**30}, xa.LimitError, OverflowError,
          r"2\*\*63"),
    Fails("dtype object", {"shape": (2,), "dtype": object}, xa.DTypeError, TypeError, "object"),
    Fails("dtype sub-array", {"shape": (2,), "dtype": ("f4", (2,))}, xa.ArgumentError, ValueError,
          "subarray"),
    Fails("order", {"shape": (2,), "order": "X"}, xa.ArgumentError, ValueError, "order.*'X'"),
    Fails("order lower case", {"shape": (2,), "order": "c"}, xa.ArgumentError, ValueError, "'c'"),
    Fails("order None", {"shape": (2,), "order": None}, xa.ExtArrayError, Exception, "order"),
    Fails("engine", {"shape": (2,), "engine": "X"}, xa.ArgumentError, ValueError, "engine.*'X'"),
    Fails("attrs", {"shape": (2,), "attrs": {"a": {1}}}, xa.ArgumentTypeError, TypeError, "a"),
    Fails("fill value", {"shape": (2,), "dtype": "i4", "fill_value": "no"}, xa.ExtArrayError,
          (ValueError, TypeError), "fill_value"),
]  # fmt: skip


@pytest.mark.parametrize("case", WRONG_CREATION, ids=lambda case: case.id)
def test_wrong_creation(path, case):
    for place in (path, None):
        with pytest.raises(case.error, match=case.message) as caught:
            xa.create(place, **case.call)
        assert isinstance(caught.value, case.builtin)
        assert isinstance(caught.value, xa.ExtArrayError)
    assert list(path.parent.iterdir()) == []


READ_ONLY = [
    ("write", lambda a: a.__setitem__((0, 0), 1)),
    ("write a slice", lambda a: a.__setitem__(..., 1)),
    ("write()", lambda a: a.write(..., 1)),
    ("write_direct", lambda a: a.write_direct(np.zeros((4, 3)))),
    ("extend", lambda a: a.extend(0, 1)),
    ("extend by 0", lambda a: a.extend(0, 0)),
    ("resize", lambda a: a.resize((9, 9))),
    ("resize an axis", lambda a: a.resize(9, axis=1)),
    ("append", lambda a: a.append(np.zeros((1, 3)))),
    ("attrs", lambda a: a.attrs.__setitem__("a", 1)),
    ("dims", lambda a: setattr(a, "dims", ("y", "x"))),
    ("write a mask", lambda a: a.__setitem__(np.ones((4, 3), bool), 1)),
    ("write rows", lambda a: a.__setitem__([0, 2], 1)),
    ("oindex", lambda a: a.oindex.__setitem__(([0, 1], [0]), 1)),
    ("vindex", lambda a: a.vindex.__setitem__(([0, 1], [0, 1]), 1)),
    ("blocks", lambda a: a.blocks.__setitem__((0, 0), 1)),
    ("set_basic_selection", lambda a: a.set_basic_selection(0, 1)),
    ("flat", lambda a: a.flat.__setitem__(0, 1)),
    ("in place", lambda a: operator.iadd(a, 1)),
    ("out=", lambda a: np.sqrt(a, out=a)),
    ("out= of a reduction", lambda a: np.cumsum(a, axis=0, out=a)),
    ("at", lambda a: np.add.at(a, 0, 1)),
    ("copyto", lambda a: np.copyto(a, 1)),
    ("put", lambda a: a.put(0, 1)),
    ("fill", lambda a: a.fill(1)),
    ("sort", lambda a: a.sort()),
    ("partition", lambda a: a.partition(1)),
]
READING = [
    ("read a scalar", lambda a: a[0, 0]),
    ("read a slice", lambda a: a[...]),
    ("read()", lambda a: a.read()),
    ("read_direct", lambda a: a.read_direct(np.zeros((4, 3)))),
    ("asarray", lambda a: np.asarray(a)),
    ("iter", lambda a: next(iter(a))),
    ("chunk", lambda a: a.chunk((0, 0))),
    ("iter_chunks", lambda a: next(iter(a.iter_chunks()))),
    ("chunk_views", lambda a: next(iter(a.chunk_views()))),
    ("iter_chunks of a part", lambda a: next(iter(a.iter_chunks(0)))),
    ("pickle", lambda a: pickle.dumps(a)),
    ("flush", lambda a: a.flush()),
    ("refresh", lambda a: a.refresh()),
    ("copy", lambda a: a.copy()),
    ("astype", lambda a: a.astype("f4")),
    ("info", lambda a: a.info()),
    ("attrs", lambda a: a.attrs.get("a")),
    ("read a mask", lambda a: a[np.ones((4, 3), bool)]),
    ("read rows", lambda a: a[[0, 2]]),
    ("oindex", lambda a: a.oindex[[0, 1], [0]]),
    ("get_basic_selection", lambda a: a.get_basic_selection(0)),
    ("flat", lambda a: a.flat[0]),
    ("operator", lambda a: a + 1),
    ("ufunc", lambda a: np.sqrt(a)),
    ("sum", lambda a: a.sum()),
    ("mean", lambda a: a.mean(axis=0)),
    ("function", lambda a: np.where(a > 1, a, 0)),
    ("fall-back", lambda a: np.rot90(a)),
    ("sorted", lambda a: np.sort(a)),
    ("DLPack", lambda a: np.from_dlpack(a)),
]


@pytest.fixture
def reader(path):
    xa.full((4, 3), 2.0, path=path, chunks=2).close()
    with xa.open(path) as reader:
        yield reader


@pytest.mark.parametrize("call", [c for _, c in READ_ONLY], ids=[name for name, _ in READ_ONLY])
def test_mode_r(reader, call):
    with pytest.raises(xa.ReadOnlyError, match=r"cannot .*scene'.* mode 'r'; .*mode='r\+'"):
        call(reader)
    assert reader.shape == (4, 3)
    assert (reader[...] == 2).all()


def test_the_message_of_extend_in_mode_r(reader):
    with pytest.raises(xa.ReadOnlyError) as caught:
        reader.extend(0, 1)
    assert str(caught.value) == (
        f"cannot extend '{reader.path}': opened with mode 'r'; reopen with mode='r+'"
    )


CLOSED = [*READ_ONLY, *READING]


@pytest.mark.parametrize("call", [c for _, c in CLOSED], ids=[name for name, _ in CLOSED])
def test_closed(array, call):
    array.close()
    assert array.closed
    with pytest.raises(xa.ClosedError, match="closed"):
        call(array)
    array.close()
    assert issubclass(xa.ClosedError, ValueError)


class Closes:
    """An argument whose conversion closes the array."""

    def __init__(self, array):
        self.array = array

    def __index__(self):
        self.array.close()
        return 1

    def __float__(self):
        self.array.close()
        return 1.0

    def __array__(self, dtype=None, copy=None):
        self.array.close()
        return np.ones((1, 3))


CLOSING = {
    "read": lambda a: a[Closes(a)],
    "read a slice": lambda a: a[: Closes(a), :],
    "read()": lambda a: a.read((Closes(a), 1)),
    "write at": lambda a: a.__setitem__((Closes(a), 1), 5),
    "write a scalar": lambda a: a.__setitem__((0, 1), Closes(a)),
    "write a slice": lambda a: a.__setitem__(slice(0, 2), Closes(a)),
    "append": lambda a: a.append(Closes(a)),
    "extend": lambda a: a.extend(0, Closes(a)),
    "resize": lambda a: a.resize((9, Closes(a))),
}


@pytest.mark.parametrize("call", CLOSING.values(), ids=CLOSING.keys())
def test_closed_while_an_argument_is_converted(array, call):
    """An error is raised, and no freed memory or closed file is used."""
    with pytest.raises(xa.ExtArrayError):
        call(array)
    assert array.closed


def test_what_a_closed_array_still_tells(array):
    array.close()
    assert array.closed is True
    assert array.shape == (4, 3)
    assert array.dtype == np.float64
    assert array.chunks == (2, 2)
    assert "closed" in repr(array)
    with pytest.raises(xa.ClosedError):
        array.__enter__()


def test_one_family():
    classes = [
        c for _, c in inspect.getmembers(errors, inspect.isclass) if c.__module__ == errors.__name__
    ]
    assert {c.__name__ for c in classes} <= set(errors.__all__)
    for cls in classes:
        assert issubclass(cls, xa.ExtArrayError)
        assert getattr(xa, cls.__name__) is cls
        if cls is not xa.ExtArrayError:
            assert any(base.__module__ != errors.__name__ for base in cls.__mro__[1:-3]), cls


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [
        (xa.BoundsError, IndexError),
        (xa.SelectionError, IndexError),
        (xa.AxisError, np.exceptions.AxisError),
        (xa.ShapeError, ValueError),
        (xa.ChunksError, ValueError),
        (xa.DTypeError, TypeError),
        (xa.CastingError, TypeError),
        (xa.ArgumentError, ValueError),
        (xa.ArgumentTypeError, TypeError),
        (xa.ClosedError, ValueError),
        (xa.ReadOnlyError, ValueError),
        (xa.FormatError, ValueError),
        (xa.VersionError, xa.FormatError),
        (xa.CorruptError, xa.FormatError),
        (xa.TruncatedError, xa.FormatError),
        (xa.PartnerError, xa.FormatError),
        (xa.StorageError, OSError),
        (xa.LockedError, BlockingIOError),
        (xa.ExistsError, FileExistsError),
        (xa.MissingError, FileNotFoundError),
        (xa.LimitError, OverflowError),
        (xa.ReserveError, MemoryError),
        (xa.MissingExtraError, ImportError),
    ],
)
def test_classes_as_promised(cls, builtin):
    assert issubclass(cls, builtin)


def test_system_errors_carry_their_number_and_file(path):
    with pytest.raises(xa.MissingError) as missing:
        xa.open(path)
    assert missing.value.errno == errno.ENOENT
    xa.create(path, shape=(1,)).close()
    with pytest.raises(xa.ExistsError) as exists:
        xa.create(path, shape=(1,))
    assert exists.value.errno == errno.EEXIST
    with xa.open(path, mode="r+"), pytest.raises(xa.LockedError) as locked:
        xa.open(path, mode="r+")
    assert locked.value.errno in (errno.EAGAIN, errno.EACCES)


def test_errors_can_be_pickled(path):
    """Process pools pickle errors to send them back."""
    with pytest.raises(xa.MissingError) as caught:
        xa.open(path)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is xa.MissingError
    assert str(again) == str(caught.value)
    for call in (lambda a: a.extend(9, 1), lambda a: a[9]):
        with xa.create(None, shape=(1,)) as array, pytest.raises(xa.ExtArrayError) as caught:
            call(array)
        again = pickle.loads(pickle.dumps(caught.value))
        assert str(again) == str(caught.value)
        assert type(again) is type(caught.value)


# -- errors as NumPy raises them -----------------------------------------------------------------

ONES = np.ones

#: Calls that NumPy refuses for an array (4, 3) of float64; messages must agree.
AS_NUMPY = {
    "conversion to int": lambda a: int(a),
    "conversion to float": lambda a: float(a),
    "truth": lambda a: bool(a),
    "as an index": lambda a: operator.index(a),
    "operand": lambda a: a + ONES(4),
    "operand before": lambda a: ONES((2, 3)) - a,
    "operand None": lambda a: a * None,
    "operand of a comparison": lambda a: a < "x",
    "operand ==": lambda a: a == ONES(7),
    "operator": lambda a: a << 1,
    "in place": lambda a: operator.iadd(a, ONES((2, 4, 3))),
    "in place, casting": lambda a: operator.iadd(a, 1j),
    "matmul": lambda a: a @ ONES(4),
    "matmul before": lambda a: ONES(3) @ a,
    "matmul of a scalar": lambda a: np.matmul(a, 1),
    "matmul in place": lambda a: operator.imatmul(a, ONES((2, 2))),
    "axis": lambda a: a.sum(axis=2),
    "axis -3": lambda a: a.mean(axis=-3),
    "axis twice": lambda a: a.max(axis=(0, 0)),
    "axis 1.0": lambda a: a.sum(axis=1.0),
    "axis of argmin": lambda a: a.argmin(axis=5),
    "axis of cumsum": lambda a: a.cumsum(axis=2),
    "axis of sort": lambda a: a.sort(axis=4),
    "axis of median": lambda a: np.median(a, axis=7),
    "axis of roll": lambda a: np.roll(a, 1, axis=7),
    "out": lambda a: a.sum(axis=0, out=np.zeros(4)),
    "out of a ufunc": lambda a: np.add(a, 1, out=np.zeros((3, 3))),
    "out, casting": lambda a: np.add(a, 1, out=np.zeros((4, 3), "i8")),
    "out, no array": lambda a: np.add(a, 1, out=[1]),
    "dtype of a ufunc": lambda a: np.sqrt(a, dtype="i4"),
    "where": lambda a: a.sum(where=ONES(7, bool)),
    "where without initial": lambda a: a.max(where=ONES((4, 3), bool)),
    "keyword of a ufunc": lambda a: np.add(a, 1, no=2),
    "arguments of a ufunc": lambda a: np.add(a),
    "reduce": lambda a: np.sqrt.reduce(a),
    "reduce axis": lambda a: np.add.reduce(a, axis=3),
    "accumulate": lambda a: np.add.accumulate(a, axis=3),
    "reduceat": lambda a: np.add.reduceat(a, [9]),
    "at": lambda a: np.add.at(a, 9, 1),
    "outer": lambda a: np.subtract.outer(a, "x"),
    "reshape": lambda a: a.reshape(5),
    "reshape twice unknown": lambda a: a.reshape(-1, -1),
    "transpose": lambda a: a.transpose(0, 0),
    "swapaxes": lambda a: a.swapaxes(0, 5),
    "squeeze": lambda a: a.squeeze(0),
    "broadcast_to": lambda a: np.broadcast_to(a, (4, 5)),
    "concatenate": lambda a: np.concatenate([a, ONES((2, 2))]),
    "concatenate ranks": lambda a: np.concatenate([a, ONES(3)]),
    "concatenate axis": lambda a: np.concatenate([a, a], axis=4),
    "stack": lambda a: np.stack([a, ONES((2, 2))]),
    "split": lambda a: np.split(a, 3),
    "take": lambda a: a.take(99),
    "take axis": lambda a: a.take(9, axis=0),
    "take mode": lambda a: a.take(0, mode="x"),
    "put": lambda a: a.put(99, 1),
    "compress": lambda a: a.compress([1] * 9, axis=0),
    "choose": lambda a: np.choose(np.full((4, 3), 5), [a, a]),
    "repeat": lambda a: a.repeat([1, 2], axis=0),
    "item of many": lambda a: a.item(),
    "item": lambda a: a.item(99),
    "fill": lambda a: a.fill([1, 2, 3]),
    "copyto": lambda a: np.copyto(a, ONES(9)),
    "copyto, casting": lambda a: np.copyto(a, 1j),
    "where of three": lambda a: np.where(a, a, ONES(9)),
    "dot": lambda a: a.dot(ONES(7)),
    "inner": lambda a: np.inner(a, ONES(7)),
    "tensordot": lambda a: np.tensordot(a, ONES(7), 1),
    "trace": lambda a: a.trace(axis1=0, axis2=0),
    "inv": lambda a: np.linalg.inv(a),
    "percentile": lambda a: np.percentile(a, 101),
    "average": lambda a: np.average(a, weights=ONES(9)),
    "histogram": lambda a: np.histogram(a, bins=-1),
    "astype": lambda a: a.astype("i4", casting="safe"),
    "asarray": lambda a: np.asarray(a, "no such"),
    "index 4": lambda a: a[4],
    "step 0": lambda a: a[::0],
    "index 1.0": lambda a: a[1.0],
    "array of floats": lambda a: a[np.array([1.0])],
    "two ellipses": lambda a: a[..., ...],
    "arrays of indices": lambda a: a[[0, 1], [0, 1, 2]],
    "mask": lambda a: a[ONES((4, 4), bool)],
    "field": lambda a: a["x"],
    "fields": lambda a: a[["x", "y"]],
    "values": lambda a: a.__setitem__(..., ONES(9)),
    "values, a list": lambda a: a.__setitem__((0, 0), [1, 2]),
    "values, text": lambda a: a.__setitem__(0, "x"),
}


@pytest.mark.parametrize("call", AS_NUMPY.values(), ids=AS_NUMPY.keys())
def test_as_numpy_raises(call):
    data = np.arange(12.0).reshape(4, 3)
    array = xa.from_array(data, chunks=2)
    assert not assert_same_outcome(lambda: call(array), lambda: call(data)), "NumPy takes this"
    assert_same(array[...], data)


# -- results that are too large ------------------------------------------------------------------

TOO_LARGE = {
    "operator": (lambda a: a + 1, "out="),
    "operator before": (lambda a: 1 - a, "out="),
    "ufunc": (lambda a: np.sqrt(a), "out="),
    "outer": (lambda a: np.add.outer(a, [1, 2]), "out="),
    "sum of an axis": (lambda a: a.sum(axis=2), "out="),
    "cumsum": (lambda a: np.cumsum(a, axis=0), "out="),
    "where": (lambda a: np.where(a > 0, a, 0), "out="),
    "clip": (lambda a: a.clip(0, 1), "out="),
    "concatenate": (lambda a: np.concatenate([a, a]), "out="),
    "take": (lambda a: np.take(a, [0, 1], axis=2), "out="),
    "fft": (lambda a: np.fft.fft(a, axis=2), "out="),
    "astype": (lambda a: a.astype("f4", copy=True), "is lazy"),
    "fall-back": (lambda a: np.rot90(a), "parts of the arrays"),
}


@pytest.mark.parametrize(("call", "way"), TOO_LARGE.values(), ids=TOO_LARGE.keys())
def test_too_large(factory, call, way):
    """The message names a way that needs less memory."""
    with factory.array((32, 32, 32), chunks=16) as array:
        array[...] = 1
        with xa.config.set(max_result=2**12), pytest.raises(xa.ResultError, match=way) as caught:
            call(array)
        assert isinstance(caught.value, MemoryError)
        assert "config.max_result" in str(caught.value)
