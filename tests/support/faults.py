"""Make each system call fail once, in each kind of call on an array.

`python tests/support/faults.py [ENGINE [CASE ...]]` goes through the cases, in a process that
preload.py watches.  It repeats the call of a case on fresh files: the first system call fails, then
the second, and so on, until none is left.  With EXTARRAY_TEST_FAULTS=all, every kind of array meets
every kind of fault.
"""

from __future__ import annotations

import collections
import copy
import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from preload import FAULTS, Control
from workload import Call, Twin, problem

import extarray as xa

__all__ = ["CASES", "run"]

CHUNKS = (3, 4)
FIRST = np.arange(1, 43, dtype="i4").reshape(6, 7)
#: Options of `open` that `create` lacks.
OF_OPEN = {"durability", "share"}
#: Faults that a call must survive.
CARRIED_ON = {"EINTR", "half"}


@dataclass
class Case:
    """A call on an array in files, and the calls before it."""

    name: str
    call: Call
    before: tuple[Call, ...] = ()
    is_sealed: bool = True  # closed once before the call


def values(*shape):
    return np.arange(1000, 1000 + np.prod(shape), dtype="i4").reshape(shape)


def alternating(n):
    """Return n growths that make n segments."""
    return tuple(Call("extend", (number % 2, CHUNKS[number % 2])) for number in range(n))


MASK = np.arange(42).reshape(6, 7) % 3 == 1
CUT = Call("shrink", (0, 3))
CASES = [
    Case("extend", Call("extend", (0, 9))),
    Case("extend, not sealed", Call("extend", (0, 9)), is_sealed=False),
    Case("extend inside a chunk", Call("extend", (1, 1))),
    Case("extend at the start", Call("extend", (1, 6, "start"))),
    Case("extend into a cut", Call("extend", (0, 5)), (CUT,)),
    Case("append", Call("append", (values(7, 7), 0))),
    Case("append inside a chunk", Call("append", (values(6, 1), 1))),
    Case("append at the start", Call("append", (values(2, 7), 0, "start"))),
    Case("append into a cut", Call("append", (values(5, 7), 0)), (CUT,), is_sealed=False),
    Case("resize", Call("resize", ((9, 2),))),
    Case("shrink", CUT),
    Case("shrink at the start", Call("shrink", (1, 3, "start")), is_sealed=False),
    Case("reserve", Call("reserve", ((20, 20),))),
    Case("add an axis", Call("add_axis", (1,)), (Call("extend", (0, 3)),)),
    Case("new room for the log", Call("extend", (0, 3)), alternating(64), is_sealed=False),
    Case("attributes", Call("attrs", ({"a": 1},))),
    Case("large attributes", Call("attrs", ({"a": "x" * 5000},)), is_sealed=False),
    Case("element", Call("write", ((1, 1), 5))),
    Case("box", Call("write", (np.s_[1:5, 2:6], values(4, 4)))),
    Case("list", Call("write", (([4, 0, 5],), values(3, 7)))),
    Case("mask", Call("write", (MASK, values(14)))),
    Case("write into a hole", Call("write", (np.s_[6:, 1], values(9))), (Call("extend", (0, 9)),)),
    Case("flush", Call("flush", ()), (Call("extend", (0, 3)),)),
]


def attempt(function: Callable[[], object], control: Control, number: int, fault: str):
    """Call a function; return whether the fault occurred, and the error."""
    error = None
    with control.fault(number, FAULTS[fault]) as fired:
        try:
            function()
        except Exception as caught:
            error = caught
    return fired(), error


def check_error(error, fault: str, path: Path) -> None:
    """Require an error of the family that names the path."""
    assert fault not in CARRIED_ON, f"has to be carried on, but {error!r}"
    assert isinstance(error, OSError) and isinstance(error, xa.ExtArrayError), repr(error)
    assert error.errno == FAULTS[fault], repr(error)
    assert str(path) in str(error), f"no path in {error!r}"
    assert str(error.filename).startswith(str(path.parent)), f"no file name in {error!r}"


