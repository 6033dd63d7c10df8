"""Give NumPy for Windows the complex functions that Wine's C library has only as stubs.

`python complex_functions.py FOLDER` changes the libraries below a folder, for Wine alone: where
they import from the system's library of mathematics, they import from one of ours instead, which
passes on everything but those functions.  Needs pefile and ziglang.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pefile

THEIRS = b"api-ms-win-crt-math-l1-1-0.dll"
#: As long, so that one name can take the place of the other.
OURS = b"xap-ms-win-crt-math-l1-1-0.dll"
NAMES = [
    *("cabs", "carg", "cimag", "creal"),
    *("ccos", "ccosh", "cexp", "cpow", "csin", "csinh", "ctan", "ctanh"),
]
#: The functions of complex.c, by name; a long double is a double here.
DEFINED = {
    f"{name}{kind}": f"xa_{name}{'f' * (kind == 'f')}" for name in NAMES for kind in ("", "f", "l")
}


def imported(data: bytes) -> set[str]:
    """Names that a library imports from the system's library of mathematics."""
    library = pefile.PE(data=data, fast_load=True)
    library.parse_data_directories([pefile.DIRECTORY_ENTRY["IMAGE_DIRECTORY_ENTRY_IMPORT"]])
    return {
        symbol.name.decode()
        for entry in library.DIRECTORY_ENTRY_IMPORT
        if entry.dll.lower() == THEIRS
        for symbol in entry.imports
    }


def main() -> None:
    """Build our library beside Python, and let the others import from it."""
    folder = Path(sys.argv[1])
    found = {
        path: path.read_bytes() for kind in ("pyd", "dll") for path in folder.rglob(f"*.{kind}")
    }
    found = {path: data for path, data in found.items() if THEIRS in data}
    names = sorted(set().union(*map(imported, found.values())))
    exports = folder / "exports.def"
    lines = [f"LIBRARY {OURS.decode()}", "EXPORTS"]
    lines += [f"{name} = {DEFINED.get(name, f'ucrtbase.{name}')}" for name in names]
    exports.write_text("\n".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu", "-shared"]
    command += ["-O2", "-s", Path(__file__).with_name("complex.c"), exports]
    subprocess.run([*command, "-o", folder / OURS.decode()], check=True)
    for path, data in found.items():
        path.write_bytes(data.replace(THEIRS, OURS))
    print(f"{len(found)} libraries take {len(names)} functions from one that has all of them")


if __name__ == "__main__":
    main()
