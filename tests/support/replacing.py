"""Jobs that change files of other formats, or xarray datasets, killed or failing at each call.

`python tests/support/replacing.py [kills | faults [JOB ...]]` goes through the jobs, in a process
that preload.py watches.  Each job is repeated on fresh files, in a separate process: the first
system call is its last, then the second, and so on.  Then the formats' libraries read the file: all
of it is as before the job, or as after it.

A kill leaves files and nothing else, so kills that leave the same files are one case.
EXTARRAY_TEST_FAULTS=all tries each kind of kill and fault at each call.
"""

from __future__ import annotations

import collections
import functools
import gc
import itertools
import os
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import scipy.io
import xarray as xr
import zarr
from distinct_kills import distinct_kills, files
from kills import one_process
from preload import FAULTS, KILLS, LOOK, Control

import extarray as xa
import extarray.interop.xarray

__all__ = ["JOBS", "run"]

X = np.arange(12.0).reshape(3, 4)
NEW = xa.from_array(100 + np.arange(30.0).reshape(5, 6), dims=("y", "z"), attrs={"unit": "m"})


# -- files and their contents ----------------------------------------------------------------------


def hdf5_file(path, **options):
    with h5py.File(path, "w") as f:
        f["keep"] = np.arange(20)
        d = f.create_dataset("run/level", data=X, **options)
        d.attrs["unit"] = "mm"
        f["x"] = [1, 2, 3, 4]
        f["x"].make_scale("x")
        d.dims[1].attach_scale(f["x"])


def hdf5_all(path):
    found = {}
    with h5py.File(path, "r") as f:
        f.visititems(
            lambda name, item: found.update(
                {name: (plain(item[...]), item.attrs.get("unit"), item.maxshape)}
                if isinstance(item, h5py.Dataset)
                else {name: None}
            )
        )
        if "run/level" in f and f["run/level"].ndim:
            found["scales"] = [list(each) for each in f["run/level"].dims]
    return found


def netcdf_file(path, model="NETCDF4"):
    with netCDF4.Dataset(path, "w", format=model) as d:
        d.createDimension("time")
        d.createDimension("x", 4)
        d.createVariable("keep", "f8", ("x",))[:] = 7
        d.createVariable("level", "f8", ("time", "x"))[:] = X
        d["level"].unit = "mm"


def netcdf_all(path):
    with netCDF4.Dataset(path) as d:
        d.set_auto_maskandscale(False)
        return {
            name: (plain(v[...]), v.dimensions, getattr(v, "unit", None))
            for name, v in d.variables.items()
        }


def mat_file(path, version):
    xa.to_mat(xa.from_array(X), path, "keep", version=version)
    xa.to_mat(xa.from_array(X), path, "level", version=version)


def mat_all(path):
    if h5py.is_hdf5(path):
        with h5py.File(path, "r") as f:
            return {name: plain(f[name][...]) for name in f}
    found = scipy.io.loadmat(path)
    return {name: plain(v) for name, v in found.items() if not name.startswith("__")}


def npz_all(path):
    with np.load(path) as f:
        return {name: plain(f[name]) for name in f}


def zarr_store(path):
    group = zarr.open_group(path, mode="w")
    group.create_array("keep", data=np.arange(5))
    group.create_array("run/level", data=X, chunks=(2, 2))


def zarr_all(path):
    found = {}
    for name, item in zarr.open_group(path, mode="r").members(max_depth=None):
        found[name] = plain(item[...]) if isinstance(item, zarr.Array) else None
    return found


def dataset(first, **attrs):
    times = {"t": [first, first + 1, first + 2]}
    data = {"wind": ("t", first + X[:, 0]), "rain": (("t", "x"), first + X)}
    return xr.Dataset(data, times, attrs={"first": first, **attrs})


def dataset_all(path):
    with xr.open_dataset(path, engine="extarray") as found:
        return {"": found.attrs, **{name: plain(v) for name, v in found.load().variables.items()}}


def tree(first):
    return xr.DataTree.from_dict({"/north": dataset(first), "/south": dataset(first + 7)})


def tree_all(path):
    with xr.open_datatree(path, engine="extarray") as found:
        return {
            node.path: {name: plain(v) for name, v in node.to_dataset().load().variables.items()}
            for node in found.subtree
        }


def plain(values):
    values = np.asarray(values)
    return values.shape, values.dtype.str, values.tolist()


# -- jobs ------------------------------------------------------------------------------------------


def written_back(mapped, *args, **how):
    """Return a job that maps an array, changes it, and writes it back."""

    def prepare(path):
        m = mapped(path, *args)
        m[0, 0] = 55
        m.attrs["unit"] = "cm"
        if "axis" in how:
            m.extend(how["axis"], 2, side=how.get("side", "end"))
        return m.write_back

    return prepare


