"""The PEXTA interface: places of elements, and real programs under mpiexec."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import extarray as xa
from extarray import pexta
from extarray.pexta.hints import chunks_for, io_hints
from extarray.pexta.sections import Section, Slabs, runs

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


@given(SHAPES, st.data())
def test_runs_are_the_elements_in_order(shape, data):
    n = math.prod(shape)
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, n)] * 2)))
    numbers = np.arange(n).reshape(shape)
    boxes = list(runs(shape, start, stop))
    found = [i for box in boxes for i in numbers[box].ravel().tolist()]
    assert found == list(range(start, stop))
    assert len(boxes) <= 2 * len(shape) - 1


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple), st.integers(1, 200))
def test_slabs_are_the_elements_in_order(shape, most):
    numbers = np.arange(math.prod(shape)).reshape(shape)
    slabs, at = Slabs(shape, most), 0
    for number in range(len(slabs)):
        box, first = slabs[number]
        assert first == at
        found = numbers[box].ravel().tolist()
        assert 1 <= len(found) <= most
        assert found == list(range(at, at + len(found)))
        at += len(found)
    assert at == numbers.size


@given(SHAPES, st.booleans(), st.data())
def test_what_a_section_has_in_a_zone(shape, is_reversed, data):
    low, high, zone = [], [], []
    for n in shape:
        i, j = sorted(data.draw(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))))
        low.append(i)
        high.append(j + 1)
        zone.append(slice(*sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n))))))
    section = Section.checked(low, [j - 1 for j in high], shape, "a", is_reversed)
    assert section == Section(tuple(low), tuple(high), is_reversed)
    numbers = np.arange(math.prod(shape)).reshape(shape)
    counted = section.turned(numbers[tuple(map(slice, low, high))])
    assert counted.shape == section.shape
    box = section.within(tuple(zone))
    part = section.turned(numbers[section.of_array(box)])
    assert np.array_equal(part, counted[box])
    inside = np.isin(counted, numbers[tuple(zone)])
    assert sorted(counted[inside]) == sorted(part.ravel())


@pytest.mark.parametrize(
    ("low", "high", "error", "match"),
    [
        ((0,), (1, 1), xa.ShapeError, "2 axes"),
        ((0, 0), (1, 4), xa.BoundsError, "0 ... 4 of the global array is out of bounds for axis 1"),
        ((2, 0), (1, 1), xa.BoundsError, "2 ... 1 of the global array is out of bounds for axis 0"),
        ((-1, 0), (1, 1), xa.BoundsError, "-1 ... 1"),
        ((0.5, 0), (1, 1), xa.ArgumentTypeError, "lo must be"),
        ((0, 0), None, xa.ArgumentTypeError, "hi must be"),
    ],
)
def test_sections_that_are_not_possible(low, high, error, match):
    with pytest.raises(error, match=match):
        Section.checked(low, high, (3, 4), "the global array", False)


@pytest.mark.parametrize(
    ("reqdims", "dims", "itemsize", "chunks"),
    [
        ((1, 20, 20), (20, 20, 20), 4, (1, 20, 20)),
        ((3, 20, 20), (20, 20, 20), 8, (3, 20, 20)),
        ((50, 7), (10, 10), 8, (50, 7)),  # the array may grow beyond its shape
        ((-1, 7), (10, 10), 8, (10, 7)),
        ((-1, 7), (0, 10), 8, (1, 7)),
        ((-1, -1), (10, 10), 8, None),
        ((100, -1), (4000, 4000), 8, (100, 500)),
        ((4000, 4000), (4000, 4000), 8, (250, 250)),
        ((1,), (1,), 1 << 20, (1,)),
    ],
)
def test_chunks_for_requests(reqdims, dims, itemsize, chunks):
    assert chunks_for(reqdims, dims, itemsize) == chunks


@pytest.mark.parametrize("reqdims", [(1,), (0, 1), (-2, 1), (1, 1, 1)])
def test_requests_that_are_not_possible(reqdims):
    with pytest.raises(xa.ChunksError, match="for 2 axes"):
        chunks_for(reqdims, (10, 10), 8)


def test_an_array_has_one_pair_of_files():
    assert io_hints(1, -1) == io_hints(-1, 0) == {}
    with pytest.raises(xa.ArgumentError, match="one pair of files, not in 2"):
        io_hints(2, 2)


def test_without_a_session():
    for call in (pexta.terminate, pexta.flick, lambda: pexta.open("a", pexta.R)):
        with pytest.raises(xa.ClosedError, match="init"):
            call()


@pytest.mark.slow
def test_without_mpi(forked):
    said = forked(
        "import sys\n"
        "sys.modules['mpi4py'] = None\n"
        "from extarray import pexta\n"
        "try:\n"
        "    pexta.init()\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    assert "pip install mpi4py mpich" in said


@pytest.mark.slow
def test_dra_acceptance(mpirun, tmp_path):
    mpirun(4, "dra.py", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 3])
def test_programs(mpirun, tmp_path, ranks):
    mpirun(ranks, "sections.py", tmp_path)


@pytest.mark.parametrize("ranks", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 4))])
def test_growth(mpirun, tmp_path, ranks):
    mpirun(ranks, "pexta_growth.py", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "hosts"), [(1, {}), (3, {}), (2, {"MPIR_CVAR_NOLOCAL": "1"})])
@pytest.mark.parametrize("program", ["pexta_sync.py", "pexta_older.py"])
def test_older_arrays_and_sync(mpirun, tmp_path, program, ranks, hosts):
    mpirun(ranks, program, tmp_path, **hosts)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "seed"), [(1, 1), (3, 2), (2, 3)])
def test_sessions_beside_outside_writers(mpirun, tmp_path, ranks, seed):
    mpirun(ranks, "pexta_share.py", tmp_path, seed, 40)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2])
def test_tutorials_of_ga4py(mpirun, ranks):
    mpirun(ranks, "tutorials.py")
