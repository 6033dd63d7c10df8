"""Ranks read arrays on a web server each for itself, and are told so if they try it together."""

from __future__ import annotations

import numpy as np
import pytest
from served import needs_obstore, served

import extarray as xa

pytestmark = needs_obstore


@pytest.mark.slow
def test_each_rank_reads_for_itself(mpirun, tmp_path):
    with xa.from_array(np.arange(600.0).reshape(20, 30), tmp_path / "a", (4, 8)) as a:
        xa.pack(a, tmp_path / "a.xap")
    with served(tmp_path) as web:
        mpirun(2, "elsewhere.py", web.url("a"), web.url("a.xap"))
