"""The index structures compared in the benchmarks agree with the package's tables."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

# At the end of the path: the tests may be for an installed extarray.
sys.path.append(os.fspath(Path(__file__).resolve().parents[2]))

from benchmarks.indices import __main__ as measuring
from benchmarks.indices.build import compiler
from benchmarks.indices.structures import COMPILED, Library, Tables
from extarray._core._axial import Axial

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("indices")
    return {name: Library(name, folder) for name in COMPILED}


@st.composite
def histories(draw):
    """Draw a grid, and growths at ends of axes, including uninterrupted ones."""
    ndim = draw(st.integers(1, 5))
    grid = draw(st.lists(st.integers(1, 3), min_size=ndim, max_size=ndim))
    steps = st.tuples(st.integers(0, ndim - 1), st.integers(1, 3))
    growths = np.array(draw(st.lists(steps, max_size=80)), np.int64).reshape(-1, 2)
    return grid, growths[:, 0], growths[:, 1]


def same_answers(libraries, grid, axes, by):
    axial = Axial(grid)
    for axis, n in zip(axes, by, strict=True):
        axial.grow(axis, n)
    indices = np.random.default_rng(5).integers(0, axial.grid, (200, len(grid)))
    addresses = axial.addresses(indices)
    tables = Tables(grid, axes, by)
    assert tables.addresses(indices).tolist() == addresses.tolist()
    for name, library in libraries.items():
        structure = library.grown(grid, axes, by)
        assert structure.addresses(indices).tolist() == addresses.tolist(), name
        assert structure.indices(addresses).tolist() == indices.tolist(), name
        for axis in range(len(grid)):
            # As in the papers, axes other than the first begin with a null record.
            wanted = [0] * (axis > 0) + axial.records(axis)[0].tolist()
            assert structure.starts(axis, len(axes) + 1).tolist() == wanted, name
        assert structure.nbytes > 0


@pytest.mark.slow
@given(history=histories())
def test_equal_answers_in_random_histories(libraries, history):
    same_answers(libraries, *history)


@pytest.mark.slow
@pytest.mark.parametrize("ndim", [2, 5])
def test_equal_answers_after_thousands_of_growths(libraries, ndim):
    history = measuring.history(ndim, 5000)
    same_answers(libraries, *history)
    depths = {name: lib.grown(*history).depth for name, lib in libraries.items()}
    assert depths["axial_vectors"] == depths["auxiliary_array"] == 1
    # A tree of 5000 addresses is balanced, and lower with blocks of records.
    assert 13 <= depths["red_black_tree"] <= 2 * 13 + 1
    assert depths["o2_tree"] <= depths["red_black_tree"] - 4


@pytest.mark.slow
def test_out_of_bounds(libraries):
    for library in libraries.values():
        structure = library.grown([2, 2], np.array([1]), np.array([1]))
        with pytest.raises(IndexError, match="number 1"):
            structure.addresses(np.array([[0, 2], [0, 3]]))
        with pytest.raises(IndexError, match="number 0"):
            structure.indices(np.array([6, 0]))


@pytest.mark.parametrize(
    ("ndim", "segments", "chunks"), [(2, 10, 1), (7, 1000, 16), (4, 10**6, 1), (7, 10**6, 1)]
)
def test_histories_have_as_many_segments_and_fit(ndim, segments, chunks):
    grid, axes, by = measuring.history(ndim, segments, chunks)
    assert len(axes) == len(by) == segments - 1
    assert (np.diff(axes) != 0).mean() > 0.99
    assert np.prod([float(n) for n in grid + np.bincount(axes, by, ndim)]) < 2**63


@pytest.mark.slow
def test_tables_are_printed(libraries):
    makers = measuring.makers(libraries)
    tables = list(measuring.tables(makers, [2, 3], [10, 30], lookups=50))
    assert len(tables) == len(measuring.COLUMNS)
    for table in tables:
        assert len(table.splitlines()) == 2 + 2 + 4
        assert all(name in table for name in makers)
