"""An array that is cut and grown again and again, beside a NumPy array that tells what it holds."""

from __future__ import annotations

import numpy as np

import extarray as xa

__all__ = ["cut_and_grow"]


def cut_and_grow(path, fill_value: int, engine: str, **options) -> None:
    """Cut elements off and extend by more, of either axis at either side; compare all each time.

    Chunks have some pages, and parts of two.
    """
    more = {"fill_value": fill_value, "engine": engine, "overwrite": True, **options}
    array = xa.create(path, (7, 2000), "i4", chunks=(2, 700), **more)
    model = np.full((7, 2000), fill_value, "i4")
    try:
        for step in range(24):
            axis, side, by = step % 2, ("end", "start")[step // 2 % 2], (2, 900)[step % 2]
            array[...] = model[...] = step + 1
            array.shrink(axis, by, side=side)
            array.extend(axis, by + 1, side=side)
            kept = slice(by, None) if side == "start" else slice(None, -by)
            model = model[(slice(None),) * axis + (kept,)]
            width = [(0, 0), (0, 0)]
            width[axis] = (by + 1, 0) if side == "start" else (0, by + 1)
            model = np.pad(model, width, constant_values=fill_value)
            assert np.array_equal(array[...], model), step
            if step % 3 == 2:
                array.close()
                array = xa.open(path, "r+", engine=engine)
                assert np.array_equal(array[...], model), step
    finally:
        array.close()
    assert xa.check(path, data=True).ok
