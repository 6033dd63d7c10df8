"""The public names exist, are documented with examples, and include those of the README."""

from __future__ import annotations

import ast
import contextlib
import doctest
import inspect
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import extarray as xa
from extarray import pexta

ROOT = Path(__file__).resolve().parents[2]

#: Public functions, with their parameters in fixed order.
FUNCTIONS = {
    "create": (
        "path shape dtype chunks fill_value order sparse overwrite attrs dims engine durability "
        "growth checksum"
    ),
    "open": "path mode timeout engine durability share verify",
    "check": "path data repair force progress",
    "zeros": "shape dtype path chunks order checksum",
    "ones": "shape dtype path chunks order checksum",
    "full": "shape fill_value dtype path chunks order checksum",
    "empty": "shape dtype path chunks order checksum",
    "from_array": "x path chunks fill_value overwrite attrs dims checksum",
    "fromfile": "file dtype count sep offset shape path chunks",
    "file_formats": "",
    "from_hdf5": "file name path chunks mask_and_scale text overwrite progress",
    "to_hdf5": "a file name selection overwrite progress options",
    "map_hdf5": "dataset name path chunks overwrite progress",
    "map_netcdf": "file variable path chunks overwrite progress",
    "from_netcdf": "file variable path chunks mask_and_scale text overwrite progress",
    "to_netcdf": "a file variable selection unlimited format overwrite progress options",
    "from_fits": "file hdu path chunks mask_and_scale overwrite progress",
    "to_fits": "a file name selection overwrite progress",
    "from_envi": "file path chunks mask_and_scale overwrite progress",
    "to_envi": "a file selection interleave overwrite progress",
    "from_geotiff": "file path chunks mask_and_scale overwrite progress",
    "to_geotiff": "a file selection overwrite progress options",
    "from_tiff": "file series path chunks level squeeze overwrite progress",
    "to_tiff": "a file selection ome imagej bigtiff pyramid overwrite progress options",
    "from_ome_zarr": "store image path chunks level overwrite progress",
    "to_ome_zarr": "a store selection levels axes how overwrite progress options",
    "pyramid": "a path levels axes how mode overwrite",
    "from_zarr": "store name path chunks mask_and_scale overwrite progress",
    "to_zarr": "a store name selection zarr_format overwrite progress options",
    "from_mat": "file variable path chunks mat_dtype overwrite progress",
    "to_mat": "a file variable selection version overwrite progress",
    "from_npy": "file path chunks overwrite progress",
    "to_npy": "a file selection order overwrite progress",
    "from_npz": "file name path chunks overwrite progress",
    "to_npz": "a file name selection compressed overwrite progress",
    "from_raw": "file shape dtype offset path chunks order overwrite progress",
    "to_raw": "a file selection order overwrite progress",
    "ndenumerate": "a",
    "close_all": "",
    "commit": "arrays",
    "refresh": "arrays",
    "open_group": "path mode timeout engine durability",
    "pack": "source path order compression overwrite progress",
    "unpack": "file path overwrite progress",
    "rechunk": "src path chunks axes order dtype max_memory workers in_place resume progress",
    "rechunk_plan": "src chunks source_chunks axes dtype max_memory",
    "advise_chunks": "shape dtype access grow block_bytes measure store chunk_cache",
}
METHODS = {
    "read": "selection out order",
    "write": "selection values",
    "extend": "axis by side",
    "append": "data axis side",
    "shrink": "axis by side",
    "add_axis": "position name chunk",
    "reserve": "shape",
    "repack": "path checksum progress",
    "rechunk": "chunks path axes order dtype max_memory workers in_place resume verify progress",
    "record_access": "",
    "follow": "axis timeout",
    "resize": "shape axis",
    "read_direct": "dest source_sel dest_sel",
    "write_direct": "source source_sel dest_sel",
    "chunk": "index",
    "iter_chunks": "sel order",
    "chunk_views": "order",
    "info": "",
    "flush": "",
    "refresh": "",
    "close": "",
    "copy": "path chunks order checksum progress",
    "astype": "dtype order casting subok copy",
    "to_dask": "chunks",
    "as_zarr_store": "name follow",
    "to_kerchunk": "name zarr_format url",
    "to_numpy": "",
    "get_basic_selection": "selection out fields",
    "set_basic_selection": "selection value fields",
    "get_orthogonal_selection": "selection out fields",
    "set_orthogonal_selection": "selection value fields",
    "get_coordinate_selection": "selection out fields",
    "set_coordinate_selection": "selection value fields",
    "get_mask_selection": "mask out fields",
    "set_mask_selection": "mask value fields",
    "get_block_selection": "selection out fields",
    "set_block_selection": "selection value fields",
}
ATTRIBUTES = [
    *["shape", "dtype", "ndim", "size", "nbytes", "itemsize", "chunks", "grid", "order"],
    *[
        "fill_value",
        "path",
        "mode",
        "durability",
        "closed",
        "attrs",
        "dims",
        "axial",
        "maxshape",
        "origin",
    ],
    "growth",
    *["oindex", "vindex", "blocks", "lazy", "plot"],
]
GROUP = {
    "arrays": "",
    "as_zarr_store": "follow",
    "attrs": None,
    "close": "",
    "closed": None,
    "create": "name shape dtype",
    "create_group": "name",
    "extend": "axis by side",
    "flush": "",
    "groups": "",
    "mode": None,
    "move": "source target",
    "name": None,
    "path": None,
    "require_group": "name",
    "to_kerchunk": "zarr_format url",
    "walk": "",
}
AXIAL = {
    "address": "index",
    "addresses": "indices",
    "index": "address",
    "indices": "addresses",
    "neighbours": "address radius",
    "records": "axis",
    "grid": None,
}

