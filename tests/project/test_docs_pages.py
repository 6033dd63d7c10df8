"""Every code block of README.md and docs/ runs, or says why not (tests/support/pages.py)."""

from __future__ import annotations

import importlib.util
import os
import re
import sys

import nursery
import pytest
from forked import Nursery
from pages import ROOT, RUN, SHOWN, blocks, is_run, page_blocks, pages, starts_others
from preload import preloaded
from surroundings import shares_memory

import extarray as xa
from extarray import pexta
from extarray.cli import COMMANDS, command_line

NEEDS_SHARED_MEMORY = r"\b(mpiexec|multiprocessing|distributed|num_workers)\b"
#: Modules imported once for all pages, by the first word of a line that needs them.
SHARED = {
    "dask": ["dask.array"],
    "extarray": ["rich.console", "rich.table", "click"],
    "h5py": ["h5py"],
    "xarray": ["xarray"],
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (ROOT / "docs" / "index.md").is_file(),
        reason="the documentation is not part of this tree",
    ),
]


@pytest.fixture(scope="module")
def forked(patience):
    """Yield a process that forks to run pages, which see the default settings."""
    # Warnings are errors here too: a page must leave no writer open.
    with Nursery({**os.environ, **preloaded(*patience)}) as forked:
        yield forked


def shared_modules(found):
    """Return the slow imports that blocks have in common with other pages."""
    text = "\n".join(block.text for block in found)
    names = set(re.findall(r"^\W*(?:import |from )?(\w+)", text, re.MULTILINE))
    return [
        module
        for name, modules in SHARED.items()
        if name in names and importlib.util.find_spec(name) is not None
        for module in modules
    ]


def running(page, forked, tmp_path):
    """Return the arguments and options with which the nursery runs a page."""
    if re.search(NEEDS_SHARED_MEMORY, run_text(page)) and not shares_memory():
        pytest.skip("needs shared memory, which this system does not give (Linux: /dev/shm)")
    command = [sys.executable, "-I", "-S", nursery.__file__, forked.path, "extarray"]
    code = "import pages, sys; pages.run_page(sys.argv[1], sys.argv[2:])"
    imports = ["pages", *shared_modules(page_blocks(page))]
    return (code, ROOT / page, *command), {"imports": imports, "cwd": tmp_path}


def marked(found):
    """Return pages as parameters; pages that start ranks are marked as tests of MPI."""
    return [
        pytest.param(page, marks=[pytest.mark.mpi] * ("mpiexec" in run_text(page)))
        for page in found
    ]


def run_text(page):
    """Return the text of a page's runnable blocks."""
    return "\n".join(block.text for block in page_blocks(page) if is_run(block))


@pytest.mark.parametrize(
    "page", marked(page for page in pages() if any(map(is_run, page_blocks(page))))
)
def test_the_blocks_of_a_page_run(page, forked, tmp_path):
    words, options = running(page, forked, tmp_path)
    status, out, err = forked.run(*words, **options)
    report = f"{page}:\n{out}\n{err}"
    assert status == 0, report
    # Errors while an interpreter shuts down change no exit status.
    assert "Warning" not in err, report
    assert "Exception ignored" not in err, report


@pytest.mark.parametrize("page", marked(page for page in pages() if starts_others(page)))
def test_a_page_that_starts_programs_runs_in_a_terminal(page, forked, tmp_path):
    """In a terminal, programs show progress and colours, and flush each line."""
    words, options = running(page, forked, tmp_path)
    status, shown = forked.run_in_terminal(*words, environment={"TERM": "xterm"}, **options)
    report = f"{page}:\n{shown}"
    assert status == 0, report
    assert "Warning" not in shown and "Exception ignored" not in shown, report


@pytest.mark.parametrize("page", pages())
def test_the_blocks_of_a_page_have_a_known_kind(page):
    for block in page_blocks(page):
        # Braces enclose a directive of MyST, such as {glossary} or {toctree}.
        known = block.language in RUN | SHOWN or block.language.startswith("{")
        assert known, f"{page}, line {block.line}: language {block.language!r}"


