"""Parse selections and values, without evaluating them."""

from __future__ import annotations

import ast
import json
from typing import Any

import numpy as np

from extarray.cli._command import WrongCall
from extarray.common.errors import CastingError

__all__ = ["parse_selection", "parse_value", "value_for"]

_LONGEST = 10_000  # characters


def parse_selection(text: str) -> Any:
    """Parse an index as written between brackets, such as ``[3:10, :, 5]``.

    Allowed are integers, slices, ``...``, ``newaxis``, lists of integers or booleans, and names of
    fields.  The outer brackets are optional.

    Examples
    --------
    >>> parse_selection("[3:10, :, 5]")
    (slice(3, 10, None), slice(None, None, None), 5)
    >>> parse_selection("..., [0, 2]")
    (Ellipsis, [0, 2])
    >>> parse_selection("open('x')")
    Traceback (most recent call last):
    ...
    extarray.cli._command.WrongCall: "open('x')" is not a valid selection; use \
    integers, slices, ..., lists of integers, or field names, as in '[3:10, :, 5]'
    """
    bare = text.strip()
    if not _is_in_brackets(bare):
        bare = f"[{bare}]"
    try:
        if len(bare) > _LONGEST:
            raise ValueError
        # Only parse, never evaluate; `_index` accepts nothing but the parts of an index.
        node = ast.parse(f"a{bare}", mode="eval").body
        if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)):
            raise ValueError
        return _index(node.slice)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise WrongCall(
            f"{text[:80]!r} is not a valid selection; use integers, slices, ..., lists of "
            "integers, or field names, as in '[3:10, :, 5]'"
        ) from None


def _is_in_brackets(text: str) -> bool:
    """Tell whether the last character closes the first bracket."""
    if not (text.startswith("[") and text.endswith("]")):
        return False
    depth = 0
    for place, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if depth == 0:
            return place == len(text) - 1
    return False


def _index(node: ast.expr) -> Any:
    if isinstance(node, ast.Tuple):
        return tuple(_part(part) for part in node.elts)
    return _part(node)


def _part(node: ast.expr) -> Any:
    """Return one part of an index."""
    if isinstance(node, ast.Slice):
        ends = (node.lower, node.upper, node.step)
        start, stop, step = (None if end is None else _bound(end) for end in ends)
        if step == 0:
            raise WrongCall("the step of a slice cannot be 0")
        return slice(start, stop, step)
    if isinstance(node, ast.List):
        return [_item(part) for part in node.elts]
    if isinstance(node, ast.Constant) and (
        node.value is Ellipsis or node.value is None or isinstance(node.value, str)
    ):
        return node.value
    if isinstance(node, ast.Name) and node.id == "newaxis":
        return None
    return _integer(node)


def _bound(node: ast.expr) -> int | None:
    if isinstance(node, ast.Constant) and node.value is None:
        return None
    return _integer(node)


def _item(node: ast.expr) -> Any:
    """Return an item of a list: integer, boolean, field name, or list."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, str)):
        return node.value
    if isinstance(node, ast.List):
        return [_item(part) for part in node.elts]
    return _integer(node)


def _integer(node: ast.expr) -> int:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_integer(node.operand)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    raise ValueError


def parse_value(text: str) -> Any:
    """Parse a value: as JSON, else as a Python number, else as a string.

    Examples
    --------
    >>> [parse_value(text) for text in ("3", "[1, 2.5]", "nan", "1+2j", "mm", '"3"')]
    [3, [1, 2.5], nan, (1+2j), 'mm', '3']
    """
    for read in (json.loads, float, complex):
        try:
            return read(text)
        except (ValueError, RecursionError):
            continue
    return text


def value_for(text: str, dtype: np.dtype[Any]) -> Any:
    """Parse the elements of a dtype from a string; raise `CastingError` if they do not fit."""
    kind = dtype.base.kind
    value = text if kind in "USMm" and not text.lstrip().startswith("[") else parse_value(text)
    if dtype.names is not None and isinstance(value, list):
        value = tuple(value)
    try:
        with np.errstate(all="ignore"):
            made = np.array(value, dtype)
            exact = kind not in "iub" or bool(np.all(np.array(value) == made))
    except (TypeError, ValueError, OverflowError) as error:
        raise CastingError(f"{text[:80]!r} is not a value of data type {dtype}: {error}") from None
    if not exact:
        raise CastingError(
            f"{text[:80]!r} is not a value of data type {dtype}: it would become {made}"
        )
    return made
