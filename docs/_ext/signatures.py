"""Signatures in the sources of the reference, so that who reads these sees what is called how.

    python docs/_ext/signatures.py

brings those of `docs/reference` up to date.  A directive of autodoc names a function or a method;
its line gets the signature that the package has, without annotations: docstrings have types in
words.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[1] / "reference"

_DIRECTIVE = re.compile(
    r"^(?P<indent> *)\.\. (?P<kind>currentmodule|autofunction|automethod|autoclass)::"
    r" (?P<name>[\w.]+)(?:\(.*\))?$"
)


def signature(owner: object, name: str) -> str:
    """Return the signature of a function of a module, or of a method without its object."""
    given = inspect.signature(getattr(owner, name))
    parameters = [p.replace(annotation=p.empty) for p in given.parameters.values()]
    unbound = not isinstance(inspect.getattr_static(owner, name), (classmethod, staticmethod))
    if isinstance(owner, type) and unbound:
        del parameters[0]
    return str(inspect.Signature(parameters))


def updated(text: str) -> str:
    """Return the source of a page with the present signatures."""
    module, outer = "extarray", [("", "")]  # classes that contain the present line, with indents
    lines = []
    for line in text.splitlines():
        found = _DIRECTIVE.match(line)
        if not found:
            lines.append(line)
            continue
        indent, kind, name = found["indent"], found["kind"], found["name"]
        while len(outer) > 1 and len(outer[-1][0]) >= len(indent):
            outer.pop()
        if kind == "currentmodule":
            module = name
        elif kind == "autoclass":
            outer.append((indent, name))
        else:
            path = f"{outer[-1][1]}.{name}" if outer[-1][1] else name
            owner, _, own = path.rpartition(".")
            line = f"{indent}.. {kind}:: {name}{signature(_object(module, owner), own)}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _object(module: str, path: str) -> object:
    """Return what a page calls by a path, in its present module or by the whole path."""
    for start, rest in ((module, path.split(".") if path else []), *_splits(path)):
        try:
            found: object = importlib.import_module(start)
            for name in rest:
                found = getattr(found, name)
        except (ImportError, AttributeError):
            continue
        return found
    raise LookupError(f"nothing is called {path} in {module}")


def _splits(path: str) -> list[tuple[str, list[str]]]:
    names = path.split(".")
    return [(".".join(names[:i]), names[i:]) for i in range(len(names), 0, -1)]


if __name__ == "__main__":
    for page in sorted(REFERENCE.glob("*.md")):
        page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")
