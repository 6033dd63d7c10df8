"""Tables and verdicts from results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from .model import Group, Target
from .peers import CANDIDATES, LIBRARIES
from .sizes import NUMPY, OTHERS, OURS, PEERS, SECONDS
from .timing import Failure, Outcome, Timing

#: Results of a group: by name of the case, then of the candidate.
Results = Mapping[str, Mapping[str, Outcome]]

UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@dataclass(frozen=True)
class Verdict:
    """One of our engines against one target: `value` should be at most `limit`."""

    case: str
    candidate: str
    value: float
    limit: float
    reference: str

    @property
    def held(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        if self.reference == SECONDS:
            what = f"{duration(self.value)}, target at most {duration(self.limit)}"
        else:
            what = f"{self.value:.2f} × {self.reference}, target at most {self.limit:.2f}"
        return f"{self.case}: {self.candidate} takes {what}"


def verdicts(group: Group, results: Results) -> Iterator[Verdict]:
    """Compare our engines with the targets that have a reference."""
    for case in group.cases:
        for candidate in OURS:
            for target in case.targets:
                verdict = judge(group, case.name, candidate, target, results)
                if verdict is not None:
                    yield verdict


def judge(
    group: Group, case: str, candidate: str, target: Target, results: Results
) -> Verdict | None:
    """Compare a candidate with a target; None if one of the two was not measured."""

    def value(row: str, name: str) -> float | None:
        outcome = results.get(row, {}).get(name)
        if not isinstance(outcome, Timing):
            return None
        # Ratios bear noise that changes from case to case, or from batch to batch.
        return outcome.median if group.absolute else outcome.relative

    ours = value(case, candidate)
    if ours is None:
        return None
    if target.of == SECONDS:
        return Verdict(case, candidate, ours, target.limit, SECONDS)
    if target.same_candidate:
        references = {f"'{target.of}'": value(target.of, candidate)}
    elif target.of == PEERS:
        references = {name: value(case, name) for name in LIBRARIES}
    else:
        references = {target.of: value(case, target.of)}
    known = {name: time for name, time in references.items() if time is not None}
    if not known:
        return None
    best = min(known, key=known.__getitem__)
    return Verdict(case, candidate, ours / known[best], target.limit, best)


def duration(seconds: float) -> str:
    """Return a time with three digits and a unit."""
    size, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    return f"{seconds / size:.3g} {unit}"


def cell(outcome: Outcome | None, absolute: bool, spread: bool) -> str:
    if outcome is None:
        return ""
    if isinstance(outcome, Failure):
        return "–" if outcome.expected else "error"
    if absolute or outcome.reference is None:
        value = duration(outcome.median)
    else:
        value = f"{outcome.relative:.3g}" if outcome.relative >= 10 else f"{outcome.relative:.2f}"
    return f"{value} ±{outcome.spread:.0%}" if spread else value


def rows(group: Group, results: Results, spread: bool = True) -> list[list[str]]:
    """Return the head, then a row per case: a column per candidate, and whether targets are met."""
    names = [name for name in CANDIDATES if any(name in row for row in results.values())]
    judged = list(verdicts(group, results))
    body = [
        [
            case.name,
            *(cell(results[case.name].get(n), group.absolute or n == NUMPY, spread) for n in names),
            summary([verdict for verdict in judged if verdict.case == case.name]),
        ]
        for case in group.cases
    ]
    return [["", *names, "targets"], *body]


def unit(group: Group) -> str:
    return "times" if group.absolute else "NumPy's time, then times in units of it: less is better"


def misses(group: Group, results: Results) -> list[str]:
    return [str(verdict) for verdict in verdicts(group, results) if not verdict.held]


def table(group: Group, results: Results) -> str:
    """Return a group's lines for the terminal."""
    lines = [f"{group.name}: {group.title} ({unit(group)}; ± half the distance of the quartiles)"]
    lines += ["", *aligned(rows(group, results))]
    lines += [f"  MISS {miss}" for miss in misses(group, results)]
    lines += [
        f"  ERROR {case}: {name}: {failure.text.strip().splitlines()[-1]}"
        for case, row in results.items()
        for name, failure in row.items()
        if isinstance(failure, Failure) and not failure.expected
    ]
    if disk_reads := sum(
        outcome.disk_reads
        for row in results.values()
        for outcome in row.values()
        if isinstance(outcome, Timing)
    ):
        lines.append(f"  {disk_reads / 2**20:.1f} MiB were read from disk while timing")
    return "\n".join(lines)


def beside(results: Mapping[str, Results]) -> str:
    """Return our times over those of another checkout, worst first: medians, and least times.

    A real change shows in both; noise only in the medians.
    """
    ratios = [
        (ours.median / other.median, ours.minimum / other.minimum, f"{group}: {case}, {own}")
        for group, cases in results.items()
        for case, row in cases.items()
        for own, other_name in zip(OURS, OTHERS, strict=True)
        if isinstance(ours := row.get(own), Timing)
        and isinstance(other := row.get(other_name), Timing)
    ]
    body = [[name, f"{a:.2f}", f"{b:.2f}"] for a, b, name in sorted(ratios, reverse=True)]
    middle = [f"{median(ratio[column] for ratio in ratios):.3f}" for column in (0, 1)]
    rows = [["Times over those of the other checkout", "medians", "least"], *body]
    return "\n".join(aligned([*rows, ["median of all", *middle]]))


def markdown(group: Group, results: Results) -> str:
    """Return a section for the documentation."""
    head, *body = rows(group, results, spread=False)
    lines = [f"### {group.title}", "", f"Unit: {unit(group)}.", ""]
    lines += [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body)]
    if missed := misses(group, results):
        lines += ["", "Targets missed:", "", *(f"- {miss}" for miss in missed)]
    return "\n".join([*lines, ""])


def summary(judged: Sequence[Verdict]) -> str:
    """Return "ok" or "MISS" for each of our engines."""
    return ", ".join(
        f"{name.removeprefix('extarray-')} {'ok' if all(held) else 'MISS'}"
        for name in OURS
        if (held := [verdict.held for verdict in judged if verdict.candidate == name])
    )


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of columns, the first one left-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
