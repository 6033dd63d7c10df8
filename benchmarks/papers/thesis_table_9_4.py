"""Table 9.4 of the thesis."""

from __future__ import annotations

from . import accuracies, endmember_tables
from .harness import Report, Verdict, Work

TITLE = "Thesis, table 9.4: endmembers of a scene like Botswana"
PAPER = (
    "Hyperion's scene, 145 bands, 14 classes: PPI 90, N-FINDR 87 and AMEE 96 % right; MPI "
    "with parallel HDF5 took 1.12 to 1.21 times as long. (A made scene here.)"
)
SIZES = {"tiny": (24, 20, 10, 4), "small": (192, 128, 145, 14), "full": (1476, 256, 145, 14)}


def run(work: Work) -> Report:
    *shape, classes = work.choose(SIZES)
    report = endmember_tables.measure(work, tuple(shape), classes)
    return accuracies.added(work, report, ["Botswana"])


def judge(report: Report) -> list[Verdict]:
    return [*endmember_tables.judge_storage(report), *accuracies.judge(report)]
