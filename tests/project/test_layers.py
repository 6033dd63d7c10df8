"""Imports go down only, and the package needs only NumPy."""

from __future__ import annotations

import ast
import graphlib
import importlib
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import extarray

ROOT = Path(__file__).resolve().parents[2] / "extarray"

#: The rooms, floor by floor, from the top down.  A room uses rooms on lower floors only.  Inside a
#: room, a module uses only modules that the map, the docstring of the room's ``__init__``, lists
#: below it.  ``__main__`` counts as a part of `cli`.
FLOORS = [
    ["cli"],
    ["apps", "pexta", "view", "errors"],
    ["extarray"],
    ["mpi", "plot", "interop", "array_api", "formats"],
    ["array"],
    ["maintenance", "numpy_api", "selection"],
    ["fetched"],
    ["storage", "streaming"],
    ["_core", "format", "grid", "remote"],
    ["codecs"],
    ["common"],
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

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


def room_of(name: str) -> str:
    """Return the room of a module; the room of the public face is "extarray"."""
    room = (name.split(".") + [ROOT.name])[1]
    return "cli" if room == "__main__" else room


def listed(room: str) -> list[str]:
    """Return the modules of a room, as its map lists them from the top down."""
    text = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8")))
    return [
        n for line in re.findall(r"^(``.+``)$", text or "", re.M) for n in re.findall(r"\w+", line)
    ]


MAPS = {p.parent.name: listed(p.parent.name) for p in ROOT.glob("*/__init__.py")}


def purpose(room: str) -> str:
    """Return the first sentence of a room's docstring."""
    path = "__init__.py" if room == "extarray" else f"{room}/__init__.py"
    text = ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("`", "")


def picture() -> str:
    """Draw the rooms on their floors, as `docs/design.md` shows them; `python FILE` prints it."""
    rows = []
    for floor, rooms in zip(range(len(FLOORS), 0, -1), FLOORS, strict=True):
        for room in rooms:
            number = str(floor) if room == rooms[0] else ""
            name = "the face" if room == "extarray" else room
            rows.append(f"{number:>2}  {name:<11}  {purpose(room)}")
    return "\n".join(rows)


def called(node) -> str:
    """Return the name of the class or function that a node calls, or ""."""
    return getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""


def lazy_table(node) -> dict[str, str]:
    return ast.literal_eval(node.args[0])


#: Modules above that a module finds by name when a method first needs them.
UPWARD = {
    "array/copies.py": {"extarray.array.rechunk"},
    "array/creation.py": {"extarray.formats.registry"},
    "array/facts.py": {
        "extarray.interop.kerchunk",
        "extarray.interop.zarr_store",
        "extarray.plot.accessor",
    },
    "array/together.py": {"extarray.mpi.creation"},
    "numpy_api/dispatch.py": {"extarray.array.view_functions"},
    "numpy_api/dlpack.py": {"extarray.array_api"},
    "plot/accessor.py": {"extarray.mpi.zones"},
}


def imports(text: str, path: Path):
    """Yield (line, full name) of a source's imports: at its head, in its functions, lazily.

    `from x import y` gives x.y if that is a module of the package, else x.
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
            elif called(node) == "LazyImports":
                found += [(node.lineno, 0, module, None) for module in lazy_table(node)]
            elif called(node) == "LazyModule":
                found.append((node.lineno, 0, ast.literal_eval(node.args[0]), None))
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
    """Return the forbidden imports of a source."""
    here = full_name(path)
    problems = []
    for line, target in sorted(set(imports(text, path))):
        top = target.partition(".")[0]
        if top != ROOT.name:
            known = {*sys.stdlib_module_names, "numpy"}
            if path.suffix != ".py":
                known |= {"cpython", "cython", "libc", "posix"}  # Cython's own declarations
            if top not in known:
                problems.append(f"{path.name}:{line}: imports {target}, not through `extras`")
        elif not is_below(target, here):
            problems.append(f"{path.name}:{line}: {here} imports {target}, which is not below it")
    return problems


def is_below(target: str, here: str) -> bool:
    """Tell whether a module may import another one."""
    own, other = room_of(here), room_of(target)
    if own != other:
        return FLOOR[own] < FLOOR[other]
    if here == f"{ROOT.name}.__main__":
        return target != here
    inner, outer = (name.split(".")[2:3] for name in (target, here))
    if not (inner and outer):  # a face may use all of its room, the room nothing of its face
        return bool(inner) or target == here
    order = MAPS[own]
    return target == here or order.index(inner[0]) > order.index(outer[0])


def test_each_import_that_climbs_is_listed():
    found = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if called(node) == "Upward":
                name = path.relative_to(ROOT).as_posix()
                found.setdefault(name, set()).update(lazy_table(node))
    assert found == UPWARD
    below = [
        (name, module)
        for name, modules in found.items()
        for module in modules
        if is_below(module, full_name(ROOT / name))
    ]
    assert below == [], "these need no Upward: LazyImports will do"


def test_there_are_sources():
    assert {p.suffix for p in SOURCES} == {".py", ".pyx", ".pxd"}


def test_rooms():
    inside = {p.name for p in ROOT.iterdir() if p.name != "__pycache__"}
    files = {"__init__.py", "__main__.py", "py.typed"}
    assert inside - files == set(FLOOR) - {"extarray"}


def test_applications_use_the_public_face_alone():
    public = {"extarray", "extarray.mpi", "extarray.plot", "extarray.common.extras"}
    problems = []
    for path in sorted((ROOT / "apps").glob("*.py")):
        for line, target in imports(path.read_text(encoding="utf-8"), path):
            own = room_of(target) == "apps"
            if target.partition(".")[0] == ROOT.name and not own and target not in public:
                problems.append(f"{path.name}:{line}: imports {target}")
    assert problems == []


def test_the_page_on_the_design_shows_the_rooms():
    page = ROOT.parent / "docs" / "design.md"
    assert picture() in page.read_text(encoding="utf-8"), "put in what this file prints"


@pytest.mark.parametrize("room", sorted(MAPS))
def test_a_map_lists_its_modules(room):
    there = {p.stem for p in (ROOT / room).iterdir() if p.suffix in {".py", ".pyx", ".pxd"}}
    assert sorted(MAPS[room]) == sorted(there - {"__init__"})


@pytest.mark.parametrize("room", FLOOR)
def test_imports_go_down(room):
    sources = [p for p in SOURCES if room_of(full_name(p)) == room]
    assert sources
    assert [v for p in sources for v in violations(p.read_text(encoding="utf-8"), p)] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("grid/order.py", "from ..array.array import ExtArray"),
        ("grid/order.py", "from .. import storage"),
        ("grid/order.py", "import extarray"),
        ("grid/order.py", "from extarray.format import header"),
        ("grid/chunking.py", "later = LazyImports({'extarray.array.array': 'ExtArray'})"),
        ("numpy_api/reductions.py", "_later = LazyImports({'extarray.numpy_api.sorting': 'sort'})"),
        ("grid/chunking.py", "facts = LazyModule('extarray.array.facts')"),
        ("grid/chunking.py", "def f():\n    from extarray.grid.address_runs import region"),
        ("storage/states.py", "from extarray.storage.file_store import FileStore"),
        ("format/header.py", "import h5py"),
        ("plot/__init__.py", "import matplotlib.pyplot"),
        ("cli/demo.py", "from extarray.__main__ import main"),
        ("interop/xarray.py", "from ..pexta import open"),
        ("_core/_axial.pyx", "from ._copy cimport layout_t, job_t"),
        ("_core/_axial.pyx", "from extarray.storage.memory import (\n    MemoryStore,\n)"),
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
        ("array/array.py", "import os, numpy as np\nfrom .._core._array import ArrayCore"),
        ("cli/demo.py", "from . import look\nfrom .. import __version__\nimport extarray as xa"),
        ("_core/_copy.pyx", "from ._axial cimport (\n    a,\n    b,\n)\ncimport numpy as cnp"),
        (
            "_core/_copy.pyx",
            "from libc.stdint cimport int64_t\nfrom ..common.errors import LimitError",
        ),
        ("mpi/__init__.py", "from extarray.mpi.array import ParallelArray"),
    ],
)
def test_what_is_allowed_is_no_violation(name, text):
    assert violations(text, ROOT / name) == []


def test_benchmarks_import_in_no_circle():
    folder = ROOT.parent / "benchmarks"
    sources = [(p.relative_to(ROOT.parent).with_suffix("").parts, p) for p in folder.rglob("*.py")]
    paths = {".".join(parts): p for parts, p in sources}
    graph = {}
    for name, path in paths.items():
        package = name.split(".")[:-1]
        found = graph[name.removesuffix(".__init__")] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else []
                source = ".".join([*base, *filter(None, [node.module])])
                for alias in node.names:
                    inner = f"{source}.{alias.name}"
                    found.add(inner if inner in paths else source)
    known = {name: targets & set(graph) for name, targets in graph.items()}
    list(graphlib.TopologicalSorter(known).static_order())


@pytest.mark.slow
def test_what_is_imported_by_name_stands_in_a_lazy_table():
    # Tables are literals, which `imports` reads, too.
    users, tables = [], 0
    for path in SOURCES:
        if path.suffix != ".py":
            continue
        text = path.read_text(encoding="utf-8")
        if "import_module" in text or "__import__(" in text:
            users.append(path.relative_to(ROOT).as_posix())
        for node in ast.walk(ast.parse(text)):
            if called(node) == "LazyModule":
                assert importlib.import_module(ast.literal_eval(node.args[0]))
            if called(node) == "LazyImports":
                tables += 1
                for module, names in lazy_table(node).items():
                    assert importlib.import_module(module), names
    assert sorted(users) == [
        "cli/__init__.py",
        "common/extras.py",
        "common/lazy.py",
    ]
    assert tables


def test_the_core_sets_no_directives():
    # setup.py sets the directives of all modules, and the debug build reverses them all.
    pattern = re.compile(
        r"^\s*#\s*cython:|\bcython\.(boundscheck|wraparound|initializedcheck|cdivision)\b",
        re.MULTILINE,
    )
    found = [p.name for p in SOURCES if pattern.search(p.read_text(encoding="utf-8"))]
    assert found == []


def new_modules(folder: Path, program: str) -> list[str]:
    """Return the modules that a program imports beyond NumPy's."""
    code = f"""
import sys
import numpy
before = set(sys.modules)
{program}
print(*sorted(set(sys.modules) - before))
"""
    # Not in the checkout, which -c would put first on the path.
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_importing_the_package_imports_numpy_alone(tmp_path):
    rooms = {name.partition(".")[0] for name in new_modules(tmp_path, "import extarray")}
    # Cython's own modules: one for what its modules share, and one for settings.
    cythons = re.compile(r"_cython_\w+|cython_runtime")
    others = [name for name in rooms - sys.stdlib_module_names if not cythons.fullmatch(name)]
    assert others == ["extarray"]


#: Most modules of ours that a short program loads: each takes a tenth of a millisecond and more.
MOST_LOADED = {
    "import extarray": 58,
    "import extarray\nextarray.open('scene')[1, 2]": 82,
    "import extarray, numpy\nextarray.open('scene', 'r+').append(numpy.ones((1, 3)))": 85,
}


@pytest.mark.parametrize("program", MOST_LOADED)
def test_short_programs_load_few_modules(tmp_path, program):
    extarray.create(tmp_path / "scene", (2, 3), dims=("y", "x")).close()
    ours = [name for name in new_modules(tmp_path, program) if name.startswith("extarray.")]
    assert len(ours) <= MOST_LOADED[program], "load later what few programs need: `LazyModule`"


#: Packages whose names at the index are others.
AT_THE_INDEX = {"useq": "useq-schema"}


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
            given = [k.value for k in node.keywords if k.arg == "extra"]
            texts += [value.value for value in given if isinstance(value, ast.Constant)]
            if name in {"require", "missing"} and len(texts) >= 2:
                package = texts[0].partition(".")[0]
                yield AT_THE_INDEX.get(package, package), texts[1]


@pytest.mark.slow
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


if __name__ == "__main__":
    print(picture())
