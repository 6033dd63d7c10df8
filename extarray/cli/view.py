"""``extarray view PATH``: arrays in the browser."""

from __future__ import annotations

import argparse
from typing import Any

from extarray.cli._calls import wrong_calls

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Describe the command."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "view",
        help="look at an array, or at the arrays of a folder, in the browser",
        description="Show an array, or the arrays of a folder, in the browser, also while they "
        "grow. Only this machine can connect, and only who has the address that is printed. "
        "Ctrl-C ends.",
    )
    parser.add_argument("path", metavar="PATH", help="the array, or a folder of arrays")
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="port to listen on (default: a free one)"
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="only print the address, and open no browser"
    )
    return parser


def run(args: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    from extarray.view import serve

    with wrong_calls():
        serve(args.path, port=args.port, browser=not args.no_browser)
    return 0
