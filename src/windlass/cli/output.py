"""How things are printed: tables on a terminal, tab-separated lines where stdout is none, JSON when asked for. Text of
others is never trusted: what could move a cursor or turn writing around is shown as an escape."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import click
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from windlass.core.text.control_characters import escape_control, escape_control_in_json

from .records import to_json

GAP = 2  # between columns
EXTRA = 3  # from this rank on, a column is good to have and no more
READABLE = 40
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STYLES = {
    "queued": "cyan", "scheduled": "blue", "waiting": "blue", "dispatched": "yellow", "running": "yellow",
    "finished": "green", "failed": "red", "cancelled": "magenta", "paused": "magenta",
}  # fmt: skip

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
SHOWN = 50  # of a list, unless more is asked for
limit_option = click.option(
    "--limit",
    "-n",
    type=click.IntRange(0),
    metavar="N",
    default=SHOWN,
    help=f"At most so many; 0: all. Default: {SHOWN}.",
)


class At(NamedTuple):
    """An instant in a table."""

    at_ms: int | None
    now_ms: int


class Span(NamedTuple):
    """A duration in a table."""

    span_ms: int | None


class Column(NamedTuple):
    """What does not fit is left out, the highest rank first: extras before anything is shortened much, the others when
    shortening is not enough, rank 0 never. `shrinks` is the width down to which a column may be shortened; 0: never."""

    title: str
    is_right: bool = False
    rank: int = 0
    shrinks: int = 0


ID = Column("id")


def is_for_people() -> bool:
    return sys.stdout.isatty()


def console(width: int | None = None) -> Console:
    """None: as wide as the terminal."""
    return Console(width=width, highlight=False, markup=False, emoji=False)


# Words


def printable(text: str, *, keeps_lines: bool = False) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(char, keeps_lines) for char in text)


def _shown(char: str, keeps_lines: bool) -> str:
    if keeps_lines and char in "\n\t":
        return char
    if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp"):
        return char.encode("unicode_escape").decode()
    return escape_control(char)


def brief(span_ms: int) -> str:
    """About how long: 850ms, 12s, 1h 20m, 3d."""
    if span_ms < 1_000:
        return f"{span_ms}ms"
    for at, (unit_ms, unit) in enumerate(_UNITS):
        whole, rest_ms = divmod(span_ms, unit_ms)
        if whole:
            smaller_ms, smaller = _UNITS[min(at + 1, len(_UNITS) - 1)]
            rest = rest_ms // smaller_ms if whole < 10 else 0
            return f"{whole}{unit}" + (f" {rest}{smaller}" if rest else "")
    return ""


def distance(at_ms: int, now_ms: int) -> str:
    if abs(at_ms - now_ms) < 1_000:
        return "now"
    return f"in {brief(at_ms - now_ms)}" if at_ms > now_ms else f"{brief(now_ms - at_ms)} ago"


def _moment(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


def clock_time(at_ms: int) -> str:
    """To the millisecond: lines of a log are close to each other."""
    return _moment(at_ms).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


# Sentences


def say(text: str) -> None:
    if is_for_people():
        console().print(Text(printable(text)))
    else:
        click.echo(printable(text))


def title(name: str, state: str, *more: str) -> None:
    """Of a page about one thing."""
    words = [printable(one) for one in (name, *more, state) if one]
    if is_for_people():
        styles = ["bold"] * (len(words) - 1) + [STYLES.get(state, "bold")]
        console().print(Text("  ").join(Text(word, style) for word, style in zip(words, styles, strict=True)))
    else:
        click.echo("  ".join(words))


def note(text: str) -> None:
    """Beside the output: it must not end up in a pipe."""
    click.echo(printable(text), err=True)


# Tables


def table(columns: Sequence[Column], rows: Iterable[Sequence[Any]], *, empty: str) -> None:
    """Rows for people in a table that fits; for programs tab-separated, whole, and without a heading."""
    if not is_for_people():
        for row in rows:
            click.echo("\t".join(_plain(cell) for cell in row))
        return
    found = list(rows)
    if found:
        drawn = as_table(columns, found, console().width)
        # On a very narrow terminal lines are broken rather than ids.
        needed = sum((column.width or 0) + GAP for column in drawn.columns)
        console(max(needed, console().width)).print(drawn)
    else:
        note(empty)


def as_table(columns: Sequence[Column], rows: Sequence[Sequence[Any]], width: int) -> Table:
    """With instants written out where there is room for all, else as distances only."""
    cells = [[_cell(cell, is_long=True) for cell in row] for row in rows]
    natural = _natural(columns, cells)
    if sum(natural) + GAP * len(columns) > width:
        cells = [[_cell(cell, is_long=False) for cell in row] for row in rows]
        natural = _natural(columns, cells)
    widths = fitted(columns, natural, width)
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    for at, column_width in widths.items():
        justify: JustifyMethod = "right" if columns[at].is_right else "left"
        title = columns[at].title
        drawn.add_column(title, justify=justify, no_wrap=True, overflow="ellipsis", width=column_width)
    for row in cells:
        drawn.add_row(*(row[at] for at in widths))
    return drawn


def _natural(columns: Sequence[Column], cells: Sequence[Sequence[Text]]) -> list[int]:
    return [max([cell_len(column.title), *(row[at].cell_len for row in cells)]) for at, column in enumerate(columns)]


def _kept(
    columns: Sequence[Column], among: Sequence[int], widths: Sequence[int], width: int, from_rank: int
) -> list[int]:
    """Those that are left when what may go has gone until the rest fits."""
    kept = list(among)
    while sum(widths[at] + GAP for at in kept) > width:
        last = max(kept, key=lambda at: (columns[at].rank, at))
        if columns[last].rank < from_rank:
            break
        kept.remove(last)
    return kept


def fitted(columns: Sequence[Column], natural: Sequence[int], width: int) -> dict[int, int]:
    """Which columns are shown, and how wide each is."""
    least = [min(full, column.shrinks or full) for column, full in zip(columns, natural, strict=True)]
    readable = [max(one, min(full, READABLE)) for one, full in zip(least, natural, strict=True)]
    kept = _kept(columns, range(len(columns)), readable, width, EXTRA)
    kept = _kept(columns, kept, least, width, 1)
    is_easy = sum(readable[at] + GAP for at in kept) <= width
    widths = {at: (readable if is_easy else least)[at] for at in kept}
    spare = width - sum(widths.values()) - GAP * len(kept)
    for at in kept:
        more = max(0, min(spare, natural[at] - widths[at]))
        widths[at] += more
        spare -= more
    return widths


def _plain(cell: Any) -> str:
    match cell:
        case None | At(None, _) | Span(None):
            return ""
        case At(int(at_ms), _):
            return _moment(at_ms).strftime("%Y-%m-%dT%H:%M:%SZ")
        case Span(int(span_ms)):
            return brief(span_ms)
        case bool():
            return "yes" if cell else ""
        case _:
            return printable(str(cell))


def _cell(cell: Any, *, is_long: bool) -> Text:
    match cell:
        case None | At(None, _) | Span(None) | "":
            return Text("–", "dim")
        case At(int(at_ms), now_ms):
            at = _moment(at_ms).strftime("%Y-%m-%d %H:%M:%S, ") if is_long else ""
            return Text(f"{at}{distance(at_ms, now_ms)}")
        case bool():
            return Text("yes" if cell else "–", "" if cell else "dim")
        case int():
            return Text(f"{cell:,}", "" if cell else "dim")
        case _:
            text = _plain(cell)
            return Text(text, STYLES.get(text, ""))


# One thing: its fields, and blocks of text


def heading(text: str) -> None:
    if is_for_people():
        console().print()
        console().print(Text(printable(text), "bold"))
    else:
        click.echo(f"\n{printable(text)}")


def fields(pairs: Iterable[tuple[str, object]]) -> None:
    """Those that have something to say, one a line."""
    kept = [(title, printable(str(value))) for title, value in pairs if value not in (None, "", ())]
    width = max((len(title) for title, _ in kept), default=0)
    if not is_for_people():
        for title, text in kept:
            click.echo(f"{title:<{width}}  {text}")
        return
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for title, text in kept:
        grid.add_row(title, Text(text, STYLES.get(text, "")))
    console().print(grid)


def block(text: str) -> None:
    """Several lines as they are, set in. Long ones are left to the terminal, so that they can be copied."""
    shown = "\n".join(f"  {line}" for line in printable(text, keeps_lines=True).split("\n"))
    if is_for_people():
        console().print(Text(shown), soft_wrap=True)
    else:
        click.echo(shown)


# JSON


def json_line(value: Any) -> None:
    """One object of a list."""
    click.echo(escape_control_in_json(to_json(value)))


def json_document(value: Any) -> None:
    """One thing: indented for people, in one line for programs."""
    click.echo(escape_control_in_json(to_json(value, indent=2 if is_for_people() else -1)))
