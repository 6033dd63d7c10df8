"""Kill jobs on files at each call that changes files, and open what is left.

`python tests/support/killed_jobs.py [NAME ...]` goes through some jobs, or all, in a process that
preload.py watches.  Kills that leave the same files are one case.  After each kill, either the old
files or the new ones are there, whole and with their permissions.  The job is repeated, killed once
more, repeated again, and then succeeds.  After the search for left-overs, nothing is left.
EXTARRAY_TEST_FAULTS=all omits no call, and EXTARRAY_TEST_SEED repeats a run.
"""

from __future__ import annotations

import collections
import itertools
import json
import os
import random
import shutil
import signal
import stat
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import frozen_chunks
import numpy as np
from distinct_kills import distinct_kills
from preload import KILLS, LOOK, Control

import extarray as xa
from extarray.cli.files import mv
from extarray.maintenance import group_files
from extarray.storage import names

__all__ = ["JOBS", "run"]

OLD = np.arange(1, 43, dtype="i4").reshape(6, 7)
NEW = OLD[:4, :5] * 100
OWNER = 4321
MEMORY = 6000


def private(*paths: Path) -> None:
    """Make files private and, if possible, owned by another user."""
    for path in paths:
        if os.geteuid() == 0:
            os.chown(path, OWNER, OWNER)
        os.chmod(path, 0o600)


def check_private(*paths: Path) -> None:
    for path in paths:
        about = path.stat()
        assert stat.S_IMODE(about.st_mode) == 0o600, f"{path} has another mode"
        if os.geteuid() == 0:
            assert (about.st_uid, about.st_gid) == (OWNER, OWNER), f"{path} has another owner"


def pair(path: Path) -> tuple[Path, Path]:
    return path.with_name(f"{path.name}.xmd"), path.with_name(f"{path.name}.xta")


def make(path: Path, values: np.ndarray, **options) -> None:
    with xa.create(path, values.shape, values.dtype, chunks=(2, 3), **options) as array:
        array[...] = values
    private(*pair(path))


def opened(path: Path) -> np.ndarray | None:
    """Return the elements of an array, or None if there is none."""
    try:
        with xa.open(path) as array:
            return array[...]
    except xa.errors.MissingError:
        return None


def one_of(found: np.ndarray | None, *values: np.ndarray) -> int:
    """Return the index of the value that was found."""
    matches = [n for n, v in enumerate(values) if found is not None and np.array_equal(found, v)]
    assert matches, f"neither the old nor the new: {found}"
    return matches[0]


@dataclass
class Job:
    """Work on files in a folder.

    `before` makes the files it needs.  `state` tells whether the old (0) or the new (1) files are
    there, or None while neither need be.
    """

    before: Callable[[Path], None]
    run: Callable[[Path], None]
    state: Callable[[Path], int | None]
    after: set[str]
    stride: int = 1  # meet one in so many kills, unless all are asked for


# -- moves -----------------------------------------------------------------------------------------


def move(folder: Path) -> None:
    with xa.open_group(folder, "r+") as group:
        if "old" in group:
            group.move("old", "inner/new")


def move_without_links(folder: Path) -> None:
    plain, os.link = os.link, refuse
    try:
        move(folder)
    finally:
        os.link = plain


def refuse(*names, **options):
    raise PermissionError("no links here")


def before_move(folder: Path) -> None:
    make(folder / "old", OLD)
    (folder / "inner").mkdir()


def moved(folder: Path) -> int:
    found = [opened(folder / name) for name in ("old", "inner/new")]
    there = [n for n, values in enumerate(found) if values is not None]
    assert len(there) == 1, f"it is at {len(there)} places"
    (place,) = there
    one_of(found[place], OLD)
    return place


def before_replacing(folder: Path) -> None:
    make(folder / "old", NEW)
    make(folder / "new", OLD)


def before_replacing_a_copy(folder: Path) -> None:
    make(folder / "old", OLD)
    for file in pair(folder / "old"):
        shutil.copy(file, folder / f"new{file.suffix}")
    with xa.open(folder / "old", "r+") as array:
        array.resize(NEW.shape)
        array[...] = NEW


