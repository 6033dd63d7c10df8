"""Files that the same calls write everywhere: one checksum for each.

  python tests/support/written_files.py

prints the checksums, as they are in ``data/written.json``; two systems, or two builds, write the
same bytes if they print the same.  The uuids of files, which are random, come from a count instead,
and all processes and hosts have the same name.  The note on the run of the system counts as zeros.
The bytes of compressed chunks belong to the version of the codec's library.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import format_files
import numpy as np

import extarray as xa

__all__ = ["checksums"]

#: The last writer's note in ``.xmd`` on the run of the system.
NOTE = slice(6272, 6336)


@contextlib.contextmanager
def counted() -> Iterator[None]:
    """Let random bytes come from counts, and processes and hosts have one name."""
    counts: Counter[str] = Counter()

    def drawn(n: int) -> bytes:
        # Systems differ in the number of names of temporary files, and in the order of handles.
        use = sys._getframe(1).f_code.co_name
        counts[use] += 1
        return hashlib.shake_128(f"{use} {counts[use]}".encode()).digest(n)

    with (
        mock.patch("os.urandom", drawn),
        mock.patch("os.getpid", return_value=1),
        mock.patch("extarray.storage.lock.host_name", return_value="host"),
        mock.patch("extarray.storage.sharing.host_name", return_value="host"),
    ):
        yield


def write(folder: Path, engine: str) -> None:
    """Write arrays that grow, in several sessions, and a group."""
    a = xa.create(
        folder / "appended", (0, 3), "<f4", chunks=(4, 2), dims=["time", "x"], engine=engine
    )
    for n in range(9):
        a.append(np.arange(3 * n, 3 * n + 6, dtype="<f4").reshape(2, 3))
        a.attrs["row"] = n
        a.flush()
    a.close()
    with xa.open(folder / "appended", "r+", engine=engine) as a:
        del a.attrs["row"]
        a.attrs.update(unit="mm", table=np.arange(4.0), nested={"ä": [1, None, True]})
        a.extend(1, 5)
        a.append(np.ones((1, 8), "<f4"))

    with xa.create(
        folder / "box", (2, 3, 4), "<i2", chunks=(2, 2, 3), fill_value=-1, engine=engine
    ) as a:
        for n in range(12):
            axis = n % 3
            a.extend(axis, n % 2 + 1, side="start" if n % 4 == 3 else "end")
            a[tuple(slice(-1, None) if i == axis else slice(None) for i in range(3))] = n
        a.shrink(0, 2)

    xa.create(folder / "several", (0,), "<u4", chunks=8, engine=engine).close()
    with xa.open(folder / "several", "r+", share=True, engine=engine) as a:
        for n in range(5):
            a.append(np.full(3, n, "<u4"))

    with xa.open_group(folder / "tree", "w") as g:
        g.attrs["title"] = "sea"
        g.create("time", 0, "<i8", chunks=4, dims=["time"])
        g.create("deep/level", (0, 2), ">f8", chunks=(2, 2), dims=["time", "depth"])
        for n in range(3):
            g.extend("time", 2)
            with xa.commit([g["time"], g["deep/level"]]):
                g["time"][2 * n :] = [n, -n]
                g["deep/level"][2 * n :] = n / 7


def write_compressed(folder: Path, engine: str) -> None:
    """Pack compressed arrays that grew and changed.

    Their own files differ from run to run: threads freeze chunks in the background.
    """
    for name, compression in {"zstd": "zstd:shuffle", "lz4": "lz4", "plain": "zstd"}.items():
        with xa.create(
            folder / name,
            (0, 200),
            "<f4",
            chunks=(64, 128),
            compression=compression,
            engine=engine,
        ) as a:
            for n in range(4):
                a.append(np.add.outer(np.arange(50.0) // 7, np.arange(200.0) // 9) + n)
                a.flush()
            a.extend(1, 60)
        with xa.open(folder / name, "r+", engine=engine) as a:
            a[10:90, ::3] = 5
            xa.pack(a, folder / f"{name}.xap")
        for suffix in (".xmd", ".xta", ".xtz"):
            (folder / f"{name}{suffix}").unlink()


def checksums() -> dict[str, str]:
    """Return a checksum of each file, by its name; compressed files are in folders `compressed`."""
    with tempfile.TemporaryDirectory() as name, counted():
        root = Path(name)
        for folder in ("examples", "packed", "compressed"):
            (root / folder).mkdir()
        format_files.make(root / "examples")
        format_files.make_blobs(root / "packed")
        format_files.make_codecs(root / "compressed")
        for engine in ("pread", "mmap"):
            (root / engine / "compressed").mkdir(parents=True)
            write(root / engine, engine)
            write_compressed(root / engine / "compressed", engine)
        files = sorted(p for p in root.rglob("*") if p.is_file())
        return {p.relative_to(root).as_posix(): _checksum(p) for p in files}


def _checksum(file: Path) -> str:
    data = bytearray(file.read_bytes())
    if file.suffix == ".xmd":
        data[NOTE] = bytes(NOTE.stop - NOTE.start)
    return hashlib.sha256(data).hexdigest()


def main() -> None:
    """Print the checksums."""
    # With the same ends of lines on every system.
    sys.stdout.buffer.write((json.dumps(checksums(), indent=0) + "\n").encode())


if __name__ == "__main__":
    main()
