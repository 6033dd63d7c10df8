"""Attributes: a mutable mapping, kept as JSON; each change is a commit."""

from __future__ import annotations

import codecs
import copy
import json
import math
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from extarray.common.errors import ArgumentTypeError, CorruptError, FormatError, LimitError
from extarray.common.lazy import LazyImports
from extarray.common.limits import limits
from extarray.format.constants import TAG

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Attributes", "attrs_of_group", "check_attrs", "decode_attrs", "encode_attrs"]

_later = LazyImports({"extarray.format.values": "check_key from_json to_json type_name"})

_MISSING = object()
# Levels of JSON that a dict takes if it needs its own tag.
_LEVELS_OF_A_DICT = 3


def encode_attrs(values: Any) -> str:
    """Return the JSON text of attributes.

    Parameters
    ----------
    values : mapping or None

    Returns
    -------
    str

    Raises
    ------
    ArgumentTypeError
        A TypeError: not a mapping from str to values that `to_json` accepts, or nested too deeply.
    LimitError
        An OverflowError: 4 GiB or more.
    """
    if values is None:
        return "{}"
    if not isinstance(values, Mapping):
        raise ArgumentTypeError(f"attrs must be a mapping, not {_later.type_name(values)}")
    plain = dict(values)
    for key in plain:
        _later.check_key(key, "attrs")
    try:
        checked = {key: _later.to_json(value, repr(key)) for key, value in plain.items()}
        text = json.dumps(checked, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        length = len(text.encode())
    except RecursionError:
        raise ArgumentTypeError("attrs are nested too deeply, or contain themselves") from None
    except UnicodeEncodeError as error:
        raise ArgumentTypeError(f"attrs have a string that is not valid Unicode: {error}") from None
    except ValueError as error:
        raise ArgumentTypeError(f"attrs have a value that JSON cannot hold: {error}") from None
    if _are_deeper(checked, text, limits.attrs_depth):
        raise ArgumentTypeError(
            f"attrs are nested deeper than {limits.attrs_depth} levels of JSON; keep such values "
            "as text"
        )
    if length > limits.attrs_bytes:
        raise LimitError(
            f"attrs take {length} bytes of JSON, and the limit is {limits.attrs_bytes}; keep "
            "large data in arrays"
        )
    return text


def decode_attrs(text: str) -> dict[str, Any]:
    """Return the attributes from their JSON text.

    Parameters
    ----------
    text : str

    Returns
    -------
    dict
    """
    values: dict[str, Any] = json.loads(text)
    return _untagged(values, text)


def _untagged(values: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the attributes of a JSON object, which itself has no tag."""
    if TAG in text or "\\" in text:  # an escape may hide a tag
        return {key: _later.from_json(value) for key, value in values.items()}
    return values


def _are_deeper(values: dict[str, Any], text: str, levels: int) -> bool:
    """Tell whether values, with their JSON text, have more levels of lists and dicts."""
    if text.count("[") + text.count("{") <= levels:
        return False
    inner: list[Any] = [values]
    for _ in range(levels + 1):
        inner = [
            item
            for value in inner
            for item in (value.values() if isinstance(value, dict) else value)
            if isinstance(item, (dict, list))
        ]
        if not inner:
            return False
    return True


def check_attrs(blob: bytes) -> str:
    """Return the JSON text of attributes from the bytes of a file.

    Parameters
    ----------
    blob : bytes

    Returns
    -------
    str

    Raises
    ------
    CorruptError
        A ValueError: not a JSON object, or nested too deeply to read, or with values that could
        not be written again.
    """
    if blob == b"{}":  # most arrays
        return "{}"
    text, values = _parsed(blob)
    if _are_deeper(values, text, limits.attrs_depth // _LEVELS_OF_A_DICT):
        try:
            encode_attrs(_untagged(values, text))
        except ArgumentTypeError as error:
            raise CorruptError(f"the attributes are damaged: {error}") from None
    return text


def _parsed(blob: bytes) -> tuple[str, dict[str, Any]]:
    """Return text and values of attributes, however deeply nested."""
    try:
        text = blob.decode()
        values = json.loads(text, parse_float=_finite, parse_constant=_refuse_constant)
        if "\\ud" in text.lower():  # perhaps half of a surrogate pair
            json.dumps(values, ensure_ascii=False).encode()
        if isinstance(values, dict):
            _untagged(values, text)
    except ValueError as error:
        raise CorruptError(f"the attributes are not valid JSON: {error}") from None
    except RecursionError:
        raise CorruptError("the attributes are nested too deeply") from None
    if not isinstance(values, dict):
        raise CorruptError("the attributes are not a JSON object")
    return text, values


def attrs_of_group(data: bytes) -> str:
    """Return the JSON text of the attributes in a ``dataset.json``.

    Parameters
    ----------
    data : bytes
        JSON in UTF-8; a byte order mark, which some editors write, is ignored.

    Returns
    -------
    str

    Raises
    ------
    FormatError
        A ValueError: not an object with an object ``"attrs"``, or with values that attributes
        cannot have.

    Examples
    --------
    >>> attrs_of_group(b'{"attrs": {"title": "north"}}')
    '{"title": "north"}'
    """
    problem = 'it has no object "attrs"'
    try:
        attrs = _parsed(data.removeprefix(codecs.BOM_UTF8))[1].get("attrs")
        if isinstance(attrs, dict):
            return check_attrs(json.dumps(attrs, ensure_ascii=False).encode())
    except (FormatError, RecursionError) as error:
        problem = str(error)
    raise FormatError(f"it does not hold the attributes of a dataset, or a group: {problem}")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number there")


class Attributes(MutableMapping[str, Any]):
    """Attributes of an array: names, and values of these types.

    None, bool, int, float, complex, str, bytes; `datetime`, `date`, `time` and `timedelta`; NumPy's
    scalars, and arrays of any dtype that an array can have; lists, tuples, and dicts with str keys,
    of all of these.  Values come back with the type that they had, except that a subclass becomes
    its base class, and a time zone its difference from UTC.

    Each assignment, deletion or `update` is one commit.  Values come back as copies: changing one
    changes nothing in the array.

    Parameters
    ----------
    load : callable
        Returns the JSON text of all attributes of the array.
    save : callable
        Stores another text, which it gets from the function that it is given.  That function reads
        the attributes, and may raise, or return None to change nothing.  Nobody else changes the
        attributes meanwhile.

    Examples
    --------
    >>> import numpy as np, extarray as xa
    >>> a = xa.zeros((2, 2))
    >>> a.attrs["unit"] = "mm"
    >>> a.attrs["gain"] = np.float32(0.5), np.array([1, 2], "u1")
    >>> dict(a.attrs)
    {'unit': 'mm', 'gain': (np.float32(0.5), array([1, 2], dtype=uint8))}
    """

    __slots__ = ("_load", "_save")

    def __init__(
        self, load: Callable[[], str], save: Callable[[Callable[[], str | None]], None]
    ) -> None:
        self._load = load
        self._save = save

    def _values(self) -> dict[str, Any]:
        return decode_attrs(self._load())

    def __getitem__(self, key: str) -> Any:
        return self._values()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.update([(key, value)])

    def __delitem__(self, key: str) -> None:
        self.pop(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values())

    def __len__(self) -> int:
        return len(self._values())

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Set several attributes in one commit.

        Parameters
        ----------
        *args, **kwargs
            As for ``dict.update``.

        Raises
        ------
        ArgumentTypeError
            A TypeError: a value of a type that attributes cannot have; nothing has changed.
        ReadOnlyError, ClosedError
        """

        def change() -> str:
            given: dict[str, Any] = dict(*args, **kwargs)
            # Check the new values alone first, so that a message is about them.
            encode_attrs(given)
            return encode_attrs({**self._values(), **given})

        self._save(change)

    def clear(self) -> None:
        """Remove all attributes, in one commit."""
        self._save(lambda: "{}")

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        """Remove an attribute and return its value.

        Parameters
        ----------
        key : str
        default : object, optional
            Returned if there is no such attribute; without a default, raise a KeyError.

        Returns
        -------
        object
        """
        value = default

        def change() -> str | None:
            nonlocal value
            values = self._values()
            if key not in values and default is not _MISSING:
                return None
            value = values.pop(key)
            return encode_attrs(values)

        self._save(change)
        return value

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of an attribute, after setting it to the default if it is missing.

        Parameters
        ----------
        key : str
        default : object, optional

        Returns
        -------
        object
        """

        def change() -> str | None:
            values = self._values()
            if key in values:
                return None
            encode_attrs({key: default})
            return encode_attrs({**values, key: default})

        self._save(change)
        return self[key]

    def asdict(self) -> dict[str, Any]:
        """Return a copy of all attributes.

        Returns
        -------
        dict
        """
        return self._values()

    def __repr__(self) -> str:
        return f"Attributes({self._values()!r})"

    def __copy__(self) -> dict[str, Any]:
        return self._values()

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return copy.deepcopy(self._values(), memo)
