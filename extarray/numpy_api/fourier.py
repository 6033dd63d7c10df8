"""Fourier transforms: by whole lanes along one axis, or along several one after the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from extarray.common.config import config
from extarray.streaming.blocks import run
from extarray.streaming.elementwise import apart, part_of
from extarray.streaming.functions import streams
from extarray.streaming.lanes import lane_bytes, lanes, map_lanes
from extarray.streaming.operands import as_array, store, target_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from extarray.streaming.blocks import Box

__all__: list[str] = []

#: Arrays of the size of a box that a transform has in memory; a complex one counts for two.
_PARTS = 6


def _one_lane(x: Any, axes: Sequence[int]) -> NDArray[Any]:
    """Zeros in the shape of a lane: of their transform, the extents and the dtype are known."""
    shape = [n if j in axes else 1 for j, n in enumerate(x.shape)]
    return np.zeros(shape, x.dtype)


def _stream_transform(function: Callable[..., Any]) -> None:
    """Register a transform along one axis."""

    @streams(function)
    def form(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Any:
        a = as_array(a)
        if not a.shape or 0 in a.shape:
            return NotImplemented
        j = normalize_axis_index(axis, len(a.shape))
        sample = function(_one_lane(a, (j,)), n, j, norm)
        shape = (*a.shape[:j], sample.shape[j], *a.shape[j + 1 :])
        target = target_for(out, shape, sample.dtype, function.__name__)
        a = a if out is None else apart(a, [out])
        map_lanes(lambda part: function(part, n, j, norm), a, j, target, function.__name__)
        return target


def _stream_transform_nd(function: Callable[..., Any], *steps: Callable[..., Any]) -> None:
    """Register a transform along several axes.

    `steps` are those along the last axis, and along the others; there are none where what is
    between them has no place in the result.
    """
    planes = function.__name__.endswith("2")

    @streams(function)
    def form(
        a: Any,
        s: Any = None,
        axes: Any = (-2, -1) if planes else None,
        norm: Any = None,
        out: Any = None,
    ) -> Any:
        a = as_array(a)
        if not a.shape or 0 in a.shape or (axes is None and s is not None):
            return NotImplemented
        ndim = len(a.shape)
        along = [normalize_axis_index(j, ndim) for j in (range(ndim) if axes is None else axes)]
        if not along or len(set(along)) < len(along):
            return NotImplemented
        name = function.__name__
        a = a if out is None else apart(a, [out])
        if _PARTS * lane_bytes(a, along) <= config.max_memory:
            sample = function(_one_lane(a, along), s, along, norm)
            extents = [sample.shape[j] if j in along else n for j, n in enumerate(a.shape)]
            target = target_for(out, extents, sample.dtype, name)
            whole = [slice(0, n) for n in extents]

            def work(_: int, box: Box) -> None:
                place = tuple(whole[j] if j in along else piece for j, piece in enumerate(box))
                store(target, place, function(part_of(a, box), s, along, norm))

            run(work, lanes(a, along, name, _PARTS), math.prod(a.shape) * a.dtype.itemsize)
            return target
        if not steps or s is not None:
            return NotImplemented
        last, others = steps
        sample = last(_one_lane(a, along[-1:]), None, along[-1], norm)
        extents = [sample.shape[j] if j == along[-1] else n for j, n in enumerate(a.shape)]
        target = target_for(out, extents, sample.dtype, name)
        map_lanes(lambda part: last(part, None, along[-1], norm), a, along[-1], target, name)
        # NumPy goes on with the first of the others after a real transform, else with the last.
        rest = along[:-1] if last is not others else along[-2::-1]
        for j in rest:
            map_lanes(lambda part, j=j: others(part, None, j, norm), target, j, target, name)  # type: ignore[misc]
        return target


for _one in (np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft, np.fft.hfft, np.fft.ihfft):
    _stream_transform(_one)
for _several, _steps in (
    (np.fft.fft2, (np.fft.fft, np.fft.fft)),
    (np.fft.fftn, (np.fft.fft, np.fft.fft)),
    (np.fft.ifft2, (np.fft.ifft, np.fft.ifft)),
    (np.fft.ifftn, (np.fft.ifft, np.fft.ifft)),
    (np.fft.rfft2, (np.fft.rfft, np.fft.fft)),
    (np.fft.rfftn, (np.fft.rfft, np.fft.fft)),
    (np.fft.irfft2, ()),
    (np.fft.irfftn, ()),
):
    _stream_transform_nd(_several, *_steps)
