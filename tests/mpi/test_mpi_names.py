"""Arrays of several ranks accept names of axes and fields as serial arrays do."""

from __future__ import annotations

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "engine"), [(2, "mpi-io"), (2, "pread"), (1, "auto")])
def test_names_of_axes_and_fields(mpirun, path, ranks, engine):
    mpirun(ranks, "names.py", path, engine)
