"""Imports go down only, and the package needs NumPy alone."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent / "extarray"

#: The layers, from the top down.  A module imports from lower lines only: not from its own line.
#: "extarray" is the face; a folder with one name here (array_api, cli, interop) is one module.
LAYERS = [
    ["extarray.__main__"],
    ["extarray.cli"],
    ["extarray.array_api", "extarray.interop", "extarray.plot"],
    ["extarray"],
    ["extarray.rawfile", "extarray.pexta"],
    ["extarray.pexta.transfers", "extarray.pexta.copies"],
    ["extarray.pexta.requests"],
    ["extarray.pexta.diskarrays"],
    ["extarray.pexta.session"],
    ["extarray.pexta.hints", "extarray.pexta.sections"],
    ["extarray.rechunking"],
    ["extarray.creation", "extarray.group"],
    ["extarray.sharedarray"],
    ["extarray.mpi.rechunking"],
    ["extarray.mpi", "extarray.mpi.opening"],
    ["extarray.mpi.globalarray"],
    ["extarray.mpi.collectives", "extarray.mpi.mutexes"],
    ["extarray.mpi.access", "extarray.mpi.array"],
    ["extarray.mpi.changes", "extarray.mpi.onesided"],
    ["extarray.mpi.parallelio"],
    [
        "extarray.mpi.additions",
        "extarray.mpi.direct",
        "extarray.mpi.windows",
        "extarray.mpi.zoned",
    ],
    ["extarray.mpi.patches", "extarray.mpi.transfers"],
    [
        "extarray.mpi.agreement",
        "extarray.mpi.fileviews",
        "extarray.mpi.replica",
        "extarray.mpi.sharing",
    ],
    ["extarray.mpi.ghosts", "extarray.mpi.requests"],
    ["extarray.mpi.plans", "extarray.mpi.runtime", "extarray.mpi.values", "extarray.mpi.zones"],
    ["extarray.array"],
    ["extarray.arranging", "extarray.axes"],
    [
        "extarray.access",
        "extarray.copies",
        "extarray.growth",
        "extarray.habits",
        "extarray.lazy",
        "extarray.live",
    ],
    ["extarray.bounds", "extarray.layout.transform", "extarray.seeing"],
    ["extarray.casting", "extarray.html", "extarray.stored", "extarray.walk"],
    ["extarray.protocols.mixin", "extarray.protocols.standard"],
    ["extarray.indexing.indexable"],
    ["extarray.indexing.selections", "extarray.indexing.transfers"],
    ["extarray.indexing.brackets", "extarray.indexing.orthogonal", "extarray.indexing.pointwise"],
    ["extarray.indexing.entries", "extarray.indexing.fields", "extarray.indexing.parts"],
    ["extarray.indexing.query"],
    ["extarray.indexing.masks"],
    ["extarray.indexing.factors"],
    ["extarray.protocols.catalogue", "extarray.protocols.iteration", "extarray.protocols.ufuncs"],
    ["extarray.protocols.cumulative", "extarray.protocols.quantiles"],
    ["extarray.protocols.describing"],
    ["extarray.protocols.accumulations", "extarray.protocols.along", "extarray.protocols.moments"],
    ["extarray.protocols.files", "extarray.protocols.sorting", "extarray.protocols.statistics"],
    ["extarray.protocols.pointwise", "extarray.protocols.reductions"],
    ["extarray.protocols.choosing", "extarray.protocols.comparing", "extarray.protocols.joining"],
    ["extarray.protocols.fourier", "extarray.protocols.linalg", "extarray.protocols.norms"],
    ["extarray.protocols.histograms", "extarray.protocols.selection"],
    ["extarray.protocols.folding", "extarray.protocols.functions", "extarray.protocols.lanes"],
    ["extarray.protocols.dask", "extarray.protocols.derived"],
    ["extarray.protocols.operands"],
    ["extarray.protocols.elementwise"],
    ["extarray.protocols.limits", "extarray.protocols.standins"],
    ["extarray.protocols.blocks"],
    ["extarray.protocols.notices"],
    ["extarray.layout.journal"],
    ["extarray.sharedstore"],
    ["extarray.checking"],
    ["extarray.repair"],
    ["extarray.mending"],
    ["extarray.survey"],
    ["extarray.remains"],
    ["extarray.store"],
    ["extarray.pair.member"],
    ["extarray.pair.allocation"],
    ["extarray.pair.commits"],
    ["extarray.comparing", "extarray.pair.following"],
    ["extarray.memory", "extarray.pair.states", "extarray.sums"],
    ["extarray.pair.growthlog", "extarray.pair.held", "extarray.pair.names"],
    ["extarray.leftovers", "extarray.salvage"],
    ["extarray.filesystem"],
    ["extarray.layout.crew"],
    ["extarray.passing"],
    ["extarray.engine", "extarray.lock"],
    ["extarray._core._array"],
    ["extarray._core._transfers"],
    ["extarray._core._state", "extarray._core._threads"],
    ["extarray._core._gather", "extarray._core._parts"],
    ["extarray._core._lists", "extarray._core._visits"],
    ["extarray._core._query"],
    ["extarray._core._copy"],
    ["extarray._core._axial", "extarray._core._mapping", "extarray._core._selection"],
    ["extarray._core._file"],
    ["extarray._core._types"],
    ["extarray.advice"],
    ["extarray.coords"],
    [
        "extarray.attrs",
        "extarray.chunking",
        "extarray.dims",
        "extarray.masked",
        "extarray.metadata.fresh",
    ],
    ["extarray.metadata.directory", "extarray.metadata.fitting", "extarray.metadata.groups"],
    [
        "extarray.metadata.header",
        "extarray.metadata.records",
        "extarray.metadata.sumstable",
        "extarray.metadata.superblock",
        "extarray.metadata.writers",
    ],
    ["extarray.metadata.dtypes", "extarray.metadata.places"],
    ["extarray.policy"],
    ["extarray.shares"],
    ["extarray.layout.execute", "extarray.layout.report"],
    ["extarray.layout.plan"],
    ["extarray.config", "extarray.layout.axis", "extarray.order", "extarray.progress"],
    ["extarray._core._superblock"],
    ["extarray._core._crc"],
    [
        "extarray._core",
        "extarray.extras",
        "extarray.findings",
        "extarray.forks",
        "extarray.info",
    ],
    [
        "extarray.indexing",
        "extarray.layout",
        "extarray.metadata",
        "extarray.pair",
        "extarray.protocols",
    ],
    ["extarray.errors"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

FOLDERS = {"extarray.array_api", "extarray.cli", "extarray.interop"}

#: What stands beside the array uses its public face, and what interprets its attributes.
BESIDE = {*FOLDERS, "extarray.plot", "extarray.__main__"}
PUBLIC = {
    *BESIDE,
    "extarray",
    "extarray.coords",
    "extarray.errors",
    "extarray.extras",
    "extarray.info",
}

SOURCES = sorted(p for p in ROOT.rglob("*") if p.suffix in {".py", ".pyx", ".pxd"})
MODULES = {".".join([ROOT.name, *p.relative_to(ROOT).with_suffix("").parts]) for p in SOURCES}

_CYTHON_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<source>[.\w]+)[ \t]+c?import[ \t]*(?P<names>\([^)]*\)|[^\n#]+)"
    r"|c?import[ \t]+(?P<modules>[^\n#]+))",
    re.MULTILINE,
)


def full_name(path: Path) -> str:
    name = ".".join([ROOT.name, *path.relative_to(ROOT).with_suffix("").parts])
    return name.removesuffix(".__init__")


def layer_of(name: str) -> str:
    """The entry of LAYERS that a module belongs to."""
    while name not in LEVEL and "." in name:
        name = name.rpartition(".")[0]
    return name


def imports(text: str, path: Path):
    """Yield (line, full name) of what a source imports, at its head and in its functions.

    `from x import y` gives x.y where that is a module of the package, else x.
    """
    package = [ROOT.name, *path.relative_to(ROOT).parent.parts]
    if path.suffix == ".py":
        found = []
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                found += [(node.lineno, 0, alias.name, None) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found += [
                    (node.lineno, node.level, node.module or "", alias.name) for alias in node.names
                ]
    else:
        found = []
        for match in _CYTHON_IMPORT.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            if match["source"] is None:
                names = [(name.split()[0], None) for name in match["modules"].split(",")]
            else:
                inside = match["names"].strip("() \n").split(",")
                names = [(match["source"], name.split()[0]) for name in inside if name.strip()]
            for source, name in names:
                bare = source.lstrip(".")
                found.append((line, len(source) - len(bare), bare, name))
    for line, dots, source, name in found:
        base = ".".join(package[: len(package) - dots + 1]) if dots else ""
        target = ".".join(filter(None, [base, source]))
        if name and f"{target}.{name}" in MODULES:
            target = f"{target}.{name}"
        yield line, target


def violations(text: str, path: Path) -> list[str]:
    """What a source imports that it must not."""
    here = layer_of(full_name(path))
    problems = []
    for line, target in sorted(set(imports(text, path))):
        top = target.partition(".")[0]
        if top != "extarray":
            known = {*sys.stdlib_module_names, "numpy"}
            if path.suffix != ".py":
                known |= {"cpython", "cython", "libc", "posix"}  # Cython's own declarations
            if top not in known:
                problems.append(f"{path.name}:{line}: imports {target}, not through `extras`")
            continue
        there = layer_of(target)
        if there == here:
            continue
        if LEVEL[there] <= LEVEL[here]:
            problems.append(f"{path.name}:{line}: {here} imports {there}, which is not below it")
        elif here in BESIDE and there not in PUBLIC:
            problems.append(f"{path.name}:{line}: {here} imports {there}, not the public face")
    return problems


def test_there_are_sources():
    assert {p.suffix for p in SOURCES} == {".py", ".pyx", ".pxd"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down(path):
    name = full_name(path)
    assert name in LEVEL or layer_of(name) in FOLDERS, f"give {name} a line in LAYERS"
    assert violations(path.read_text(encoding="utf-8"), path) == []


def test_layers_name_modules_that_exist():
    assert sorted(set(LEVEL) - {full_name(p) for p in SOURCES}) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("order.py", "from .array import ExtArray"),
        ("order.py", "from . import store"),
        ("order.py", "import extarray"),
        ("order.py", "def f():\n    from extarray.plot import composite"),
        ("order.py", "from .config import config"),
        ("metadata/header.py", "import h5py"),
        ("plot.py", "import matplotlib.pyplot"),
        ("plot.py", "from .metadata import Header"),
        ("cli/demo.py", "from .. import store"),
        ("_core/_axial.pyx", "from ._copy cimport layout_t, job_t"),
        ("_core/_axial.pyx", "from extarray.store import (\n    Store,\n)"),
        ("_core/_axial.pyx", "from . cimport _array"),
        ("_core/_axial.pxd", "from ._array cimport ArrayCore"),
        ("_core/_copy.pyx", "import scipy"),
    ],
)
def test_a_violation_is_found(name, text):
    assert len(violations(text, ROOT / name)) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("array.py", "import os, numpy as np\nfrom ._core._array import ArrayCore"),
        ("cli/demo.py", "from . import info\nfrom .. import __version__\nimport extarray as xa"),
        ("_core/_copy.pyx", "from ._axial cimport (\n    a,\n    b,\n)\ncimport numpy as cnp"),
        ("_core/_copy.pyx", "from libc.stdint cimport int64_t\nfrom ..errors import LimitError"),
    ],
)
def test_what_is_allowed_is_no_violation(name, text):
    assert violations(text, ROOT / name) == []


def test_the_core_sets_no_directives():
    # setup.py has one set for all, which the debug build reverses as a whole.
    pattern = re.compile(
        r"^\s*#\s*cython:|\bcython\.(boundscheck|wraparound|initializedcheck|cdivision)\b",
        re.MULTILINE,
    )
    found = [p.name for p in SOURCES if pattern.search(p.read_text(encoding="utf-8"))]
    assert found == []


def test_importing_the_package_imports_numpy_alone(tmp_path):
    code = """
