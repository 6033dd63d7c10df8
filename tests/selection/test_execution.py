"""A selection is planned completely, and then moved by one call of the core."""

from __future__ import annotations

import numpy as np
import pytest

from extarray.selection.axis_factors import Progression
from extarray.selection.brackets import as_query
from extarray.selection.execution import read_query, write_query
from extarray.selection.orthogonal import block_query, orthogonal_query
from extarray.selection.placement import Placement
from extarray.selection.pointwise import pointwise_query

SHAPE, CHUNKS = (30, 40), (4, 5)
MASK = np.add.outer(np.arange(30), np.arange(40)) % 3 == 0
RARE = np.zeros(SHAPE, bool)
RARE[[2, 17], [5, 39]] = True

QUERIES = {
    "mask": as_query(MASK, SHAPE, np.dtype(float)),
    "rare mask": as_query(RARE, SHAPE, np.dtype(float)),
    "list": as_query([3, 1, 29], SHAPE, np.dtype(float)),
    "mixed": as_query((slice(None, None, 2), [3, 1, 39]), SHAPE, np.dtype(float)),
    "oindex": orthogonal_query(([0, 29, 3], MASK[0]), SHAPE),
    "vindex": pointwise_query(([0, 29, 3], [1, 39, 2]), SHAPE),
    "vindex by a mask": pointwise_query(MASK, SHAPE),
    "blocks": block_query((slice(1, 4), 2), SHAPE, CHUNKS, (0, 0)),
}


class Recorder:
    """An array that notes a query's calls, in order."""

    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        self.asked.append(name)
        return {
            "dtype": np.dtype(float),
            "chunks": CHUNKS,
            "_is_mapped": True,
            "_check_out": lambda out, shape, dtype: None,
            "_as_values": lambda value, dtype: np.asarray(value, dtype),
            "_overlaps": lambda values: False,
            "_move": lambda query, values, write: None,
        }[name]


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("write", [False, True])
def test_the_core_is_called_once_and_last(kind, write):
    array = Recorder()
    if write:
        write_query(array, QUERIES[kind], 1.5)
    else:
        read_query(array, QUERIES[kind])
    assert array.asked.count("_move") == 1
    assert array.asked[-1] == "_move"


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("write", [False, True])
def test_a_query_on_a_view_is_one_call_on_its_array(kind, write):
    # Rows backwards, every other column, of an array with twice as many columns.
    factors = (Progression(0, 29, -1, 30, 0), Progression(1, 0, 2, 40, 1))
    view = Placement.of(factors, (0, 0), b"", SHAPE)
    array, query = Recorder(), QUERIES[kind]
    view.move(array, query, np.empty(query.shape), write)
    assert array.asked.count("_move") == 1
    assert array.asked[-1] == "_move"