def exported(export, *args, array=NEW, **options):
    return lambda path: lambda: export(array, path, *args, **options)


@dataclass
class Job:
    """A job on a file.

    Attributes
    ----------
    make : callable
        Makes the file at a path.
    prepare : callable
        Returns the call for a path.
    look : callable
        Returns all contents of the file at a path.
    """

    make: Callable[[Path], object]
    prepare: Callable[[Path], Callable[[], object]]
    look: Callable[[Path], Any]


def of_hdf5(prepare, **options):
    return Job(lambda path: hdf5_file(path, **options), prepare, hdf5_all)


def of_netcdf(prepare, model="NETCDF4"):
    return Job(lambda path: netcdf_file(path, model), prepare, netcdf_all)


def of_mat(version, name):
    prepare = exported(xa.to_mat, name, overwrite=True)
    return Job(lambda path: mat_file(path, version), prepare, mat_all)


def of_xarray(method, first, mode, look, make=lambda first: dataset(first, title="old")):
    return Job(
        lambda path: make(0).extarray.to_extarray(path),
        lambda path: lambda: method(first).extarray.to_extarray(path, mode=mode),
        look,
    )


GROWING = {"maxshape": (None, None), "chunks": (2, 2), "compression": "gzip"}
level = "run/level"
JOBS: dict[str, Job] = {
    "HDF5, written back": of_hdf5(written_back(xa.map_hdf5, level)),
    "HDF5, resized": of_hdf5(written_back(xa.map_hdf5, level, axis=1), **GROWING),
    "HDF5, made anew": of_hdf5(written_back(xa.map_hdf5, level, axis=0)),
    "HDF5, overwritten": of_hdf5(exported(xa.to_hdf5, level, overwrite=True)),
    "HDF5, added": of_hdf5(exported(xa.to_hdf5, "more/new")),
    "netCDF, written back": of_netcdf(written_back(xa.map_netcdf, "level")),
    "netCDF, grown": of_netcdf(written_back(xa.map_netcdf, "level", axis=0)),
    "netCDF, made anew": of_netcdf(written_back(xa.map_netcdf, "level", axis=1)),
    "netCDF, added": of_netcdf(exported(xa.to_netcdf, "new")),
    "netCDF 3, grown": of_netcdf(written_back(xa.map_netcdf, "level", axis=0), "NETCDF3_CLASSIC"),
    "netCDF 3, added": of_netcdf(exported(xa.to_netcdf, "new"), "NETCDF3_CLASSIC"),
    "netCDF, overwritten": Job(
        lambda path: xa.to_netcdf(xa.from_array(X), path, "level"),
        exported(xa.to_netcdf, "level", overwrite=True),
        netcdf_all,
    ),
    "MATLAB 7.3, added": of_mat("7.3", "new"),
    "MATLAB 7.3, overwritten": of_mat("7.3", "level"),
    "MATLAB 5, overwritten": of_mat("5", "level"),
    "npz, added": Job(
        lambda path: xa.to_npz(xa.from_array(X), path, "keep"), exported(xa.to_npz, "new"), npz_all
    ),
    "Zarr, overwritten": Job(zarr_store, exported(xa.to_zarr, level, overwrite=True), zarr_all),
    "Zarr, added": Job(zarr_store, exported(xa.to_zarr, "a/b/new"), zarr_all),
    "dataset, replaced": of_xarray(dataset, 50, "w", dataset_all),
    "dataset, with others": of_xarray(
        lambda first: dataset(first)[["wind"]].rename(wind="storm"), 50, "w", dataset_all
    ),
    "dataset, added to": of_xarray(dataset, 50, "a", dataset_all),
    "tree, replaced": of_xarray(tree, 50, "w", tree_all, tree),
}


# -- execution -------------------------------------------------------------------------------------


def clear(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target)