ERRORS = {
    "RecoveryWarning": UserWarning,
    "RemoteError": ConnectionError,
    "ReplacedError": FileNotFoundError,
    "AccessError": PermissionError,
    "AxisError": IndexError,
    "BoundsError": IndexError,
    "SelectionError": IndexError,
    "FieldError": KeyError,
    "VariableError": KeyError,
    "ShapeError": ValueError,
    "ChunksError": ValueError,
    "DTypeError": TypeError,
    "CastingError": TypeError,
    "ArgumentError": ValueError,
    "ArgumentTypeError": TypeError,
    "ClosedError": ValueError,
    "ReadOnlyError": ValueError,
    "FormatError": ValueError,
    "VersionError": ValueError,
    "CorruptError": ValueError,
    "ChecksumError": ValueError,
    "TruncatedError": ValueError,
    "PartnerError": ValueError,
    "StorageError": OSError,
    "LockedError": BlockingIOError,
    "LossyWarning": UserWarning,
    "NotVisibleError": TimeoutError,
    "StaleWarning": UserWarning,
    "ExistsError": FileExistsError,
    "MissingError": FileNotFoundError,
    "LimitError": OverflowError,
    "ReserveError": MemoryError,
    "MissingExtraError": ImportError,
    "ResultError": MemoryError,
    "ResultWarning": UserWarning,
}

#: The routines of PEXTA and DRA, with their published parameters in the published order.
PEXTA = {
    "init": "max_arrays max_array_size total_disk_space max_memory",
    "terminate": "",
    "set_default_config": "numfiles numioprocs",
    "set_debug": "flag",
    "create": "type ndim dims name filename mode reqdims g_a",
    "create_config": "type ndim dims name filename mode reqdims numfiles numioprocs g_a",
    "open": "filename mode",
    "close": "d_a",
    "delete": "d_a",
    "copy": "d_a name filename mode reqdims",
    "extend": "d_a edims odims",
    "refresh": "d_a",
    "inquire": "d_a",
    "distribution": "d_a rank",
    "print_internals": "d_a",
    "write": "g_a d_a",
    "read": "g_a d_a",
    "iwrite": "g_a d_a",
    "iread": "g_a d_a",
    "write_section": "transp g_a glo ghi d_a dlo dhi",
    "read_section": "transp g_a glo ghi d_a dlo dhi",
    "iwrite_section": "transp g_a glo ghi d_a dlo dhi",
    "iread_section": "transp g_a glo ghi d_a dlo dhi",
    "wait": "request",
    "probe": "request",
    "flick": "",
    "hdfmap": "dathdl",
    "hdfwrite": "xta_hdf dathdl replace",
    "netcdfmap": "data ncid varid",
    "netcdfwrite": "handle varid replace",
}


def public(obj):
    return [name for name in dir(obj) if not name.startswith("_")]


def has_example(obj) -> bool:
    return bool(doctest.DocTestParser().get_examples(inspect.getdoc(obj) or ""))


def parameters(function) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def is_ordered_subset(wanted, got) -> bool:
    rest = iter(got)
    return all(name in rest for name in wanted)


# -- the face ------------------------------------------------------------------------------------


def test_all_is_sorted_and_without_repetition():
    assert len(set(xa.__all__)) == len(xa.__all__)
    assert {name for name in xa.__all__ if name.startswith("_")} <= {"__version__"}


def test_dir_shows_nothing_else():
    # Submodules appear as soon as they are imported.
    others = [
        name
        for name in public(xa)
        if name not in xa.__all__ and not isinstance(getattr(xa, name), types.ModuleType)
    ]
    assert others in ([], ["annotations"])


@pytest.mark.parametrize("name", [*FUNCTIONS, *ERRORS, "ExtArray", "ExtArrayError", "config"])
def test_name_of_the_face(name):
    assert name in xa.__all__
    assert hasattr(xa, name)


@pytest.mark.parametrize("name", xa.__all__)
def test_public_name_is_documented(name):
    obj = getattr(xa, name)
    if name == "__version__":
        assert re.fullmatch(r"\d+\.\d+\.\d+([ab.]\w+)?", obj)
        return
    assert inspect.getdoc(obj), f"{name} has no docstring"
    is_error = inspect.isclass(obj) and issubclass(obj, Exception)
    if (inspect.isroutine(obj) or inspect.isclass(obj)) and not is_error:
        assert has_example(obj), f"{name} has no example"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters_of_a_function(name):
    assert is_ordered_subset(FUNCTIONS[name].split(), parameters(getattr(xa, name)))