def move_over(folder: Path) -> None:
    if (folder / "old.xmd").exists():
        mv.callback(str(folder / "old"), str(folder / "new"), True)


def moved_over(folder: Path) -> int:
    place = one_of(opened(folder / "new"), OLD, NEW)
    if place == 0:
        one_of(opened(folder / "old"), NEW)
    else:
        assert opened(folder / "old") is None
    return place


def remove(folder: Path) -> None:
    with xa.open_group(folder, "r+") as group:
        if "a" in group:
            del group["a"]


def removed(folder: Path) -> int:
    found = opened(folder / "a")
    if found is None:
        assert not set(A) & set(os.listdir(folder)), "its names are not free"
        return 1
    return one_of(found, OLD)


# -- arrays with frozen chunks, in three files -----------------------------------------------------


def make_frozen(path: Path, values: np.ndarray) -> None:
    with frozen_chunks.freezing():
        frozen_chunks.make(path, values)


def frozen(path: Path) -> np.ndarray | None:
    return frozen_chunks.opened(path)


def before_frozen_move(folder: Path) -> None:
    make_frozen(folder / "old", OLD)
    (folder / "inner").mkdir()


def frozen_moved(folder: Path) -> int:
    found = [frozen(folder / name) for name in ("old", "inner/new")]
    there = [n for n, values in enumerate(found) if values is not None]
    assert len(there) == 1, f"it is at {len(there)} places"
    one_of(found[there[0]], OLD)
    return there[0]


def frozen_or_not(before: bool, after: bool) -> Callable[[Path], None]:
    """Return the making of two arrays, the second of which the first one replaces."""

    def make_both(folder: Path) -> None:
        (make_frozen if after else make)(folder / "old", NEW)
        (make_frozen if before else make)(folder / "new", OLD)

    return make_both


def frozen_moved_over(folder: Path) -> int:
    place = one_of(frozen(folder / "new"), OLD, NEW)
    assert (frozen(folder / "old") is None) == (place == 1)
    return place


def frozen_removed(folder: Path) -> int:
    found = frozen(folder / "a")
    if found is None:
        assert not {*A, "a.xtz"} & set(os.listdir(folder)), "its names are not free"
        return 1
    return one_of(found, OLD)


def create_frozen_over(folder: Path) -> None:
    with frozen_chunks.freezing():
        xa.from_array(NEW, folder / "a", overwrite=True).close()


def frozen_replaced(folder: Path) -> int:
    return one_of(frozen(folder / "a"), OLD, NEW)


def add_axis(folder: Path) -> None:
    with xa.open(folder / "a", "r+") as array:
        if array.ndim == OLD.ndim:
            array.add_axis()


def wider(folder: Path) -> int:
    return one_of(frozen(folder / "a"), OLD, OLD[None])


def before_repack(folder: Path) -> None:
    make_frozen(folder / "a", OLD)
    with xa.open(folder / "a", "r+") as array:
        array[1] = 0
        array.freeze()
        array[1] = OLD[1]
        array.freeze()


def repack(folder: Path) -> None:
    with xa.open(folder / "a", "r+") as array:
        array.repack(progress=False)


def repacked(folder: Path) -> int:
    one_of(frozen(folder / "a"), OLD)
    with xa.open(folder / "a") as array:
        table, log = frozen_chunks.table(array), array._store.now.blobs
        return int(table.used_bytes() == log.length)


def compress(folder: Path) -> None:
    with xa.open(folder / "a", "r+") as array:
        array.compression = "zlib:1"


def compressed(folder: Path) -> int:
    check_private(*pair(folder / "a"))
    one_of(frozen(folder / "a"), OLD)
    with xa.open(folder / "a") as array:
        return int(array.compression is not None)


def recode(folder: Path) -> None:
    with xa.open(folder / "a", "r+") as array:
        array.compression = "zlib:9"


def recoded(folder: Path) -> int:
    one_of(frozen(folder / "a"), OLD)
    with xa.open(folder / "a") as array:
        return ("zlib:1", "zlib:9").index(str(array.compression))


# -- wider texts -----------------------------------------------------------------------------------

