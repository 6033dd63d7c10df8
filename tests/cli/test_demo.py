"""The demo does what it says, and each of its checks can fail."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import hyperscenes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extarray as xa
from extarray import cli
from extarray.apps import scene_pictures, scenes
from extarray.cli import _checks, _progress, _reader, demo
from extarray.common.limits import limits
from extarray.errors import ArgumentError, ExtArrayError, MissingError, MissingExtraError

pytest.importorskip("matplotlib")


def make_scene(shape=(23, 19, 17), dtype="u2", seed=0):
    return np.random.default_rng(seed).integers(0, 60000, shape).astype(dtype)


@pytest.fixture
def scene_file(tmp_path):
    path = tmp_path / "small.npy"
    np.save(path, make_scene())
    return path


@pytest.fixture
def run(tmp_path, scene_file, capsys):
    """Return a function that runs the demo on a small scene: exit status, output, errors."""

    def run(*options, scene=scene_file):
        # Use few chunks: otherwise drawing the growth map would take most of the time.
        few = ["--chunks", "8", "--ranks", "1"]
        argv = ["demo", "--out", str(tmp_path / "out"), "--scene", str(scene), *few, *options]
        status = cli.main([str(option) for option in argv])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    run.out = tmp_path / "out"
    return run


@pytest.fixture
def undrawn(monkeypatch):
    """Draw no pictures, and unmix no scene for them: both take most of a run's time."""
    monkeypatch.setattr(demo, "_draw", lambda *args: [])
    monkeypatch.setattr(demo, "_unmix", lambda *args: [])


@pytest.fixture
def readers(monkeypatch):
    """Return the list of reading processes that the demo has started."""
    started = []

    def start(*args):
        started.append(_reader.Reader(*args))
        return started[-1]

    monkeypatch.setattr(demo, "Reader", start)
    return started


def restored(path):
    """Return a demo's array in the scene's order, without using the demo's own code."""
    with xa.open(path) as a:
        orders = [[i for part in axis for i in range(*part)] for axis in a.attrs["pieces"]]
        return a[...][np.ix_(*(np.argsort(order) for order in orders))]


