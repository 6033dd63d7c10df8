"""Calls with arguments of all kinds, compared with NumPy where it has the call.

`call` makes one from bytes.  It raises on anything that users must never see: a result other than
NumPy's, an error where NumPy gives a result, an error of an unexpected kind and, for calls that
NumPy lacks, any error outside the family.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from pathlib import Path

import numpy as np
from compare import assert_same
from dice import Dice
from fuzz_pairs import MOST
from model import sample

import extarray as xa

with contextlib.suppress(ImportError):  # not on Windows
    import resource

__all__ = ["call", "twins"]

DTYPES = ["<i4", "|u1", ">f8", "|S3", "<U2", "|b1", "<c8", "<M8[s]", [("a", "<i2"), ("b", "|S2")]]
#: Texts that are awkward as names of files, attributes, or anything else.
TEXTS = ["a", "", "x.xmd", "é", "\ud800", "a\0b", "n" * 300, "/", ".", "..", "a/b", "-", " ", "C"]


def twins(folder: Path) -> list[tuple[xa.ExtArray, np.ndarray]]:
    """Return small arrays of all kinds with their NumPy equivalents."""
    found = []
    for i, (shape, dtype) in enumerate(
        [
            ((), "<i4"),
            ((0,), "<f8"),
            ((7,), "|u1"),
            ((3, 4), "<i4"),
            ((5, 0, 2), "<i2"),
            ((4, 3, 5), ">f8"),
            ((2, 3, 1, 4), "<c8"),
            ((6, 2), np.dtype([("a", "<i2"), ("b", "|S2", (2,))])),
        ]
    ):
        array = xa.create(
            folder / f"twin{i}" if i % 2 else None,
            shape,
            dtype,
            chunks=(2,) * len(shape),
            order="CFZH"[i % 4],
            engine="pread" if i % 3 == 2 else "mmap",
        )
        model = sample(np.dtype(dtype), shape, i)
        array[...] = model
        found.append((array, model))
    return found


# -- arguments -----------------------------------------------------------------------------------


class Odd:
    """An object that converts to an int, or raises when asked to."""

    REFUSAL = "no index here"

    def __init__(self, value):
        self.value = value

    def __index__(self):
        if self.value is None:
            raise KeyError(self.REFUSAL)
        return self.value


def integer(dice: Dice, n: int):
    """Return an index of an axis of n elements, of some type: mostly a valid one."""
    kind = dice.below(8)
    i = dice.number() if kind == 7 else dice.below(2 * n + 3) - n - 1
    if kind < 4 or not -(2**63) <= i < 2**63:
        return i
    return dice.pick([np.int64, np.intp, np.array, Odd, lambda i: np.array([[i]])[0, 0]])(i)


def index_array(dice: Dice, n: int):
    """Return integers or booleans, as an array or a list."""
    shape = tuple(dice.below(4) for _ in range(dice.pick([1, 1, 2, 0, 3])))
    count = int(np.prod(shape))
    kind = dice.below(6)
    if kind == 0:
        return np.array([dice.flag() for _ in range(count)], bool).reshape(shape)
    values = [dice.below(max(1, 2 * n)) - n for _ in range(count)]
    dtype = dice.pick(["i8", "i8", "u1", "i1", ">i4", "u8", "f8", "O", "U3", "M8[s]", "c8"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = np.array(values, "i8").astype(dtype).reshape(shape)
    return found.tolist() if dice.flag() else found


def item(dice: Dice, n: int):
    kind = dice.below(10)
    if kind < 3:
        return integer(dice, n)
    if kind < 6:
        ends = [None if dice.flag() else integer(dice, n) for _ in range(3)]
        return slice(*ends)
    if kind == 6:
        return index_array(dice, n)
    if kind == 7:
        return dice.pick([Ellipsis, None, True, False, np.True_])
    if kind == 8:
        return dice.pick([slice(None), slice(None, None, 0), slice("a"), slice(1.5), range(2), ()])
    return dice.pick(
        [1.0, "a", "b", b"a", object, [], [[]], {}, 1j, np.float64(1), Odd(None), ["a"]]
    )


def selection(dice: Dice, shape: tuple[int, ...]):
    items = [item(dice, n) for n in shape[: dice.below(len(shape) + 1)]]
    for _ in range(dice.pick([0, 0, 0, 1, 2])):
        items.insert(dice.below(len(items) + 1), item(dice, 3))
    if len(items) == 1 and dice.flag():
        return items[0]
    return items if dice.below(16) == 1 else tuple(items)


def value(dice: Dice):
    kind = dice.below(6)
    if kind == 0:
        return dice.number()
    if kind == 1:
        return dice.pick(
            [1.5, "7", b"x", None, True, float("nan"), 1j, object(), (1, b"x"), "é", {}]
        )
    if kind == 2:
        return dice.pick([[], [1, 2], [[1], [2]], [1, [2]], range(3), (1, 2), [[]], "abc", [None]])
    shape = tuple(dice.below(4) for _ in range(dice.below(4)))
    return sample(np.dtype(dice.pick(DTYPES)), shape, dice.below(50))


def anything(dice: Dice, depth: int = 0):
    kind = dice.below(9)
    if kind < 3:
        return dice.number()
    if kind == 3:
        return dice.pick(TEXTS)
    if kind == 4:
        return tuple(dice.number() for _ in range(dice.below(4)))
    if kind == 5:
        return dice.pick(
            [None, True, 1.5, float("nan"), b"x", 1j, object(), [], {}, np.int8(3), "auto"]
        )
    if kind == 6:
        return (0,) * dice.pick([1, 2, 32, 33, 65])
    if kind == 7 and depth < 3:
        return [anything(dice, depth + 1) for _ in range(dice.below(3))]
    return dice.pick([np.array(3), np.array([2, 3]), np.zeros((2, 2)), Odd(2), Odd(None), Ellipsis])


def attribute(dice: Dice, depth: int = 0):
    """Return a value for an attribute, valid or not."""
    kind = dice.below(6) if depth < 4 else 0
    if kind == 0:
        return anything(dice)
    if kind == 1:
        return {dice.pick([*TEXTS, 1, None]): attribute(dice, depth + 1)}
    if kind == 2:
        return [attribute(dice, depth + 1)] * dice.below(3)
    if kind == 3:
        found: list = []
        for _ in range(dice.pick([10, 300, 2000, 100_000])):
            found = [found]
        return found
    if kind == 4:
        found = [1]
        found.append(found)
        return found
    return 10 ** dice.pick([1, 400, 5000])


# -- calls ---------------------------------------------------------------------------------------


#: NumPy's errors for bad arguments.  If several are bad, ours may report another one first.
REFUSALS = (
    IndexError, KeyError, TypeError, ValueError, OverflowError, RuntimeError, xa.ExtArrayError
)  # fmt: skip
#: NumPy's own words about conversions of arguments, and about results beyond any memory.
NUMPYS = ("truth value", "inhomogeneous", "array is too big")
#: NumPy's words about a list nested deeper than its target.
TOO_DEEP = "exceed the maximum number of dimension"


def compared(ours, numpys) -> bool:
    """Require the same value as NumPy's, or that both refuse."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected, refusal = numpys(), None
        except Exception as error:
            expected, refusal = None, error
        try:
            got = ours()
        except Exception as error:
            if refusal is None:
                raise AssertionError("NumPy accepts this") from error
            if isinstance(error, REFUSALS) or is_odd(error):
                return False
            raise AssertionError(f"NumPy raises {refusal!r}") from error
    if refusal is not None and TOO_DEEP not in str(refusal):
        raise AssertionError(f"NumPy refuses this: {refusal!r}")
    if expected is not None:
        assert_same(got, expected)
    return True