TEXTS = np.array([["ab", "c", ""], ["d", "ef", "g"]])
LONGER = np.array([["longer", "", "h"]])


def make_texts(**options: object) -> Callable[[Path], None]:
    return lambda folder: make(folder / "a", TEXTS, **options)


def widen(folder: Path) -> None:
    with xa.open(folder / "a", "r+") as array:
        if len(array) == len(TEXTS):
            array.append(LONGER, widen=True)


def widened(folder: Path) -> int:
    check_private(*pair(folder / "a"))
    with xa.open(folder / "a", verify="read") as array:
        assert array.dtype in ("U2", "U6")
        return one_of(array[...], TEXTS, np.vstack([TEXTS, LONGER]))


# -- replaced pairs --------------------------------------------------------------------------------


def before_rechunk(folder: Path) -> None:
    given = {"source_chunks": (1, 64), "chunks": (64, 1), "dtype": "i4", "max_memory": MEMORY}
    assert len(xa.rechunk_plan((64, 64), **given).passes) == 2
    values = np.arange(64 * 64, dtype="i4").reshape(64, 64)
    with xa.create(folder / "a", values.shape, "i4", chunks=(1, 64)) as array:
        array[...] = values
    private(*pair(folder / "a"))


def rechunk(folder: Path, resume: bool = False) -> None:
    xa.rechunk(
        folder / "a",
        chunks=(64, 1),
        in_place=True,
        resume=resume,
        max_memory=MEMORY,
        workers=1,
        progress=False,
    ).close()


def rechunked(folder: Path) -> int:
    with xa.open(folder / "a") as array:
        assert (array[...].ravel() == np.arange(64 * 64)).all()
        state = {(1, 64): 0, (64, 1): 1}[array.chunks]
    check_private(*pair(folder / "a"))
    return state


def before_unpack(folder: Path) -> None:
    make(folder / "b", NEW)
    with xa.open(folder / "b") as array:
        xa.pack(array, folder / "b.xap", progress=False)
    for file in pair(folder / "b"):
        file.unlink()


def unpack(folder: Path, overwrite: bool = False) -> None:
    if overwrite or not (folder / "a.xmd").exists():
        xa.unpack(folder / "b.xap", folder / "a", overwrite=overwrite, progress=False)


def unpacked(folder: Path) -> int:
    found = opened(folder / "a")
    return 0 if found is None else 1 + one_of(found, NEW)


def before_unpack_over(folder: Path) -> None:
    before_unpack(folder)
    make(folder / "a", OLD)


def before_unpack_over_itself(folder: Path) -> None:
    make(folder / "a", NEW)
    with xa.open(folder / "a") as array:
        xa.pack(array, folder / "b.xap", progress=False)
    with xa.open(folder / "a", "r+") as array:
        array.resize(OLD.shape)
        array[...] = OLD
    private(*pair(folder / "a"))


def replaced(folder: Path) -> int:
    state = one_of(opened(folder / "a"), OLD, NEW)
    check_private(*pair(folder / "a"))
    return state


def create_over(folder: Path) -> None:
    xa.from_array(NEW, folder / "a", overwrite=True).close()


# -- single files ----------------------------------------------------------------------------------


def before_pack(folder: Path) -> None:
    xa.pack(xa.from_array(OLD), folder / "a.xap", progress=False)
    private(folder / "a.xap")


def packed(folder: Path) -> int:
    state = one_of(opened(folder / "a.xap"), OLD, NEW)
    check_private(folder / "a.xap")
    return state


def before_attrs(folder: Path) -> None:
    with xa.open_group(folder, "r+") as group:
        group.attrs["a"] = 0
    private(folder / "dataset.json")


def save_attrs(folder: Path) -> None:
    with xa.open_group(folder, "r+") as group:
        group.attrs["a"] = 1


def saved(folder: Path) -> int:
    check_private(folder / "dataset.json")
    found: int = json.loads((folder / "dataset.json").read_text())["attrs"]["a"]
    return found


def before_npy(folder: Path) -> None:
    xa.to_npy(xa.from_array(OLD), folder / "a.npy", progress=False)
    private(folder / "a.npy")


