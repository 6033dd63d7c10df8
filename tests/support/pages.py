"""The code blocks of README.md and docs/.

Each page runs in a separate process, in an empty folder, from the first block to the last in one
namespace:

- ``python`` and ``pycon`` blocks with ``>>>`` are doctests; other ``python`` blocks are executed;
- blocks of the directives ``{picture}`` and ``{setup}``, which the build of the documentation runs
  as well, are executed where matplotlib is installed;
- ``sh`` blocks are run by ``sh -eu``;
- blocks in other languages (``text``, ``console``, ...) are not run.

An HTML comment on the line before the fence changes that:

- ``<!-- not run: REASON -->``        skips the block;
- ``<!-- needs: MODULE ... -->``      skips the block if a module is not installed;
- ``<!-- file: NAME -->``             writes the block to that file instead.

``<!-- serves: https://NAME.REST -->`` on a page serves its folder NAME, also as the bucket s3://NAME.
The address of the server here takes the place of that one wherever it stands in the page.

`python tests/support/pages.py PAGE` runs one page in the current folder.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ROOT",
    "RUN",
    "SHOWN",
    "Block",
    "blocks",
    "is_run",
    "page_blocks",
    "pages",
    "run_page",
    "starts_others",
]

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
RUN = {"python", "pycon", "sh"}
SHOWN = {"text", "console", "c", "toml", "ini", "json", "yaml", "css", "html", "bibtex"}

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<info>[^`]*)$")
_SERVES = re.compile(
    r"^<!-- *serves: *(?P<address>https://(?P<name>[^./]+)[^/ ]*) *-->$", re.MULTILINE
)
_NOTE = re.compile(r"^\s*<!-- *(?P<key>not run|needs|file): *(?P<value>.+?) *-->\s*$")


@dataclass
class Block:
    """A fenced block of a page; `line` is its first line of text, counted from 1."""

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
            # Blank lines may separate the comment from the fence.
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
        language = opening["info"].strip()
        if language.startswith(("{picture}", "{setup}")):
            body = [line for line in body if not re.match(":[a-z]+: ", line)]
            language, (key, value) = "python", (key or "needs", value or "matplotlib")
        yield Block(language, "\n".join(body) + "\n", first or 0, key, value)
        note = None


def pages():
    """Return the pages, as paths below the root of the project."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = [p.relative_to(ROOT) for p in found if p.is_file() and "_build" not in p.parts]
    return sorted(map(str, found))


def page_blocks(page):
    return list(blocks((ROOT / page).read_text(encoding="utf-8")))


def is_run(block):
    """Tell whether a block is run, or written to a file."""
    if block.note == "needs":
        return block.language in RUN and all(map(importlib.util.find_spec, block.value.split()))
    return block.language in RUN and block.note != "not run"


def starts_others(page):
    """Tell whether a page starts other programs: commands, or files that it writes."""
    runs = [block for block in page_blocks(page) if is_run(block)]
    return any(block.language == "sh" or "subprocess" in block.text for block in runs)


@contextlib.contextmanager
def as_served(text):
    """Yield the text of a page with the address of a server, if the page wants one."""
    wanted = _SERVES.search(text)
    if wanted is None or importlib.util.find_spec("obstore") is None:
        yield text
        return
    from served import served

    Path(wanted["name"]).mkdir()
    with served(".") as server:
        os.environ |= {
            "AWS_ENDPOINT": server.url().rstrip("/"),
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "mykey",
            "AWS_SECRET_ACCESS_KEY": "s3cr3tkey",
        }
        yield text.replace(wanted["address"], server.url(wanted["name"]))


def run_page(path, command=(sys.executable, "-m", "extarray")):
    """Run the blocks of one page in the current folder; exit with any failures.

    `command` replaces `extarray` in shell blocks.
    """
    # Use this interpreter's commands, whether or not its environment is active.
    shell = f"PATH={shlex.quote(sysconfig.get_path('scripts'))}:$PATH\n"
    shell += f'extarray() {{ {shlex.join(command)} "$@"; }}\n'
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    parser = doctest.DocTestParser()
    namespace = {"__name__": "__main__"}
    text = Path(path).read_text(encoding="utf-8")
    with as_served(text) as text:
        for block in blocks(text):
            name = f"{Path(path).name}, line {block.line}"
            if not is_run(block):
                continue
            if block.note == "file":
                Path(block.value).write_text(block.text, encoding="utf-8")
            elif block.language == "sh":
                script = shell + block.text
                if subprocess.run(["sh", "-eu", "-c", script], stdin=subprocess.DEVNULL).returncode:
                    sys.exit(f"{name}: the shell commands failed:\n{block.text}")
            elif ">>>" in block.text:
                test = parser.get_doctest(block.text, namespace, name, str(path), block.line - 1)
                # Keep names for the next block of the page.
                runner.run(test, clear_globs=False)
                namespace = test.globs
            else:
                # Leading blank lines give tracebacks the line numbers of the page.
                exec(compile("\n" * (block.line - 1) + block.text, str(path), "exec"), namespace)
    if runner.failures:
        sys.exit(1)


if __name__ == "__main__":
    run_page(Path(sys.argv[1]).resolve())