def is_odd(error: Exception) -> bool:
    """Tell whether an error comes from an odd argument, and is passed on."""
    return isinstance(error, KeyError) and error.args == (Odd.REFUSAL,)


def split(model: np.ndarray, key):
    """Split an index into the fields that it names, as h5py allows, and the other parts.

    NumPy takes names alone; it refuses the parts left here as they are.
    """

    def is_names(part):
        return isinstance(part, str) or (
            isinstance(part, list) and bool(part) and all(isinstance(name, str) for name in part)
        )

    if model.dtype.names is None or type(key) is not tuple or len(key) < 2:
        return model, key
    names = [part for part in key if is_names(part)]
    if not names:
        return model, key
    if len(names) > 1:
        names = [[n for part in names for n in ([part] if isinstance(part, str) else part)]]
    fields, rest = model[names[0]], tuple(part for part in key if not is_names(part))
    return fields, rest if fields.ndim == model.ndim else before_axes_of_field(rest, model.ndim)


def before_axes_of_field(rest: tuple, ndim: int) -> tuple:
    """Return an index that leaves the axes of a field that is an array to itself, as ours does."""

    def axes_of(part) -> int:
        if isinstance(part, bool | np.bool | list | np.ndarray):
            mask = np.asarray(part)
            return mask.ndim if mask.dtype == bool else 1
        return 0 if part is None or part is Ellipsis else 1

    spare = ndim - sum(map(axes_of, rest))
    if spare < 0 or sum(part is Ellipsis for part in rest) > 1:
        raise IndexError("too many indices")
    return tuple(
        inner
        for part in rest
        for inner in ((slice(None),) * spare if part is Ellipsis else (part,))
    )


