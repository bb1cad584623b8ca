"""windlass limits: limits on running jobs and on starts per time."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from windlass.cli.bulk import accepted_yes_option
from windlass.cli.connection import with_service
from windlass.cli.output import Column, InstantCell, format_count, json_option, print_json_line, print_table, print_text
from windlass.cli.parameters import ASSIGNMENT, RATE
from windlass.cli.records import to_record
from windlass.core.errors import BadInput
from windlass.core.limits.condition import Scalar
from windlass.core.limits.limit import Level, Limit, LimitState, Matcher
from windlass.core.text import limit_text
from windlass.core.text.codecs import compact_json
from windlass.core.validation.bounds import UINT32_MAX
from windlass.service import Service
from windlass.wire.limits import parse_matcher

COLUMNS = (
    Column("limit", shrinks=12),
    Column("allows", shrinks=12),
    Column("of jobs", rank=2, shrinks=12),
    Column("key", shrinks=10),
    Column("running", is_right=True),
    Column("room", is_right=True),
    Column("lanes held back", is_right=True, rank=3),
    Column("next token", rank=4),
)


@click.group()
def limits() -> None:
    """Limit running jobs, or starts per time."""


@limits.command("ls")
@json_option
@with_service
def ls(service: Service, as_json: bool) -> None:
    """List limits and how full they are.

    For a limit per key, the keys with running jobs or blocked lanes. With --json, one object per line.

    \b
    Example:
      windlass limits ls
    """
    now_ms = service.now().wait()
    found = service.limits().wait()
    if as_json:
        for state in found:
            print_json_line(to_record(state))
    else:
        rows = (row for state in found for row in _rows(state, now_ms))
        print_table(COLUMNS, rows, empty="No limits.")


def _rows(state: LimitState, now_ms: int) -> Iterator[tuple[object, ...]]:
    unused = Level(key=None, running=0, blocked_lanes=0, room=None, next_token_at_ms=None)
    for level in state.levels or [unused]:
        token = InstantCell(level.next_token_at_ms, now_ms)
        counts = (level.running, level.room, level.blocked_lanes, token)
        yield (
            state.limit.name,
            limit_text.describe_cap(state.limit),
            limit_text.describe_matcher(state.limit.matches),
            level.key,
            *counts,
        )


@limits.command("set")
@click.argument("limit_name", metavar="LIMIT")
@click.option("--queue", default="", help="Applies to jobs in this queue.")
@click.option("--name", default="", help="Applies to jobs with this name.")
@click.option("--lane", default="", help="Applies to jobs in this lane.")
@click.option(
    "--payload", "values", type=ASSIGNMENT, multiple=True, metavar="PATH=VALUE",
    help="Applies to jobs with this payload value, e.g. plan=free or user.age=7; repeatable.",
)  # fmt: skip
@click.option(
    "--matches", default="", metavar="JSON",
    help="Conditions as in the HTTP API, instead of the four options above; docs/limits.md lists them.",
)  # fmt: skip
@click.option(
    "--running", type=click.IntRange(0, UINT32_MAX), metavar="N", help="Maximum of running jobs; 0: none may start."
)
@click.option("--rate", type=RATE, help="Maximum of starts per time, e.g. 100/s or 5/10m.")
@click.option(
    "--burst",
    type=click.IntRange(0, UINT32_MAX),
    metavar="N",
    default=0,
    help="Maximum of starts at once; with --rate.",
)
@click.option("--per-key", "key", default="", metavar="PATH", help="Limit each value of this payload field separately.")
@accepted_yes_option
@with_service
def set_limit(
    service: Service,
    limit_name: str,
    queue: str,
    name: str,
    lane: str,
    values: tuple[tuple[str, str], ...],
    matches: str,
    running: int | None,
    rate: tuple[int, int] | None,
    burst: int,
    key: str,
) -> None:
    """Set or change the limit named LIMIT. Running jobs count.

    \b
    Example:
      windlass limits set per-customer --queue api --rate 100/s --per-key customer.id
      windlass limits set mail --name send_mail --running 2
      windlass limits set big --running 1 --matches '{"name": {"prefix": "send_"}, "payload": {"size": {"gt": 1000}}}'
    """
    if (running is None) == (rate is None):
        raise click.UsageError("Give either --running (jobs at once) or --rate (starts per time).")
    if burst and rate is None:
        raise click.UsageError("--burst needs --rate.")
    if matches and (queue or name or lane or values):
        raise click.UsageError("Give either --matches, or --queue, --name, --lane and --payload.")
    payload = {path: _parse_scalar(text) for path, text in values}
    wanted = _parse_matcher(matches) if matches else Matcher(queue=queue, name=name, lane=lane, payload=payload)
    number, per_ms = rate or (None, 1_000)
    limit = Limit(name=limit_name, matches=wanted, running=running, rate=number, per_ms=per_ms, burst=burst, key=key)
    changed = service.limit(limit).wait()
    print_text(f"Limit {limit_name} is set; {format_count(changed, 'job')} updated.")


def _parse_matcher(text: str) -> Matcher:
    try:
        return parse_matcher(text)
    except BadInput as error:
        raise click.UsageError(f"--matches: {error}") from error


def _parse_scalar(text: str) -> Scalar:
    """Parse JSON scalars (7, true, null, "7"). Other text is a string."""
    try:
        value: Scalar = msgspec.json.decode(compact_json(text.encode()), type=str | int | float | bool | None)
    except (ValueError, msgspec.MsgspecError):
        return text
    return value


@limits.command("cap")
@click.argument("limit_name", metavar="LIMIT")
@click.argument("key")
@click.option("--running", type=click.IntRange(1, UINT32_MAX), metavar="N", help="Maximum of running jobs of the key.")
@click.option("--note", help="Text for the workers of its jobs; of a download: the proxy.")
@accepted_yes_option
@with_service
def cap(service: Service, limit_name: str, key: str, running: int | None, note: str | None) -> None:
    """Change the cap of one KEY while jobs run.

    The keys of the limit must have their own caps.

    \b
    Example:
      windlass limits cap "downloads per aggregation" beststore --running 8
    """
    if running is None and note is None:
        raise click.UsageError("Give --running or --note, or both.")
    found = service.set_cap(limit_name, key, running=running, note=note).wait()
    print_text(f"Cap of {found.key}: {found.cap} at once; {found.running} running, {found.queued} queued.")


@limits.command()
@click.argument("limit_name", metavar="LIMIT")
@accepted_yes_option
@with_service
def rm(service: Service, limit_name: str) -> None:
    """Remove a limit. Jobs that it blocked may run at once.

    \b
    Example:
      windlass limits rm per-customer
    """
    changed = service.unlimit(limit_name).wait()
    print_text(f"Limit {limit_name} is removed; {format_count(changed, 'job')} updated.")
