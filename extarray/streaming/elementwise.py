"""Elementwise operations, box by box, on operands of any mix, into arrays of NumPy or ours.

Ufuncs and functions that behave like ufuncs (``np.clip``, ``np.where``) all take this way.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from extarray._core._array import is_of_a_chunk
from extarray.common.errors import ShapeError
from extarray.common.formatting import shape_text
from extarray.grid.tiles import Grain, tiles
from extarray.streaming.blocks import Source, box_bytes, load, own_box, run
from extarray.streaming.limits import check_result, other_way

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import DTypeLike, NDArray

    from extarray.grid.tiles import Box
    from extarray.streaming.blocks import Line

__all__ = [
    "apart",
    "as_mask",
    "as_operand",
    "assigning",
    "chunks_for",
    "copy_of",
    "elementwise",
    "fits",
    "meet",
    "new_result",
    "part_of",
    "run_over",
    "shape_of",
    "stream",
]


def elementwise(
    function: Callable[..., object],
    operands: Sequence[Any],
    out: Any = None,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Any:
    """Apply a function elementwise, into `out`, or into a new array of `dtype`.

    The function gets the part of each operand in a box, and ``out=``, the array to fill;
    `assigning` adapts a function that returns its result.  Scalars are passed as they are.  If no
    operand has axes, the result is a scalar.  Messages use `name`, or the function's name.

    Examples
    --------
    >>> import extarray as xa
    >>> elementwise(np.add, [xa.ones((2, 3)), [1, 2, 3]])
    array([[2., 3., 4.],
           [2., 3., 4.]])
    """
    operands = [as_operand(x) for x in operands]
    shape = _common_shape(operands)
    target = new_result(shape, dtype, name or function.__name__) if out is None else out

    def fill(*parts: Any, out: tuple[NDArray[Any], ...]) -> None:
        function(*parts, out=out[0])

    stream(fill, operands, (target,))
    return target if out is not None or shape else target[()]


def _common_shape(operands: list[Any]) -> tuple[int, ...]:
    """Return the shape to which the operands broadcast."""
    shapes = [shape_of(x) for x in operands]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        # NumPy's message, down to the trailing space.
        texts = "".join(f"{shape_text(shape)} " for shape in shapes)
        raise ShapeError(f"operands could not be broadcast together with shapes {texts}") from None


def assigning(function: Callable[..., Any]) -> Callable[..., None]:
    """Make a function that fills ``out=`` from one that returns its result; keep the name.

    Examples
    --------
    >>> result = np.empty(2)
    >>> assigning(np.where)([True, False], 1, 2, out=result)
    >>> result
    array([1., 2.])
    """

    def fill(*parts: Any, out: NDArray[Any]) -> None:
        np.copyto(out, function(*parts), casting="unsafe")

    fill.__name__ = function.__name__
    return fill


def stream(
    fill: Callable[..., object],
    operands: Sequence[Any],
    outs: Sequence[Any],
    where: Any = True,
) -> None:
    """Fill arrays of one shape, box by box, from the parts of operands that broadcast to it.

    ``fill(*parts, out=blocks)`` runs on several threads; `blocks` has an array for each of `outs`.
    It also gets ``where=part`` unless `where` is True.  Only elements where `where` holds are
    written: all others stay, and are not touched in files.

    An operand may be one of `outs`, or share elements with it: the result is as if everything was
    read before anything was written.
    """
    shape = outs[0].shape
    if any(isinstance(out, Source) for out in outs):  # damage must not spread to files
        operands = [x._verified() if isinstance(x, Source) else x for x in operands]
    operands = [apart(x, outs) for x in operands]
    selected = where is not True
    if selected:
        where = apart(as_operand(where), outs)
    else:
        for out in outs:
            if isinstance(out, Source):
                out._check_target()

    def work(_: int, box: Box) -> None:
        parts = [part_of(x, box) for x in operands]
        blocks = [_writable(out, box) for out in outs]
        targets = [
            np.empty([s.stop - s.start for s in box], out.dtype) if block is None else block
            for out, block in zip(outs, blocks, strict=True)
        ]
        options = {"where": part_of(where, box)} if selected else {}
        fill(*parts, out=tuple(targets), **options)
        for out, block, target in zip(outs, blocks, targets, strict=True):
            if block is not None:
                continue
            if selected:
                _write_some(out, box, target, options["where"])
            else:
                out._write_exact(box, target)

    # `_write_some` needs memory for the places of elements, too.
    places = 8 * len(shape) if selected else 0
    run_over(work, shape, (*outs, *operands, where), places)


def run_over(
    work: Callable[[int, Box], object],
    shape: tuple[int, ...],
    operands: Sequence[Any],
    more: int = 0,
) -> None:
    """Call ``work(i, box)`` for boxes of a shape to which operands broadcast, as `run` does.

    Outputs come first.  For each element, a box takes memory in all operands, and `more` bytes.
    """
    arrays = [x for x in operands if isinstance(x, (Source, np.ndarray))]
    itemsize = more + sum(x.dtype.itemsize for x in arrays)
    boxes = tiles(shape, chunks_for(shape, arrays), itemsize, limit=box_bytes())
    run(work, boxes, math.prod(shape) * itemsize, operands)


def _writable(out: Any, box: Box) -> NDArray[Any] | None:
    """Return a view of a box through which stores go straight to memory, if possible."""
    if isinstance(out, Source):
        return out._peek(box, True)
    view: NDArray[Any] = out[(*box, ...)]
    return view


def _write_some(out: Source, box: Box, block: NDArray[Any], where: Any) -> None:
    """Write the selected elements of a box, and touch no others."""
    chosen = np.broadcast_to(where, block.shape)
    if chosen.all():
        out._write_exact(box, block)
    elif chosen.any():
        places = np.nonzero(chosen)
        key = tuple(i + s.start for i, s in zip(places, box, strict=True))
        out._write_exact(key, block[places])


def as_operand(x: Any) -> Any:
    """Return an array, or a scalar as it is: Python's numbers adapt to dtypes (NEP 50)."""
    if isinstance(x, (Source, np.ndarray, np.generic, bool, int, float, complex)):
        return x
    return np.asarray(x)


