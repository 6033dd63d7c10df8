"""Build of the compiled core; everything else is declared in pyproject.toml.

Two environment variables change the build:

EXTARRAY_DEBUG=1
    Bounds checks, None checks, Python's division and line tracing in the core; -O1 -g.
EXTARRAY_SANITIZE=address,undefined
    The shipped code under the compiler's sanitizers; -O1 -g.  "thread" is ThreadSanitizer.
"""

import os
from pathlib import Path

import Cython
import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup

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

modules = cythonize(
    extensions,
    build_dir=str(build / "cython"),  # generated C stays out of the source tree
    compiler_directives=directives,
    force=changed,
)
if changed:
    build.mkdir(exist_ok=True)
    stamp.write_text(recipe)

setup(ext_modules=modules, options={"build_ext": {"parallel": os.cpu_count()}})