class TestMainJob:
    @pytest.mark.slow
    @pytest.mark.mpi
    @pytest.mark.usefixtures("shared_memory")
    def test_indian_pines(self, script, tmp_path):
        """Run the demo as users do: in a process and a folder, on the scene of tensorly."""
        try:
            path = scenes.default_path()
        except MissingExtraError:
            pytest.skip("needs the scene in the package tensorly")
        resource = pytest.importorskip("resource")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "extarray", "demo", "--limit", "240"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=script.environment,
            timeout=250,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # Measure processor time: elapsed time depends on the machine's other work.
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60
        for phrase in (
            "AVIRIS Indian Pines: 145 x 145 x 200 uint16, 8.0 MiB",
            "CC BY 3.0",
            "has opened the array",
            "growing: ",
            "Growth history",
            "start address",
            "utilisation 93.4 %",
            "rewriting",
            "endmembers by N-FINDR",
            "Pictures demo-out/composite.png, demo-out/growth-map.png",
            ", demo-out/endmembers.png, demo-out/abundances.png",
        ):
            assert phrase in done.stdout
        out = tmp_path / "demo-out"
        assert sorted(p.name for p in out.iterdir()) == [
            "abundances.png",
            "composite.png",
            "endmembers.png",
            "growth-map.png",
            "scene.xmd",
            "scene.xta",
        ]
        np.testing.assert_array_equal(restored(out / "scene"), np.load(path))
        for name in ("composite.png", "growth-map.png", "endmembers.png", "abundances.png"):
            data = (out / name).read_bytes()
            assert data.startswith(b"\x89PNG\r\n")
            assert len(data) > 20_000
        with xa.open(out / "scene") as a:
            assert a.grid == (10, 10, 8)
            assert len({*map(len, map(a.axial.records, range(3)))}) == 1
            assert all(len(a.axial.records(axis)[0]) > 1 for axis in range(3))

    def test_tensorly_is_not_imported(self, script):
        script(
            "import sys\n"
            "from extarray.apps import scenes\n"
            "from extarray.errors import MissingExtraError\n"
            "try:\n"
            "    print(scenes.load().data.shape)\n"
            "except MissingExtraError:\n"
            "    pass\n"
            "assert not {'tensorly', 'scipy'} & set(sys.modules)\n"
        )

    @pytest.mark.slow
    def test_small_scene(self, run, readers):
        status, out, err = run()
        assert (status, err) == (0, "")
        np.testing.assert_array_equal(restored(run.out / "scene"), make_scene())
        assert "small.npy: 23 x 19 x 17 uint16" in out
        (total,) = re.findall(r"^Arrivals (\d+) pieces", out, re.MULTILINE)
        assert f"growing: {total} of {total} pieces" in out
        assert not (run.out / "rewritten.npy").exists()
        (reader,) = readers
        assert reader._process.returncode == 0

    @pytest.mark.slow
    def test_the_order_depends_on_the_seed_alone(self, run, undrawn):
        orders = []
        for seed in (1, 1, 2):
            assert run("--seed", seed)[0] == 0
            with xa.open(run.out / "scene") as a:
                orders.append(a.attrs["pieces"])
        assert orders[0] == orders[1] != orders[2]

    @pytest.mark.slow
    @pytest.mark.parametrize("dtype", ["i2", ">u2", "f4", ">f8", "u1"])
    def test_data_types(self, run, scene_file, dtype):
        scene = make_scene((11, 9, 7), "u1").astype(dtype)
        if scene.dtype.kind == "f":
            scene[2, 3, :] = np.nan
            scene[4, 5, 6] = -0.0
        np.save(scene_file, scene)
        assert run()[0] == 0
        got = restored(run.out / "scene")
        assert got.dtype == scene.dtype
        assert got.tobytes() == scene.tobytes()

    @pytest.mark.slow
    @pytest.mark.parametrize("shape", [(1, 1, 1), (1, 40, 1), (2, 3, 1), (5, 1, 30)])
    def test_thin_scenes(self, run, scene_file, shape):
        np.save(scene_file, make_scene(shape))
        assert run()[0] == 0
        np.testing.assert_array_equal(restored(run.out / "scene"), make_scene(shape))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("option", "chunks"), [("4", (4, 4, 4)), ("5,6,7", (5, 6, 7)), ("64", (64, 64, 64))]
    )
    def test_chunks(self, run, undrawn, option, chunks):
        assert run("--chunks", option)[0] == 0
        with xa.open(run.out / "scene") as a:
            assert a.chunks == chunks

    @pytest.mark.slow
    @pytest.mark.parametrize("value", [np.nan, -0.0])
    def test_values_that_equality_does_not_tell(self, run, scene_file, value):
        scene = make_scene(dtype="f8")
        scene[1::2] = value
        np.save(scene_file, scene)
        status, _, err = run()
        assert (status, err) == (0, "")
        assert restored(run.out / "scene").tobytes() == scene.tobytes()

    @pytest.mark.slow
    def test_a_scene_that_cannot_be_unmixed_has_no_such_pictures(self, run, scene_file):
        assert run()[0] == 0
        assert (run.out / "abundances.png").exists()
        np.save(scene_file, np.full((5, 6, 7), np.nan))
        status, out, err = run()
        assert (status, err) == (0, "")
        assert "Unmixed  skipped: " in out and "Pictures" in out
        assert not (run.out / "abundances.png").exists()

    @pytest.mark.slow
    def test_ranks_share_the_unmixing(self, run, mpiexec):
        status, out, err = run("--ranks", "2")
        assert (status, err) == (0, "")
        assert "Unmixed  by 2 ranks" in out

    @pytest.mark.slow
    def test_ranks_without_mpi(self, run, monkeypatch):
        monkeypatch.setattr(scene_pictures, "_launcher", lambda: None)
        status, _, err = run("--ranks", "2")
        assert status == 1 and "2 ranks need mpi4py" in err

    @pytest.mark.slow
    def test_ranks_that_fail(self, run, tmp_path, monkeypatch):
        launcher = tmp_path / "mpiexec"
        launcher.write_text("#!/bin/sh\necho no slots >&2\nexit 3\n")
        launcher.chmod(0o755)
        monkeypatch.setattr(scene_pictures, "_launcher", lambda: str(launcher))
        status, _, err = run("--ranks", "2")
        assert status == 1 and "failed: no slots" in err
        launcher.write_text("#!/bin/sh\nexec sleep 60\n")
        with pytest.raises(ExtArrayError, match="did not finish in 0.1 s"):
            scene_pictures.unmix(run.out / "scene", 2, 0.1)

    def test_materials_are_found(self, tmp_path):
        made = hyperscenes.make(30, 40, 25, 4)
        xa.from_array(made.data, tmp_path / "scene").close()
        found = scene_pictures.unmix(tmp_path / "scene", 1)
        assert found.estimate == 4 and found.error < 0.01
        assert sorted(found.positions.tolist()) == sorted(made.positions.tolist())
        # Pixels without data do not change the materials.
        holes = np.ones((30, 40), bool)
        holes[tuple(made.positions.T)] = False
        holes[:, ::2] = False
        data = np.where(holes[..., None], np.nan, made.data)
        xa.from_array(data, tmp_path / "holes").close()
        found = scene_pictures.unmix(tmp_path / "holes", 1)
        assert found.error < 0.01
        assert sorted(found.positions.tolist()) == sorted(made.positions.tolist())

    @pytest.mark.slow
    def test_bands(self, run):
        status, _, err = run("--bands", "16,0,3")
        assert (status, err) == (0, "")

    @pytest.mark.slow
    def test_rewriting_is_given_up_when_it_takes_too_long(self, run, undrawn, monkeypatch):
        monkeypatch.setattr(limits, "rewriting_share", 1e-9)
        status, out, _ = run()
        assert status == 0
        assert "rewriting was stopped after 1 of" in out

    @pytest.mark.slow
    def test_an_earlier_demo_is_replaced(self, run, undrawn, scene_file):
        assert run()[0] == 0
        np.save(scene_file, make_scene(seed=1))
        assert run()[0] == 0
        np.testing.assert_array_equal(restored(run.out / "scene"), make_scene(seed=1))

    def test_nothing_else_is_replaced(self, run):
        run.out.mkdir()
        with xa.create(run.out / "scene", shape=(2,), dtype="u1", fill_value=7):
            pass
        status, _, err = run()
        assert status == 1
        assert "already exists and was not made by the demo" in err
        with xa.open(run.out / "scene") as a:
            assert a[...].tolist() == [7, 7]
        (run.out / "scene.xmd").write_bytes(b"something else")
        assert run()[0] == 1
        assert (run.out / "scene.xmd").read_bytes() == b"something else"