import sys
import numpy
before = set(sys.modules)
import extarray
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(new - sys.stdlib_module_names - {"numpy"}))
"""
    # Not in the checkout, which -c would put first on the path.
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    # Cython's own: what its modules share, in a module named after its version, and its settings.
    cythons = re.compile(r"_cython_\w+|cython_runtime")
    others = [name for name in done.stdout.split() if not cythons.fullmatch(name)]
    assert others == ["extarray"]


def required_packages():
    """Yield (package, extra) of each call of `require` and `missing` with literal arguments."""
    for path in SOURCES:
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", None))
            texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
            texts += [k.value.value for k in node.keywords if k.arg == "extra"]
            if name in {"require", "missing"} and len(texts) >= 2:
                yield texts[0].partition(".")[0], texts[1]


def test_the_extra_that_an_error_names_installs_the_package():
    def installs(extra, package):
        for line in importlib.metadata.requires("extarray"):
            requirement, _, marker = line.partition(";")
            if not re.search(rf"""extra == ["']{extra}["']""", marker):
                continue
            inner = re.match(r"extarray\[(.+)\]", requirement)
            if inner and any(installs(e.strip(), package) for e in inner[1].split(",")):
                return True
            found = re.match(r"[\w.-]+", requirement)[0]
            if found.lower().replace("-", "_") == package.lower().replace("-", "_"):
                return True
        return False

    calls = set(required_packages())
    assert calls
    assert sorted(call for call in calls if not installs(call[1], call[0])) == []
