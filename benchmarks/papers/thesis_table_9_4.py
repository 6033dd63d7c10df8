"""Table 9.4 of the thesis."""

from __future__ import annotations

from . import accuracies, endmember_tables
from .harness import Report, Work

TITLE = "Thesis, table 9.4: endmembers of a scene like Botswana"
PAPER = (
    "Hyperion's scene of the Okavango, 145 bands, 14 classes: PPI 90.1, N-FINDR 86.8 and AMEE "
    "96.4 % with GA and PEXTA, 87.9, 83.9 and 95.8 % with MPI and parallel HDF5, which took "
    "1.12 to 1.21 times as long. (A made scene here, with as many bands and classes, whose "
    "spectra are known.)"
)
SIZES = {"tiny": (24, 20, 10, 4), "small": (192, 128, 145, 14), "full": (1476, 256, 145, 14)}


def run(work: Work) -> Report:
    *shape, classes = work.choose(SIZES)
    report = endmember_tables.measure(work, tuple(shape), classes)
    return accuracies.added(work, report, "Botswana")