class TestChecksCanFail:
    """Each test makes a fault; the demo must find it, report it in a line, and end."""

    def failed(self, result, *phrases):
        status, _, err = result
        assert status == 1
        assert err.startswith("extarray demo: ")
        assert err.count("\n") == 1
        for phrase in phrases:
            assert phrase in err

    def test_writer_finds_a_wrong_element(self, run, readers, monkeypatch):
        append = demo._append

        def wrong(a, data, axis):
            append(a, data, axis)
            if a.shape[0] > 10:
                a[0, 0, a.shape[2] - 1] += 1

        monkeypatch.setattr(demo, "_append", wrong)
        self.failed(run(), "differ from the scene")
        assert readers[0]._process.returncode is not None

    @pytest.mark.slow
    def test_writer_finds_a_missing_growth(self, run, monkeypatch):
        append = demo._append

        def wrong(a, data, axis):
            if a.shape[0] < 10:
                append(a, data, axis)

        monkeypatch.setattr(demo, "_append", wrong)
        self.failed(run(), "the array has shape")

    def test_reader_finds_a_wrong_element(self, run, tmp_path, monkeypatch, readers):
        """The reader gets a scene that differs in one element."""
        other = make_scene()
        other[11, 7, 13] ^= 1
        np.save(tmp_path / "other.npy", other)
        start = demo.Reader
        monkeypatch.setattr(
            demo, "Reader", lambda array, scene, *rest: start(array, tmp_path / "other.npy", *rest)
        )
        self.failed(run(), "the reader (process", "1 of", "differ from the scene")
        assert readers[0]._process.returncode == 1

    def test_reader_that_cannot_start(self, run, tmp_path, monkeypatch, readers):
        start = demo.Reader
        monkeypatch.setattr(demo, "Reader", lambda array, *rest: start(tmp_path / "nowhere", *rest))
        self.failed(run(), "the reader (process", "nowhere")

    @pytest.mark.slow
    def test_reader_that_fails_in_an_unforeseen_way(self, run, monkeypatch, readers):
        start = demo.Reader
        monkeypatch.setattr(
            demo, "Reader", lambda array, scene, variable, seed, limit: start(
                array, scene, variable, -1, limit
            )
        )  # fmt: skip
        self.failed(run(), "the reader (process", "exit status 1", "ValueError")

    @pytest.mark.slow
    def test_reader_that_is_killed(self, run, monkeypatch, readers):
        grow = demo._grow

        def kill(*args):
            if len(readers) == 1:
                readers[0]._process.kill()
            return grow(*args)

        monkeypatch.setattr(demo, "_grow", kill)
        self.failed(run(), "the reader (process", "exit status -9")

    @pytest.mark.slow
    def test_reader_that_hangs(self, run, monkeypatch, readers):
        grow = demo._grow

        def stop(*args):
            os.kill(readers[0].pid, signal.SIGSTOP)
            readers[0]._deadline = time.monotonic() + 1
            return grow(*args)

        monkeypatch.setattr(demo, "_grow", stop)
        monkeypatch.setattr(limits, "reader_patience", 0.5)
        self.failed(run("--limit", 600), "did not see", "in time")
        assert readers[0]._process.returncode == -signal.SIGKILL

    @pytest.mark.slow
    def test_damage_in_the_closed_file(self, run, monkeypatch):
        check = demo._check_file

        def damage(a, scene):
            with open(f"{a.path}.xta", "r+b") as file:
                byte = file.read(1)[0]
                file.seek(0)
                file.write(bytes([byte ^ 1]))
            return check(a, scene)

        monkeypatch.setattr(demo, "_check_file", damage)
        self.failed(run("--chunks", "64"), "differs from the scene")

    def test_wrong_inverse(self, path):
        scene = make_scene((4, 4, 4))

        class Axial:
            def __init__(self, axial):
                self.addresses, self.indices = axial.addresses, lambda q: axial.indices(q)[::-1]

        with xa.create(path, shape=scene.shape, dtype=scene.dtype, chunks=2) as a:
            a[...] = scene
            a.attrs["pieces"] = [[[0, 4]]] * 3
            found = scenes.Scene("", scene, path, "", (0, 1, 2), "")
            np.testing.assert_array_equal(demo._check_file(a, found), scene)

            class Wrong:
                attrs, grid, ndim, axial = a.attrs, a.grid, a.ndim, Axial(a.axial)
                __getitem__ = staticmethod(a.__getitem__)

            with pytest.raises(_checks.CheckError, match="inverse"):
                demo._check_file(Wrong(), found)

    def test_too_little_time(self, run, readers):
        self.failed(run("--limit", 0.001), "in time")
        assert readers[0]._process.returncode is not None

    @pytest.mark.slow
    def test_time_runs_out_on_the_way(self, run, monkeypatch, readers):
        grow, late = demo._grow, 0

        def slow(*args):
            nonlocal late
            late = 1000
            return grow(*args)

        clock = SimpleNamespace(
            perf_counter=time.perf_counter, monotonic=lambda: time.monotonic() + late
        )
        monkeypatch.setattr(demo, "time", clock)
        monkeypatch.setattr(demo, "_grow", slow)
        self.failed(run("--limit", 600), "allow more time with --limit")
        assert readers[0]._process.returncode is not None

    @pytest.mark.slow
    def test_interrupt(self, run, monkeypatch, readers):
        def interrupt(*args):
            raise KeyboardInterrupt

        monkeypatch.setattr(demo, "_grow", interrupt)
        status, _, err = run()
        assert (status, err) == (130, "extarray demo: interrupted\n")
        assert readers[0]._process.returncode is not None
        assert not (run.out / "rewritten.npy").exists()


