"""An interrupt at each place of some modules where a signal could arrive, one by one."""

from __future__ import annotations

import contextlib
import dis
import functools
import itertools
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import pytest

from extarray.format import _crc

NOP = dis.opmap["NOP"]


class Injection:
    """The outcome: whether the interrupt occurred, and where.

    Attributes
    ----------
    place : str
        Function and line; "" if there were fewer places.
    """

    place = ""


@functools.cache
def behind_calls(code: CodeType) -> frozenset[int]:
    """Return the offsets of instructions that follow a call."""
    steps = list(dis.get_instructions(code))
    pairs = itertools.pairwise(steps)
    return frozenset(b.offset for a, b in pairs if a.opname.startswith("CALL"))


@functools.cache
def is_debug_build() -> bool:
    """Tell whether the compiled code traces lines and checks bounds."""
    return b"__Pyx_RaiseBufferIndexError" in Path(_crc.__file__).read_bytes()


#: Mark of tests that use `interrupted`.
needs_no_tracing = pytest.mark.skipif(
    is_debug_build(), reason="compiled code that is traced raises in functions that cannot"
)


@contextlib.contextmanager
def interrupted(number: int, *modules: ModuleType) -> Iterator[Injection]:
    """Raise KeyboardInterrupt at place `number` that this thread reaches in these modules.

    Places are before each line and after each call.  Excluded are those where the interpreter
    checks no signals: the end of a with statement, and lines that do nothing (``try``, ``pass``).
    """
    files = {module.__file__ for module in modules}
    found = Injection()
    seen = 0

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes = True
        return step

    def step(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal seen
        code = frame.f_code
        if frame.f_lineno is None:  # code of the interpreter
            return step
        text = linecache.getline(code.co_filename, frame.f_lineno).strip()
        if event == "opcode":
            seen += frame.f_lasti in behind_calls(code)
        elif event == "line":
            seen += not text.startswith("with ") and code.co_code[frame.f_lasti] != NOP
        if seen == number and not found.place:
            found.place = f"{event} of {code.co_name}: {text}"
            raise KeyboardInterrupt
        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield found
    finally:
        sys.settrace(before)