def call(pairs: list[tuple[xa.ExtArray, np.ndarray]], data: bytes, folder: Path) -> str:
    """Make one call, and return its kind."""
    dice = Dice(data)
    kind = dice.below(8)
    if kind < 4:
        array, model = dice.pick(pairs)
        key = selection(dice, model.shape)
        if kind < 2:

            def expected():
                fields, rest = split(model, key)
                found = fields[rest]
                return np.array(found, order="C") if isinstance(found, np.ndarray) else found

            done = compared(lambda: array[key], expected)
            return f"reading {'done' if done else 'refused'}"
        new = value(dice)
        before = model.copy()
        with contextlib.suppress(Exception):
            fields, rest = split(model, key)
            if not np.size(fields[rest]):
                # NumPy's treatment of values for an empty selection depends on the index.
                with contextlib.suppress(*REFUSALS):
                    array[key] = new
                return "writing nothing"
        try:

            def expected():
                fields, rest = split(model, key)
                fields[rest] = new

            done = compared(lambda: array.__setitem__(key, new), expected)
            # (NumPy may have written part of what it refuses.)
            assert_same(array[...], model[...] if done else before[...])
        finally:
            model[...] = before
            array[...] = before
        return f"writing {'done' if done else 'refused'}"
    with warnings.catch_warnings(), limited(folder):
        warnings.simplefilter("ignore")
        try:
            return [create_one, grow_one, settings, odds][kind - 4](dice, pairs, folder)
        except xa.ExtArrayError:
            return "refused"
        except Exception as error:
            if is_odd(error) or any(words in str(error) for words in NUMPYS):
                return "refused"
            raise


@contextlib.contextmanager
def limited(folder: Path):
    """Limit the size of files, and remove those that the block makes."""
    before, present = resource.getrlimit(resource.RLIMIT_FSIZE), set(os.listdir(folder))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 22, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        for name in set(os.listdir(folder)) - present:
            with contextlib.suppress(IsADirectoryError):
                os.unlink(folder / name)


def create_one(dice: Dice, pairs, folder: Path) -> str:
    options = {}
    for name in ("chunks", "fill_value", "order", "sparse", "attrs", "dims", "engine", "overwrite"):
        if dice.below(4) == 1:
            options[name] = attribute(dice) if name == "attrs" else anything(dice)
    shape = anything(dice) if dice.flag() else tuple(dice.below(9) for _ in range(dice.below(4)))
    dtype = dice.pick([*DTYPES, "O", "V0", "f4,i4", "S", "(2,)i4", None, 3, "M8", "x"])
    name = dice.pick(TEXTS)
    path = None if dice.below(3) == 1 else f"{folder}/{name}"
    if not Path(os.path.abspath(f"{path}.xmd")).is_relative_to(folder):
        path = None
    with xa.create(path, shape, dtype, **options) as array:
        kept = array.shape, array.dtype, array.chunks, array.order, dict(array.attrs)
        if array.nbytes <= MOST:
            assert array[...].shape == array.shape
    if path is not None:
        with xa.open(path, dice.pick(["r", "r+", "w", None, 1]), timeout=anything(dice)) as array:
            assert (array.shape, array.dtype, array.chunks, array.order, dict(array.attrs)) == kept
    return "created"


