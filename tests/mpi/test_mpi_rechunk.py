"""Layout transformations that several processes share."""

from __future__ import annotations

import math

import numpy as np
import pytest
from compare import assert_same
from hypothesis import given
from hypothesis import strategies as st
from tasks import Counted, tasks

from extarray.maintenance.execute import Mover
from extarray.maintenance.rechunk_pass import Task
from extarray.maintenance.rechunk_plan import plan_passes
from extarray.mpi.creation import shared_templates


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_leave_the_bytes_of_one(mpirun, tmp_path, ranks):
    mpirun(ranks, "rechunk.py", tmp_path)


@given(task=tasks((60, 40, 16)), n_ranks=st.integers(1, 7))
def test_parts_are_the_array_and_fit_the_memory(task, n_ranks):
    task, budget = task
    values = np.random.default_rng(0).integers(0, 60000, task.shape, "u2")
    for p in plan_passes(task, budget):
        target = Counted(np.zeros_like(values))
        movers = [Mover(p, Counted(values), target) for _ in range(n_ranks)]
        for parts in shared_templates(p, n_ranks):
            assert len(parts) == (n_ranks if task.shape else 1)
            for mover, part in zip(movers, parts, strict=False):
                assert all(b - a <= n for (a, b), n in zip(part, p.template, strict=True))
                if all(a < b for a, b in part):
                    assert not any(a % c for (a, _), c in zip(part, p.target_chunks, strict=True))
                    assert sum(mover.move(part)) == math.prod(b - a for a, b in part)
        assert (target.times == 1).all()
        assert_same(target.values, values)


def test_templates_grow_with_the_ranks():
    (p,) = plan_passes(Task((8192, 8192), (16, 4096), (4096, 16), (0, 0), 8), 100 << 20)
    serial = list(shared_templates(p, 1))
    shared = list(shared_templates(p, 4))
    assert len(serial) == p.n_templates == 8
    assert len(shared) == 2
    # Each rank has the parts that one process has as templates.
    assert sorted(part for parts in shared for part in parts) == sorted(t for (t,) in serial)


def test_an_array_in_one_template_is_cut_between_source_chunks():
    (p,) = plan_passes(Task((4096, 4096), (8, 4096), (4096, 8), (0, 0), 8), 256 << 20)
    (parts,) = shared_templates(p, 4)
    assert len({b - a for part in parts for a, b in part}) <= 2
    assert math.prod(b - a for a, b in parts[0]) == 4096 * 1024
