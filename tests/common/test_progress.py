"""Progress of long work: one argument for every long function."""

from __future__ import annotations

import io
import sys
import types

import numpy as np
import pytest

import extarray as xa
from extarray.common.limits import limits
from extarray.common.progress import Progress


def array_of(folder):
    values = np.arange(4096.0).reshape(64, 64)
    return xa.from_array(values, folder / "a", chunks=(8, 64), checksum=True)


JOBS = {
    "rechunk": lambda a, folder, p: xa.rechunk(a, chunks=(64, 8), progress=p),
    "a.rechunk": lambda a, folder, p: a.rechunk((64, 8), folder / "new", progress=p).close(),
    "copy": lambda a, folder, p: a.copy(progress=p),
    "copy to files": lambda a, folder, p: a.copy(folder / "new", progress=p).close(),
    "repack": lambda a, folder, p: a.repack(folder / "new", progress=p).close(),
    "check": lambda a, folder, p: xa.check(a.path, data=True, progress=p),
    "to_npy": lambda a, folder, p: xa.to_npy(a, folder / "new.npy", progress=p),
    "to_raw": lambda a, folder, p: xa.to_raw(a, folder / "new.raw", progress=p),
}


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
class TestJobs:
    def test_a_function_is_told(self, tmp_path, job):
        with array_of(tmp_path) as a:
            a.flush()
            told = []
            job(a, tmp_path, lambda done, total: told.append((done, total)))
        assert told
        assert told == sorted(told)
        assert told[-1][0] == told[-1][1] > 0
        assert len({total for _, total in told}) == 1

    def test_an_error_of_the_function_ends_the_work(self, tmp_path, job):
        def stop(done, total):
            raise KeyboardInterrupt

        with array_of(tmp_path) as a:
            a.flush()
            with pytest.raises(KeyboardInterrupt):
                job(a, tmp_path, stop)
        assert not (tmp_path / "new.xmd").exists()

    def test_something_else_is_refused(self, tmp_path, job):
        with array_of(tmp_path) as a, pytest.raises(xa.ArgumentTypeError, match="progress"):
            job(a, tmp_path, 1)

    def test_it_is_shown_where_somebody_looks(self, tmp_path, job, monkeypatch):
        monkeypatch.setattr(limits, "progress_interval", 0)
        with array_of(tmp_path) as a:
            a.flush()
            for shown in (True, False):
                for path in tmp_path.glob("new*"):
                    path.unlink()
                monkeypatch.setattr(sys, "stderr", Terminal())
                job(a, tmp_path, shown)
                assert ("100%" in sys.stderr.getvalue()) is shown


COMPUTED = {
    "sum": lambda a: a.sum(),
    "mean": lambda a: a.mean(axis=1),
    "median": lambda a: np.median(a, axis=0),
    "in place": lambda a: np.add(a, 1, out=a),
    "cumsum": lambda a: np.cumsum(a, axis=0),
}


@pytest.mark.parametrize("compute", COMPUTED.values(), ids=COMPUTED)
@pytest.mark.parametrize("threads", [1, 2])
class TestComputations:
    def test_a_function_of_the_settings_is_told(self, tmp_path, compute, threads, monkeypatch):
        monkeypatch.setattr(limits, "streamed_bytes", 1)
        told = []
        with array_of(tmp_path) as a:
            expected = compute(a.read())
            with xa.config.set(threads=threads, progress=lambda *n: told.append(n)):
                found = compute(a)
            np.testing.assert_allclose(np.asarray(found), expected)
        assert told
        assert told[-1][0] == told[-1][1] > 0
        assert told == sorted(told)

    def test_its_error_ends_the_work(self, tmp_path, compute, threads, monkeypatch):
        monkeypatch.setattr(limits, "streamed_bytes", 1)

        def stop(done, total):
            raise ZeroDivisionError

        settings = xa.config.set(threads=threads, progress=stop)
        with array_of(tmp_path) as a, settings, pytest.raises(ZeroDivisionError):
            compute(a)

    def test_a_bar_is_shown_where_it_is_asked_for(self, tmp_path, compute, threads, monkeypatch):
        monkeypatch.setattr(limits, "progress_interval", 0)
        monkeypatch.setattr(limits, "streamed_bytes", 1)
        with array_of(tmp_path) as a:
            for shown in (False, True):
                monkeypatch.setattr(sys, "stderr", Terminal())
                with xa.config.set(threads=threads, progress=shown):
                    compute(a)
                assert ("100%" in sys.stderr.getvalue()) is shown


def test_a_setting_that_tells_nobody_is_refused():
    with pytest.raises(xa.ArgumentTypeError, match="progress"):
        xa.config.set(progress=3)


def test_what_is_read_from_a_file_is_told(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(100.0))
    told = []
    xa.from_npy(tmp_path / "x.npy", progress=lambda *numbers: told.append(numbers))
    assert told[-1] == (800, 800)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_notebook_shows_it_too(monkeypatch):
    """In a notebook, stderr is no terminal."""
    monkeypatch.setattr(limits, "progress_interval", 0)
    shell = types.SimpleNamespace(kernel=object())
    for found, shown in ((shell, True), (types.SimpleNamespace(), False), (None, False)):
        monkeypatch.setitem(
            sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda found=found: found)
        )
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        with Progress(100, "work", True) as progress:
            progress.add(100)
        assert ("work" in sys.stderr.getvalue()) is shown


def test_bars_are_of_the_kind_that_the_place_asks_for(monkeypatch):
    tqdm = pytest.importorskip("tqdm.auto")
    made = []

    class Bar(tqdm.tqdm):
        def __init__(self, *args, **options):
            made.append(options)
            super().__init__(*args, **options)

    monkeypatch.setattr(tqdm, "tqdm", Bar)
    monkeypatch.setattr(limits, "progress_interval", 0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress(100, "work", True) as progress:
        progress.skip(50)
        progress.add(25)
        progress.add(25)
    (options,) = made
    assert (options["total"], options["initial"], options["desc"]) == (100, 50, "work")
    assert "100%" in sys.stderr.getvalue()


@pytest.mark.parametrize("has_tqdm", [True, False])
def test_a_rate_is_shown_when_there_is_one(monkeypatch, has_tqdm):
    if has_tqdm:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(limits, "progress_interval", 0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress(100, "copy", True) as progress:
        progress.skip(10)
        progress.add(0)
        assert "?" not in sys.stderr.getvalue() and "left" not in sys.stderr.getvalue()
        progress.add(50)
        progress.add(10)
    assert "?" not in sys.stderr.getvalue()
    assert "B/s" in sys.stderr.getvalue()
