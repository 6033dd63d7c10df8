"""The functions of all formats share parameters: their names, defaults, order and wording.

Each function spells out its signature and its docstring; these tests keep them consistent.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import extarray as xa
from extarray.formats import registry
from extarray.formats.transfer import Format

FORMATS = Path(registry.__file__).parent

#: Shared parameters in order, with their defaults; a format's own stand between the two groups.
READ_FIRST = {"path": None, "chunks": None, "mask_and_scale": False}
READ_LAST = {
    "overwrite": False,
    "sparse": None,
    "compression": None,
    "significant_bits": None,
    "progress": True,
    "max_result": None,
}
WRITTEN_FIRST = {"selection": None}
WRITTEN_LAST = {"overwrite": False, "progress": True}
#: Formats whose numbers are never packed.
PLAIN = {
    *("from_npy", "from_npz", "from_raw", "from_mat", "from_csv", "from_tiff", "from_ome_zarr"),
    *("map_hdf5", "map_netcdf"),
}
#: Functions that also make or write groups, which their docstrings mention.
OF_GROUPS = {
    *("from_csv", "from_hdf5", "from_netcdf", "from_ome_zarr", "from_tiff", "from_zarr"),
}
#: Parameters that every format describes in the same words.
SAME = [
    "chunks",
    "sparse",
    "compression",
    "significant_bits",
    "progress",
    "max_result",
    "selection",
]


def functions():
    """Return the public functions that convert, by name."""
    found = {
        node.name
        for file in FORMATS.glob("*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and re.match(r"(from|to|map)_[a-z0-9_]+$", node.name)
    }
    return {name: getattr(xa, name) for name in sorted(found) if hasattr(xa, name)}


FUNCTIONS = functions()
READERS = [name for name in FUNCTIONS if not name.startswith("to_")]
WRITERS = [name for name in FUNCTIONS if name.startswith("to_")]


def keywords(function):
    """Return the keyword parameters, without those of a library."""
    return {
        p.name: p
        for p in inspect.signature(function).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    }


def entries(function, section="Parameters"):
    """Return the entries of a section of a docstring by name: type and description in one text."""
    found = re.search(
        rf"^{section}\n-+\n(.*?)(?=^[A-Z][A-Za-z ]+\n-+$|\Z)",
        inspect.getdoc(function),
        re.MULTILINE | re.DOTALL,
    )
    parts = re.split(r"^(?=\S)", found[1], flags=re.MULTILINE)
    return {re.split(r" : |\n", part)[0]: " ".join(part.split()) for part in parts if part.strip()}


def test_all_formats_are_here():
    names = {name.partition("_")[2] for name in FUNCTIONS}
    assert names == {
        "csv",
        "envi",
        "fits",
        "geotiff",
        "hdf5",
        "mat",
        "netcdf",
        "npy",
        "npz",
        "ome_zarr",
        "raw",
        "tiff",
        "zarr",
    }
    assert len(READERS) == 15 and len(WRITERS) == 12


@pytest.mark.parametrize("name", FUNCTIONS)
def test_shared_parameters_have_one_order_and_one_default(name):
    named = keywords(FUNCTIONS[name])
    first, last = (WRITTEN_FIRST, WRITTEN_LAST) if name in WRITERS else (READ_FIRST, READ_LAST)
    first = {k: v for k, v in first.items() if k != "mask_and_scale" or name not in PLAIN}
    order = list(named)
    assert order[: len(first)] == list(first) and order[-len(last) :] == list(last)
    for key, default in {**first, **last}.items():
        assert named[key].default is default, key


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_signature_is_written_out(name):
    function = FUNCTIONS[name]
    assert "__signature__" not in vars(function)
    source = ast.parse(inspect.getsource(function)).body[0]
    decorators = [ast.unparse(one) for one in source.decorator_list]
    assert decorators == ([] if name in WRITERS else ["public"])
    assert hasattr(function, "__wrapped__") == bool(decorators)
    assert ast.get_docstring(source) == inspect.getdoc(function)
    written = source.args.posonlyargs + source.args.args + source.args.kwonlyargs
    parameters = inspect.signature(function).parameters.values()
    taken = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    assert [each.arg for each in written] == taken


@pytest.mark.parametrize("kind", ["load", "save"])
def test_the_methods_of_a_format_have_the_shared_parameters(kind):
    shared = {**READ_FIRST, **READ_LAST} if kind == "load" else {**WRITTEN_FIRST, **WRITTEN_LAST}
    named = keywords(getattr(Format, kind))
    assert {name: p.default for name, p in named.items()} == shared


def test_types_of_shared_parameters_are_the_same():
    shared = {*READ_FIRST, *READ_LAST, *WRITTEN_FIRST, *WRITTEN_LAST}
    for key in shared:
        types = {
            keywords(function)[key].annotation
            for function in FUNCTIONS.values()
            if key in keywords(function)
        }
        assert len(types) == 1, f"{key}: {types}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_has_the_parameters_of_its_signature(name):
    function = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters.values()
    taken = [("**" if p.kind is p.VAR_KEYWORD else "") + p.name for p in parameters]
    assert list(entries(function)) == taken


@pytest.mark.parametrize("key", SAME)
def test_shared_parameters_have_one_wording(key):
    texts = {entries(function)[key] for function in FUNCTIONS.values() if key in keywords(function)}
    assert len(texts) == 1 and len(texts.pop()) > 40


@pytest.mark.parametrize("key", ["path", "overwrite", "mask_and_scale"])
def test_parameters_that_formats_describe_have_few_wordings(key):
    def texts(names):
        return {entries(FUNCTIONS[n])[key] for n in names if key in keywords(FUNCTIONS[n])}

    groups = texts(n for n in READERS if n in OF_GROUPS)
    others = texts(n for n in READERS if n not in OF_GROUPS)
    assert len(groups) == 1
    if key == "mask_and_scale":
        assert {text.partition(" ")[0] for text in others} == {key}  # each names its own cards
    else:
        assert len(others) == 1
    assert all(text.startswith(f"{key} : ") for text in groups | others | texts(WRITERS))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_that_all_formats_raise_are_named(name):
    raised = " ".join(entries(FUNCTIONS[name], "Raises"))
    text = inspect.getdoc(FUNCTIONS[name])
    if name in WRITERS:
        assert "ExistsError" in raised and "BoundsError, SelectionError, StorageError" in text
    else:
        assert "FormatError" in raised and "ResultError" in raised
        assert "MissingError, ExistsError, ChunksError, StorageError, ReserveError" in text
