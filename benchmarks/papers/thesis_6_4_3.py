"""Figure 6.4.3 of the thesis."""

from __future__ import annotations

from . import histories
from .candidates import ELEMENTS, FILE, HDF5, HDF5_CACHE, NETCDF, OURS, ZARR
from .harness import Report, Verdict, Work, above, every, span, unmeasured, verdict

TITLE = "Thesis, figure 6.4.3: growth with accesses in between, on disk"
PAPER = (
    "Growth to 1.2 x 10^9 elements: chunked extendible arrays were much the cheapest, since "
    "HDF5 reorganises. (HDF5 moves no chunk when a dataset grows.)"
)
RIVALS = (HDF5, HDF5_CACHE, NETCDF, ZARR, FILE)


def run(work: Work) -> Report:
    return Report(histories.compare(work, (OURS, ELEMENTS, *RIVALS)))


def judge(report: Report) -> list[Verdict]:
    total, growth, access = report.charts
    rivals = [name for name in RIVALS if total.has(name)]
    said = "; ".join(
        f"{name} {span(total.ratio(name, OURS))} ({span(growth.ratio(name, OURS))}, "
        f"{span(access.ratio(name, OURS))})"
        for name in rivals
    )
    why = f"Times as long as extarray, by the number of axes (growths, accesses): {said}."
    hdf5 = [total.ratio(name, OURS) for name in (HDF5, HDF5_CACHE) if total.has(name)]
    if not hdf5:
        return [unmeasured(3, "h5py is not installed.", why)]
    held = [every(above(ratio, 100)) for ratio in hdf5]
    faster = [every(above(ratio)) for ratio in hdf5]
    return [verdict(3, [*held, *faster], f"{why} Growths of HDF5 are cheap, accesses dear.")]
