"""The findings of a check of an array's files, and the report that lists them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from extarray.common.terminal import printable

__all__ = ["Problem", "Report"]


@dataclass(frozen=True)
class Problem:
    """One finding of `check`.

    Attributes
    ----------
    kind : str
        Subject: "file", "header", "copy" (of the header), "superblock", "log", "attrs",
        "room" (in ``.xmd``), "data" (the length and the seal of ``.xta``), "sums", "chunk",
        "group" (a commit of several arrays), or "left over".
    what : str
        Description.
    file : str
        File concerned.
    offset : int or None
        Byte offset in it.
    severity : {"error", "warning", "note"}
        "error": something is damaged or lost, or the array does not open.  "warning": the array
        itself is undamaged, as far as one can tell.  "note": all is well.
    remedy : str
        What to do; may be empty.
    boxes : tuple of tuple of slice
        Elements concerned, if known: a box for each damaged chunk, up to a thousand for one
        finding.

    Examples
    --------
    >>> import extarray as xa
    >>> problem = xa.check("no such array").problems[0]
    >>> problem.severity, problem.remedy
    ('error', 'put both files of the array in the same folder')
    """

    kind: str
    what: str
    file: str
    offset: int | None
    severity: Literal["error", "warning", "note"]
    remedy: str = ""
    boxes: tuple[tuple[slice, ...], ...] = ()

    def __str__(self) -> str:
        place = "" if self.offset is None else f", byte {self.offset}"
        remedy = f"\n         {printable(self.remedy)}" if self.remedy else ""
        line = f"{self.severity + ':':<8} {self.file}{place}: {self.what}"
        return f"{printable(line)}{remedy}"


@dataclass
class Report:
    """The findings of `check`.

    Attributes
    ----------
    path : Path
        Path of the pair of files, without suffix.
    problems : list of Problem
        In the order of the check; after a repair, the remaining ones.
    repaired : list of str
        Steps that a repair has done.
    refused : list of str
        Steps that it has not done, and why.
    unseen : list of str
        Parts not examined, and how to examine them.

    Examples
    --------
    >>> import extarray as xa
    >>> report = xa.check("no such array")
    >>> report.ok, report.problems[0].kind, report.problems[0].what
    (False, 'file', 'no such file')
    """

    path: Path
    problems: list[Problem] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True without errors: the array opens, and no examined part of it is damaged.

        The parts listed in `unseen` may still be damaged.
        """
        return not any(problem.severity == "error" for problem in self.problems)

    def __str__(self) -> str:
        lines = [f"repaired: {printable(text)}" for text in self.repaired]
        lines += [f"not repaired: {printable(text)}" for text in self.refused]
        lines += map(str, self.problems)
        lines += [f"not checked: {text}" for text in self.unseen]
        counts = []
        for severity in ("error", "warning"):
            n = sum(problem.severity == severity for problem in self.problems)
            if n:
                counts.append(f"{n} {severity}{'s' if n > 1 else ''}")
        ok = "ok (not everything was checked)" if self.unseen else "ok"
        lines.append(printable(f"{self.path}: {', '.join(counts) or ok}"))
        return "\n".join(lines)
