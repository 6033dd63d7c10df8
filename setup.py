"""Build of the compiled core; everything else is declared in pyproject.toml.

Two environment variables change the build:

EXTARRAY_DEBUG=1
    Bounds checks, None checks, Python's division and line tracing in the core; -O1 -g.
EXTARRAY_SANITIZE=address,undefined
    The shipped code under the compiler's sanitizers; -O1 -g.  "thread" is ThreadSanitizer.
"""

import itertools
import multiprocessing
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import Cython
import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.dist_info import dist_info
from setuptools.modified import newer_group

DEBUG = os.environ.get("EXTARRAY_DEBUG", "0") not in ("", "0")
SANITIZE = os.environ.get("EXTARRAY_SANITIZE", "")

PACKAGE = Path("extarray")
COMPILED = ["_core", "codecs", "format"]

# One set for all modules: no module or function of the core sets a directive of its own.
directives = {
    "language_level": 3,
    # Gives functions that inspect, Sphinx and doctest recognise, with Python signatures.
    "binding": True,
    "embedsignature": True,
    "embedsignature.format": "python",
    # Classes of the core hold pointers and mappings, which generated pickling would copy.
    "auto_pickle": False,
    # Importing leaves the GIL off: a lock or an atomic guards shared state (docs/design.md).
    "freethreading_compatible": True,
    # doctest finds docstrings by itself; a second table of them is dead weight.
    "autotestdict": False,
    # The caller proves once, outside the loop, that each index of a kernel is in range: selections
    # are clipped to the bounds, addresses come from the records of the array.
    "boundscheck": False,
    # No index of the core counts from the end.  Off in the debug build too, where a negative index
    # is then an error instead of a wrong element.
    "wraparound": False,
    # Each memoryview is assigned before its first use; none is deleted or left to a branch.
    "initializedcheck": False,
    # No divisor is zero: chunks have at least one element along each axis, and products of extents
    # are tested first.  ceil_div divides where a dividend can be negative.
    "cdivision": True,
}
macros = [
    ("NPY_NO_DEPRECATED_API", "NPY_2_0_API_VERSION"),
    ("NPY_TARGET_VERSION", "NPY_2_0_API_VERSION"),  # one wheel for every NumPy from 2.0 on
]
# These are all optimisations: one wheel serves every machine, so no -march, no -ffast-math.
compile_args = ["-O3", "-g0"]
link_args = []

if DEBUG:
    directives |= {
        "boundscheck": True,
        "initializedcheck": True,
        "nonecheck": True,
        "cdivision": False,
        "linetrace": True,
    }
    macros += [("CYTHON_TRACE", "1"), ("CYTHON_TRACE_NOGIL", "1")]
if DEBUG or SANITIZE:
    compile_args = ["-O1", "-g", "-UNDEBUG", "-fno-omit-frame-pointer"]
if SANITIZE:
    # CPython's own flags may define signed overflow (-fwrapv); here it must be reported.
    flags = [f"-fsanitize={SANITIZE}", "-fno-sanitize-recover=all"]
    compile_args += [*flags, "-fno-wrapv"]
    link_args += flags

headers = sorted(str(path) for room in COMPILED for path in (PACKAGE / room).glob("*.h"))
extensions = [
    Extension(
        ".".join([*source.parent.parts, source.stem]),
        [str(source)],
        include_dirs=[np.get_include(), str(source.parent)],
        define_macros=macros,
        depends=[*headers, "setup.py"],
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )
    for room in COMPILED
    for source in sorted((PACKAGE / room).glob("*.pyx"))
]

# cythonize and build_ext compare only the age of files.  So after a change of the directives or
# flags (a debug build in a used checkout, and the next build after it), or of Cython or NumPy,
# whose declarations are in the C, translate all modules anew; the younger C is then compiled.
build = Path("build")
stamp = build / "recipe"
recipe = repr((directives, macros, compile_args, link_args, Cython.__version__, np.__version__))
changed = not stamp.exists() or stamp.read_text() != recipe

# Processes that translate modules at the same time, each forked: a fresh one would run this file.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
FORKS = sys.platform == "linux"
if FORKS:
    multiprocessing.set_start_method("fork", force=True)

modules = cythonize(
    extensions,
    build_dir=str(build / "cython"),  # generated C stays out of the source tree
    compiler_directives=directives,
    force=changed,
    nthreads=CORES if FORKS else 0,
)
if changed:
    build.mkdir(exist_ok=True)
    stamp.write_text(recipe)


