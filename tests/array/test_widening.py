"""Appends that widen an array of texts."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from injected import interrupted, needs_no_tracing
from systems import needs_replaced_open_files

import extarray as xa
from extarray.array import widening
from extarray.common.limits import limits
from extarray.errors import (
    ArgumentError,
    ArgumentTypeError,
    CastingError,
    ChecksumError,
    ReadOnlyError,
    ReplacedError,
    ShapeError,
)

LABELS = np.array([["ab", "c"], ["d", "ef"], ["g", ""]])
LONGER = np.array([["longer", "é"]])

OPTIONS = [
    {},
    {"engine": "pread"},
    {"checksum": True},
    {"compression": "zlib"},
    {"compression": "zlib", "checksum": True},
    {"sparse": True},
    {"fill_value": "zz"},
    {"order": "F"},
    {"durability": "commit"},
]


def create(path, dtype="U2", **options):
    a = xa.create(path, (0, 2), dtype, chunks=(2, 2), dims=["t", "y"], attrs={"x": 1}, **options)
    a.append(LABELS.astype(dtype))
    a.append(LABELS.astype(dtype), side="start")
    return a


@pytest.mark.parametrize("dtype", ["U2", ">U2", "S2"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_longer_text_widens_the_array(path, dtype, options):
    old = np.vstack([LABELS, LABELS]).astype(dtype)
    new = np.array([["longer", "e"]], f"{dtype[:-1]}9")
    with create(path, dtype, **options) as a, xa.open(path) as reader:
        files = sorted(os.listdir(path.parent))
        if "compression" in options:
            a.freeze()
        a.append(new, widen=True)
        expected = np.vstack([old, new])
        assert a.dtype == np.dtype(f"{dtype[:-1]}6")
        assert a.dtype.byteorder == np.dtype(dtype).byteorder
        assert np.array_equal(a[...], expected)
        assert (a.origin, a.dims, a.attrs["x"]) == ((3, 0), ("t", "y"), 1)
        assert (a.compression is None) == ("compression" not in options)
        a.extend("t", 1)
        assert (a[-1] == a.fill_value).all() and a.fill_value == np.array(
            options.get("fill_value", ""), dtype
        )
        a.shrink("t", 1)
        assert np.array_equal(reader[...], old)
        reader.refresh()  # takes up that the writer has closed the old files
        with pytest.raises(ReplacedError, match="on_replaced='reopen'"):
            reader.refresh()
        assert np.array_equal(reader[...], old)
        assert reader.refresh(on_replaced="reopen")
        assert reader.dtype == a.dtype and np.array_equal(reader[...], expected)
        a.append(new)  # fits by now
    assert sorted(os.listdir(path.parent)) == files
    assert not xa.check(path).problems
    with xa.open(path, verify="read") as a:
        assert np.array_equal(a[...], np.vstack([expected, new]))


def test_in_memory():
    a = create(None)
    before = a[...]
    a.append(LONGER, widen=True)
    assert np.array_equal(a[...], np.vstack([before, LONGER])) and a.dtype == "U6"
    assert a.origin == (3, 0)


def test_nothing_is_widened_without_need(path):
    with create(path) as a:
        uuid = a._store.now.header.uuid
        a.append(LABELS, widen=True)
        with pytest.raises(CastingError, match="widen=True"):
            a.append(LONGER)
        with pytest.raises(ShapeError):
            a.append([["too long"]], widen=True)
        with pytest.raises(ArgumentTypeError, match="widen"):
            a.append(LABELS, widen="yes")
        assert (a.dtype, len(a), a._store.now.header.uuid) == (np.dtype("U2"), 9, uuid)
    with xa.create(f"{path}-numbers", (0, 2), "i4", chunks=(2, 2)) as a:
        a.append([[1, 2]], widen=True)
        with pytest.raises(CastingError):
            a.append([["a", "b"]], widen=True)
    with xa.create(f"{path}-bytes", (0, 2), "S2", chunks=(2, 2)) as a:
        with pytest.raises(CastingError, match="cannot cast"):
            a.append(LONGER, widen=True)
        assert a.dtype == "S2"


def test_large_arrays_are_left_to_rechunk(path, monkeypatch):
    with create(path) as a:
        monkeypatch.setattr(limits, "widened_bytes", 8 * 2 * 4 * 6 - 1)
        with pytest.raises(CastingError, match=r"rechunk\(dtype='<U6', in_place=True\)"):
            a.append(LONGER, widen=True)
        assert a.dtype == "U2" and len(a) == 6
        monkeypatch.setattr(limits, "widened_bytes", 8 * 2 * 4 * 6)
        a.append(LONGER, widen=True)
        assert a.dtype == "U6" and len(a) == 7


def test_masked_texts_and_lists(path):
    with create(path, fill_value="-") as a:
        a.append(np.ma.array([["longest", "hidden but too long"]], mask=[[0, 1]]), widen=True)
        a.append([["a list of", "texts"]], widen=True)
        assert a.dtype == "U9"
        assert a[-2:].tolist() == [["longest", "-"], ["a list of", "texts"]]


def test_who_may_not_widen(path):
    with create(path) as a:
        with xa.commit([a]), pytest.raises(ArgumentError, match="inside a block"):
            a.append(LONGER, widen=True)
        with xa.open(path) as reader, pytest.raises(ReadOnlyError):
            reader.append(LONGER, widen=True)
        with (
            xa.open(path, "r+", share="elements"),
            pytest.raises(ArgumentError, match="others write elements"),
        ):
            a.append(LONGER, widen=True)
        assert a.dtype == "U2"
        a.append(LONGER, widen=True)
    with xa.open(path, "r+", share=True) as a, pytest.raises(ArgumentError, match="open it alone"):
        a.append([["longer still", ""]], widen=True)
    with xa.open(path) as a:
        assert len(a) == 7


@pytest.mark.invariant("I11")
def test_damage_is_not_given_new_sums(path):
    create(path, checksum=True).close()
    with open(f"{path}.xta", "r+b") as file:
        file.write(b"Z")
    with xa.open(path, "r+") as a:
        with pytest.raises(ChecksumError):
            a.append(LONGER, widen=True)
        assert a.dtype == "U2" and len(a) == 6


@needs_replaced_open_files
def test_threads_read_meanwhile(path):
    """Each read shows whole rows, of the old width or a new one."""
    with create(path) as a:
        expected, done, wrong = a[...], threading.Event(), []

        def read():
            while not done.is_set():
                found = a[:6]
                if not np.array_equal(found, expected):
                    wrong.append(found)

        thread = threading.Thread(target=read)
        thread.start()
        for n in range(3, 40):
            a.append([["x" * n, ""]], widen=True)
        done.set()
        thread.join()
        assert not wrong and a.dtype == "U39" and len(a) == 43


READER = """
import sys
import extarray as xa
with xa.open(sys.argv[1]) as a:
    print(a.shape, a.dtype.str, flush=True)
    last = 0
    for line in sys.stdin:
        try:
            for _ in range(3):
                a.refresh()
        except xa.errors.ReplacedError:
            first = a[...].tolist()
            a.refresh(on_replaced="reopen")
            assert a[: len(first)].tolist() == first, (first, a[...])
        print(a.shape, a.dtype.str, a[-1].tolist(), flush=True)
