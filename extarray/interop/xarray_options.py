"""Options of the accessors; refuses those that exclude each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from extarray.common.arguments import check_choice, check_flag
from extarray.common.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CASTINGS", "Options"]

#: NumPy's casting rules.
CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


@dataclass(frozen=True)
class Options:
    """Options of `to_extarray`; those that exclude each other are refused.

    Attributes
    ----------
    modes : tuple of str
        Allowed modes, the default first.
    others
        As for `ExtArrayDataset.to_extarray`.
    """

    modes: tuple[str, ...]
    mode: str
    append_dim: str | None
    side: str
    region: Any
    chunks: Any
    encoding: Mapping[Any, Any] | None
    casting: str | None
    timeout: float | None
    compute: bool
    verify_integrity: bool = True
    combine_attrs: str | None = None

    def __post_init__(self) -> None:
        check_choice(self.mode, "mode", self.modes)
        check_choice(self.side, "side", ("end", "start"))
        check_flag(self.compute, "compute")
        check_flag(self.verify_integrity, "verify_integrity")
        if self.combine_attrs is not None:
            check_choice(self.combine_attrs, "combine_attrs", ("override",))
            if not self.updates:
                raise ArgumentError(
                    "combine_attrs reconciles attributes with the stored ones, and requires "
                    "append_dim or region"
                )
        if self.casting is not None:
            check_choice(self.casting, "casting", CASTINGS)
        if self.region is not None:
            self._check_region()
        if self.append_dim is None:
            if self.casting is not None and self.region is None:
                raise ArgumentError(
                    "casting applies to existing arrays, and requires append_dim or region; a "
                    "new array gets the dtype of the variable, or of encoding={name: {'dtype': "
                    "...}}"
                )
            if self.timeout != 0:
                raise ArgumentError(
                    "timeout is how long an append waits for other writers, and requires append_dim"
                )
            if not self.verify_integrity:
                raise ArgumentError(
                    "verify_integrity=False lets an append repeat labels, and requires append_dim"
                )
            if self.side != "end":
                raise ArgumentError("side says where an append goes, and requires append_dim")
        else:
            self._refuse_beside("append_dim")

    @property
    def updates(self) -> bool:
        """True if the arrays already exist."""
        return self.append_dim is not None or self.region is not None

    def _check_region(self) -> None:
        if self.append_dim is not None:
            raise ArgumentError(
                "give either append_dim, which adds elements, or region=, which overwrites "
                "existing ones; append first"
            )
        self._refuse_beside("region")
        if isinstance(self.region, str):
            if self.region != "auto":
                raise ArgumentError(
                    f"region {self.region!r} is not valid; use 'auto', or a dict of slices such "
                    "as {'time': slice(0, 10)}"
                )
            return
        if not isinstance(self.region, dict):
            raise ArgumentTypeError(
                f"region must be a dict or 'auto', not {type(self.region).__name__}"
            )
        if not self.region:
            raise ArgumentError("region names no dimension; give at least one, or 'auto'")
        for dim, place in self.region.items():
            if isinstance(place, str) and place == "auto":
                continue
            if not isinstance(place, slice):
                raise ArgumentTypeError(
                    f"region along {dim!r} must be a slice or 'auto', not {place!r}"
                )
            if place.step not in (None, 1):
                raise ArgumentError(
                    f"region along {dim!r} has step {place.step}; only step 1 is supported"
                )

    def _refuse_beside(self, name: str) -> None:
        given = [key for key in ("chunks", "encoding") if getattr(self, key) is not None]
        if self.mode != self.modes[0]:
            given.append("mode")
        if given:
            raise ArgumentError(
                f"{' and '.join(given)} cannot be combined with {name}, since the arrays already "
                "exist"
            )