def agree(path: Path, states, assigned=None, array=None) -> None:
    """Require the array, if any, and a fresh reader to be in one of the states."""
    if array is not None:
        wrong = problem(array, states, assigned)
        assert wrong is None, wrong
    with xa.open(path) as reader:
        wrong = problem(reader, states, assigned)
        assert wrong is None, f"a fresh reader {wrong}"


def make(path: Path, case: Case, options) -> xa.ExtArray:
    """Make the array of a case, as it is before the call."""
    made = {name: value for name, value in options.items() if name not in OF_OPEN}
    array = xa.create(path, FIRST.shape, "i4", chunks=CHUNKS, **made)
    array[...] = FIRST
    for call in case.before:
        call.on(array)
    if case.is_sealed or OF_OPEN & set(options):
        array.close()
        kept = {name: options[name] for name in ("engine", *OF_OPEN) if name in options}
        array = xa.open(path, "r+", **kept)
    return array


def call_once(case: Case, options, control: Control, number: int, fault: str, path: Path) -> bool:
    """Run a case with one fault; return whether the fault occurred."""
    array = make(path, case, options)
    before = Twin(array)
    after = copy.deepcopy(before)
    case.call.on(after)
    fired, error = attempt(lambda: case.call.on(array), control, number, fault)
    if error is None:
        agree(path, [after], array=array)
    else:
        assert fired, repr(error)
        check_error(error, fault, path)
        # A commit that failed to reach the disk still counts, as does an axis of which readers
        # could not be told.
        counts = "durability" in options or case.call.method == "add_axis"
        states = [before, after] if counts else [before]
        agree(path, states, after if case.call.assigns else None, array)
        state = before if problem(array, [after]) else after
        case.call.on(array)
        case.call.on(state)
        after = state
        agree(path, [after], array=array)
    if error is not None:
        last = after.ndim - 1
        for call in (Call("extend", (0, 4)), Call("extend", (last, 3)), Call("attrs", ({"b": 2},))):
            call.on(array)
            call.on(after)
        agree(path, [after], array=array)
    array.close()
    if error is not None:
        with xa.open(path, "r+", engine=options["engine"]) as array:
            agree(path, [after], array=array)
            for one in (array, after):
                one.extend(0, 2, "start")
            agree(path, [after], array=array)
    report = xa.check(path, data=True)
    assert not [p for p in report.problems if p.severity != "note"], str(report)
    return fired


# -- calls other than on an open array -----------------------------------------------------------


def old_array(path: Path, options) -> Twin:
    """Make a closed array in files, whose last writer has not sealed it."""
    array = xa.create(path, FIRST.shape, "i4", chunks=CHUNKS, **options)
    array[...] = FIRST
    array.close()
    return Twin(xa.open(path))


def creating(options, control, number, fault, path):
    made = []

    def create():
        made.append(xa.create(path, (5, 5), "i4", chunks=CHUNKS, attrs={"a": 1}, **options))

    fired, error = attempt(create, control, number, fault)
    if error is not None:
        check_error(error, fault, path)
        assert not os.listdir(path.parent), os.listdir(path.parent)
        create()
    made[0].append(values(1, 5))
    made[0].close()
    with xa.open(path) as array:
        assert array.shape == (6, 5)
        assert array[:].sum() == values(1, 5).sum()
    return fired


def replacing(options, control, number, fault, path):
    before = old_array(path, options)
    made = []

    def create():
        made.append(xa.create(path, (5, 5), "i4", chunks=CHUNKS, overwrite=True, **options))

    with xa.open(path) as reader:
        fired, error = attempt(create, control, number, fault)
        assert (reader[...] == FIRST).all(), "who has it open keeps it"
    if error is not None:
        check_error(error, fault, path)
        with xa.open(path) as array:
            if array.shape != (5, 5):
                assert problem(array, [before]) is None
        create()
    made[0].append(values(1, 5))
    made[0].close()
    with xa.open(path) as array:
        assert array.shape == (6, 5)
    with xa.open(path, "r+") as array:  # gives the data their name if the creator could not
        assert array.shape == (6, 5)
    return fired


