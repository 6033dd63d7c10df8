"""Optional packages: found, or the message says how to install them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import extarray as xa
from extarray.common.extras import missing, require


def test_require_returns_the_module_itself():
    assert require("json", "plot") is json
    assert require("os.path", "plot").__name__ in ("posixpath", "ntpath")


@pytest.mark.parametrize("module", ["no_such_package", "no_such_package.part"])
def test_a_missing_package_is_named_as_pip_installs_it(module):
    with pytest.raises(xa.errors.MissingExtraError) as caught:
        require(module, "plot", "the growth map")
    assert str(caught.value) == (
        "the growth map needs 'no_such_package'; install it with: pip install no_such_package"
    )
    assert isinstance(caught.value, ImportError)
    assert (caught.value.name, caught.value.extra) == ("no_such_package", "plot")


def test_broken_package_raises_its_own_error(tmp_path, monkeypatch):
    """Reinstalling a package does not help if its own import fails."""
    (tmp_path / "broken_package.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        require("broken_package", "plot")
    sys.modules.pop("broken_package", None)


def test_missing_is_an_error_to_raise():
    error = missing("tensorly", "demo", "the scene")
    assert isinstance(error, xa.errors.MissingExtraError)
    assert "'tensorly'" in str(error)
    assert error.extra == "demo"


@pytest.mark.parametrize(
    ("package", "command"),
    [("mpi4py", "pip install mpi4py mpich"), ("backports.zstd", "pip install backports.zstd")],
)
def test_packages_that_need_others_are_installed_with_them(package, command):
    assert str(missing(package, "mpi")).endswith(f"install it with: {command}")


def test_all_is_for_users():
    """The extra "all" has every extra but those for work on the package."""
    tomllib = pytest.importorskip("tomllib")
    root = Path(__file__).resolve().parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    users = set(extras) - {"all", "bench", "dev", "docs", "fuzz", "test", "test-core"}
    assert extras["all"] == [f"extarray[{','.join(sorted(users))}]"]
    index = (root / "docs/index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \|", index, re.MULTILINE)) == users | {"all"}
