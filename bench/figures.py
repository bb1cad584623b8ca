"""Figures of the benchmark: tables, pictures and readings of rows with a floor; medians with their spread and ratios
round by round. All figures can be saved to a file, and the report is made from that file alone."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

K = TypeVar("K")
T = TypeVar("T")


class Setting(NamedTuple):
    """Thoroughness of a run, and the function that reports its progress."""

    is_quick: bool
    say: Callable[[str], None]
    rounds: int = 3

    def scaled(self, count: int) -> int:
        return max(1, count // 4) if self.is_quick else count


class Table(msgspec.Struct, tag=True, frozen=True):
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def markdown(self) -> str:
        lines = [f"### {self.title}", ""]
        lines += [self.note, ""] if self.note else []
        lines += [_row(self.head), _row(["---", *("---:" for _ in self.head[1:])])]
        return "\n".join([*lines, *(_row(row) for row in self.rows), ""])

    def text(self) -> str:
        widths = [max(len(row[at]) for row in (self.head, *self.rows)) for at in range(len(self.head))]
        lines = [f"\n{self.title}"]
        for row in (self.head, *self.rows):
            others = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            lines.append("  " + "  ".join([row[0].ljust(widths[0]), *others]))
        return "\n".join(lines)


class Bars(msgspec.Struct, tag=True, frozen=True):
    """Bar chart: one value per name."""

    title: str
    unit: str
    values: dict[str, float]
    is_more_better: bool = True


class Lines(msgspec.Struct, tag=True, frozen=True):
    """Line chart over a logarithmic horizontal axis."""

    title: str
    across: str  # label of the horizontal axis
    unit: str
    series: dict[str, list[tuple[float, float]]]
    limits: Sequence[str] = ()  # series of the bare engine: drawn faintly


class Picture(msgspec.Struct, tag=True, frozen=True):
    name: str  # of its file: performance-<name>.svg
    title: str
    panels: Sequence[Bars | Lines]

    def text(self) -> str:
        return ""


class Reading(msgspec.Struct, tag=True, frozen=True):
    """Values of one row of the floors, round by round: ours and those of the comparison."""

    row: str
    ours: Sequence[float]
    other: Sequence[float] = ()  # empty: the row has no comparison
    against: str = ""  # name of the comparison, if the row does not fix it
    note: str = ""
    keeping: Sequence[float] = ()  # values of the best peer that keeps the job of a killed worker
    keeping_name: str = ""

    @property
    def values(self) -> list[float]:
        if not self.other:
            return list(self.ours)
        return _ratios(self.ours, self.other)

    @property
    def keeping_values(self) -> list[float]:
        return _ratios(self.ours, self.keeping) if self.keeping else []

    def text(self) -> str:
        return ""


Finding: TypeAlias = Table | Picture | Reading
Section: TypeAlias = Callable[[Setting], Sequence[Finding]]


class Environment(msgspec.Struct, frozen=True):
    """Machine and versions of a section that was measured apart from the report."""

    machine: str  # empty: as in the report
    versions: dict[str, str]  # those that differ


class Measured(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of a section that was run, completed or failed."""

    name: str
    at: str  # day and minute, UTC
    load: float  # load average of the machine over the minute before the section
    seconds: float
    is_quick: bool
    findings: Sequence[Finding] = ()
    failed: str = ""
    apart: Environment | None = None


class Figures(msgspec.Struct, frozen=True):
    machine: str
    versions: dict[str, str]
    sections: list[Measured]


def _ratios(ours: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a / b if b else float("inf") for a, b in zip(ours, other, strict=True)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def in_turns(setting: Setting, what: str, ways: Mapping[K, Callable[[], T]]) -> dict[K, list[T]]:
    """Return the samples of each variant. The variants take turns, so that a noisy moment affects all of them."""
    samples: dict[K, list[T]] = {name: [] for name in ways}
    for number in range(1, setting.rounds + 1):
        setting.say(f"{what}: round {number} of {setting.rounds}")
        for name, measure in ways.items():
            samples[name].append(measure())
    return samples


def number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def spread(values: Sequence[float]) -> str:
    """Format the median, with the smallest and the largest value in brackets."""
    if len(values) == 1:
        return number(values[0])
    return f"{number(median(values))} ({number(min(values))}–{number(max(values))})"


def middle(values: Sequence[float]) -> str:
    return number(median(values))


def ratio(values: Sequence[float], base: Sequence[float]) -> str:
    """Format the median of the ratios within each round."""
    return f"{median(a / b for a, b in zip(values, base, strict=True)):.2f}×" if all(base) else "–"
