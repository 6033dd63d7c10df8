"""Table 9.5 of the thesis."""

from __future__ import annotations

from . import accuracies, endmember_tables
from .harness import Report, Work

TITLE = "Thesis, table 9.5: endmembers of a scene like Salinas"
PAPER = (
    "AVIRIS's scene of Salinas, 512 x 217 pixels, 186 bands, 16 classes: PPI 92.1, N-FINDR "
    "89.5 and AMEE 97.1 % with GA and PEXTA, 90.0, 87.4 and 95.9 % with MPI and parallel HDF5, "
    "which took 2.3 to 2.8 times as long; class 2 is low by a factor of 3 to 4 in all columns. "
    "(A made scene here.)"
)
SIZES = {"tiny": (20, 24, 12, 5), "small": (128, 217, 186, 16), "full": (512, 217, 186, 16)}


def run(work: Work) -> Report:
    *shape, classes = work.choose(SIZES)
    report = endmember_tables.measure(work, tuple(shape), classes)
    return accuracies.added(work, report, "Salinas")