class TestReader:
    """The checks of the reading process, run in this process."""

    @pytest.fixture
    def growing(self, tmp_path, scene_file):
        scene = np.load(scene_file)
        a = xa.create(
            tmp_path / "a",
            shape=(10, *scene.shape[1:]),
            dtype=scene.dtype,
            chunks=6,
            attrs={"pieces": [[[0, 10], [10, 23]], [[0, 19]], [[0, 17]]]},
        )
        a[...] = scene[:10]
        with a:
            yield a, scene

    def read(self, a, scene_file, limit=5.0, parent=None):
        parent = os.getppid() if parent is None else parent
        return _reader._read_along(str(a.path), str(scene_file), None, 0, limit, parent)

    def during(self, action):
        """Run `action` a little later, while the reader reads."""
        timer = threading.Timer(0.3, action)
        timer.start()
        return timer

    def test_follows_to_the_end(self, growing, scene_file, capsys):
        a, scene = growing

        def complete():
            a.append(scene[10:], axis=0)
            a.attrs["complete"] = True

        timer = self.during(complete)
        report = self.read(a, scene_file)
        timer.join()
        assert report["event"] == "done"
        assert report["shape"] == list(scene.shape)
        states = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert states[0] == {"event": "state", "states": 1, "shape": [10, 19, 17]}
        assert report["elements"] >= 2 * scene.size

    def test_writer_that_has_gone(self, growing, scene_file):
        with pytest.raises(_checks.CheckError, match="the writer has exited"):
            self.read(growing[0], scene_file, parent=-1)

    def test_array_that_is_never_complete(self, growing, scene_file):
        with pytest.raises(_checks.CheckError, match=r"not complete after 0\.2 s"):
            self.read(growing[0], scene_file, limit=0.2)

    def test_complete_too_early(self, growing, scene_file):
        growing[0].attrs["complete"] = True
        with pytest.raises(_checks.CheckError, match="the complete array has the shape"):
            self.read(growing[0], scene_file)

    def test_view_that_changes(self, growing, scene_file, monkeypatch):
        a, _ = growing

        def overwrite(**event):
            a[0, 0, 0] = a[0, 0, 0] ^ 1

        # The reader reports the first state after comparing it, when it holds its view.
        monkeypatch.setattr(_reader, "_say", overwrite)
        with pytest.raises(_checks.CheckError, match="a view of chunk"):
            self.read(a, scene_file)

    def test_mosaic_behind_the_shape(self, growing, scene_file):
        a, _ = growing
        a.attrs["pieces"] = [[[0, 9]], [[0, 19]], [[0, 17]]]
        with pytest.raises(_checks.CheckError, match="but the array has shape"):
            self.read(a, scene_file)

    def test_array_that_shrinks(self, growing):
        a, scene = growing
        checker = _checks.Checker(scene, np.random.default_rng(0))
        with pytest.raises(_checks.CheckError, match="shrank"):
            _reader._check_state(a, (11, 0, 0), checker)


