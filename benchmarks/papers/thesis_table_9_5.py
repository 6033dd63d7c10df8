"""Table 9.5 of the thesis."""

from __future__ import annotations

from . import accuracies, endmember_tables
from .harness import Report, Verdict, Work

TITLE = "Thesis, table 9.5: endmembers of a scene like Salinas"
PAPER = (
    "AVIRIS's scene, 186 bands, 16 classes: PPI 92, N-FINDR 89 and AMEE 97 % right; MPI with "
    "parallel HDF5 took 2.3 to 2.8 times as long. (A made scene here.)"
)
SIZES = {"tiny": (20, 24, 12, 5), "small": (128, 217, 186, 16), "full": (512, 217, 186, 16)}


def run(work: Work) -> Report:
    *shape, classes = work.choose(SIZES)
    report = endmember_tables.measure(work, tuple(shape), classes)
    return accuracies.added(work, report, ["Salinas"])


def judge(report: Report) -> list[Verdict]:
    return [*endmember_tables.judge_storage(report), *accuracies.judge(report)]
