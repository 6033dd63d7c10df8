"""Every code block of README.md and docs/ runs, or says why not.

A page is run in an interpreter of its own, in an empty folder, from the first block to the last in
one namespace:

- ``python`` and ``pycon`` blocks with ``>>>`` are doctests; other ``python`` blocks are executed;
- ``sh`` blocks are run by ``sh -eu``;
- other languages (``text``, ``console``, ...) show something and are not run.

A HTML comment on the line before the fence changes that:

- ``<!-- not run: REASON -->``        the block is left out;
- ``<!-- needs: MODULE ... -->``      it is left out where a module is not installed;
- ``<!-- file: NAME -->``             it is written to that file instead.

`python tests/project/test_docs_pages.py PAGE` runs one page in the current folder.
"""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# The commands of this very interpreter, whether or not its environment is active.
SHELL = f"PATH={shlex.quote(sysconfig.get_path('scripts'))}:$PATH\n"
SHELL += f'extarray() {{ {shlex.quote(sys.executable)} -m extarray "$@"; }}\n'
SETTINGS = {"EXTARRAY_ENGINE", "EXTARRAY_MAX_MEMORY", "EXTARRAY_NUM_THREADS"}
SETTINGS |= {"EXTARRAY_MAX_RESULT", "EXTARRAY_WARN_RESULT"}
RUN = {"python", "pycon", "sh"}
SHOWN = {"text", "console", "c", "toml", "ini", "json", "yaml", "css", "html", "bibtex"}

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<info>[^`]*)$")
_NOTE = re.compile(r"^\s*<!-- *(?P<key>not run|needs|file): *(?P<value>.+?) *-->\s*$")


@dataclass
class Block:
    """A fenced block of a page; `line` is that of its first line of text, counted from 1."""

    language: str
    text: str
    line: int
    note: str | None = None
    value: str = ""


def blocks(text):
    """Yield the fenced blocks of a Markdown text."""
    lines = iter(enumerate(text.splitlines(), 1))
    note = None
    for _number, line in lines:
        opening = _FENCE.match(line)
        if not opening:
            # Blank lines may stand between the comment and the fence.
            note = _NOTE.match(line) or (note if not line.strip() else None)
            continue
        indent, fence = len(opening["indent"]), opening["fence"]
        body, first = [], None
        for number, inner in lines:
            first = first or number
            if inner.strip().startswith(fence) and not inner.strip().strip(fence[0]):
                break
            body.append(inner[indent:] if not inner[:indent].strip() else inner)
        key, value = (note["key"], note["value"]) if note else (None, "")
        yield Block(opening["info"].strip(), "\n".join(body) + "\n", first or 0, key, value)
        note = None


def pages():
    """Return the pages, as paths below the root of the project."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = [p.relative_to(ROOT) for p in found if p.is_file() and "_build" not in p.parts]
    return sorted(map(str, found))


def page_blocks(page):
    """Return the blocks of a page."""
    return list(blocks((ROOT / page).read_text(encoding="utf-8")))


def run_page(path):
    """Run the blocks of one page in the current folder; exit with what failed."""
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    parser = doctest.DocTestParser()
    namespace = {"__name__": "__main__"}
    for block in blocks(Path(path).read_text(encoding="utf-8")):
        name = f"{Path(path).name}, line {block.line}"
        if block.language not in RUN or block.note == "not run":
            continue
        if block.note == "needs" and not all(map(importlib.util.find_spec, block.value.split())):
            continue
        if block.note == "file":
            Path(block.value).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            script = SHELL + block.text
            if subprocess.run(["sh", "-eu", "-c", script], stdin=subprocess.DEVNULL).returncode:
                sys.exit(f"{name}: the shell commands failed:\n{block.text}")
        elif ">>>" in block.text:
            test = parser.get_doctest(block.text, namespace, name, str(path), block.line - 1)
            # Names must survive into the next block of the page.
            runner.run(test, clear_globs=False)
            namespace = test.globs
        else:
            # Blank lines put the lines of a traceback at those of the page.
            exec(compile("\n" * (block.line - 1) + block.text, str(path), "exec"), namespace)
    if runner.failures:
        sys.exit(1)


if __name__ == "__main__":
    run_page(Path(sys.argv[1]).resolve())
    sys.exit()


import pytest  # noqa: E402 (a page is run without it)
from preload import preloaded  # noqa: E402

import extarray as xa  # noqa: E402
from extarray import pexta  # noqa: E402
from extarray.cli import COMMANDS, command_line  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (ROOT / "docs" / "index.md").is_file(),
        reason="the documentation is not part of this tree",
    ),
]


@pytest.mark.parametrize("page", pages())
def test_the_blocks_of_a_page_run(page, patience, tmp_path):
    done = subprocess.run(
        # Warnings are errors also here: a page must leave no writer open.
        [sys.executable, "-W", "error", __file__, str(ROOT / page)],
        cwd=tmp_path,
        # The pages show the defaults.
        env={name: text for name, text in os.environ.items() if name not in SETTINGS}
        | preloaded(*patience),
        capture_output=True,
        text=True,
        timeout=120,
    )
    report = f"{page}:\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, report
    # What goes wrong while an interpreter shuts down changes no exit status.
    assert "Warning" not in done.stderr, report
    assert "Exception ignored" not in done.stderr, report


@pytest.mark.parametrize("page", pages())
def test_the_blocks_of_a_page_have_a_known_kind(page):
    for block in page_blocks(page):
        # Braces: a directive of MyST, {glossary} or {toctree}.
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


def test_readme_tour_is_checked_and_short():
    tour = next(block for block in page_blocks("README.md") if ">>>" in block.text)
    assert tour.note is None
    assert tour.text.count(">>>") <= 15


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
    reference = (ROOT / "docs" / "reference" / "array.md").read_text(encoding="utf-8")
    members = {name for name in dir(xa.ExtArray) if not name.startswith("_")}
    missing = sorted(name for name in members if not re.search(rf"\b{name}\b", reference))
    assert not missing, f"not in docs/reference/array.md: {missing}"


def test_reference_names_every_option_of_the_command():
    text = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    whole = command_line()
    assert list(whole.commands) == list(COMMANDS)
    sections = dict(
        re.findall(r"^## extarray (\S+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    )
    assert list(sections) == list(COMMANDS)
    for name, command in whole.commands.items():
        options = {option for parameter in command.params for option in parameter.opts}
        prose = re.sub(r"^```.*?^```", "", sections[name], flags=re.MULTILINE | re.DOTALL)
        known = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", prose))
        options = {option for option in options if option.startswith("--")}
        assert options == known, f"docs/reference/cli.md: {name} {options ^ known}"


def extension(name):
    """Module of docs/_ext."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "reference").glob("*.md")), ids=lambda p: p.stem
)
def test_signatures_in_the_source_of_the_reference_are_right(page):
    text = page.read_text(encoding="utf-8")
    assert extension("signatures").updated(text) == text, "run: python docs/_ext/signatures.py"


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
