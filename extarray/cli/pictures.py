"""Arrays in pictures: ``view`` in the browser."""

from __future__ import annotations

from extarray.cli._command import array_path, command, flag, option, wrong_calls

__all__ = ["view"]


@command(
    "view",
    "look at an array, or at the arrays of a folder, in the browser",
    array_path(),
    option("--port", "N", "port to listen on (default: a free one)", type=int, default=0),
    flag("--no-browser", "only print the address, and open no browser"),
    details="Shown also while it grows.  Only this machine can connect, and only who has the "
    "address that is printed.  Ctrl-C ends.",
)
def view(path: str, port: int, no_browser: bool) -> None:
    """Serve the page until Ctrl-C."""
    from extarray.view import serve

    with wrong_calls():
        serve(path, port=port, browser=not no_browser)