class TestChecker:
    @pytest.fixture
    def checker(self):
        return _checks.Checker(make_scene((4, 5, 6)), np.random.default_rng(0))

    @pytest.fixture
    def mosaic(self):
        return scenes.Mosaic([[[2, 4], [0, 2]], [[0, 5]], [[3, 6], [0, 3]]])

    def stored(self):
        return make_scene((4, 5, 6))[[2, 3, 0, 1]][:, :, [3, 4, 5, 0, 1, 2]]

    def test_counts_what_it_compares(self, checker, mosaic):
        checker.box(self.stored(), mosaic, (slice(0, 4), slice(1, 5, 2), slice(0, 6)))
        assert (checker.boxes, checker.elements) == (1, 48)
        for _ in range(20):
            checker.random_box(self.stored(), mosaic)
        assert checker.boxes == 21

    def test_every_single_element_counts(self, checker, mosaic):
        everything = tuple(slice(0, n) for n in (4, 5, 6))
        for index in np.ndindex(4, 5, 6):
            stored = self.stored()
            stored[index] ^= 1
            with pytest.raises(_checks.CheckError, match="1 of 120 elements differ") as caught:
                checker.box(stored, mosaic, everything)
            assert str(index) in str(caught.value)

    @pytest.mark.parametrize("change", [lambda x: x[:3], lambda x: x.astype("u4")])
    def test_shape_and_data_type_count(self, checker, mosaic, change):
        with pytest.raises(_checks.CheckError, match="expected uint16 of shape"):
            checker.box(change(self.stored()), mosaic, tuple(slice(0, n) for n in (4, 5, 6)))

    def test_sign_of_zero_counts(self, mosaic):
        checker = _checks.Checker(np.zeros((4, 5, 6)), np.random.default_rng(0))
        with pytest.raises(_checks.CheckError, match="120 of 120"):
            checker.box(-np.zeros((4, 5, 6)), mosaic, tuple(slice(0, n) for n in (4, 5, 6)))

    @pytest.mark.parametrize(
        ("first", "second", "message"),
        [
            ([[0, 1], [2, 3]], [[0, 1, 4], [2, 3, 5]], None),
            ([[0, 1], [2, 3]], [[0, 2, 4], [1, 3, 5]], "2 chunks moved; the first is at (0, 1)"),
            ([[0, 1], [2, 3]], [[0, 1]], "shrank"),
            ([[0, 1], [2, 2]], None, "do not have the addresses 0 to 3"),
            ([[0, 1], [2, 4]], None, "do not have the addresses 0 to 3"),
        ],
    )
    def test_addresses(self, first, second, message):
        class Fake:
            def __init__(self, table):
                self.table = np.array(table)
                self.axial = self
                self.grid = self.table.shape

            def addresses(self, indices):
                return self.table[tuple(indices.T)]

        checker = _checks.Checker(np.zeros((2, 2)), np.random.default_rng(0))
        tables = [Fake(table) for table in (first, second) if table is not None]
        if message is None:
            for table in tables:
                checker.addresses(table)
            return
        for table in tables[:-1]:
            checker.addresses(table)
        with pytest.raises(_checks.CheckError) as caught:
            checker.addresses(tables[-1])
        assert message in str(caught.value)


