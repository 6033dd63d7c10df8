"""Chains of views, each with the places of its elements in the array as the oracle."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from strategies import selections

__all__ = ["chains", "elements", "everywhere", "orthogonal", "orthogonal_keys", "steps"]


def orthogonal(x, key):
    """Apply a key to an ndarray as ``oindex`` does."""
    for axis, item in enumerate(key):
        x = x[(*[slice(None)] * axis, item)]
    return x


@st.composite
def orthogonal_keys(draw, shape, unique):
    key = []
    for n in shape:
        places = st.lists(st.integers(0, max(n - 1, 0)), max_size=4, unique=unique)
        masks = st.lists(st.booleans(), min_size=n, max_size=n)
        kind = draw(st.sampled_from(["slice", "list", "mask"])) if n else "slice"
        if kind == "slice":
            key.append(slice(None, None, draw(st.sampled_from([1, -1, 2]))))
        else:
            key.append(
                np.array(draw(places), int) - n if kind == "list" else np.array(draw(masks), bool)
            )
    return tuple(key)


@st.composite
def steps(draw, x, writable=False):
    """Draw a step from one view to another, and the result of the same step for an ndarray."""
    kinds = ["basic", "basic", "transpose", "orthogonal", "expand_dims", "squeeze", "list"]
    if x.ndim:
        kinds += ["swapaxes", "moveaxis"]
    if x.ndim >= 2:
        kinds += ["mT"]
    if not writable:
        kinds += ["broadcast"]
    if x.ndim > 5:
        kinds = ["basic"]
    kind = draw(st.sampled_from(kinds))
    axes = st.integers(-x.ndim, x.ndim - 1)
    if kind == "basic":
        key = draw(selections(x.shape))
        try:
            return (lambda v: v.lazy[key]), np.asarray(x[key])
        except IndexError:
            return (lambda v: v.lazy[...]), x
    if kind == "list":
        if not x.ndim or not x.shape[0]:
            return (lambda v: v.lazy[()]), x
        n = x.shape[0]
        key = draw(st.lists(st.integers(-n, n - 1), max_size=3, unique_by=lambda i: i % n))
        return (lambda v: v.lazy[key]), x[np.array(key, int)]
    if kind == "orthogonal":
        key = draw(orthogonal_keys(x.shape, unique=writable))
        return (lambda v: v.lazy.oindex[key]), orthogonal(x, key)
    if kind == "broadcast":
        shape = (2, *(3 if n == 1 else n for n in x.shape))
        return (lambda v: np.broadcast_to(v, shape)), np.broadcast_to(x, shape)
    if kind == "squeeze":
        return np.squeeze, np.squeeze(x)
    if kind == "expand_dims":
        axis = draw(st.integers(-x.ndim - 1, x.ndim))
        return (lambda v: np.expand_dims(v, axis)), np.expand_dims(x, axis)
    if kind == "transpose":
        order = draw(st.permutations(range(x.ndim)))
        return (lambda v: v.transpose(order)), x.transpose(order)
    if kind == "mT":
        return (lambda v: v.mT), x.mT
    one, other = draw(axes), draw(axes)
    function = getattr(np, kind)
    return (lambda v: function(v, one, other)), function(x, one, other)


@st.composite
def chains(draw, view, places, writable=False):
    """Draw a chain of views, and the places of the last one's elements in the array."""
    for _ in range(draw(st.integers(1, 4))):
        step, places = draw(steps(places, writable))
        view = step(view)
    return view, places


def everywhere(shape):
    return np.arange(int(np.prod(shape))).reshape(shape)


def elements(data, places):
    """Return the elements at some places; a 0-d array for a single place."""
    return data.reshape(-1)[places, ...].copy()