@pytest.mark.parametrize("page", pages())
def test_links_to_files_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in blocks(text):
        text = text.replace(block.text, "\n")
    for target in re.findall(r"\]\(<?([^)\s>]+)>?\)", text):
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            continue
        file = (ROOT / page).parent / target.partition("#")[0]
        assert file.exists(), f"{page}: no file {target}"


def test_readme_has_the_two_commands():
    shell = [block for block in page_blocks("README.md") if block.language == "sh"]
    assert all(len(b.text.splitlines()) == 1 for b in shell)
    assert "extarray demo" in shell[0].text
    assert "pytest" in shell[1].text


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 700


def test_readme_tour_is_checked_and_short():
    tour = next(block for block in page_blocks("README.md") if ">>>" in block.text)
    assert tour.note is None
    assert tour.text.count(">>>") <= 15


@pytest.mark.parametrize(
    "query, page",
    [
        ("is my data safe", "explanation/durability.md"),
        ("how fast", "explanation/performance.md"),
        ("append", "how-to/grow-and-append.md"),
        ("compress", "how-to/compression.md"),
        ("S3", "how-to/bucket.md"),
        ("Windows", "explanation/windows.md"),
    ],
)
def test_the_search_leads_to_one_page_first(query, page):
    """Sphinx shows pages with a main entry of the index before all others."""
    found = []
    for each in (ROOT / "docs").rglob("*.md"):
        text = each.read_text(encoding="utf-8")
        lines = re.findall(r"^```\{index\} (.*)$", text, re.MULTILINE)
        entries = ",".join(lines).split(",")
        if query in [entry.strip().removeprefix("! ") for entry in entries]:
            found.append(each.relative_to(ROOT / "docs").as_posix())
    assert found == [page]


def test_reference_names_every_public_name():
    pages = (ROOT / "docs" / "reference").glob("*.md")
    reference = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    public = {name for name in xa.__all__ if not name.startswith("_")}
    missing = sorted(name for name in public if not re.search(rf"\b{name}\b", reference))
    assert not missing, f"not in docs/reference: {missing}"


def test_reference_names_every_name_of_pexta():
    reference = (ROOT / "docs" / "reference" / "pexta.md").read_text(encoding="utf-8")
    missing = [name for name in pexta.__all__ if not re.search(rf"\b{name}\b", reference)]
    assert not missing, f"not in docs/reference/pexta.md: {missing}"


def test_reference_names_every_member_of_an_array():
    pages = (ROOT / "docs" / "reference").glob("array*.md")
    reference = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    members = {name for name in dir(xa.ExtArray) if not name.startswith("_")}
    missing = sorted(name for name in members if not re.search(rf"\b{name}\b", reference))
    assert not missing, f"not in docs/reference/array*.md: {missing}"


def test_reference_names_every_option_of_the_command():
    text = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    whole = command_line()
    assert list(whole.commands) == list(COMMANDS)
    sections = dict(
        re.findall(r"^## extarray (\S+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    )
    assert list(sections) == list(COMMANDS)
    for name, command in whole.commands.items():
        options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
        prose = re.sub(r"^```.*?^```", "", sections[name], flags=re.MULTILINE | re.DOTALL)
        known = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", prose))
        options = {option for option in options if option.startswith("--")}
        assert options == known, f"docs/reference/cli.md: {name} {options ^ known}"


def extension(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_drawn_array_is_what_the_package_shows():
    drawn = (ROOT / "docs" / "_static" / "array.html").read_text(encoding="utf-8")
    assert drawn == extension("draw_array").scene()._repr_html_() + "\n"


def test_the_drawn_figure_has_the_addresses_of_the_package():
    draw = extension("draw_figures")
    initial, extensions, _framed = draw.FIGURE_3
    array = xa.create(None, shape=initial, dtype="u1", chunks=(1, 1, 1))
    for axis, by in extensions:
        array.extend(axis, by)
    grid, cells, _captions = draw.replay(initial, extensions)
    assert grid == tuple(array.grid)
    assert all(array.axial.address(index) == q for index, (q, _segment) in cells.items())
    drawn = (ROOT / "docs" / "_static" / "drxmp2009-figure-3.svg").read_text(encoding="utf-8")
    assert drawn == draw.slices_svg(*draw.FIGURE_3)