class TestSchedule:
    @given(
        shape=st.tuples(*[st.integers(1, 60)] * 3),
        counts=st.tuples(*[st.integers(1, 30)] * 3),
        seed=st.integers(0, 2**32),
    )
    def test_each_element_arrives_once(self, shape, counts, seed):
        arrivals = scenes.schedule(shape, counts, np.random.default_rng(seed))
        assert [arrival.axis for arrival in arrivals[:3]] == [0, 1, 2]
        mosaic = scenes.Mosaic()
        for arrival in arrivals:
            assert arrival.start < arrival.stop
            mosaic.add(arrival)
        assert mosaic.shape == shape
        for axis, extent in enumerate(shape):
            assert sorted(mosaic.indices(axis)) == list(range(extent))
            assert len(mosaic.pieces[axis]) <= counts[axis]

    def test_order_is_random_and_mixed(self):
        arrivals = scenes.schedule((145, 145, 200), (24, 24, 20), np.random.default_rng(0))
        axes = [arrival.axis for arrival in arrivals]
        assert sum(a != b for a, b in itertools.pairwise(axes)) > 20
        for axis in range(3):
            starts = [arrival.start for arrival in arrivals if arrival.axis == axis]
            assert len(starts) > 15
            assert starts != sorted(starts)

    def test_mosaic_is_json(self):
        mosaic = scenes.Mosaic()
        for arrival in scenes.schedule((9, 8, 7), (3, 3, 3), np.random.default_rng(0)):
            mosaic.add(arrival)
        assert scenes.Mosaic(json.loads(json.dumps(mosaic.pieces))).shape == (9, 8, 7)


