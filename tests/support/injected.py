"""An interrupt at each place of some modules where a signal could arrive, one by one."""

from __future__ import annotations

import contextlib
import dis
import functools
import itertools
import linecache
import sys
from collections.abc import Callable, Iterator
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


#: Mark of tests that use `interrupted` or `at_every_place`.
needs_no_tracing = pytest.mark.skipif(
    is_debug_build(), reason="compiled code is traced, too, and may then raise where it cannot"
)


@contextlib.contextmanager
def at_every_place(act: Callable[[str], None], *modules: ModuleType) -> Iterator[None]:
    """Call a function, with a description, at each place that this thread reaches in these modules.

    Places are before each line and after each call.  Excluded are those where the interpreter
    checks no signals: the end of a with statement, and lines that do nothing (``try``, ``pass``).
    """
    files = {module.__file__ for module in modules}

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes = True
        return step

    def step(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if frame.f_lineno is None:  # code of the interpreter
            return step
        text = linecache.getline(code.co_filename, frame.f_lineno).strip()
        if event == "opcode":
            is_place = frame.f_lasti in behind_calls(code)
        else:
            is_line = not text.startswith("with ") and code.co_code[frame.f_lasti] != NOP
            is_place = event == "line" and is_line
        if is_place:
            act(f"{event} of {code.co_name}: {text}")
        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def places_of_change(
    run: Callable[[], object], state: Callable[[], object], *modules: ModuleType
) -> list[int]:
    """Return the numbers of the places of `at_every_place` where a state is no longer the same.

    A kill leaves files and nothing else: with those as the state, kills at these places leave all
    that kills at every place do.  The last number is behind the end.
    """
    numbers, seen, before = [], 0, None

    def look(place: str) -> None:
        nonlocal seen, before
        seen += 1
        now = state()
        if now != before:
            numbers.append(seen)
            before = now

    with at_every_place(look, *modules):
        run()
    return [*numbers, seen + 1]


@contextlib.contextmanager
def interrupted(number: int, *modules: ModuleType) -> Iterator[Injection]:
    """Raise KeyboardInterrupt at place `number`, as in `at_every_place`."""
    found = Injection()
    seen = 0

    def interrupt(place: str) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            found.place = place
            raise KeyboardInterrupt

    with at_every_place(interrupt, *modules):
        yield found