def do(job: Job, path: Path, arm: Callable[[], object]) -> None:
    """Do a job in a process that is killed or meets a fault; its errors belong to the family."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xa.LossyWarning)
        call = job.prepare(path)
        arm()
        try:
            call()
        except xa.ExtArrayError as error:
            # A library may take a file that it cannot read for damaged, or for empty.
            if not isinstance(
                error, (xa.StorageError, xa.errors.FormatError, xa.errors.VariableError)
            ):
                raise
            os._exit(3)


def ends(job: Job, path: Path, control: Control, number: int, fault: int) -> int:
    """Do a job with a fault; return the exit status of its process."""
    pid = one_process(lambda: do(job, path, lambda: control.arm(number, fault)))
    status = os.waitpid(pid, 0)[1]
    control.arm(0, 0)
    return status


def state(job: Job, path: Path):
    try:
        return job.look(path)
    except Exception:
        return "".join(traceback.format_exc())


def every_call(faults: dict[str, int], in_full: bool, start: int) -> Iterator[tuple[int, str]]:
    """Yield numbers of calls without end, each with one fault, or in full with every one."""
    for number in itertools.count(1):
        for turned, how in enumerate(faults):
            if in_full or (number + start) % len(faults) == turned:
                yield number, how


def run(folder: Path, kind: str, names: list[str], start: int = 0) -> collections.Counter[str]:
    """Go through jobs, or all; return the number of calls by job."""
    control = Control()
    counts: collections.Counter[str] = collections.Counter()
    faults = KILLS if kind == "kills" else {name: FAULTS[name] for name in ("EIO", "ENOSPC")}
    in_full = os.environ.get("EXTARRAY_TEST_FAULTS") == "all"
    gc.freeze()  # otherwise a child's garbage collection would copy all pages
    for turn, name in enumerate(names or JOBS):
        with tempfile.TemporaryDirectory() as kept:
            trial = Trial(name, folder, Path(kept), control)
            if kind == "kills" and not in_full and (distinct := trial.distinct_kills()):
                counts[name], cases = distinct
                for number, how in cases:
                    assert trial.meets(kind, number, how, faults[how]), f"{name}: {number}, {how}"
                assert not trial.meets(kind, counts[name] + 1, "before", faults["before"]), name
                continue
            for number, how in every_call(faults, in_full, turn + start):
                if not trial.meets(kind, number, how, faults[how]):
                    break
                counts[name] = number
    clear(folder)
    return counts


class Trial:
    """A job that is done again and again on the same files."""

    def __init__(self, name: str, folder: Path, kept: Path, control: Control):
        self.name, self.folder, self.control = name, folder, control
        self.job = JOBS[name]
        self.path = folder / "file.h5"
        self._kept = kept / self.path.name
        self._states: dict[tuple, Any] = {}
        self._crashes = 0
        clear(folder)
        self.job.make(self.path)
        copy(self.path, self._kept)
        self.before = self.state()
        assert not ends(self.job, self.path, control, 0, 0), name
        self.after = self.state()
        assert self.before != self.after and isinstance(self.after, dict), f"{name}: {self.after}"

    def begin(self) -> None:
        """Make the files as they are before the job."""
        clear(self.folder)
        copy(self._kept, self.path)

    def state(self):
        """Return what readers find; they find the same in the same bytes."""
        found = files(self.folder)
        if found not in self._states:
            self._states[found] = state(self.job, self.path)
        return self._states[found]

    def distinct_kills(self) -> tuple[int, list[tuple[int, str]]] | None:
        if self.name.startswith("Zarr"):  # zarr calls the system in several threads
            return None
        self.begin()
        work = functools.partial(do, self.job, self.path, lambda: self.control.arm(1, LOOK))
        return distinct_kills(lambda: one_process(work), self.folder, self.control)

    def meets(self, kind: str, number: int, how: str, fault: int) -> bool:
        """Check what a fault at a call leaves; return whether there is such a call."""
        job, path, control, name = self.job, self.path, self.control, self.name
        before, after = self.before, self.after
        self.begin()
        control.fired = False
        status = ends(job, path, control, number, fault)
        fired = control.fired
        where = f"{name}, {how} at call {number}, {control.name}, status {status}"
        found = self.state()
        assert found in (before, after), f"{where}: {found}"
        if os.WIFEXITED(status):
            code = os.WEXITSTATUS(status)
            assert code in (0, 3) and (code == 0 or fired), where
            # A folder already exchanged may still fail to reach the disk.
            is_folder = name.startswith(("dataset", "tree", "Zarr"))
            assert is_folder or found == (before if code else after), f"{where}: {found}"
            assert fired or code == 0, where
            left = [f for f in os.listdir(self.folder) if f != path.name]
            assert not left, f"{where}: {left} are left"
        elif kind == "faults":
            # netCDF crashes if the last write fails, as it closes a file.
            self._crashes += 1
            assert "netCDF" in name and control.name == "pwrite", where
            assert found == before and self._crashes <= 2, where
        else:
            assert os.WTERMSIG(status) == 9, where
            assert all(".new" in f for f in os.listdir(self.folder) if f != path.name), where
            if found == before:
                assert not ends(job, path, control, 0, 0), f"{where}: not done again"
                again = self.state()
                assert again == after, f"{where}: done again, it gives {again}"
        return fired


def main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ["PRELOAD_FOLDER"]) as inner:
        counts = run(Path(inner), arguments[0], arguments[1:], os.getpid())
    for name, count in (*counts.items(), ("faults", sum(counts.values()))):
        print(f"{count:8d} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