"""


def test_a_reader_in_another_process(path, script):
    with create(path) as a:
        process = script.start(READER, path)
        try:
            assert process.stdout.readline().split() == ["(6,", "2)", "<U2"]
            for n in range(1, 6):
                a.append([["x" * n, "y"]], widen=True)
                process.stdin.write("look\n")
                process.stdin.flush()
                told = process.stdout.readline().strip()
                assert told == f"{a.shape} {a.dtype.str} {a[-1].tolist()}"
        finally:
            process.kill()
            process.communicate()


# Between the return of a store and its assignment nobody can close it but its finalizer.
@pytest.mark.filterwarnings("ignore:.*was not closed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@needs_no_tracing
@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"compression": "zlib"}, {"checksum": True}], ids=str)
def test_an_interrupt_at_every_place(scratch, options):
    path = scratch / "scene"
    number, old = 0, np.vstack([LABELS, LABELS])
    while True:
        number += 1
        with create(path, overwrite=True, **options) as a:
            try:
                with interrupted(number, widening) as found:
                    a.append(LONGER, widen=True)
            except KeyboardInterrupt:
                pass
            assert np.array_equal(a[:6], old), found.place
            assert len(a) in (6, 7)
            dtype, rows = a.dtype, len(a)
            with xa.open(path) as reader:
                assert (reader.dtype, len(reader)) == (dtype, rows), found.place
            a.append([["even longer", ""]], widen=True)
            assert len(a) == rows + 1
        with xa.open(path, verify="read") as a:
            assert a.dtype == "U11" and np.array_equal(a[:6], old), found.place
        left = [name for name in os.listdir(path.parent) if not name.startswith(f"{path.name}.x")]
        assert not left, found.place
        if not found.place:
            break
    assert number > 30


@given(
    rows=st.lists(
        st.tuples(
            st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=9)),
            st.sampled_from(["start", "end"]),
        ),
        max_size=8,
    ),
    cuts=st.integers(0, 3),
)
@settings(max_examples=30)
def test_as_numpy_concatenates(tmp_path_factory, rows, cuts):
    path, model = tmp_path_factory.mktemp("w") / "a", np.array(["one", "two", "three"])
    with xa.from_array(model, path, chunks=2) as a:
        for texts, side in rows:
            new = np.array(texts, "U") if texts else np.empty(0, "U1")
            a.append(new, side=side, widen=True)
            model = np.concatenate([new, model] if side == "start" else [model, new])
            n = min(cuts, len(model))
            a.shrink(0, n, side=side)
            model = model[n:] if side == "start" else model[: len(model) - n]
            assert np.array_equal(a[...], model)
    with xa.open(path) as a:
        assert np.array_equal(a[...], model)


def test_views_of_chunks_keep_an_array_as_wide_as_it_is(tmp_path):
    for path in (None, tmp_path / "a"):
        with xa.from_array(np.array(["a", "b"]), path) as a:
            view = a.chunk((0,))
            with pytest.raises(ArgumentError, match="views of its chunks"):
                a.append(np.array(["longer"]), widen=True)
            view[0] = "c"
            assert a[...].tolist() == ["c", "b"]
            del view
