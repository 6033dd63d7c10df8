"""Arrays of several ranks take names of axes and fields as those of one process do."""

from __future__ import annotations

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "engine"), [(2, "mpi-io"), (2, "pread"), (1, "auto")])
def test_names_of_axes_and_fields(mpirun, path, ranks, engine):
    mpirun(ranks, "names.py", path, engine)
