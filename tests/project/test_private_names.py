"""A room uses no private name (with a leading underscore) of another room.

A member belongs to the rooms whose classes define it: as a method, a value, a slot, or an attribute
of ``self``.  It also belongs to rooms that declare it in a protocol, as a need of theirs; but rooms
beside the array (`BESIDE`) may need public names alone.  A declaration for another room's class (a
bare annotation, a stub under ``TYPE_CHECKING``) defines nothing.  A member that no room defines is
Python's or NumPy's.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "extarray"
ROOMS = sorted(p.parent.name for p in ROOT.glob("*/__init__.py"))

#: Rooms whose protocols define no private members.
BESIDE = {"apps", "array_api", "cli", "interop", "mpi", "pexta", "plot"}

_CYTHON_DEFINITIONS = re.compile(
    r"^[ \t]*(?:(?:cpdef|def)\b[^\n#(]*?(\w+)[ \t]*\("
    r"|cdef\b(?![ \t]+(?:class|struct|enum))([^\n#(]*))",
    re.MULTILINE,
)
_CYTHON_ATTRIBUTES = re.compile(r"\b(?:self|cls)\.(\w+)[ \t]*=[^=]")
_CYTHON_USES = re.compile(r"(?<=[\w)\]])\.(_\w+)")
_CYTHON_IMPORTS = re.compile(
    r"^[ \t]*from[ \t]+([.\w]+)[ \t]+c?import[ \t]*(\([^)]*\)|[^\n#]+)", re.M
)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


# -- definitions of a room ------------------------------------------------------------------------


def targets(node: ast.AST):
    """Yield the targets to which a statement gives a value."""
    if isinstance(node, ast.Assign):
        yield from node.targets
    elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        if node.value is not None:
            yield node.target
    elif isinstance(node, ast.For):
        yield node.target
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars


def is_protocol(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(
        ast.unparse(base).startswith("Protocol") for base in node.bases
    )


def members_of_python(text: str, protocols: bool = True):
    """Yield the members that the classes of a module define, with or without protocols."""
    left: list[tuple[ast.AST, bool]] = [(ast.parse(text), False)]
    while left:
        node, of_class = left.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if is_protocol(node) and not protocols:
            continue
        if of_class and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        for target in targets(node):
            for part in getattr(target, "elts", [target]):
                if of_class and isinstance(part, ast.Name):
                    yield part.id
                elif isinstance(part, ast.Attribute) and ast.unparse(part.value) in {"self", "cls"}:
                    yield part.attr
            if of_class and isinstance(target, ast.Name) and target.id == "__slots__":
                yield from (c.value for c in ast.walk(node) if isinstance(c, ast.Constant))
        inner = isinstance(node, ast.ClassDef)
        left += [(child, inner) for child in ast.iter_child_nodes(node)]


def members_of_cython(text: str):
    """Yield the members and functions that a Cython module, or its declarations, define."""
    for function, declared in _CYTHON_DEFINITIONS.findall(text):
        yield from [function] if function else re.findall(r"(\w+)[ \t]*(?=,|=|$)", declared.strip())
    yield from _CYTHON_ATTRIBUTES.findall(text)


def sources(room: str) -> list[Path]:
    return sorted(p for p in (ROOT / room).rglob("*") if p.suffix in {".py", ".pyx", ".pxd"})


@cache
def members(room: str) -> frozenset[str]:
    """Return the private members that a room defines."""
    found: set[str] = set()
    for path in sources(room):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            found.update(filter(is_private, members_of_python(text, room not in BESIDE)))
        else:
            found.update(filter(is_private, members_of_cython(text)))
    return frozenset(found)


# -- uses of a source -----------------------------------------------------------------------------


def used_in_python(text: str):
    """Yield (line, module, name) of imports from modules, and (line, None, name) of members."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            yield node.lineno, None, node.attr
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, module, alias.name) for alias in node.names)


def used_in_cython(text: str):
    """Yield the same as `used_in_python`."""
    for match in _CYTHON_IMPORTS.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        for name in re.findall(r"(\w+)[^,]*", match[2]):
            yield line, match[1], name
    for line, code in enumerate(_CYTHON_IMPORTS.sub("", text).splitlines(), 1):
        yield from ((line, None, name) for name in _CYTHON_USES.findall(code.partition("#")[0]))


def room_of(module: str, room: str) -> str | None:
    """Return the room from which a module of `room` imports; None: it is not in the package."""
    if module.startswith("."):
        dots = len(module) - len(module.lstrip("."))
        return room if dots == 1 else module.lstrip(".").partition(".")[0]
    top, _, rest = module.partition(".")
    return rest.partition(".")[0] if top == ROOT.name else None


def violations(text: str, name: str, room: str) -> list[str]:
    """Return the private names of other rooms that a source uses."""
    found = []
    for line, module, used in (used_in_python if name.endswith(".py") else used_in_cython)(text):
        if not is_private(used):
            continue
        if module is not None:
            other = room_of(module, room)
            is_module = other and any(p.stem == used for p in sources(other))
            owners = [] if is_module or other in {None, "", room} else [other]
        else:
            owners = [] if used in members(room) else [r for r in ROOMS if used in members(r)]
        if owners:
            found.append(f"{name}:{line}: {used} of {' and '.join(owners)}")
    return found


def violations_of(room: str) -> list[str]:
    return [
        problem
        for path in sources(room)
        for problem in violations(path.read_text(encoding="utf-8"), path.name, room)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_no_private_name_of_another_room(room):
    assert violations_of(room) == []


def test_members_are_found():
    """The tests above would pass for nothing if no members were found."""
    assert "_check" in members("array")
    assert {"_watch", "_set_bounds"} <= members("_core")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "class _C:\n    __slots__ = ('_s',)\n    _a = 1\n    _b: int\n    def _m(self): ...",
            "_a _m _s",
        ),
        ("class C:\n    def f(self, x):\n        self._a, x._b = 1, 2", "_a"),
        ("class C:\n    def f(self):\n        with g() as self._a: self._b.c = 0", "_a"),
        ("def _f():\n    _x = 1", ""),
        ("if TYPE_CHECKING:\n    class C:\n        def _stub(self): ...", ""),
    ],
)
def test_members_of_python(text, wanted):
    assert set(filter(is_private, members_of_python(text))) == set(wanted.split())


def test_members_of_protocols():
    text = "class P(Q, Protocol):\n    def _f(self): ..."
    assert set(members_of_python(text)) == {"_f"}
    assert set(members_of_python(text, protocols=False)) == set()


def test_members_of_cython():
    text = """
cdef class _C:
    cdef int _a, _b
    cdef inline int _f(self, int _x) except -1:
        self._c = _x
    def _g(self, _y):
        pass
"""
    assert set(filter(is_private, members_of_cython(text))) == {"_a", "_b", "_c", "_f", "_g"}


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("x.py", "array._watch()", 1),
        ("x.py", "self._watch()", 1),
        ("x.py", "from extarray.array.array import _slots", 1),
        ("x.py", "from ..array.array import _slots", 1),
        ("x.pyx", "    x = array._watch()", 1),
        ("x.pyx", "from extarray.array.array import (\n    _slots,\n)", 1),
        ("x.py", "from extarray._core._axial import Axial\nsys._getframe()\naxial.mark()", 0),
        ("x.py", "from extarray._core import _axial\nfrom .order import _f", 0),
        ("x.pyx", "from extarray._core._axial cimport Axial", 0),
    ],
)
def test_violations_are_found(name, text, count):
    assert len(violations(text, name, "grid")) == count
