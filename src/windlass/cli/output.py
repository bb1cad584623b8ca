"""Output of commands: tables on a terminal, tab-separated lines in a pipe, JSON on request.

Texts of users are not trusted: characters that move the cursor or change the text direction are escaped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import click
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from windlass.core.text.control_characters import escape_control_in_json, printable
from windlass.core.text.humanize import to_datetime

from .records import to_json

GAP = 2  # between columns
OPTIONAL_RANK = 3  # columns of this rank and above are dropped first
READABLE_WIDTH = 40
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))
STYLES = {
    "queued": "cyan", "scheduled": "blue", "waiting": "blue", "suspended": "blue", "dispatched": "yellow",
    "running": "yellow", "finished": "green", "failed": "red", "cancelled": "magenta", "paused": "magenta",
}  # fmt: skip

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
DEFAULT_LIMIT = 50  # rows of a list
limit_option = click.option(
    "--limit",
    "-n",
    type=click.IntRange(0),
    metavar="N",
    default=DEFAULT_LIMIT,
    help=f"Maximum number of rows; 0: all. Default: {DEFAULT_LIMIT}.",
)


class InstantCell(NamedTuple):
    """An instant in a table."""

    at_ms: int | None
    now_ms: int


class DurationCell(NamedTuple):
    """A duration in a table."""

    span_ms: int | None


class Column(NamedTuple):
    """Column of a table. Columns that do not fit are dropped, the highest rank first: optional columns before others
    are shortened below a readable width, the rest if shortening is not enough, rank 0 never. `shrinks` is the minimum
    width of a column that may be shortened; 0: it is never shortened."""

    title: str
    is_right: bool = False
    rank: int = 0
    shrinks: int = 0


ID = Column("id")


def is_for_people() -> bool:
    return sys.stdout.isatty()


def console(width: int | None = None) -> Console:
    """Make a console. None: the width of the terminal."""
    return Console(width=width, highlight=False, markup=False, emoji=False)


# Texts


def format_brief(span_ms: int) -> str:
    """Format an approximate duration: 850ms, 12s, 1h 20m, 3d."""
    if span_ms < 1_000:
        return f"{span_ms}ms"
    for at, (unit_ms, unit) in enumerate(_UNITS):
        whole, rest_ms = divmod(span_ms, unit_ms)
        if whole:
            smaller_ms, smaller = _UNITS[min(at + 1, len(_UNITS) - 1)]
            rest = rest_ms // smaller_ms if whole < 10 else 0
            return f"{whole}{unit}" + (f" {rest}{smaller}" if rest else "")
    return ""


def format_distance(at_ms: int, now_ms: int) -> str:
    if abs(at_ms - now_ms) < 1_000:
        return "now"
    return f"in {format_brief(at_ms - now_ms)}" if at_ms > now_ms else f"{format_brief(now_ms - at_ms)} ago"


def clock_time(at_ms: int) -> str:
    """Format an instant to the millisecond, for log lines."""
    return to_datetime(at_ms).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def format_count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


# Lines


def print_text(text: str) -> None:
    if is_for_people():
        console().print(Text(printable(text)))
    else:
        click.echo(printable(text))


def print_title(name: str, state: str, *more: str) -> None:
    """Print the title of a page about a single item."""
    words = [printable(text) for text in (name, *more, state) if text]
    if is_for_people():
        styles = ["bold"] * (len(words) - 1) + [STYLES.get(state, "bold")]
        console().print(Text("  ").join(Text(word, style) for word, style in zip(words, styles, strict=True)))
    else:
        click.echo("  ".join(words))


def print_note(text: str) -> None:
    """Print a note to stderr, so that it does not get into a pipe."""
    click.echo(printable(text), err=True)


# Tables


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[Any]], *, empty: str) -> None:
    """Print rows: on a terminal as a table that fits, in a pipe tab-separated, unshortened and without a heading."""
    if not is_for_people():
        for row in rows:
            click.echo("\t".join(_plain_cell(cell) for cell in row))
        return
    found = list(rows)
    if found:
        drawn = as_table(columns, found, console().width)
        # On a very narrow terminal, lines wrap rather than cut ids.
        needed = sum((column.width or 0) + GAP for column in drawn.columns)
        console(max(needed, console().width)).print(drawn)
    else:
        print_note(empty)


def as_table(columns: Sequence[Column], rows: Sequence[Sequence[Any]], width: int) -> Table:
    """Build a table. Instants have a date if all columns fit, else only the distance to now."""
    cells = [[_styled_cell(cell, is_long=True) for cell in row] for row in rows]
    natural = _natural_widths(columns, cells)
    if sum(natural) + GAP * len(columns) > width:
        cells = [[_styled_cell(cell, is_long=False) for cell in row] for row in rows]
        natural = _natural_widths(columns, cells)
    widths = fit_columns(columns, natural, width)
    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    for at, column_width in widths.items():
        justify: JustifyMethod = "right" if columns[at].is_right else "left"
        title = columns[at].title
        drawn.add_column(title, justify=justify, no_wrap=True, overflow="ellipsis", width=column_width)
    for row in cells:
        drawn.add_row(*(row[at] for at in widths))
    return drawn


def _natural_widths(columns: Sequence[Column], cells: Sequence[Sequence[Text]]) -> list[int]:
    return [max([cell_len(column.title), *(row[at].cell_len for row in cells)]) for at, column in enumerate(columns)]


def _drop_columns(
    columns: Sequence[Column], among: Sequence[int], widths: Sequence[int], width: int, from_rank: int
) -> list[int]:
    """Drop columns of `from_rank` and above until the rest fits. Return the indexes of the kept columns."""
    kept = list(among)
    while sum(widths[at] + GAP for at in kept) > width:
        last = max(kept, key=lambda at: (columns[at].rank, at))
        if columns[last].rank < from_rank:
            break
        kept.remove(last)
    return kept


def fit_columns(columns: Sequence[Column], natural: Sequence[int], width: int) -> dict[int, int]:
    """Return the shown columns with their widths."""
    least = [min(full, column.shrinks or full) for column, full in zip(columns, natural, strict=True)]
    readable = [max(narrow, min(full, READABLE_WIDTH)) for narrow, full in zip(least, natural, strict=True)]
    kept = _drop_columns(columns, range(len(columns)), readable, width, OPTIONAL_RANK)
    kept = _drop_columns(columns, kept, least, width, 1)
    is_readable = sum(readable[at] + GAP for at in kept) <= width
    widths = {at: (readable if is_readable else least)[at] for at in kept}
    spare = width - sum(widths.values()) - GAP * len(kept)
    for at in kept:
        more = max(0, min(spare, natural[at] - widths[at]))
        widths[at] += more
        spare -= more
    return widths


def _plain_cell(cell: Any) -> str:
    match cell:
        case None | InstantCell(None, _) | DurationCell(None):
            return ""
        case InstantCell(int(at_ms), _):
            return to_datetime(at_ms).strftime("%Y-%m-%dT%H:%M:%SZ")
        case DurationCell(int(span_ms)):
            return format_brief(span_ms)
        case bool():
            return "yes" if cell else ""
        case _:
            return printable(str(cell))


def _styled_cell(cell: Any, *, is_long: bool) -> Text:
    match cell:
        case None | InstantCell(None, _) | DurationCell(None) | "":
            return Text("–", "dim")
        case InstantCell(int(at_ms), now_ms):
            at = to_datetime(at_ms).strftime("%Y-%m-%d %H:%M:%S, ") if is_long else ""
            return Text(f"{at}{format_distance(at_ms, now_ms)}")
        case bool():
            return Text("yes" if cell else "–", "" if cell else "dim")
        case int():
            return Text(f"{cell:,}", "" if cell else "dim")
        case _:
            text = _plain_cell(cell)
            return Text(text, STYLES.get(text, ""))


# Pages about a single item


def print_heading(text: str) -> None:
    if is_for_people():
        console().print()
        console().print(Text(printable(text), "bold"))
    else:
        click.echo(f"\n{printable(text)}")


def print_fields(pairs: Iterable[tuple[str, object]]) -> None:
    """Print one field per line, without empty fields."""
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


def print_block(text: str) -> None:
    """Print indented lines. The terminal wraps long lines, so that they can be copied."""
    shown = "\n".join(f"  {line}" for line in printable(text, keeps_lines=True).split("\n"))
    if is_for_people():
        console().print(Text(shown), soft_wrap=True)
    else:
        click.echo(shown)


# JSON


def print_json_line(value: Any) -> None:
    """Print an object of a list in one line."""
    click.echo(escape_control_in_json(to_json(value)))


def print_json(value: Any) -> None:
    """Print a single object: indented on a terminal, in one line in a pipe."""
    click.echo(escape_control_in_json(to_json(value, indent=2 if is_for_people() else -1)))
