"""Run ``--version`` and ``info`` where NumPy alone is installed, without Click."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from extarray.cli._output import print_json
from extarray.common.errors import ArgumentError
from extarray.common.terminal import print_text

__all__ = ["print_info", "run"]


def print_info(path: str, as_json: bool) -> None:
    """Print the table of `ExtArray.info`."""
    import extarray as xa

    with xa.open(path, mode="r") as a:
        facts = a.info()
    if as_json:
        print_json(facts)
    else:
        print_text(str(facts))


def run(words: Sequence[str]) -> int | None:
    """Run the command that `words` name; return the exit status, or None if it needs Click."""
    from extarray import __version__

    if list(words) == ["--version"]:
        print_text(f"extarray {__version__}")
        return 0
    if words[:1] != ["info"]:
        return None
    import argparse  # which is not needed beside Click

    parser = argparse.ArgumentParser("extarray info", description="Print the facts of an array.")
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--json", action="store_true", help="print JSON, for other programs")
    try:
        given = parser.parse_args(words[1:])
        print_info(given.path, given.json)
    except SystemExit as leave:  # after help, or a wrong call
        return int(leave.code or 0)
    except ArgumentError as error:
        print_text(f"extarray info: {error}", stream=sys.stderr)
        return 2
    return 0
