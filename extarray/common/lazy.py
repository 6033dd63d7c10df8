"""Modules that are imported when one of their names is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

__all__ = ["LazyImports", "LazyModule", "Upward"]


class LazyModule:
    """A module that is imported when one of its names is first used.

    It takes the place of the module in the importing one, where type checkers see the module::

        if TYPE_CHECKING:
            from package import module
        else:
            module = LazyModule("package.module")

    It has the module's own names from the first use on, so calls through it cost what they do
    through the module.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        module = import_module(self.__name__)
        self.__dict__ = module.__dict__
        return getattr(module, name)

    def __reduce__(self) -> tuple[Any, ...]:
        # Cloudpickle sends methods that are made by a function with the names that they use.
        return LazyModule, (self.__name__,)


class LazyImports:
    """Names from modules that are imported when a name is first used.

    A name is an attribute: ``LazyImports({"package.module": "f g"}).f`` is ``package.module.f``.
    The table is a literal in the module that uses it: the layer test reads it there.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        # `names` maps a module's full name to the names it defines, separated by blanks.
        self._modules = {name: module for module, some in names.items() for name in some.split()}

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def module(self, name: str) -> ModuleType:
        """Import the module that defines a name."""
        return import_module(self._modules[name])

    def __getattr__(self, name: str) -> Any:
        if name not in self._modules:
            raise AttributeError(f"no lazy import has the name {name!r}")
        value = getattr(self.module(name), name)
        self.__dict__[name] = value
        return value


class Upward(LazyImports):
    """Lazy imports of modules that are not below: a higher room carries out a method of an array.

    Only this class may name such modules, and the layer test lists every use of it.
    """
