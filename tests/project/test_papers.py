"""The experiments of the papers run, and the page shows all of them."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from colour_vision import VISIONS, least_distance
from preload import preloaded

# Last in the path: the tested extarray may be an installed one.
sys.path.append(os.fspath(Path(__file__).resolve().parents[2]))

from benchmarks.papers import EXPERIMENTS, accuracies, page
from benchmarks.papers.accuracies import sections
from benchmarks.papers.claims import CLAIMS
from benchmarks.papers.harness import Chart, Report, Work, above, below, every, verdict
from benchmarks.papers.outside import Program, boxes_of_growth
from benchmarks.papers.page import PALETTE, draw, judged, load, rejudged, styles_of, table, write
from benchmarks.sizes import Unsupported

ROOT = Path(__file__).resolve().parents[2]
RUN = (
    "import runpy, sys\n"
    f"sys.path.append({os.fspath(ROOT)!r})\n"
    "runpy.run_module('benchmarks.papers', run_name='__main__')\n"
)
HOLDS = {"yes", "in part", "no", "undecided", "not measured"}


def title(name):
    return importlib.import_module(f"benchmarks.papers.{name}").TITLE


def run(script, patience, folder, *arguments):
    """Run the command in a folder; return its output."""
    files = folder / "files"
    files.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments, "--scale", "tiny"]
        + ["--pages", os.fspath(folder / "pages"), "--folder", os.fspath(files)],
        capture_output=True,
        text=True,
        env={**script.environment, **preloaded(*patience)},
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(files.iterdir())
    return done.stdout


def text_of(folder, name):
    return (folder / "pages" / f"{name}.md").read_text(encoding="utf-8")


def work(name):
    """Return the work and chapter of an experiment: a group that runs in one process."""
    kind, *parts = name.split("_")
    return f"{kind}-{next(filter(str.isdigit, parts))}" if kind == "thesis" else kind


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.mpi
@pytest.mark.usefixtures("shared_memory")
@pytest.mark.parametrize("which", dict.fromkeys(map(work, EXPERIMENTS)))
def test_experiments_run(which, script, patience, tmp_path, subtests):
    names = [name for name in EXPERIMENTS if work(name) == which]
    run(script, patience, tmp_path, *names)
    written = {path.stem for path in (tmp_path / "pages").glob("*.md")}
    assert written == {"index", *names}
    for name in names:
        with subtests.test(name):
            text = text_of(tmp_path, name)
            assert text.startswith(f"# {title(name)}\n")
            if "Not measured: " not in text:
                assert (tmp_path / "pages" / "pictures" / f"{name}.svg").exists()
                assert re.search(r"^\*\*Claim \d+: ", text, re.MULTILINE)


@pytest.mark.process
def test_what_has_no_room_on_the_disk_is_left_out_and_named(script, patience, tmp_path):
    # The first one needs files, the second hardly any.
    names = ("thesis_5_4_2", "claim_12_cubical")
    printed = run(script, patience, tmp_path, *names, "--disk", "0")
    reason = "at this scale it takes 0.0 GiB of disk, and there are 0.0"
    assert printed.count(f"not measured: {reason}") == 1
    left = f"Not measured, for reasons that stand there: {title(names[0]).partition(':')[0]}."
    assert left in text_of(tmp_path, "index")
    assert f"Not measured: {reason}." in text_of(tmp_path, names[0])
    assert (tmp_path / "pages" / "pictures" / f"{names[1]}.svg").exists()


def test_experiments_say_what_they_need_and_remove_what_they_have_made(tmp_path):
    work = Work("tiny", tmp_path, disk=1000.0)
    work.need(1000.0)
    with pytest.raises(Unsupported, match="of disk"):
        work.need(1001.0)
    with pytest.raises(Unsupported, match="of memory"):
        work.need(0.0, 2.0**60)
    with pytest.raises(Unsupported, match="of disk"):
        Work("tiny", tmp_path).need(2.0**60)
    (work.new() / "a").touch()
    work.clear()
    assert not list(tmp_path.iterdir()) and work.new().is_dir()


def test_the_pages_of_the_documentation_show_every_experiment_and_claim():
    pages = ROOT / "docs" / "papers"
    text = (pages / "index.md").read_text(encoding="utf-8")
    for name in EXPERIMENTS:
        assert f"\n{name}\n" in text, "run python -m benchmarks.papers, see its README"
    rows = re.findall(r"^\| (\d+) \| (.+) \| (.+) \| .+ \|$", text, re.MULTILINE)
    claims = {
        int(number): (claim, holds) for number, claim, holds in rows if claim in CLAIMS.values()
    }
    assert {number: claim for number, (claim, _) in claims.items()} == CLAIMS
    assert {holds for _, holds in claims.values()} <= HOLDS
    assert sum(len(path.read_text("utf-8").split()) for path in pages.glob("*.md")) <= 5500
    for name in EXPERIMENTS:
        shown = (pages / f"{name}.md").read_text(encoding="utf-8")
        assert shown.startswith(f"# {title(name)}\n")
        (*pictures,) = re.findall(r"\]\((.+?\.svg)\)", shown)
        assert all((pages / picture).exists() for picture in pictures)


def test_a_claim_is_judged_by_all_that_measures_it():
    reports = {
        EXPERIMENTS[0]: Report(verdicts=[verdict(1, True, ""), verdict(2, [True, False], "")]),
        EXPERIMENTS[1]: Report(verdicts=[verdict(1, False, ""), verdict(3, [False, False], "")]),
        EXPERIMENTS[2]: Report(notes=["It failed."]),
    }
    first, second = (f"[Figure 3.5.{n}](thesis_3_5_{n}.md)" for n in (1, 2))
    found = [row.split(" | ")[2:] for row in judged(reports)[2:6]]
    assert found == [
        ["in part", f"{first}, {second} |"],
        ["in part", f"{first} |"],
        ["no", f"{second} |"],
        ["not measured", "– |"],
    ]


def test_a_ratio_near_its_bound_decides_nothing():
    assert below([1.8, 1.9, 2.1, 2.3], 2) == [True, None, None, False]
    assert above(np.array([0.8, 1.2])) == [False, True] and above(1.0) == [None]
    assert [every(x) for x in ([True], [True, None], [None, False])] == [True, None, False]
    found = [verdict(1, x, "").holds for x in ([None], [True, None], [False, None], [True])]
    assert found == ["undecided", "in part", "no", "yes"]


def test_growth_is_cut_into_boxes_axis_by_axis():
    found = list(boxes_of_growth((2, 3), (4, 4)))
    assert found == [(0, (slice(2, 4), slice(0, 3))), (1, (slice(0, 4), slice(3, 4)))]
    assert list(boxes_of_growth((2, 3), (2, 3))) == []


@pytest.mark.parametrize("kind", ["Ours", "OneWriterHDF5", "Conventional"])
def test_the_program_outside_grows_arrays_and_finds_wrong_elements(kind, tmp_path, monkeypatch):
    if kind == "OneWriterHDF5":
        pytest.importorskip("h5py")
    if kind == "Conventional":
        pytest.importorskip("fcntl")
    program = Program()
    program.make("benchmarks.papers.thesis_8_5_4", "tiny", kind, os.fspath(tmp_path))
    assert program.grow(40) > 0
    expected = program.application.expected(40)
    c = expected["c"]
    assert np.array_equal(program.arrays["a"].read(np.s_[:, :]), expected["a"])
    monkeypatch.setattr(program.kind, "of_ranks", lambda path: c)
    program.check(40)
    c[3, 4] += 1e-3
    with pytest.raises(AssertionError, match="c"):
        program.check(40)
    program.close()


def test_one_experiment_is_measured_again_and_the_others_stay(tmp_path):
    chart = Chart("t", "x", [1, 2], "s", {"ours": [0.5, None]})
    reports = {
        EXPERIMENTS[1]: Report([chart], [verdict(1, True, "why")], ["note"], "tiny", 2.5),
        EXPERIMENTS[0]: Report(scale="tiny"),
    }
    write(tmp_path / "pages", tmp_path / "pictures", ["# Head"], reports)
    found = load(tmp_path / "pictures")
    assert list(found) == list(EXPERIMENTS[:2])
    assert found[EXPERIMENTS[1]] == reports[EXPERIMENTS[1]]


def test_scenes_are_told_apart_in_what_is_printed():
    text = (
        "note\n\n## A: 2 x 2, real\n\n|method|overall %|kappa|histogram %|angle|\n|-|-|-|-|-|\n"
        "|PPI|90.5|0.9|80.0|1.90°|\n|N-FINDR|99|1|98.9|0.60°|\n|AMEE|95|1|57.3|9.44°|\n"
        "\n|class|truth|PPI|\n|-|-|-|\n|PPI|1|2|\n\n## B: 3 x 3\n\n|PPI|1|\n"
    )
    found = sections(text)
    assert list(found) == ["A", "B"]
    assert found["A"].value("PPI", 0) == 90.5 and found["A"].value("AMEE", 3) == 9.44
    assert "|PPI|1|2|" in found["A"].text and found["B"].rows == {"PPI": ["1"]}
    scenes = {"A": found["A"].text}
    (judged_so,) = accuracies.judge(Report(facts={"scenes": scenes}))
    assert (judged_so.claim, judged_so.holds) == (22, "in part")
    assert judged_so.why.endswith("layout of A: PPI 90 %, N-FINDR 99 %, AMEE 95 %.")


def test_a_chart_becomes_a_table():
    chart = Chart("t", "x", [1, 2], "s", {"ours": [0.1234, 1234.5], "theirs": [None, 2e-7]})
    assert table(chart)[0] == "T, s:"
    assert table(chart)[4:] == ["| 1 | 0.12 | – |", "| 2 | 1,200 | 2.0e-07 |"]
    assert chart.ratio("ours", "theirs").tolist() == [1234.5 / 2e-7]


def test_a_table_has_few_rows_and_multiples_of_our_times():
    lines = {"extarray": [2.0, 2.0, 2.0, 2.0, 99.7], "HDF5": [1.0, 3.0, 5.0, None, 997.0]}
    rows = table(Chart("times", "n", [1, 2, 3, 4, 5], "ms", lines))
    assert rows[0] == "Times, ms; ×: times extarray:"
    assert rows[4:] == ["| 1 | 2.0 | 0.50× |", "| 3 | 2.0 | 2.5× |", "| 5 | 100 | 10× |"]
    parts = table(Chart("parts", "", list("abcde"), "ms", lines))
    assert [row.split()[1] for row in parts[4:]] == list("abcde")


def test_the_pages_of_the_documentation_follow_from_their_figures(subtests):
    for name, report in load(ROOT / "docs" / "_static" / "papers").items():
        with subtests.test(name):
            assert rejudged(name, report).verdicts == report.verdicts
            lines = page.page(name, report, "../_static/papers")
            shown = (ROOT / "docs" / "papers" / f"{name}.md").read_text(encoding="utf-8")
            assert shown == "\n".join(lines).rstrip() + "\n"


def test_lines_have_marks_and_colours_that_all_can_tell_apart():
    from matplotlib.colors import to_rgb

    assert min(least_distance(map(to_rgb, PALETTE), vision) for vision in VISIONS) > 10
    for report in load(ROOT / "docs" / "_static" / "papers").values():
        styles = styles_of(list(dict.fromkeys(n for chart in report.charts for n in chart.lines)))
        assert len(set(styles.values())) == len(styles)


def test_axes_have_numbers_and_no_line_leads_from_name_to_name(tmp_path):
    from matplotlib.figure import Figure

    charts = [
        Chart("numbers", "x", [1, 2, 3], "s", {"a": [0.021, 0.022, 0.0335]}),
        Chart("names", "x", ["p", "q"], "s", {"a": [1e-3, 5e3], "b": [2.0, None]}),
    ]
    draw(charts, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert len(set(re.findall(r">0\.0[23]\d+<", text))) >= 3, "short axes have numbers, too"
    assert all(f">{label}<" in text for label in ("1,000", "p", "q"))
    one, other = Figure().subplots(1, 2)
    lines = (
        page._plot(one, charts[0], styles_of("ab")),
        page._plot(other, charts[1], styles_of("ab")),
    )
    assert lines[0]["a"].get_linewidth() > 0
    assert lines[1]["a"].get_linewidth() == 0
    assert lines[1]["a"].get_marker() != lines[1]["b"].get_marker()