def to_npy(folder: Path) -> None:
    xa.to_npy(xa.from_array(NEW), folder / "a.npy", overwrite=True, progress=False)


def exported(folder: Path) -> int:
    check_private(folder / "a.npy")
    return one_of(np.load(folder / "a.npy"), OLD, NEW)


def before_tiff(folder: Path) -> None:
    xa.to_geotiff(xa.from_array(OLD), folder / "a.tif", progress=False)
    private(folder / "a.tif")


def to_geotiff(folder: Path) -> None:
    xa.to_geotiff(xa.from_array(NEW), folder / "a.tif", overwrite=True, progress=False)


def raster(folder: Path) -> int:
    check_private(folder / "a.tif")
    return one_of(xa.from_geotiff(folder / "a.tif", progress=False)[0], OLD, NEW)


def before_pages(folder: Path) -> None:
    xa.to_tiff(xa.from_array(OLD), folder / "a.tif", progress=False)
    private(folder / "a.tif")


def to_tiff(folder: Path) -> None:
    xa.to_tiff(
        xa.from_array(NEW), folder / "a.tif", overwrite=True, progress=False, compression="zlib"
    )


def pages(folder: Path) -> int:
    check_private(folder / "a.tif")
    return one_of(xa.from_tiff(folder / "a.tif", progress=False)[...], OLD, NEW)


def before_envi(folder: Path) -> None:
    xa.to_envi(xa.from_array(OLD), folder / "a.hdr", progress=False)
    private(folder / "a.hdr", folder / "a.img")


def to_envi(folder: Path) -> None:
    xa.to_envi(xa.from_array(OLD.T * 100), folder / "a.hdr", overwrite=True, progress=False)


def image(folder: Path) -> int | None:
    """Compare by header: old and new image have the same size, so elements alone prove nothing."""
    check_private(folder / "a.img")
    if not (folder / "a.hdr").exists():
        return None
    return one_of(xa.from_envi(folder / "a.hdr", progress=False)[...][..., 0], OLD, OLD.T * 100)


def before_zarr(folder: Path) -> None:
    xa.to_zarr(xa.from_array(OLD), folder / "a.zarr", progress=False)


def to_zarr(folder: Path) -> None:
    xa.to_zarr(xa.from_array(NEW), folder / "a.zarr", overwrite=True, progress=False)


def store(folder: Path) -> int:
    return one_of(xa.from_zarr(folder / "a.zarr", progress=False)[...], OLD, NEW)


def before_ome_zarr(folder: Path) -> None:
    xa.to_ome_zarr(xa.from_array(OLD), folder / "a.zarr", levels=1, progress=False)


def to_ome_zarr(folder: Path) -> None:
    xa.to_ome_zarr(xa.from_array(NEW), folder / "a.zarr", levels=1, overwrite=True, progress=False)


