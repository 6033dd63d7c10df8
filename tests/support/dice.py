"""Choices read from bytes, which a fuzzer mutates, or Hypothesis draws and shrinks."""

from __future__ import annotations

__all__ = ["Dice"]

#: Numbers at which arithmetic goes wrong.
NUMBERS = sorted(
    {0, 1, 2, 3, 7, 64, 4095, 4096, 4097, 28672, 32768}
    | {n + d for n in (2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**40, 2**62, 2**63, 2**64)
       for d in (-1, 0, 1)}
)  # fmt: skip


class Dice:
    """Choices made by bytes; past their end every choice is the first, so everything ends."""

    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    @property
    def empty(self) -> bool:
        return self.at >= len(self.data)

    def take(self, n: int) -> bytes:
        self.at += n
        return self.data[self.at - n : self.at]

    def below(self, n: int) -> int:
        """Return a number in [0, n), from one or two bytes."""
        return int.from_bytes(self.take(1 if n <= 256 else 2), "little") % n

    def pick(self, choices):
        return choices[self.below(len(choices))]

    def flag(self) -> bool:
        return self.below(2) == 1

    def number(self) -> int:
        """Return any number: mostly small ones, large ones and ones near limits; some negative."""
        kind = self.below(8)
        if kind < 4:
            return self.below(8)
        if kind == 4:
            return self.below(1 << 16)
        n = int.from_bytes(self.take(8), "little") if kind == 5 else self.pick(NUMBERS)
        return -n if kind == 7 else n
