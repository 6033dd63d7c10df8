"""extarray, with each rank's own calls."""

from __future__ import annotations

import ours


class Candidate(ours.Candidate):
    engine = "pread"
