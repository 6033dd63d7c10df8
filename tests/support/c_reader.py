"""docs/format/reader.c, compiled: one process that reads many arrays, and the command."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["SOURCE", "STRICT", "CReader", "compiled", "compiler"]

SOURCE = Path(__file__).parents[2] / "docs" / "format" / "reader.c"
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
SANITIZERS = ["-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def compiler() -> str | None:
    return shutil.which(os.environ.get("CC", "cc"))


def compiled(target: Path, source: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a compiler to make a program or a library."""
    command = [compiler(), *STRICT, f"-I{SOURCE.parent}", "-o", target, source, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


class CReader:
    """The reader under sanitizers, in one process; any fault ends it and is an error here."""

    def __init__(self, folder: Path) -> None:
        driver = Path(__file__).with_name("reader_driver.c")
        made = compiled(folder / "driver", driver, *SANITIZERS)
        if "cannot find" in made.stderr:
            raise FileNotFoundError("there are no sanitizers")
        assert made.returncode == 0, made.stderr
        self._errors = (folder / "errors").open("w+b")
        self._process = subprocess.Popen(
            [folder / "driver"], stdin=-1, stdout=-1, stderr=self._errors, env=self._environment()
        )

    @staticmethod
    def _environment() -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
        return kept | {"ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=1"}

    def read(self, path: Path, box: Any = ()) -> tuple[np.ndarray[Any, Any], bytes] | str:
        """Return the elements of a box and the attributes (a JSON text), or why there are none."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        numbers = " ".join(map(str, np.ravel(box)))
        process.stdin.write(f"{os.fspath(path)}\n{numbers}\n".encode())
        process.stdin.flush()
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            process.wait(60)
            self._errors.seek(0)
            raise AssertionError(self._errors.read().decode(errors="replace")[-4000:])
        if line.startswith(b"no "):
            return line[3:-1].decode(errors="replace")
        _, kind, ndim, *counts = line.split()
        *shape, size, attrs = map(int, counts)
        assert len(shape) == int(ndim)
        data, text = process.stdout.read(size), process.stdout.read(attrs)
        if box:
            shape = [stop - start for start, stop in box]
        dtype = np.dtype(kind.decode()).newbyteorder("=")
        return np.frombuffer(data, dtype).reshape(shape), text

    def close(self) -> None:
        """End the process, which reports leaks."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        status = self._process.wait(60)
        self._errors.seek(0)
        told = self._errors.read().decode(errors="replace")
        self._errors.close()
        assert status == 0, told[-4000:]
