"""Build a shared library from each C file of this folder."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
#: The optimisation of the package's own core, see setup.py.
FLAGS = ("-std=c11", "-O3", "-fPIC", "-shared")


def compiler() -> list[str] | None:
    """Return the C compiler that built Python, else the system's, or None."""
    for command in (sysconfig.get_config_var("CC"), "cc"):
        words = shlex.split(command or "")
        if words and shutil.which(words[0]):
            return words
    return None


def build(name: str, folder: Path) -> Path:
    """Compile ``name.c`` to a library in a folder, and return its path."""
    library = folder / f"{name}.so"
    command = [*(compiler() or []), *FLAGS, str(FOLDER / f"{name}.c"), "-o", str(library)]
    subprocess.run(command, check=True, timeout=120)
    return library
