"""Report of a backup: its point and what it contains."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from windlass.cli.output import format_count, print_note
from windlass.core.export.backup_point import BackupPoint
from windlass.core.text.control_characters import printable


def print_point(point: BackupPoint, namespace: str, *, is_error_stream: bool = False) -> None:
    jobs = ", ".join(f"{count:,} {state}" for state, count in point.states.items())
    number = format_count(sum(point.states.values()), "job")
    rows = (
        ("Point", _describe_point(point)),
        ("Engine", point.engine),
        ("Namespace", namespace),
        ("Jobs", f"{number}: {jobs}" if jobs else number),
    )
    for title, text in rows:
        click.echo(f"{title:<11}{printable(text)}", err=is_error_stream)


def _describe_point(point: BackupPoint) -> str:
    if point.is_live:
        return f"none: read while jobs ran, from {_instant(point.at_ms)} on"
    if point.until_ms:
        return f"{_instant(point.at_ms)} to {_instant(point.until_ms)}, one instant for each shard"
    return f"{_instant(point.at_ms)}; all that was acknowledged before is in it"


def _instant(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def describe_running(point: BackupPoint) -> str:
    number = point.states.get("running", 0) + point.states.get("suspended", 0)
    again = f"{format_count(number, 'job')} that ran or slept at the point will run again" if number else ""
    return f"{again or 'No job ran at the point'}. Start servers and workers now."


def print_problems(problems: Sequence[str]) -> None:
    for problem in problems:
        print_note(f"windlass: {problem}")
