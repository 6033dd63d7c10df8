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
        What it concerns: "file", "header", "copy" (of the header), "superblock", "log", "attrs",
        "room" (in ``.xmd``), "data" (the length and the seal of ``.xta``), "sums", "chunk",
        "group" (a commit of several arrays), or "left over".
    what : str
        What was found.
    file : str
        Where: the file ...
    offset : int or None
        ... and the byte in it.
    severity : {"error", "warning", "note"}
        An error: something is damaged or lost, or the array does not open.  A warning: nothing of
        the array is, as far as one can tell.  A note: all is well.
    remedy : str
        What to do; may be empty.
    boxes : tuple of tuple of slice
        Elements that it concerns, where that is known: those of damaged chunks, a box for each, the
        first thousand of one finding.

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
        Of the pair of files, without suffix.
    problems : list of Problem
        In the order of the check; after a repair, what is left.
    repaired : list of str
        What a repair has done.
    refused : list of str
        What it has not done, and why.
    unseen : list of str
        What was not looked at, and how it can be.

    Examples
    --------
    >>> import extarray as xa
    >>> report = xa.check("no such array")
    >>> report.ok, report.problems[0].kind, report.problems[0].what
    (False, 'file', 'there is no such file')
    """

    path: Path
    problems: list[Problem] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if there is no error: the array opens, and nothing of it is known to be damaged.

        Nothing is known of what is `unseen`.
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
