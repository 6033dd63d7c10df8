"""Mistakes in calls of public functions: short tracebacks, and words of other libraries."""

from __future__ import annotations

import inspect
import subprocess
import sys
import traceback

import numpy as np
import pytest

import extarray as xa
from extarray.common.calls import public


def caught(function, *args, **kwargs):
    """Return the error of a call, and the names of the functions in its traceback, but this one."""
    with pytest.raises(Exception) as found:  # noqa: PT011
        function(*args, **kwargs)
    frames = traceback.extract_tb(found.value.__traceback__)
    return found.value, [frame.name for frame in frames[1:]]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    xa.create("scene", (3,)).close()
    return tmp_path


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "kind"),
    [
        (xa.open, ("nothere",), {}, xa.MissingError),
        (xa.open, ("scene", "w"), {}, xa.ArgumentError),
        (xa.open, ("scene",), {"engine": "x"}, xa.ArgumentError),
        (xa.create, ("scene", (3,)), {}, xa.ExistsError),
        (xa.create, ("none/scene", (3,)), {}, xa.MissingError),
        (xa.create, ("a", (3,)), {"dtype": "O"}, xa.DTypeError),
        (xa.create, ("a", (3,)), {"maxshape": None}, xa.ArgumentTypeError),
        (xa.zeros, ((-1,),), {}, xa.ShapeError),
        (xa.from_array, ({},), {}, xa.ArgumentTypeError),
        (xa.from_npy, ("nothere.npy",), {}, xa.MissingError),
        (xa.open_group, ("nothere",), {}, xa.MissingError),
    ],
)
def test_a_mistake_shows_no_frames_of_ours(folder, function, args, kwargs, kind):
    error, frames = caught(function, *args, **kwargs)
    assert type(error) is kind
    assert len(frames) <= 2
    assert len("".join(traceback.format_exception(error)).splitlines()) < 20
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None


def test_another_writer_is_told_without_frames(folder):
    with xa.open("scene", "r+"):
        error, frames = caught(xa.open, "scene", "r+")
    assert isinstance(error, xa.LockedError)
    assert len(frames) == 1


def test_the_functions_of_users_keep_their_frames(folder):
    def report(done, total):
        raise xa.ArgumentError("enough")

    np.save("x.npy", np.zeros(9))
    for function, x in ((xa.from_npy, "x.npy"), (xa.from_array, np.zeros(9))):
        error, frames = caught(function, x, path="made", progress=report)
        assert str(error) == "enough"
        assert frames[-1] == "report"
        assert len(frames) > 3


def test_errors_of_others_keep_all_frames(folder):
    class Wrong:
        shape, dtype, ndim = (3,), np.dtype("f8"), 1

        def __getitem__(self, key):
            raise ZeroDivisionError

    error, frames = caught(xa.from_array, Wrong())
    assert isinstance(error, ZeroDivisionError)
    assert frames[-1] == "__getitem__"


def test_a_cause_that_says_more_stays():
    @public
    def fails():
        try:
            raise KeyError("a word")
        except KeyError as error:
            raise xa.FormatError("the file is strange") from error

    error, _ = caught(fails)
    assert isinstance(error.__cause__, KeyError)


@pytest.mark.parametrize(
    ("function", "word", "told"),
    [
        (xa.create, "maxshape", "every axis grows without limit; leave it out"),
        (xa.zeros, "maxshape", "every axis grows without limit; leave it out"),
        (xa.create, "fillvalue", "use fill_value="),
        (xa.create, "compression_opts", "use compression=, with the level, as in 'zlib:4'"),
        (xa.create, "compressors", "use compression="),
        (xa.create, "shuffle", "use compression=, with the filter, as in 'zstd:shuffle'"),
        (xa.create, "fletcher32", "use checksum=True"),
        (xa.create, "shards", "use chunks= alone"),
        (xa.create, "dimension_names", "use dims="),
        (xa.create, "data", "use extarray.from_array(data, path)"),
        (xa.create, "mode", "with overwrite=True replaces one; extarray.open opens"),
        (xa.create, "fil_value", "use fill_value="),
        (xa.create, "no_such_thing", "it has path, shape, dtype"),
        (xa.open, "shape", "an array that exists keeps its own; extarray.create makes"),
        (xa.open, "chunks", "an array that exists keeps its own; extarray.create makes"),
        (xa.open, "fillvalue", "an array that exists keeps its own; extarray.create makes"),
        (xa.open, "swmr", "use extarray.open(path) beside a writer, and refresh()"),
        (xa.open, "synchronizer", "use share=True"),
        (xa.from_npy, "fillvalue", "it has file, path"),
    ],
)
def test_words_of_other_libraries_are_answered_with_ours(function, word, told):
    with pytest.raises(TypeError) as found:
        function("scene", **{word: 3})
    assert isinstance(found.value, xa.ArgumentTypeError)
    assert f"{function.__name__}() has no argument '{word}'" in str(found.value)
    assert told in str(found.value)


@pytest.mark.parametrize("mode", ["w", "a", "x", "w-"])
def test_modes_of_other_libraries(mode):
    with pytest.raises(xa.ArgumentError, match=r"'r\+' to change .* extarray\.create"):
        xa.open("scene", mode)


def test_other_mistakes_of_calls_stay_as_python_tells_them():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'path'"):
        xa.create()

    @public
    def outer():
        np.save("x", no_such_argument=1)

    with pytest.raises(TypeError, match="unexpected keyword argument 'no_such_argument'"):
        outer()


def test_signatures_are_those_of_the_functions():
    assert list(inspect.signature(xa.open).parameters)[:3] == ["path", "mode", "timeout"]
    assert xa.open.__name__ == "open" and xa.open.__module__ == "extarray.array.creation"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("scen", "did you mean 'scene'?"),
        ("nothere", "extarray.create makes an array"),
        ("no/scene", "there is no folder 'no'"),
        ("alone", "'alone.xta' alone is no array"),
        ("x.npy", "extarray.from_npy('x.npy') makes an array of it"),
        ("x.h5", "extarray.from_hdf5('x.h5') makes an array of it"),
        ("x.zarr", "extarray.from_zarr('x.zarr') makes an array of it"),
        ("x.txt", "it exists, but is not an array"),
    ],
)
def test_what_cannot_be_opened_says_what_to_do(folder, name, told):
    for file in ("alone.xta", "x.npy", "x.h5", "x.txt"):
        (folder / file).touch()
    (folder / "x.zarr").mkdir()
    with pytest.raises(FileNotFoundError) as found:
        xa.open(name)
    assert told in str(found.value)


def test_programs_do_not_wait_for_what_mistakes_need():
    code = "import sys, extarray; sys.exit('difflib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
