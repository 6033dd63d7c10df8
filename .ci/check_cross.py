"""Compile all modules for other systems and processors; a warning is an error.  No linking.

Run in the root of the source, with Cython, NumPy, setuptools and ziglang, which is a Clang with the
C headers of many systems.  Sources, macros and folders are those of setup.py.  The headers of
Python and NumPy are those of the running Python, changed where another system has them otherwise.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import setuptools  # before distutils, which it brings with it

from distutils.core import run_setup  # isort: skip

#: Flags of each target.  With SSE 4.2 Clang has the instructions for CRC; Zig turns them off.
TARGETS = {
    "aarch64-linux-gnu": [],
    "aarch64-macos": [],
    "x86_64-macos": ["-mcrc32"],
}
#: Cython compares signed with unsigned numbers in C of its own.
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-sign-compare"]


def headers(target: str, folder: Path) -> list[str]:
    """Folders with headers of Python and NumPy for a target.

    Sizes of C's types are the same on all systems of 64 bits, but for those that NumPy's headers
    know themselves.
    """
    places = [sysconfig.get_path("include"), sysconfig.get_path("platinclude"), np.get_include()]
    if "linux" not in target:
        copy = shutil.copytree(np.get_include(), folder / target / "numpy")
        config = copy / "numpy" / "_numpyconfig.h"
        text = config.read_text()
        config.write_text(text.replace("#define NPY_HAVE_ENDIAN_H 1\n", ""))
        places[-1] = str(copy)
    return [f"-isystem{place}" for place in places]


def compiled(target: str, extension: setuptools.Extension, places: list[str], folder: Path) -> bool:
    """Whether a module compiles; what the compiler says is printed."""
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *TARGETS[target]]
    command += ["-c", "-O0", *WARNINGS, *places]
    command += [f"-I{place}" for place in extension.include_dirs if place != np.get_include()]
    command += [f"-D{name}={value}" for name, value in extension.define_macros]
    command += [*extension.sources, "-o", str(folder / f"{extension.name}.{target}.o")]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"{extension.name} for {target}:\n{done.stderr}", flush=True)
    return done.returncode == 0


def main() -> int:
    """Compile every module for every target, and return an exit status."""
    modules = run_setup("setup.py", stop_after="init").ext_modules
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(os.cpu_count()) as pool:
        folder = Path(name)
        jobs = [
            pool.submit(compiled, target, module, places, folder)
            for target, places in {target: headers(target, folder) for target in TARGETS}.items()
            for module in modules
        ]
        well = sum(job.result() for job in jobs)
    print(f"{len(modules)} modules for {', '.join(TARGETS)}: {well} of {len(jobs)} compile")
    return 0 if well == len(jobs) > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