def filling(options, control, number, fault, path):
    before = old_array(path, options)
    made = []

    def fill():
        made.append(xa.from_array(values(5, 5), path, chunks=CHUNKS, overwrite=True))

    fired, error = attempt(fill, control, number, fault)
    if error is not None:
        check_error(error, fault, path)
        with xa.open(path) as array:
            if array.shape != (5, 5):
                assert problem(array, [before]) is None
            else:
                assert (array[...] == values(5, 5)).all()
        fill()
    made[0].append(values(1, 5))
    made[0].close()
    with xa.open(path, "r+") as array:
        assert array.shape == (6, 5)
    return fired


def repairing(options, control, number, fault, path):
    """Return to the older of two states."""
    with xa.create(path, FIRST.shape, "i4", chunks=CHUNKS, attrs={"a": 1}, **options) as array:
        array[...] = FIRST
        before = Twin(array)
        array.flush()
        array.attrs["a"] = 2
        state = array._store.now.state
    with open(f"{path}.xmd", "r+b") as file:
        file.seek(state.attrs_offset)
        file.write(b"?")

    def repair():
        report = xa.check(path, repair=True)
        assert report.ok, str(report)

    fired, error = attempt(repair, control, number, fault)
    if error is not None:
        check_error(error, fault, path)
        repair()
    agree(path, [before])
    for copy_aside in path.parent.glob("*.before-repair*"):
        copy_aside.unlink()
    return fired


def opening(mode):
    def open_once(options, control, number, fault, path):
        before = old_array(path, options)
        made = []

        def open_it():
            made.append(xa.open(path, mode, engine=options["engine"]))

        fired, error = attempt(open_it, control, number, fault)
        if error is not None:
            check_error(error, fault, path)
            agree(path, [before])
            open_it()
        agree(path, [before], array=made[0])
        made[0].close()
        return fired

    return open_once


def closing(options, control, number, fault, path):
    old_array(path, options)
    array = xa.open(path, "r+", engine=options["engine"])
    array.append(values(2, 7))
    state = Twin(array)
    fired, error = attempt(array.close, control, number, fault)
    assert error is None, repr(error)
    agree(path, [state])
    with xa.open(path, "r+") as array:
        for one in (array, state):
            one.extend(0, 5)
        agree(path, [state], array=array)
    return fired


def refreshing(options, control, number, fault, path):
    before = old_array(path, options)
    with xa.open(path, engine=options["engine"]) as reader, xa.open(path, "r+") as array:
        array.append(values(9, 7))
        array.extend(1, 5)
        array.attrs["a"] = "x" * 3000
        fired, error = attempt(reader.refresh, control, number, fault)
        if error is not None:
            check_error(error, fault, path)
            assert problem(reader, [before]) is None
            reader.refresh()
        assert problem(reader, [Twin(array)]) is None
    return fired


def reading(options, control, number, fault, path):
    old_array(path, options)
    with xa.open(path, engine=options["engine"]) as reader:
        for key in (np.s_[...], (2, 3), ([5, 0],), MASK):
            found = []
            fired, error = attempt(
                lambda k=key, f=found: f.append(reader[k]), control, number, fault
            )
            if error is not None:
                check_error(error, fault, path)
                found.append(reader[key])
            assert np.array_equal(found[0], FIRST[key])
    return fired


def copying(how):
    def copy_once(options, control, number, fault, path):
        before = old_array(path, options)
        target = path.with_name("b")
        made = []
        with xa.open(path) as array:
            fired, error = attempt(
                lambda: made.append(getattr(array, how)(target)), control, number, fault
            )
            if error is not None:
                check_error(error, fault, target)
                assert not [name for name in os.listdir(path.parent) if name.startswith("b")]
                made.append(getattr(array, how)(target))
        made[0].close()
        agree(path, [before])
        agree(target, [before])
        return fired

    return copy_once


