"""The template of the public functions: what is the same for all formats, said once.

A function ``from_X`` or ``to_X`` writes down what is its own: parameters, errors, notes, an
example.  `from_template` gives it the rest, in its signature and in its docstring.  For checkers of
types, `Into`, `IntoValues` and `Out` say what ``**options`` takes.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike
    from typing import SupportsIndex

    from extarray.common.progress import Reported

__all__ = ["Into", "IntoValues", "Out", "from_template"]

F = TypeVar("F", bound="Callable[..., Any]")


class Into(TypedDict, total=False):
    """Keyword arguments of a function that makes an array."""

    path: str | PathLike[str] | None
    chunks: SupportsIndex | Sequence[SupportsIndex] | None
    overwrite: bool
    progress: Reported


class IntoValues(Into, total=False):
    """The same, for formats that pack numbers."""

    mask_and_scale: bool


class Out(TypedDict, total=False):
    """Keyword arguments of a function that writes an array into a file."""

    selection: Any
    overwrite: bool
    progress: Reported


_TAKES = {each.__name__: each for each in (Into, IntoValues, Out)}
#: Parameters that come before those of a format, as users write them; all others come behind.
_FIRST = ("path", "chunks", "mask_and_scale", "selection")
_DEFAULTS = {"mask_and_scale": False, "overwrite": False, "progress": True}

_PROGRESS = """\
progress : bool or callable
    Show how far the work has come, on a terminal or in a notebook; or a function, which is
    called with the bytes that are done, and with those in all."""

_FROM_PARAMETERS = f"""\
file : str or PathLike
path : str, PathLike, or None
    Of the pair of files; None: in memory.
chunks : int or sequence of int, optional
    None: those of the file, if it has any of 4 KiB or more; else as for `create`.
mask_and_scale : bool
    Unpack numbers that the attributes ``scale_factor``, ``add_offset``, ``_FillValue`` and
    ``missing_value`` say are packed; what is missing becomes NaN.  False: elements and
    attributes are taken as they are.
overwrite : bool
    Replace an existing pair.
{_PROGRESS}"""

_TO_PARAMETERS = f"""\
a : ExtArray or LazyView
file : str or PathLike
selection : index expression, optional
    What is written; None: all.
overwrite : bool
    Replace an existing file.
{_PROGRESS}"""

_FROM_RAISES = """\
FormatError
    A ValueError: the file is damaged, or no such file.
{lacking}MissingError, ExistsError, ChunksError, StorageError, ReserveError"""

_TO_RAISES = """\
ExistsError
    A FileExistsError: the name is taken.
{lacking}BoundsError, SelectionError, StorageError"""

_EXTRA = """\
MissingExtraError
    An ImportError: {library} is not installed.
"""

_FROM_WARNS = """\
LossyWarning
    The array cannot hold all that the file says: the message names what."""

_TO_WARNS = """\
LossyWarning
    The file cannot hold all that the array says: the message names what."""

_ORDER = ("Parameters", "Returns", "Raises", "Warns", "See Also", "Notes", "References", "Examples")


def from_template(library: str = "") -> Callable[[F], F]:
    """Return a decorator that completes the signature and the docstring of a public function.

    Parameters
    ----------
    library : str
        That the format needs; empty: none.

    Examples
    --------
    >>> @from_template("gribber")
    ... def from_grib(file: str, message: int = 0, **options: Unpack[Into]) -> ExtArray:
    ...     "Make an array of a message in a file of GRIB."
    >>> list(inspect.signature(from_grib).parameters)
    ['file', 'message', 'path', 'chunks', 'overwrite', 'progress']
    >>> print(from_grib.__doc__.partition("----------")[2].strip()[:22])
    file : str or PathLike
    """

    def complete(function: F) -> F:
        signature = _signature(function)
        function.__signature__ = signature  # type: ignore[attr-defined]
        function.__doc__ = _docstring(function, signature, library)
        return function

    return complete


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature with the parameters that ``**options`` stands for."""
    signature = inspect.signature(function)
    own = list(signature.parameters.values())
    found = re.fullmatch(r"Unpack\[(\w+)\]", str(own[-1].annotation))
    if own[-1].kind is not own[-1].VAR_KEYWORD or found is None:
        return signature
    hints: dict[str, Any] = {}
    for kind in reversed(_TAKES[found[1]].__mro__):
        hints.update(getattr(kind, "__annotations__", {}))
    rest = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_DEFAULTS.get(name),
            annotation=getattr(hint, "__forward_arg__", hint),
        )
        for name, hint in hints.items()
    ]
    places = {name: j for j, name in enumerate(_FIRST)}
    first = sorted((p for p in rest if p.name in places), key=lambda p: places[p.name])
    named = [p for p in own[:-1] if p.kind is p.KEYWORD_ONLY]
    last = [p for p in rest if p.name not in places]
    return signature.replace(
        parameters=[p for p in own[:-1] if p.kind is not p.KEYWORD_ONLY] + first + named + last
    )


def _docstring(function: Callable[..., Any], signature: inspect.Signature, library: str) -> str:
    """Return the docstring with the parts that it does not have itself."""
    head, sections = _sections(inspect.cleandoc(function.__doc__ or ""))
    loads = signature.return_annotation != "None"
    known = _entries(_FROM_PARAMETERS if loads else _TO_PARAMETERS)
    own = _entries(sections.get("Parameters", ""))
    there = [
        f"**{p.name}" if p.kind is p.VAR_KEYWORD else p.name for p in signature.parameters.values()
    ]
    sections["Parameters"] = "\n".join(own.get(name) or known.get(name, name) for name in there)
    errors = _entries(sections.get("Raises", ""))
    lacking = _EXTRA.format(library=library) if library else ""
    for name, text in _entries(
        (_FROM_RAISES if loads else _TO_RAISES).format(lacking=lacking)
    ).items():
        errors.setdefault(name, text)
    sections["Raises"] = "\n".join(errors.values())
    if loads:
        sections.setdefault("Returns", "ExtArray")
    if library or not loads:
        sections.setdefault("Warns", _FROM_WARNS if loads else _TO_WARNS)
    titles = [name for name in _ORDER if name in sections]
    parts = [f"{name}\n{'-' * len(name)}\n{sections[name]}" for name in titles]
    return "\n\n".join([head, *parts]) + "\n"


def _sections(text: str) -> tuple[str, dict[str, str]]:
    """Return what comes before the first section, and the sections by their titles."""
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n-{4,}\n", text, flags=re.MULTILINE)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return parts[0].strip(), {title: body.strip("\n") for title, body in pairs}


def _entries(text: str) -> dict[str, str]:
    """Return the entries of a section by their names: each a line, and those indented below it."""
    result = {}
    for entry in re.findall(r"^\S.*(?:\n(?: .*|$(?=\n )))*", text, re.MULTILINE):
        result[re.split(r" : |\n", entry)[0]] = entry.rstrip()
    return result
