"""Figures and tables: medians with their spread, ratios round by round, as text for a terminal and for the docs."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class Setting(NamedTuple):
    """How thorough a run is, and where its progress goes."""

    is_quick: bool
    say: Callable[[str], None]
    rounds: int = 3

    def scaled(self, count: int) -> int:
        return max(1, count // 4) if self.is_quick else count


class Table(NamedTuple):
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


Section = Callable[[Setting], list[Table]]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def in_turns(setting: Setting, what: str, ways: Mapping[K, Callable[[], T]]) -> dict[K, list[T]]:
    """Each way's samples. The ways take turns, so that a noisy moment hits all of them."""
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
    """The median, and in brackets the smallest and the largest."""
    return f"{number(median(values))} ({number(min(values))}–{number(max(values))})"


def middle(values: Sequence[float]) -> str:
    return number(median(values))


def ratio(values: Sequence[float], base: Sequence[float]) -> str:
    """The median of the ratios within each round."""
    return f"{median(a / b for a, b in zip(values, base, strict=True)):.2f}×" if all(base) else "–"
