"""Whole programs, from the start of Python to its exit: time and memory beside other libraries.

``python -m benchmarks.programs`` runs short programs of the kind that users write, each as
extarray, h5py, zarr or xarray says it, in a fresh process.  They take turns; it prints the least
time of several rounds, the peak memory of the process, and the ratio to extarray.  Files are warm.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .apart import versions

#: Makes the files that the programs read: days of maps, the same in each format.
MAKE = """
import numpy as np
n, y, x = {shape}
days = np.random.default_rng(0).random((n, y, x), "f4")
coords = {{"time": np.arange(n).astype("M8[D]"), "y": np.arange(y) * 0.5, "x": np.arange(x) * 0.5}}
import xarray
import extarray as xa
a = xa.create("days", (0, y, x), "f4", dims=("time", "y", "x"))
a.append(days)
a.close()
import h5py
with h5py.File("days.h5", "w") as f:
    f.create_dataset("days", data=days, chunks=True, maxshape=(None, y, x))
import zarr
zarr.save_array("days.zarr", days)
table = xarray.Dataset({{"days": (("time", "y", "x"), days)}}, coords)
table.to_netcdf("days.nc", engine="netcdf4")
import extarray.interop.xarray
table.extarray.to_extarray("table")
"""

#: What is done, and how each library says it; all read or write the files of `MAKE`.
PROGRAMS = {
    "import": {
        "extarray": "import extarray",
        "h5py": "import h5py",
        "zarr": "import zarr",
        "xarray": "import xarray",
    },
    "one element": {
        "extarray": "import extarray as xa; xa.open('days')[3, 4, 5]",
        "h5py": "import h5py; h5py.File('days.h5')['days'][3, 4, 5]",
        "zarr": "import zarr; zarr.open_array('days.zarr', mode='r')[3, 4, 5]",
    },
    "mean of everything": {
        "extarray": "import extarray as xa; xa.open('days').mean()",
        "h5py": "import h5py; h5py.File('days.h5')['days'][...].mean()",
        "zarr": "import zarr; zarr.open_array('days.zarr', mode='r')[...].mean()",
    },
    "append a day": {
        "extarray": """
import numpy as np, extarray as xa
with xa.open("days", "r+") as a:
    a.append(np.ones((1, *a.shape[1:]), "f4"))
""",
        "h5py": """
import numpy as np, h5py
with h5py.File("days.h5", "r+") as f:
    a = f["days"]
    a.resize(len(a) + 1, axis=0)
    a[-1] = np.ones(a.shape[1:], "f4")
""",
        "zarr": """
import numpy as np, zarr
a = zarr.open_array("days.zarr", mode="r+")
a.append(np.ones((1, *a.shape[1:]), "f4"))
""",
    },
    "export a region": {
        "extarray": """
import numpy as np, extarray as xa
np.save("region.npy", xa.open("days")[:, 10:40, 20:60])
""",
        "h5py": """
import numpy as np, h5py
np.save("region.npy", h5py.File("days.h5")["days"][:, 10:40, 20:60])
""",
        "zarr": """
import numpy as np, zarr
np.save("region.npy", zarr.open_array("days.zarr", mode="r")[:, 10:40, 20:60])
""",
    },
    "make an array and fill it": {
        "extarray": """
import numpy as np, extarray as xa
xa.create("new", (64, 256, 256), "f4", overwrite=True)[...] = 1
""",
        "h5py": """
import h5py
with h5py.File("new.h5", "w") as f:
    f.create_dataset("a", (64, 256, 256), "f4", chunks=True, maxshape=(None,) * 3)[...] = 1
""",
        "zarr": """
import zarr
a = zarr.create_array("new.zarr", shape=(64, 256, 256), dtype="f4", overwrite=True)
a[...] = 1
""",
    },
    "what is in the file": {
        "extarray": "import extarray as xa; print(xa.open('days'))",
        "h5py": "import h5py; print(h5py.File('days.h5')['days'])",
        "zarr": "import zarr; print(zarr.open_array('days.zarr', mode='r').info)",
    },
    "a dataset of xarray": {
        "extarray": """
import xarray
xarray.open_dataset("table", engine="extarray")["days"].sel(x=10.0, y=5.0).mean().values
""",
        "xarray, netCDF": """
import xarray
xarray.open_dataset("days.nc", engine="netcdf4")["days"].sel(x=10.0, y=5.0).mean().values
""",
    },
    "a graph of dask": {
        "extarray": """
import dask.array, extarray as xa
a = xa.open("days")
dask.array.from_array(a, chunks=a.chunks).mean(axis=0).compute()
""",
        "h5py": """
import dask.array, h5py
a = h5py.File("days.h5")["days"]
dask.array.from_array(a, chunks=a.chunks).mean(axis=0).compute()
""",
        "zarr": """
import dask.array
dask.array.from_zarr("days.zarr").mean(axis=0).compute()
""",
    },
    "a picture": {
        "extarray": """
import matplotlib; matplotlib.use("agg")
import extarray as xa
xa.open("days").plot.slice(at={"time": 0}).savefig("day.png")
""",
        "xarray, netCDF": """
import matplotlib; matplotlib.use("agg")
import xarray
xarray.open_dataset("days.nc", engine="netcdf4")["days"][0].plot().figure.savefig("day.png")
""",
    },
    "a command": {
        "extarray": """
import sys
from extarray.cli import main
sys.argv = ["extarray", "info", "days"]
main()
""",
        "h5py": "import h5py; f = h5py.File('days.h5'); print(f['days'].shape, f['days'].chunks)",
    },
}  # fmt: skip


def run(program: str, folder: Path) -> tuple[float, float]:
    """Run a program in a fresh process; return its seconds, and its peak memory in MiB."""
    command = [sys.executable, "-c", program]
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - start
    process.stderr.close()
    if status:
        raise RuntimeError(f"a program failed:\n{program}\n{said}")
    return seconds, peak(usage)


def peak(usage: resource.struct_rusage) -> float:
    """Return the peak memory in MiB: macOS counts bytes, other systems kilobytes."""
    return usage.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def is_there(program: str) -> bool:
    """Tell whether the libraries that a program imports are installed."""
    names = ("extarray", "h5py", "zarr", "xarray", "dask", "matplotlib")
    return all(importlib.util.find_spec(name) for name in names if f" {name}" in program)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programs", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--shape", type=int, nargs=3, default=(60, 180, 360), help="of the data")
    parser.add_argument("--only", nargs="+", default=[""], help="programs with one of these names")
    options = parser.parse_args(arguments)
    print(versions("extarray", "numpy", "h5py", "zarr", "xarray", "dask", "matplotlib"), "\n")
    folder = Path(tempfile.mkdtemp())
    try:
        run(MAKE.format(shape=tuple(options.shape)), folder)
        print("| program | library | ms | of extarray | peak MiB |")
        print("| --- | --- | ---: | ---: | ---: |")
        for title, given in PROGRAMS.items():
            if not any(word in title for word in options.only):
                continue
            some = {name: program for name, program in given.items() if is_there(program)}
            least = {name: (float("inf"), 0.0) for name in some}
            for _ in range(options.rounds):
                for name, program in some.items():
                    found = run(program, folder)
                    least[name] = min(least[name], found)
            ours = least["extarray"][0]
            for name, (seconds, memory) in least.items():
                ratio = f"{seconds / ours:.2f}"
                print(
                    f"| {title} | {name} | {1e3 * seconds:.0f} | {ratio} | {memory:.0f} |",
                    flush=True,
                )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