def as_mask(where: Any) -> Any:
    """Return a mask that NumPy accepts for ``where=``: an array as it is, else truth values.

    NumPy itself refuses arrays of other dtypes.

    Examples
    --------
    >>> as_mask([1, 0])
    array([ True, False])
    """
    if where is True or isinstance(where, (Source, np.ndarray)):
        return where
    return np.asarray(where, bool)


def shape_of(x: Any) -> tuple[int, ...]:
    """Return the shape of an operand."""
    shape: tuple[int, ...] = getattr(x, "shape", ())
    return shape


def fits(shape: tuple[int, ...], into: tuple[int, ...]) -> bool:
    """Tell whether a shape broadcasts to another."""
    try:
        return np.broadcast_shapes(shape, into) == into
    except ValueError:
        return False


def part_of(x: Any, box: Box) -> Any:
    """Read the part of an operand that broadcasting puts into a box of the result.

    Do not write to it.  A scalar is its own part.

    Examples
    --------
    >>> part_of(np.array([[1, 2, 3]]), (slice(4, 6), slice(1, 3)))
    array([[2, 3]])
    """
    if not isinstance(x, (Source, np.ndarray)):
        return x
    shape: tuple[int, ...] = x.shape
    if len(shape) > len(box) and isinstance(x, Source):
        x._check_axes(len(box))
    own = own_box(shape, box)
    return load(x, own) if isinstance(x, Source) else x[(*own, ...)]