class TestLoad:
    def test_npz_with_one_cube(self, tmp_path):
        path = tmp_path / "scene.npz"
        np.savez(path, cube=make_scene((3, 4, 5)), labels=np.zeros((3, 4)))
        np.testing.assert_array_equal(scenes.load(path).data, make_scene((3, 4, 5)))

    def test_npz_with_two_cubes(self, tmp_path):
        path = tmp_path / "scene.npz"
        np.savez(path, one=np.zeros((3, 4, 5)), two=make_scene((3, 4, 5)))
        with pytest.raises(ArgumentError, match="one, two; choose with --variable"):
            scenes.load(path)
        np.testing.assert_array_equal(scenes.load(path, "two").data, make_scene((3, 4, 5)))
        with pytest.raises(ArgumentError, match="no variable 'three'"):
            scenes.load(path, "three")

    def test_npy_has_no_variables(self, tmp_path):
        np.save(tmp_path / "scene.npy", make_scene((3, 4, 5)))
        with pytest.raises(
            ArgumentError, match=r"scene\.npy' holds a single unnamed array.* --variable"
        ):
            scenes.load(tmp_path / "scene.npy", "cube")

    def test_mat(self, tmp_path):
        io = pytest.importorskip("scipy.io")
        path = tmp_path / "scene.mat"
        io.savemat(path, {"cube": make_scene((3, 4, 5)), "labels": np.zeros((3, 4))})
        loaded = scenes.load(path)
        np.testing.assert_array_equal(loaded.data, make_scene((3, 4, 5)))
        assert loaded.data.flags.c_contiguous

    def test_mat_of_version_7_3(self, tmp_path):
        pytest.importorskip("scipy.io")
        path = tmp_path / "scene.mat"
        header = b"MATLAB 7.3 MAT-file".ljust(116) + b"\0" * 8 + b"\x00\x02IM"
        path.write_bytes(header.ljust(512, b"\0") + b"\x89HDF\r\n\x1a\n" + b"\0" * 504)
        with pytest.raises(ArgumentError, match=r"a MATLAB 7\.3 file"):
            scenes.load(path)

    def test_mat_without_scipy(self, tmp_path, monkeypatch):
        path = tmp_path / "scene.mat"
        path.touch()
        for name in [name for name in sys.modules if name.partition(".")[0] == "scipy"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "scipy", None)
        with pytest.raises(
            MissingExtraError, match=r"reading scene\.mat needs 'scipy'.*pip install scipy"
        ):
            scenes.load(path)

    def test_without_tensorly(self, monkeypatch):
        monkeypatch.setattr(scenes.importlib.util, "find_spec", lambda name: None)
        with pytest.raises(
            MissingExtraError, match=r"--scene FILE.*'tensorly'.*pip install tensorly"
        ):
            scenes.load()

    def test_tensorly_without_the_scene(self, monkeypatch, tmp_path):
        class Spec:
            submodule_search_locations = (str(tmp_path),)

        monkeypatch.setattr(scenes.importlib.util, "find_spec", lambda name: Spec)
        with pytest.raises(MissingError, match=r"install tensorly 0\.9 or newer"):
            scenes.load()

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("a.npy", b"no array", "cannot read"),
            ("a.npy", b"", "cannot read"),
            ("a.npz", b"no archive", "cannot read"),
            ("a.tif", b"", "a scene is a .npy, .npz or .mat file"),
        ],
    )
    def test_what_is_no_scene(self, tmp_path, name, content, message):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ArgumentError, match=message):
            scenes.load(tmp_path / name)

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (np.zeros((3, 4)), r"has shape \(3, 4\)"),
            (np.zeros((3, 0, 4)), r"has shape \(3, 0, 4\)"),
            (np.zeros((3, 4, 5), "c8"), "has data type complex64"),
            (np.zeros((3, 4, 5), "S3"), "has data type"),
        ],
    )
    def test_arrays_that_are_no_scene(self, tmp_path, array, message):
        np.save(tmp_path / "a.npy", array)
        with pytest.raises(ArgumentError, match=message):
            scenes.load(tmp_path / "a.npy")

    def test_objects_are_refused(self, tmp_path):
        np.save(tmp_path / "a.npy", np.array([[[None]]]))
        with pytest.raises(ArgumentError, match="cannot read"):
            scenes.load(tmp_path / "a.npy")


