"""Words that a caller chooses from, each list once."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

__all__ = ["DURABILITIES", "ENGINES", "FREEZES", "ORDERS", "VERIFICATIONS", "Order"]

ENGINES = ("auto", "mmap", "pread")
VERIFICATIONS = ("never", "write", "read")
# When chunks of compressed arrays are frozen, besides on request.
FREEZES = ("behind", "close", "never")
# Not a setting of the process: the code that opens an array relies on what survives.
DURABILITIES = ("flush", "steady", "commit")

#: Order of the elements inside a chunk; `extarray.grid.order` says what each one means.
Order: TypeAlias = Literal["C", "F", "Z", "H"]
ORDERS: tuple[str, ...] = get_args(Order)