def new_result(
    shape: tuple[int, ...], dtype: DTypeLike | None, name: str, order: str = "C"
) -> NDArray[Any]:
    """Create an uninitialised result in memory, if limits allow; `order` is "F", or else C."""
    kind = np.dtype(dtype)
    check_result(math.prod(shape) * kind.itemsize, f"the result of {name}", other_way(name))
    return np.empty(shape, kind, "F" if order == "F" else "C")


def chunks_for(shape: tuple[int, ...], arrays: Sequence[Any]) -> tuple[int, ...]:
    """Return the chunks along which to cut: those of the largest of our arrays, or any (the shape).

    All broadcast to the shape; outputs come first, and win among equally large arrays.
    """
    sources = [x for x in arrays if isinstance(x, Source)]
    if not sources:
        return shape
    # max returns the first of equals.
    guide = max(sources, key=lambda x: math.prod(x.shape))
    missing = len(shape) - len(guide.shape)
    own = [
        (c, b) if n == m else (m, 0)
        for n, c, b, m in zip(guide.shape, guide.chunks, guide._lead, shape[missing:], strict=True)
    ]
    chunks, lead = zip(*own, strict=True) if own else ((), ())
    return Grain((*shape[:missing], *chunks), ((0,) * missing + lead))


# -- operands that share elements with outputs ---------------------------------------------------


def apart(x: Any, outs: Sequence[Any]) -> Any:
    """Return an operand, or a copy if filling one box would change what other boxes read."""
    if not isinstance(x, (Source, np.ndarray)):
        return x
    if not any(meet(x, out) and not _coincide(x, out) for out in outs):
        return x
    return copy_of(x)


def copy_of(x: Any) -> NDArray[Any]:
    """Copy to memory an operand that shares elements with an output, if the limits allow it."""
    if isinstance(x, np.ndarray):
        return x.copy()
    check_result(
        math.prod(x.shape) * x.dtype.itemsize,
        "an operand shares elements with the output: a copy of it",
        "an output of its own",
    )
    copy: NDArray[Any] = x._fetch()
    return copy


def meet(x: Any, out: Any) -> bool:
    """Tell whether two arrays may share elements."""
    if isinstance(x, Source) and isinstance(out, Source):
        return x._identity == out._identity and _lines_meet(x._lines, out._lines)
    if isinstance(x, np.ndarray) and isinstance(out, np.ndarray):
        return np.may_share_memory(x, out)
    # An ndarray and one of ours meet if the ndarray is a chunk, of any array: chunks are small.
    return is_of_a_chunk(x if isinstance(x, np.ndarray) else out)


def _lines_meet(a: tuple[Line, ...] | None, b: tuple[Line, ...] | None) -> bool:
    """Tell whether two layouts in one stored array may share an element."""
    if a is None or b is None:
        return True
    return all(_have_common(one, other) for one, other in zip(a, b, strict=True))


def _have_common(a: Line, b: Line) -> bool:
    """Tell whether two progressions may share an index: their ranges and residues meet."""
    ranges = []
    for start, step, count, _ in (a, b):
        if count == 0:
            return False
        last = start + (count - 1) * step
        ranges.append((min(start, last), max(start, last)))
    if max(low for low, _ in ranges) > min(high for _, high in ranges):
        return False
    # A single index has no step.
    common = math.gcd(*(step if count > 1 else 0 for _, step, count, _ in (a, b)))
    return common == 0 or (a[0] - b[0]) % common == 0


def _coincide(x: Any, out: Any) -> bool:
    """Tell whether arrays that share elements have each one at the same place."""
    if x is out:
        return True
    if x.shape != out.shape:
        return False
    if isinstance(x, Source) and isinstance(out, Source):
        lines = x._lines
        return (
            lines is not None and lines == out._lines and all(dim is not None for *_, dim in lines)
        )
    return (
        isinstance(x, np.ndarray)
        and isinstance(out, np.ndarray)
        and x.strides == out.strides
        and x.ctypes.data == out.ctypes.data
    )