class TestUsage:
    @pytest.mark.parametrize(
        "options",
        [
            ["--chunks", "x"],
            ["--bands", "1;2;3"],
            ["--seed", "-1"],
            ["--seed", "x"],
            ["--limit", "0"],
            ["--limit", "nan"],
        ],
    )
    def test_wrong_usage(self, run, options):
        status, out, err = run(*options)
        assert (status, out) == (2, "")
        assert "Usage: extarray demo" in err

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--chunks", "0"], "--chunks takes one or three positive integers, not 0"),
            (["--chunks", "1,2"], "not 1,2"),
            (["--bands", "0,1"], "--bands takes three bands from 0 to 16, not 0,1"),
            (["--bands", "0,1,17"], "not 0,1,17"),
        ],
    )
    def test_values_that_are_not_possible(self, run, options, message):
        status, out, err = run(*options)
        assert (status, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1

    def test_a_scene_that_is_not_there(self, run):
        status, _, err = run("--scene", "nowhere.npy")
        assert status == 1
        assert "cannot open the scene 'nowhere.npy': no such file" in err

    def test_without_matplotlib(self, run, monkeypatch):
        for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        status, _, err = run()
        assert status == 1
        assert "needs 'matplotlib'; install it with: pip install matplotlib" in err
        assert not run.out.exists(), "it should say so before it begins"


class TestProgress:
    def steps(self, count):
        with _progress.Progress(count, "growing", "pieces") as progress:
            for number in range(count):
                progress.step(f"now {number}")

    @pytest.mark.parametrize("count", [1, 3, 8, 65])
    def test_plain_lines_elsewhere(self, capsys, count):
        self.steps(count)
        captured = capsys.readouterr()
        lines = captured.out.splitlines()
        assert len(lines) == min(count, 8)
        assert lines[-1] == f"growing: {count} of {count} pieces, now {count - 1}"
        assert captured.err == ""

    def test_bar_on_a_terminal(self, capsys, monkeypatch):
        pytest.importorskip("tqdm")
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        self.steps(5)
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "growing: 100%" in captured.err
        assert "5/5" in captured.err

    def test_plain_lines_without_tqdm(self, capsys, monkeypatch):
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        monkeypatch.setattr(_progress.importlib.util, "find_spec", lambda name: None)
        self.steps(8)
        assert len(capsys.readouterr().out.splitlines()) == 8