def grow_one(dice: Dice, pairs, folder: Path) -> str:
    shape = tuple(dice.below(5) for _ in range(dice.below(4)))
    path = None if dice.flag() else folder / "grown"
    model = sample(np.dtype("<i4"), shape, 3)
    fill = dice.below(3)
    with xa.create(path, shape, "<i4", chunks=2 if shape else None, fill_value=fill) as array:
        array[...] = model
        for _ in range(dice.below(6)):
            axis = dice.below(len(shape)) if shape and dice.flag() else anything(dice)
            by = dice.below(5) if dice.flag() else size(dice, path)
            side = dice.pick(["end", "start", "end", "middle", None])
            kept = array.shape
            with contextlib.suppress(xa.ExtArrayError):
                kind = dice.below(6)
                if kind == 0:
                    array.extend(axis, by, side)
                elif kind == 1:
                    append(array, value(dice), axis, side)
                elif kind == 2:
                    array.shrink(axis, by, side)
                elif kind == 3:
                    array.resize(size(dice, path), *([axis] if dice.flag() else []))
                elif kind == 4:
                    array.reserve(size(dice, path))
                else:
                    next(array.follow(axis, timeout=0), None)
                kept = array.shape
            assert array.shape == kept
            if array.nbytes <= MOST:
                assert array[...].shape == array.shape
    return "grown"


def size(dice: Dice, path: Path | None):
    """Return anything, but no sizes that take hundreds of megabytes: only those of files have
    limits."""

    def affordable(x, most):
        if isinstance(x, (list, tuple)):
            return type(x)(affordable(y, 1 << 8) for y in x)
        return x % most if path is None and isinstance(x, int) and most < x < 1 << 40 else x

    return affordable(anything(dice), MOST)


def append(array, values, axis, side) -> None:
    """Append; like NumPy, refuse integers of a list that the elements cannot hold."""
    try:
        array.append(values, axis, side)
    except OverflowError:
        if not isinstance(values, (list, tuple)):
            raise


def settings(dice: Dice, pairs, folder: Path) -> str:
    """Attributes, names of axes, and the configuration."""
    array, _ = dice.pick(pairs)
    before = dict(array.attrs)
    kind = dice.below(5)
    name = dice.pick([*TEXTS, 1, None])
    try:
        if kind == 0:
            array.attrs[name] = attribute(dice)
        elif kind == 1:
            array.attrs.update({name: attribute(dice), "other": 1})
        elif kind == 2:
            array.dims = anything(dice)
        elif kind == 3:
            setting = dice.pick(["threads", "max_memory", "engine", "warn_result", "nothing"])
            with xa.config.set(**{setting: anything(dice)}):
                array[...]
        else:
            array.attrs.pop(dice.pick(TEXTS), None)
        assert dict(array.attrs) == dict(array.attrs)
    except xa.ExtArrayError:
        assert dict(array.attrs) == before
        raise
    finally:
        array.attrs.clear()
    return "set"


def odds(dice: Dice, pairs, folder: Path) -> str:
    """Call other methods of an array."""
    array, model = dice.pick(pairs)
    kind = dice.below(6)
    if kind == 0:
        key = selection(dice, model.shape)
        out = dice.pick([None, np.zeros(model.shape, model.dtype), np.zeros(3), [1], array, 3])
        try:
            array.read(key, out, dice.pick(["C", "F", "K", None, 1]))
        except (IndexError, TypeError, ValueError, OverflowError):
            with contextlib.suppress(IndexError, TypeError, ValueError, OverflowError):
                model[key]
                raise
    elif kind == 1:
        array.chunk(anything(dice))
    elif kind == 2:
        with array.copy(chunks=anything(dice), order=dice.pick(["C", "Z", "x", None])) as other:
            assert_same(other[...], model[...])
    elif kind == 3:
        dtype = dice.pick([*DTYPES, "O", None, 3, "x"])
        with contextlib.suppress(TypeError):  # NumPy refuses, too
            array.astype(dtype)
            model.astype(dtype)
    elif kind == 4:
        array.axial.address(anything(dice))
    else:
        array.axial.index(anything(dice))
    return "asked"
