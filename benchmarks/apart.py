"""Run functions in their own processes, so that no library disturbs another."""

from __future__ import annotations

import multiprocessing as mp
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

#: Seconds to wait for a candidate's answer.
PATIENCE = 600.0


@dataclass(frozen=True)
class Missing:
    """The reason for a missing figure: an absent package, or an error."""

    text: str


def apart(function: Callable[..., Any], *arguments: Any, patience: float = PATIENCE) -> Any:
    """Return the result of a function in a fresh process, or the reason why it has none."""
    context = mp.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(there, function, *arguments))
    process.start()
    there.close()
    try:
        return here.recv() if here.poll(patience) else Missing(f"no answer in {patience:.0f} s")
    except EOFError:
        process.join()
        return Missing(f"the process ended with status {process.exitcode}")
    finally:
        if process.is_alive():
            process.join(10)
            process.kill()
        process.join()
        here.close()


def _answer(there: Connection, function: Callable[..., Any], *arguments: Any) -> None:
    try:
        there.send(function(*arguments))
    except ImportError as error:
        there.send(Missing(f"not installed: {error.name or error}"))
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        there.send(Missing(f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"))
    there.close()


def versions(*names: str) -> str:
    """Return the versions of packages, if installed."""
    import importlib.metadata

    found = []
    for name in names:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name} –")
    return ", ".join(found)


def load() -> str:
    """Return the machine's load: figures mean little without it."""
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return f"{os.cpu_count()} processors, load {load}"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