@pytest.mark.parametrize("name", ["zeros", "ones", "full", "empty"])
def test_where_the_array_goes_is_named(name):
    kinds = inspect.signature(getattr(xa, name)).parameters
    assert {kinds[p].kind for p in ("path", "chunks", "order")} == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize(("name", "builtin"), ERRORS.items())
def test_error_is_one_of_the_family_and_a_builtin(name, builtin):
    error = getattr(xa, name)
    assert issubclass(error, xa.ExtArrayError)
    assert issubclass(error, builtin)


def test_every_error_of_the_face_is_in_the_table():
    errors = {
        name
        for name in xa.__all__
        if inspect.isclass(getattr(xa, name)) and issubclass(getattr(xa, name), BaseException)
    }
    assert errors == {*ERRORS, "ExtArrayError"}


# -- arrays --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def array():
    return xa.zeros((4, 3), chunks=(2, 2))


@pytest.mark.parametrize("name", METHODS)
def test_method_of_an_array(name):
    method = getattr(xa.ExtArray, name)
    assert is_ordered_subset(METHODS[name].split(), parameters(method))


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attribute_of_an_array(array, name):
    assert name in dir(xa.ExtArray)
    getattr(array, name)
    assert not callable(getattr(xa.ExtArray, name))


@pytest.mark.parametrize("name", AXIAL)
def test_member_of_axial(array, name):
    member = getattr(array.axial, name)
    assert inspect.getdoc(getattr(type(array.axial), name))
    if AXIAL[name] is not None:
        assert len(parameters(member)) == len(AXIAL[name].split())


@pytest.mark.parametrize("name", public(xa.ExtArray))
def test_member_of_an_array_is_documented(name):
    member = inspect.getattr_static(xa.ExtArray, name)
    assert inspect.getdoc(getattr(xa.ExtArray, name)) or inspect.getdoc(member)
    if inspect.isroutine(member):
        assert has_example(getattr(xa.ExtArray, name)), f"ExtArray.{name} has no example"


@pytest.mark.parametrize("name", GROUP)
def test_member_of_a_group(name):
    member = inspect.getattr_static(xa.Group, name)
    assert inspect.getdoc(member)
    if GROUP[name] is not None:
        assert is_ordered_subset(GROUP[name].split(), parameters(member))


# -- PEXTA ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PEXTA)
def test_routine_of_pexta(name):
    routine = getattr(pexta, name)
    positional = [
        p.name
        for p in inspect.signature(routine).parameters.values()
        if p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    assert positional == PEXTA[name].split()
    assert has_example(routine)


def test_pexta_has_no_other_routines():
    assert {name for name in pexta.__all__ if inspect.isfunction(getattr(pexta, name))} == set(
        PEXTA
    )


# -- the README ----------------------------------------------------------------------------------


def names_in(text: str):
    """Yield (owner, attribute) of the names that code in a text takes from xa and from a."""
    for block in re.findall(r"^```(?:python|pycon)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        if ">>>" in block:
            code = "".join(e.source for e in doctest.DocTestParser().get_examples(block))
        else:
            code = block
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                yield node.value.id, node.attr


def test_names_of_the_readme_exist(array):
    found = set(names_in((ROOT / "README.md").read_text(encoding="utf-8")))
    owners = {"xa": xa, "a": array, "b": array, "reader": array}
    checked = [(owner, name) for owner, name in found if owner in owners]
    assert {owner for owner, _ in checked} >= {"xa", "a"}
    missing = [f"{owner}.{name}" for owner, name in checked if not hasattr(owners[owner], name)]
    assert missing == []


def test_a_name_that_does_not_exist_is_found():
    text = "```pycon\n>>> xa.creat('a')\n>>> a.b.c\n```\n\n```python\nxa.open(x)\n```\n"
    assert set(names_in(text)) == {("xa", "creat"), ("a", "b"), ("xa", "open")}


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_every_attribute_can_be_looked_at(tmp_path, named, checksum):
    """Inspectors look at all attributes, private ones too."""
    a = xa.zeros((2, 3), path=tmp_path / "a" if named else None, checksum=named and checksum)
    for closed in (False, True):
        for name in dir(a):
            with contextlib.suppress(xa.ExtArrayError):
                assert hasattr(a, name) or closed
        a.close()


def test_what_is_listed():
    assert set(dir(xa)) == {*xa.__all__, "__version__"}


def test_source_that_is_not_built_says_so(tmp_path):
    source = Path(xa.__file__).parent
    for name in ("__init__.py", "errors/__init__.py", "common/errors.py", "_core/__init__.py"):
        target = tmp_path / "extarray" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((source / name).read_bytes())
    command = [sys.executable, "-c", "import extarray"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=250)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith("ImportError: the extarray in ")
    assert "pip install -e ." in done.stderr


def test_a_big_endian_machine_is_refused():
    code = "import sys; sys.byteorder = 'big'; import extarray"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=250)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith(
        "ImportError: extarray does not support big-endian"
    )


def test_the_citation_is_of_this_version():
    assert f"\nversion: {xa.__version__}\n" in (ROOT / "CITATION.cff").read_text()