def freezing(change, **given):
    """Return a case in which the metadata of an array with frozen chunks are replaced."""

    def change_once(options, control, number, fault, path):
        old_array(path, {**options, **given})
        with xa.open(path, "r+", engine=options["engine"]) as array, xa.open(path) as reader:
            if given:
                for value in (0, FIRST[1]):
                    array.freeze()
                    array[1] = value
                array.freeze()
            expected = FIRST.copy()
            fired, error = attempt(lambda: change(array), control, number, fault)
            if error is not None:
                assert fired, repr(error)
                check_error(error, fault, path)
            for one in (array, reader):
                assert np.array_equal(one[...], expected), one
            if error is not None:
                change(array)
            array[2] = expected[2] = 7
            if given:
                assert np.array_equal(reader[...], expected)
            array.append(FIRST)
            array.freeze()
        expected = np.vstack([expected, FIRST])
        with xa.open(path, "r+") as array:
            assert np.array_equal(array[...], expected)
        report = xa.check(path, data=True)
        assert not [p for p in report.problems if p.severity != "note"], str(report)
        return fired

    return change_once


def compress(array):
    array.compression = "zlib:1"


OTHERS = {
    "create": creating,
    "create over another": replacing,
    "fill over another": filling,
    "repair": repairing,
    "open for reading": opening("r"),
    "open for writing": opening("r+"),
    "close": closing,
    "refresh": refreshing,
    "read": reading,
    "copy": copying("copy"),
    "repack": copying("repack"),
    "repack in place": freezing(lambda array: array.repack(), compression="zlib", freeze="never"),
    "another codec": freezing(compress, compression="zlib", freeze="never"),
    "compression of an array without": freezing(compress),
}

#: Arrays that meet every case.
KINDS = [
    {"engine": engine, "sparse": sparse} for engine in ("mmap", "pread") for sparse in (False, True)
]
#: Arrays that meet only some of the cases in a short run.
OTHER_KINDS = [
    {"engine": "pread", "sparse": False, "durability": "commit"},
    {"engine": "mmap", "sparse": False, "fill_value": -1},
    {"engine": "pread", "sparse": False, "checksum": True},
    {"engine": "mmap", "sparse": False, "growth": ("linear", 3)},
    {"engine": "mmap", "sparse": True, "share": True},
]


def run(
    folder: Path, engines: Collection[str] = (), names: Collection[str] = ()
) -> collections.Counter[str]:
    """Run some cases, or all; return the number of faults by failed call."""
    control = Control()
    counts: collections.Counter[str] = collections.Counter()
    path = folder / "a"
    in_full = os.environ.get("EXTARRAY_TEST_FAULTS") == "all"

    def go(name, options, call):
        if (engines and options["engine"] not in engines) or (names and name not in names):
            return
        for fault in FAULTS:
            if not in_full and (options["sparse"] ^ (fault == "ENOSPC")):
                continue
            for number in itertools.count(1):
                try:
                    fired = call(options, control, number, fault, path)
                except AssertionError as error:
                    where = f"{name}, {options}, {fault} at call {number}, {control.name}"
                    raise AssertionError(f"{where}: {error}") from None
                for file in folder.iterdir():
                    assert file.suffix != ".new", f"{name}, {options}: {file} is left"
                    file.unlink()
                if not fired:
                    break
                counts[control.name] += 1

    for options in KINDS:
        for case in CASES:
            go(case.name, options, lambda *rest, c=case: call_once(c, *rest))
    for number, options in enumerate(OTHER_KINDS):
        for case in CASES[:] if in_full else CASES[number % 4 :: 4]:
            if not (case.call.method == "add_axis" and "share" in options):
                go(case.name, options, lambda *rest, c=case: call_once(c, *rest))
    for options in KINDS:
        for name, call in OTHERS.items():
            go(name, options, call)
    return counts


def main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ["PRELOAD_FOLDER"]) as inner:
        counts = run(Path(inner), arguments[:1], arguments[1:])
    for name, count in (*counts.items(), ("faults", sum(counts.values()))):
        print(f"{count:8d} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