# The names that Zig gives 64-bit Windows, by Python's names.
ZIG_TARGETS = {"win-amd64": "x86_64-windows-gnu", "win-arm64": "aarch64-windows-gnu"}


def require_compiler():
    """End the build in one sentence if there is no C compiler, or Python has no headers."""
    if sys.platform == "win32":
        return  # pip brings Zig
    name = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(name) is None:
        raise SystemExit(
            f"extarray is compiled, and the C compiler {name!r} is not there: install GCC or Clang "
            "('apt install gcc', 'dnf install gcc', 'xcode-select --install'), or name yours in CC"
        )
    folder = sysconfig.get_path("include")
    if not Path(folder, "Python.h").exists():
        raise SystemExit(
            f"extarray is compiled, and Python's headers are not in {folder}: install them ('apt "
            "install python3-dev', 'dnf install python3-devel')"
        )


class DistInfo(dist_info):
    """Ends a build that cannot succeed before its long steps: pip asks for the metadata first."""

    def run(self):
        require_compiler()
        super().run()


class BuildModules(build_ext):
    """Build with Zig's Clang, which pip brings, on Windows; with the usual compiler elsewhere.

    MSVC lacks the builtins of GCC and Clang that the core uses; Zig has them, needs no Visual
    Studio, and links the C library of Python (ucrt).  `.ci/check_cross.py` builds for other systems
    with a class that derives from this one.
    """

    def build_extensions(self):
        self.numbers = itertools.count(1)  # one for each module, on whatever thread
        super().build_extensions()

    def build_extension(self, extension):
        if sys.platform != "win32":
            require_compiler()
            print(f"[{next(self.numbers)}/{len(self.extensions)}] {extension.name}", flush=True)
            super().build_extension(extension)
            return
        platform = sysconfig.get_platform()
        if platform not in ZIG_TARGETS:
            raise SystemExit(
                f"extarray needs a 64-bit Python on Windows, and this one is {platform}"
            )
        free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
        # The headers of Python cannot tell; see "Free-threaded" in CPython's guide to extensions.
        options = ["-DPy_GIL_DISABLED=1"] if free_threaded else []
        options += [f"-isystem{folder}" for folder in [*self.include_dirs, np.get_include()]]
        name = f"python{sysconfig.get_config_var('py_version_nodot')}{'t' * free_threaded}.lib"
        found = [
            path for path in (Path(folder) / name for folder in self.library_dirs) if path.exists()
        ]
        if not found:
            raise SystemExit(f"this Python has no {name} in {', '.join(self.library_dirs)}")
        self.build_with_zig(extension, ZIG_TARGETS[platform], options, [str(found[0])])

    def build_with_zig(self, extension, target, options, libraries):
        """Build a module for a target, unless it is younger than its sources."""
        output = Path(self.get_ext_fullpath(extension.name))
        if not self.force and not newer_group(extension.sources + extension.depends, str(output)):
            return
        output.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(self.build_temp)
        folder.mkdir(parents=True, exist_ok=True)
        # The linker leaves a library of what the module exports beside its output.
        linked = folder / f"{extension.name}.pyd"
        options = [*extension.extra_compile_args, *options]
        said = self.compile_and_link(
            extension, target, options, [*extension.extra_link_args, *libraries], linked
        )
        print(said, end="", file=sys.stderr)
        if not linked.exists():
            raise SystemExit(f"{extension.name} cannot be built for {target}")
        os.replace(linked, output)

    @staticmethod
    def compile_and_link(extension, target, options, linking, output):
        """Compile a module, and link it unless `linking` is None; return what Zig says."""
        compiled = output.with_suffix(".o")
        compiling = [
            f"-I{folder}" for folder in extension.include_dirs if folder != np.get_include()
        ]
        compiling += [f"-D{name}={value}" for name, value in extension.define_macros]
        steps = [["-c", *options, *compiling, *extension.sources, "-o", str(compiled)]]
        if linking is not None:
            strip = [] if DEBUG or SANITIZE else ["-Wl,-s"]
            steps.append(["-shared", *strip, str(compiled), *linking, "-o", str(output)])
        said = ""
        for step in steps:
            command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *step]
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
            said += done.stderr
            if done.returncode:
                return said or f"exit status {done.returncode}\n"
        return said


setup(
    ext_modules=modules,
    cmdclass={"build_ext": BuildModules, "dist_info": DistInfo},
    options={"build_ext": {"parallel": CORES}},
)
