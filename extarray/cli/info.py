"""``extarray info PATH``: what an array is, and how it grew."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from extarray.cli._calls import wrong_calls

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Describe the command."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "info",
        help="print shape, data type, chunks, growth, file sizes and attributes of an array",
        description="Print shape, data type, chunks, growth, file sizes and attributes of an "
        "array.",
    )
    parser.add_argument("path", metavar="PATH", help="the array; .xmd or .xta may be left out")
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the table of `ExtArray.info`."""
    import extarray as xa

    with wrong_calls():
        array = xa.open(args.path, mode="r")
    with array as a:
        text = str(a.info())
    # What an attribute says may have no form where the output is not UTF-8.
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))
    return 0