def levels(folder: Path) -> int:
    small = xa.from_ome_zarr(folder / "a.zarr", level=1, progress=False)
    found = xa.from_ome_zarr(folder / "a.zarr", progress=False)
    assert small.shape == tuple(-(-n // 2) for n in found.shape)
    return one_of(found[...], OLD, NEW)


A = {"a.xmd", "a.xta"}
FROZEN = {*A, "a.xtz"}
MOVED = {"inner", "inner/new.xmd", "inner/new.xta", "inner/new.xtz"}
REPLACED = {"new.xmd", "new.xta", "new.xtz"}
JOBS = {
    "move": Job(before_move, move, moved, {"inner", "inner/new.xmd", "inner/new.xta"}),
    "move without hard links": Job(
        before_move, move_without_links, moved, {"inner", "inner/new.xmd", "inner/new.xta"}
    ),
    "move over another": Job(before_replacing, move_over, moved_over, {"new.xmd", "new.xta"}),
    "move over a copy": Job(before_replacing_a_copy, move_over, moved_over, {"new.xmd", "new.xta"}),
    "move with frozen chunks": Job(before_frozen_move, move, frozen_moved, MOVED),
    "move with frozen chunks, without hard links": Job(
        before_frozen_move, move_without_links, frozen_moved, MOVED
    ),
    "move frozen chunks over frozen ones": Job(
        frozen_or_not(True, True), move_over, frozen_moved_over, REPLACED
    ),
    "move frozen chunks over another": Job(
        frozen_or_not(False, True), move_over, frozen_moved_over, REPLACED, 3
    ),
    "move over frozen chunks": Job(
        frozen_or_not(True, False), move_over, frozen_moved_over, {"new.xmd", "new.xta"}, 3
    ),
    "remove with frozen chunks": Job(
        lambda f: make_frozen(f / "a", OLD), remove, frozen_removed, set(), 3
    ),
    "create over frozen chunks": Job(
        lambda f: make_frozen(f / "a", OLD), create_over, frozen_replaced, A
    ),
    "create with frozen chunks over another": Job(
        lambda f: make(f / "a", OLD), create_frozen_over, frozen_replaced, FROZEN
    ),
    "create with frozen chunks over frozen ones": Job(
        lambda f: make_frozen(f / "a", OLD), create_frozen_over, frozen_replaced, FROZEN
    ),
    "add an axis to frozen chunks": Job(
        lambda f: make_frozen(f / "a", OLD), add_axis, wider, FROZEN
    ),
    "repack frozen chunks": Job(before_repack, repack, repacked, FROZEN),
    "compression of an array without": Job(
        lambda f: make(f / "a", OLD), compress, compressed, FROZEN, 2
    ),
    "another codec of frozen chunks": Job(before_repack, recode, recoded, FROZEN),
    "append of longer texts": Job(make_texts(), widen, widened, A),
    "append of longer texts with checksums": Job(make_texts(checksum=True), widen, widened, A),
    "append of longer texts to frozen chunks": Job(
        make_texts(compression="zlib"), widen, widened, FROZEN
    ),
    "remove": Job(lambda f: make(f / "a", OLD), remove, removed, set()),
    "rechunk in place": Job(before_rechunk, rechunk, rechunked, A, 3),
    "rechunk in place, resumed": Job(before_rechunk, lambda f: rechunk(f, True), rechunked, A, 3),
    "unpack": Job(before_unpack, unpack, unpacked, {*A, "b.xap"}),
    "unpack over another": Job(
        before_unpack_over, lambda f: unpack(f, True), replaced, {*A, "b.xap"}
    ),
    "unpack over what was packed": Job(
        before_unpack_over_itself, lambda f: unpack(f, True), replaced, {*A, "b.xap"}
    ),
    "create over another": Job(lambda f: make(f / "a", OLD), create_over, replaced, A),
    "pack": Job(
        before_pack,
        lambda f: xa.pack(xa.from_array(NEW), f / "a.xap", overwrite=True, progress=False),
        packed,
        {"a.xap"},
    ),
    "attributes of a group": Job(before_attrs, save_attrs, saved, {"dataset.json"}),
    "to_npy": Job(before_npy, to_npy, exported, {"a.npy"}),
    "to_tiff": Job(before_pages, to_tiff, pages, {"a.tif"}),
    "to_geotiff": Job(before_tiff, to_geotiff, raster, {"a.tif"}),
    "to_envi": Job(before_envi, to_envi, image, {"a.hdr", "a.img"}),
    "to_zarr": Job(before_zarr, to_zarr, store, {"a.zarr"}),
    "to_ome_zarr": Job(before_ome_zarr, to_ome_zarr, levels, {"a.zarr"}),
}


# -- kills -----------------------------------------------------------------------------------------


def empty(folder: Path) -> None:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def listed(folder: Path) -> set[str]:
    """List a folder, without the inside of Zarr stores and the copies that repairs make."""
    return {
        os.path.relpath(path, folder)
        for path in folder.rglob("*")
        if ".zarr" not in path.parent.as_posix() and path.suffix != ".before-repair"
    }


def started(job: Job, folder: Path, control: Control, number: int, fault: int) -> int:
    """Start a process that does a job with a fault at a call."""
    pid = os.fork()
    if not pid:
        try:
            names._next_looks.clear()  # as in a new process
            control.arm(number, fault)
            job.run(folder)
            control.arm(0, 0)
            os._exit(0)
        except BaseException:
            control.arm(0, 0)
            traceback.print_exc()
            os._exit(1)
    return pid


def killed(job: Job, folder: Path, control: Control, number: int, how: str) -> bool:
    """Do a job that is killed at a call; return whether it was."""
    status = os.waitpid(started(job, folder, control, number, KILLS[how]), 0)[1]
    control.arm(0, 0)
    assert status in (0, signal.SIGKILL), f"it fails: {status}"
    return status != 0


def tidy(folder: Path) -> None:
    """Remove left-overs as later writers, and a check with repair, do after a while."""
    from click.testing import CliRunner

    from extarray.cli.check import check

    before = names._IN_THE_MAKING
    names._IN_THE_MAKING = group_files._IN_THE_MAKING = 0.0
    try:
        for file in folder.rglob("*.xmd"):
            xa.open(file, "r+").close()
        error = CliRunner().invoke(check, [str(folder), "--repair"]).exception
        # With no left-overs and no array, there is nothing to check.
        assert not isinstance(error, Exception) or isinstance(error, xa.errors.MissingError), error
    finally:
        names._IN_THE_MAKING = group_files._IN_THE_MAKING = before


def meets(
    name: str, job: Job, folder: Path, control: Control, rng: random.Random, number: int, how: str
) -> int:
    """Kill a job at a call, perhaps twice, and do it again; return the number of kills."""
    empty(folder)
    job.before(folder)
    first = killed(job, folder, control, number, how)
    kills = int(first)
    where = f"{name}, killed {how} call {number}, {control.name}"
    try:
        job.state(folder)
        if rng.random() < 0.2:
            where += ", and tidied"
            tidy(folder)
            job.state(folder)
        if first and rng.random() < 0.3:
            again = rng.randint(1, number + 20)
            kills += killed(job, folder, control, again, how)
            where += f", and again at {again}, {control.name}"
            job.state(folder)
        assert not killed(job, folder, control, 0, how)
        assert job.state(folder) == 1, "it was not done at the next try"
        if listed(folder) != job.after:
            tidy(folder)
        assert job.state(folder) == 1
        assert listed(folder) == job.after
    except Exception as error:
        raise AssertionError(f"{where}: {error}, {sorted(listed(folder))}") from error
    return kills


def go(name: str, job: Job, folder: Path, control: Control, rng: random.Random) -> int:
    """Kill a job before and in each of its calls; return the number of kills, the same ones too."""
    distinct = None
    if os.environ.get("EXTARRAY_TEST_FAULTS") != "all" and ".zarr" not in "".join(job.after):
        empty(folder)
        job.before(folder)
        distinct = distinct_kills(lambda: started(job, folder, control, 1, LOOK), folder, control)
    given = name, job, folder, control, rng
    if distinct is None:
        total = 0
        for how in ("before", "half"):
            for number in itertools.count(1):
                kills = meets(*given, number, how)
                total += kills
                if not kills:
                    break
        return total
    calls, kills = distinct
    for first in range(0, len(kills), job.stride):
        number, how = rng.choice(kills[first : first + job.stride])
        assert meets(*given, number, how), f"{name}: no call {number}"
    assert not meets(*given, calls + 1, "before"), f"{name}: more calls than {calls}"
    return 2 * calls


def run(folder: Path, some: list[str]) -> collections.Counter[str]:
    """Go through jobs; return the number of kills by job."""
    control = Control()
    counts: collections.Counter[str] = collections.Counter()
    rng = random.Random(int(os.environ.get("EXTARRAY_TEST_SEED", os.getpid())))
    for name, job in JOBS.items():
        if not some or name in some:
            empty(folder)
            job.before(folder)  # once without faults, so that all modules are loaded
            job.run(folder)
            counts[name] = go(name, job, folder, control, rng)
    empty(folder)
    return counts


def main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ["PRELOAD_FOLDER"]) as inner:
        counts = run(Path(inner), arguments)
    for name, count in (*counts.items(), ("kills", sum(counts.values()))):
        print(f"{count:8d} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
