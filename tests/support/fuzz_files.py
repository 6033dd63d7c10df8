"""Hostile files of other formats: good ones of their libraries, changed byte by byte, and read.

  python tests/support/fuzz_files.py FORMAT [--seed N] [--first N] [--count N]

`attack` makes a file from bytes, and uses it as users do.  It raises on anything but errors of the
family.  C libraries crash and hang on such files: `Children` runs attacks in processes with limits
of memory and time, and continues behind a case that ended one.  `tests/support/fuzz.py files` lets
atheris choose the bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from deaths import TIME, in_ours
from dice import Dice

import extarray as xa
from extarray.array import creation
from extarray.common.limits import limits
from extarray.maintenance import blob_packing

with contextlib.suppress(ImportError):  # not on Windows
    import resource

__all__ = ["FORMATS", "Children", "attack", "limit", "seeds"]

#: Memory beyond that of the seeds; a file of a few kB needs less.
SPARE_MEMORY = 3 << 30
#: Most bytes of a file, and of values to read.
LARGEST = 1 << 24
#: Command that starts a child.
COMMAND = [sys.executable, __file__]
#: A child's words for a case that it begins, and for one that it has done.
BEGUN, DONE = "begun", "done"


class Format(NamedTuple):
    needs: str  # the library's module; "" for none
    make: Callable[[Path], None]  # makes good files, or folders, in a folder
    jobs: tuple[Callable[[Path, Path], None], ...]  # use a file; the folder is for arrays


# -- good files ----------------------------------------------------------------------------------

X = np.arange(60).reshape(5, 12)


def hdf5(folder: Path) -> None:
    import h5py

    with h5py.File(folder / "plain.h5", "w") as f:
        f["x"] = X.astype("<i4")
        f["x"].attrs.update({"unit": "mm", "scale_factor": 0.5, "_FillValue": np.int32(3)})
        f.create_dataset("z", data=X.astype("f8"), chunks=(2, 4), compression=1, shuffle=True)
        f.create_dataset("grown", (3, 4), ">u2", maxshape=(None, None), fillvalue=7)
        f["n"] = np.array([b"ab", b"c"])
    with h5py.File(folder / "rich.h5", "w", libver="latest") as f:
        f.create_group("g").attrs["list"] = np.arange(3)
        f.create_dataset("g/texts", data=["one", "two"], dtype=h5py.string_dtype())
        f["g/record"] = np.zeros(3, [("a", "<i2"), ("b", "S3"), ("c", "f4", (2,))])
        f["y"] = np.arange(5.0)
        f["y"].make_scale("y")
        f["x"] = X
        f["x"].dims[0].label = "y"
        f["x"].dims[0].attach_scale(f["y"])
        f["enum"] = np.zeros(2, h5py.enum_dtype({"a": 0, "b": 1}))
        f["empty"] = h5py.Empty("f4")
        f["link"] = h5py.SoftLink("/x")
        f["other"] = h5py.ExternalLink("plain.h5", "/x")


def netcdf(folder: Path) -> None:
    import netCDF4

    for number, kind in enumerate(("NETCDF3_CLASSIC", "NETCDF3_64BIT_DATA", "NETCDF4")):
        with netCDF4.Dataset(folder / f"{number}.nc", "w", format=kind) as f:
            f.title = "a title"
            f.createDimension("time", None)
            f.createDimension("x", 12)
            f.createDimension("chars", 3)
            v = f.createVariable("level", "i2", ("time", "x"), fill_value=-1)
            v[...] = X
            v.scale_factor, v.units, v.coordinates = 0.5, "mm", "lon"
            f.createVariable("time", "f8", ("time",))[...] = np.arange(5)
            f["time"].units = "days since 2000-01-01"
            f.createVariable("lon", "f4", ("x",))[...] = np.arange(12)
            f.createVariable("name", "S1", ("x", "chars"))[...] = b"a"
            if kind == "NETCDF4":
                g = f.createGroup("inner")
                g.createVariable("text", str, ("x",))[...] = np.array(["a"] * 12, object)
                g.createVariable("z", "f4", ("x",), zlib=True)[...] = 1


def fits(folder: Path) -> None:
    from astropy.io import fits

    image = fits.ImageHDU(X.astype(">i2"), name="SCI")
    image.header.update({"BLANK": -1, "CTYPE1": "RA---TAN", "CRVAL1": 1.5, "BUNIT": "mm"})
    scaled = fits.ImageHDU(X.astype("u2"), name="DQ")
    fits.HDUList([fits.PrimaryHDU(X.astype("f4")), image, scaled]).writeto(folder / "plain.fits")
    packed = fits.CompImageHDU(X.astype("i4"), name="PACKED")
    table = fits.BinTableHDU.from_columns([fits.Column("a", "J", array=np.arange(3))])
    fits.HDUList([fits.PrimaryHDU(), packed, table]).writeto(folder / "packed.fits")


def mat(folder: Path) -> None:
    import scipy.io

    matrices = {"x": X.astype("f8"), "i": X.astype("i2"), "c": X * 1j, "t": "text", "b": X > 3}
    scipy.io.savemat(folder / "5.mat", matrices)
    scipy.io.savemat(folder / "packed.mat", matrices, do_compression=True)
    if importlib.util.find_spec("h5py"):
        xa.to_mat(xa.from_array(X.astype("f8")), folder / "7.mat", "x", version="7.3")


def geotiff(folder: Path) -> None:
    import rasterio

    place = {"crs": "EPSG:4326", "transform": rasterio.Affine(2, 0, 1, 0, -2, 9)}
    options: list[dict[str, Any]] = [
        {},
        {"compress": "deflate", "predictor": 2, "nodata": 3},
        {"tiled": True, "blockxsize": 16, "blockysize": 16, "interleave": "pixel"},
        {"BIGTIFF": "YES", "compress": "lzw", "sparse_ok": True},
    ]
    for number, given in enumerate(options):
        with rasterio.open(
            folder / f"{number}.tif", "w", "GTiff", 12, 5, 2, dtype="uint16", **place, **given
        ) as f:
            f.write(np.stack([X, X]).astype("u2"))
            f.update_tags(unit="mm")
            f.set_band_description(1, "red")


def ome_zarr(folder: Path) -> None:
    coords = {"x": {"dims": ["x"], "data": [0.0, 0.5, 1.0, 1.5, 2.0], "attrs": {"units": "µm"}}}
    a = xa.from_array(np.stack([X, X]).astype("u2"), dims=("c", "y", "x"))
    a.attrs["coords"] = {**coords, "c": {"dims": ["c"], "data": ["red", "green"]}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        xa.to_ome_zarr(a, folder / "image", levels=1)


def tiff(folder: Path) -> None:
    import tifffile

    said = {"axes": "CYX", "PhysicalSizeX": 0.5, "Channel": {"Name": ["a", "b"]}}
    options: list[dict[str, Any]] = [
        {},
        {"compression": "zlib", "predictor": True, "rowsperstrip": 2},
        {"tile": (16, 16), "compression": "lzw", "bigtiff": True},
        {"ome": True, "metadata": said},
        {"imagej": True, "metadata": {"axes": "CYX", "unit": "um", "Labels": ["a", "b"]}},
    ]
    for number, given in enumerate(options):
        x = np.stack([X, X]).astype("u2")
        tifffile.imwrite(folder / f"{number}.tif", x, photometric="minisblack", **given)


def envi(folder: Path) -> None:
    for interleave in ("bsq", "bil", "bip"):
        a = xa.from_array(np.stack([X] * 3, -1).astype("u2"), dims=("y", "x", "band"))
        a.attrs["coords"] = {"wavelength": {"dims": ["band"], "data": [1.5, 2.5, 3.5]}}
        a.attrs["map info"] = ["UTM", "1", "1", "0", "0", "2", "2", "32", "North"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (folder / interleave).mkdir()
            xa.to_envi(a, folder / interleave / "a.img", interleave=interleave)


def npy(folder: Path) -> None:
    np.save(folder / "c.npy", X)
    np.save(folder / "f.npy", np.asfortranarray(X.astype(">f4")))
    np.save(folder / "record.npy", np.zeros(3, [("a", "<i2"), ("b", "S3"), ("c", "f4", (2,))]))


def npz(folder: Path) -> None:
    np.savez(folder / "stored.npz", X, text=np.array(["a", "bc"]))
    np.savez_compressed(folder / "packed.npz", x=X.astype("f4"), y=np.zeros(1000))


def zarr(folder: Path) -> None:
    import zarr

    for version in (2, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            group = zarr.open_group(folder / f"v{version}", mode="w", zarr_format=version)
            group.attrs["title"] = "a title"
            x = group.create_array("x", shape=X.shape, dtype="i4", chunks=(2, 5), fill_value=7)
            x[:3] = X[:3]
            x.attrs["scale_factor"] = 0.5
            group.create_array("in/y", shape=5, dtype="f8", chunks=3, compressors=None)[:] = 1.5


def packed(folder: Path) -> None:
    numbers = (n.to_bytes(16, "big") for n in itertools.count(1))
    with (  # for reproducible bytes
        mock.patch.object(creation, "new_uuid", side_effect=numbers),
        mock.patch.object(blob_packing, "new_uuid", side_effect=numbers),
    ):
        pack(folder)


def pack(folder: Path) -> None:
    with xa.create(
        folder / "a", (3, 4), "<i4", chunks=(2, 2), checksum=True, attrs={"u": "m"}
    ) as a:
        a[...] = X[:3, :4]
        xa.pack(a, folder / "one.xap")
    with xa.from_array(np.repeat(X, 40, axis=0), folder / "b", chunks=(60, 5)) as a:
        xa.pack(a, folder / "codec.xap", compression="zlib:shuffle", order="hilbert")
        with (
            mock.patch.object(limits, "divided_bytes", 0),
            mock.patch.object(limits, "block_bytes", 500),
        ):
            xa.pack(a, folder / "blocks.xap", compression="zlib:shuffle")
    with xa.open_group(folder / "g", "w") as g:
        g["x"] = X
        g["in/y"] = np.arange(3)
        g.create_group("empty")
        g.attrs["title"] = "a title"
        xa.pack(g, folder / "group.xap")
    shutil.rmtree(folder / "g")
    for name in ("a.xmd", "a.xta", "b.xmd", "b.xta"):
        (folder / name).unlink()


# -- use of files --------------------------------------------------------------------------------


def look(a: Any) -> None:
    try:
        if a.nbytes <= LARGEST:
            assert a[...].shape == a.shape
        assert str(a.info())
        assert a.attrs.asdict() is not None
    finally:
        a.close()


def each(name: str, **options: Any) -> Callable[[Path, Path], None]:
    """Return a job that reads each array of a file by itself."""

    def job(file: Path, folder: Path) -> None:
        found = xa.file_formats()[name]
        names = [None] if found.names is None else found.names(file)
        problem: xa.ExtArrayError | None = None
        for part in names[:8]:
            try:
                look(found.load(file, part, **options))
            except xa.ExtArrayError as error:  # still read the others
                problem = error
        if problem is not None:
            raise problem

    return job


def whole(name: str) -> Callable[[Path, Path], None]:
    """Return a job that turns a whole file into a group."""

    def job(file: Path, folder: Path) -> None:
        load = xa.file_formats()[name].load_group
        assert load is not None
        with load(file, None, path=folder / "group") as g:
            assert repr(g)
            for _, item in g.walk():
                assert item.attrs is not None

    return job


def mapped(name: str) -> Callable[[Path, Path], None]:
    """Return a job that maps arrays of a file, and writes them back unchanged."""

    def job(file: Path, folder: Path) -> None:
        for part in xa.file_formats()[name].names(file)[:2]:  # type: ignore[misc]
            a = getattr(xa, f"map_{name}")(file, part)
            assert a.write_back() == 0
            look(a)

    return job


def raw_envi(file: Path, folder: Path) -> None:
    look(xa.from_envi(file / "a.img"))


def opened(file: Path, folder: Path) -> None:
    """Open a packed file, or its members."""
    try:
        look(xa.open(file, verify="read"))
    except xa.MissingError:
        with xa.open_group(file) as g:
            assert repr(g) and g.attrs.asdict() is not None
            for _, item in g.walk():
                if isinstance(item, xa.ExtArray):
                    look(item)


def checked(file: Path, folder: Path) -> None:
    assert str(xa.check(file, data=True))


def unpacked(file: Path, folder: Path) -> None:
    xa.unpack(file, folder / "made")


def jobs(name: str, text: str | None = None) -> tuple[Callable[[Path, Path], None], ...]:
    """Return the jobs for a format with scaled numbers, groups, and texts of any length."""
    options = {} if text is None else {"text": text}
    found = (each(name), each(name, mask_and_scale=True, **options), whole(name))
    return found if text is None else (*found, mapped(name))


FORMATS = {
    "hdf5": Format("h5py", hdf5, jobs("hdf5", "S9")),
    "netcdf": Format("netCDF4", netcdf, jobs("netcdf", "U9")),
    "fits": Format("astropy", fits, (each("fits"), each("fits", mask_and_scale=True))),
    "mat": Format("scipy", mat, (each("mat"), each("mat", mat_dtype=True))),
    "geotiff": Format("rasterio", geotiff, (each("geotiff"), each("geotiff", mask_and_scale=True))),
    "envi": Format("", envi, (raw_envi,)),
    "npy": Format("", npy, (each("npy"),)),
    "npz": Format("", npz, (each("npz"),)),
    "zarr": Format("zarr", zarr, jobs("zarr")),
    "ome-zarr": Format("zarr", ome_zarr, (each("ome-zarr"), whole("ome-zarr"))),
    "tiff": Format("tifffile", tiff, (each("tiff"), whole("tiff"))),
    "packed": Format("", packed, (opened, checked, unpacked)),
}


# -- changes -------------------------------------------------------------------------------------

Files = dict[str, bytes]  # by their names below a folder; "" is the file itself


class Seed(NamedTuple):
    """A good file, or a folder of files."""

    format: str
    name: str
    files: Files


def seeds(names: Iterator[str] | list[str]) -> list[Seed]:
    """Return good files of the formats whose libraries are installed."""
    found = []
    for name in names:
        made = FORMATS[name]
        if made.needs and not importlib.util.find_spec(made.needs):
            continue
        with tempfile.TemporaryDirectory() as place:
            made.make(Path(place))
            for item in sorted(Path(place).iterdir()):
                files = (
                    [item] if item.is_file() else sorted(p for p in item.rglob("*") if p.is_file())
                )
                found.append(
                    Seed(
                        name,
                        item.name,
                        {os.path.relpath(p, item).lstrip("."): p.read_bytes() for p in files},
                    )
                )
    return found


def changed(dice: Dice, files: Files) -> Files:
    """Change a few bytes, or numbers in texts, of a few files."""
    result = dict(files)
    for _ in range(1 + dice.below(4)):
        name = dice.pick(sorted(result))
        data = bytearray(result[name])
        # Prefer the head, which leads to everything else.
        span = len(data) if dice.flag() else min(len(data), 512)
        at = (dice.below(1 << 16) * span) >> 16 if span else 0
        kind = dice.below(10)
        if kind < 2 and data:
            data[at] ^= 1 << dice.below(8)
        elif kind == 2 and data:
            data[at] = dice.below(256)
        elif kind == 3:
            size = 1 << dice.below(4)
            number = dice.number() % (1 << 8 * size)
            data[at : at + size] = number.to_bytes(size, dice.pick(["little", "big"]))
        elif kind == 4:
            del data[at:]
        elif kind == 5:
            del data[at : at + 1 + dice.below(64)]
        elif kind == 6:
            data[at:at] = data[at : at + 1 + dice.below(64)]
        elif kind == 7:
            other = (dice.below(1 << 16) * len(data)) >> 16
            n = 1 + dice.below(32)
            data[at : at + n] = data[other : other + n]
        else:
            data = bytearray(of_texts(dice, bytes(data)))
        result[name] = bytes(data)
    if len(result) > 1 and dice.below(8) == 1:
        del result[dice.pick(sorted(result))]
    return result


WORDS = re.compile(rb"-?\d+(?:\.\d+)?|[A-Za-z][A-Za-z0-9_]{2,}")


def of_texts(dice: Dice, data: bytes) -> bytes:
    """Replace a number or a word of a text by another."""
    found = list(WORDS.finditer(data))
    if not found:
        return data
    word = dice.pick(found[:512])
    kind = dice.below(4)
    if kind == 0:
        new = str(dice.number()).encode()
    elif kind == 1:
        new = dice.pick(found[:512])[0]
    elif kind == 2:
        new = dice.pick(
            [b"", b"null", b"NaN", b"[]", b"{}", b'"', b"1e999", b"-1", b"true", b"\xff", b"0" * 40]
        )
    else:
        new = word[0].swapcase()[::-1]
    if dice.flag():  # keep later bytes in place
        new = new[: len(word[0])].ljust(len(word[0]))
    return data[: word.start()] + new + data[word.end() :]


def summed(data: bytes) -> bytes:
    """Correct the CRC-32 sums of the members of a ZIP file."""
    import io
    import struct
    import zlib

    result = bytearray(data)
    with contextlib.suppress(Exception), zipfile.ZipFile(io.BytesIO(data)) as archive:
        at = archive.start_dir
        for info in archive.infolist():
            start = info.header_offset
            n_name, n_extra = struct.unpack_from("<HH", data, start + 26)
            begin = start + 30 + n_name + n_extra
            crc = struct.pack("<I", zlib.crc32(data[begin : begin + info.compress_size]))
            if info.compress_type == zipfile.ZIP_STORED:
                result[start + 14 : start + 18] = crc
                result[at + 16 : at + 20] = crc
            at += 46 + sum(struct.unpack_from("<HHH", data, at + 28))
    return bytes(result)


def attack(known: list[Seed], data: bytes, folder: Path) -> str:
    """Make a file from bytes, and use it as users do; return the outcome."""
    dice = Dice(data)
    seed = dice.pick(known)
    job = dice.pick(FORMATS[seed.format].jobs)
    files = changed(dice, seed.files)
    if seed.name.endswith((".xap", ".npz")) and dice.below(4):
        files = {name: summed(content) for name, content in files.items()}
    place, made = folder / "given" / seed.name, folder / "made"
    for each_ in (place.parent, made):
        shutil.rmtree(each_, ignore_errors=True)
        each_.mkdir(parents=True)
    for name, content in files.items():
        file = place / name if name else place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    place.parent.mkdir(exist_ok=True)
    with (
        warnings.catch_warnings(),
        xa.config.set(max_memory="1 MiB", max_result=LARGEST, threads=1),
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stderr(nowhere),
    ):
        warnings.simplefilter("ignore")
        try:
            job(place, made)
        except xa.ExtArrayError as error:
            return f"{seed.format}: {type(error).__name__}"
    return f"{seed.format}: read"


# -- processes with limits -------------------------------------------------------------------------


def limit() -> None:
    """Limit the memory and the file sizes of this process."""
    with open("/proc/self/status") as status:
        now = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmSize"))
    for what, most in ((resource.RLIMIT_AS, now + SPARE_MEMORY), (resource.RLIMIT_FSIZE, 1 << 28)):
        resource.setrlimit(what, (most, resource.getrlimit(what)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


class Children:
    """Attacks on one format, or on all, in separate processes.

    Parameters
    ----------
    name : str
        A format, or "all".
    seed : int
        Seed of the bytes.
    inputs : list of bytes, optional
        The bytes themselves.

    Attributes
    ----------
    counts : Counter
        Number of cases by outcome; a process that died counts under its signal.
    findings : list of str
        Forbidden outcomes, each with the bytes that led there.
    """

    def __init__(self, name: str, seed: int = 1, inputs: list[bytes] | None = None) -> None:
        self.format, self.seed, self.inputs = name, seed, inputs
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []

    def run(self, first: int, stop: int) -> None:
        """Run the cases first ... stop - 1."""
        while first < stop:
            first = self._go_on(first, stop)

    def _go_on(self, first: int, stop: int) -> int:
        """Run cases in one process, up to one that ends it; return the next case."""
        numbers = {"--seed": self.seed, "--first": first, "--count": stop - first}
        words = [*COMMAND, self.format, *(str(word) for pair in numbers.items() for word in pair)]
        if self.inputs is not None:
            words += ["--inputs", *(data.hex() for data in self.inputs[first:stop])]
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        out, err = child.communicate(timeout=(stop - first + 4) * TIME)
        begun, done = first - 1, first - 1
        for line in out.splitlines():
            kind, number, what = line.split(" ", 2)
            if kind == BEGUN:
                begun = int(number)
            else:
                done = int(number)
                self.counts[what.split("\\n")[0]] += 1
                if what.startswith("found"):
                    self.findings.append(
                        f"{self.format}, case {number}: {self._bytes(done).hex()}\n"
                        + what.replace("\\n", "\n")
                    )
        if child.returncode == 0:
            return stop
        if begun == done:  # no case caused it
            raise AssertionError(f"{self.format}: a process ended by {child.returncode}:\n{err}")
        name = signal.Signals(-child.returncode).name if child.returncode < 0 else child.returncode
        ours = in_ours(err)
        self.counts[f"ended by {name}"] += 1
        if ours:
            self.findings.append(
                f"{self.format}, case {begun}: {self._bytes(begun).hex()}\n{name}\n{err}"
            )
        return begun + 1

    def _bytes(self, number: int) -> bytes:
        return bytes_of(self.seed, number) if self.inputs is None else self.inputs[number]


def bytes_of(seed: int, number: int) -> bytes:
    return random.Random(f"{seed}/{number}").randbytes(64)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("format", choices=[*FORMATS, "all"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--input", help="run these bytes, in hexadecimal digits, alone")
    parser.add_argument("--inputs", nargs="*", help="the bytes of the cases")
    arguments = parser.parse_args()
    import faulthandler
    import traceback

    places = [place for place in ("/dev/shm", tempfile.gettempdir()) if Path(place).is_dir()]
    known = seeds(list(FORMATS) if arguments.format == "all" else [arguments.format])
    faulthandler.enable()
    with tempfile.TemporaryDirectory(dir=places[0]) as folder:
        for j in range(len(known)):  # triggers all imports
            attack(known, bytes([j]), Path(folder))
        limit()
        if arguments.input is not None:
            faulthandler.dump_traceback_later(TIME, exit=True)
            print(attack(known, bytes.fromhex(arguments.input), Path(folder)))
            return 0
        given = map(bytes.fromhex, arguments.inputs or [])
        for number in range(arguments.first, arguments.first + arguments.count):
            data = next(given, bytes_of(arguments.seed, number))
            print(BEGUN, number, "", flush=True)
            faulthandler.dump_traceback_later(TIME, exit=True)
            try:
                what = attack(known, data, Path(folder))
            except Exception:
                what = "found " + traceback.format_exc().replace("\n", "\\n")
            faulthandler.cancel_dump_traceback_later()
            print(DONE, number, what, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
