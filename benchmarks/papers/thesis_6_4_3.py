"""Figure 6.4.3 of the thesis."""

from __future__ import annotations

from . import histories
from .candidates import ELEMENTS, FILE, HDF5, HDF5_CACHE, NETCDF, OURS, ZARR
from .harness import Report, Work, above, every, span, unmeasured, verdict

TITLE = "Thesis, figure 6.4.3: growth with accesses in between, on disk"
PAPER = (
    "From 3 x 10^6 to 1.2 x 10^9 elements on disk: the chunked extendible array was much the "
    "cheapest, beside the unchunked one, HDF5 and a conventional file. The reason given, that "
    "HDF5 reorganises, does not hold: HDF5 moves no chunk when a dataset grows."
)
RIVALS = (HDF5, HDF5_CACHE, NETCDF, ZARR, FILE)


def run(work: Work) -> Report:
    charts = histories.compare(work, (OURS, ELEMENTS, *RIVALS))
    total, growth, access = charts
    rivals = [name for name in RIVALS if total.has(name)]
    parts = [
        f"{name} takes {span(total.ratio(name, OURS))} times as long (the growths alone "
        f"{span(growth.ratio(name, OURS))}, the accesses {span(access.ratio(name, OURS))})"
        for name in rivals
    ]
    hdf5 = [total.ratio(name, OURS) for name in (HDF5, HDF5_CACHE) if total.has(name)]
    per_growth = (
        [1e6 * time / n for time, n in zip(growth.lines[HDF5], (15, 7, 4), strict=True)]
        if growth.has(HDF5)
        else []
    )
    why = "; ".join(parts) + "."
    if per_growth:
        why += (
            f" HDF5 extends a dataset in {span(per_growth)} µs today, at any size: what is left "
            "of the difference are the accesses, through a chunk cache and h5py's selection."
        )
    held = [every(above(ratio, 100)) for ratio in hdf5]
    faster = [every(above(ratio)) for ratio in hdf5]
    if not hdf5:
        return Report(charts, [unmeasured(3, "h5py is not installed.", why)])
    return Report(charts, [verdict(3, [*held, *faster], why)])
