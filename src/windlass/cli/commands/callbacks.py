"""windlass callbacks: pending and given-up callbacks, and redelivery (docs/callbacks.md)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import islice

import click
from msgspec import structs

from windlass.cli.bulk import batches, confirm, yes_option
from windlass.cli.connection import with_service
from windlass.cli.names.jobs import find_jobs
from windlass.cli.output import (
    ID,
    Column,
    InstantCell,
    format_count,
    json_option,
    limit_option,
    print_json_line,
    print_note,
    print_table,
    print_text,
)
from windlass.cli.records import to_record
from windlass.core.callbacks.callback import CALLBACKS_MAX, PendingCallback, parse_pending_callback_id
from windlass.core.errors import BadInput, Refusal, WrongState
from windlass.core.ids import id_part, parse_id
from windlass.core.text.control_characters import printable
from windlass.service import Service

COLUMNS = (
    ID,
    Column("queue", rank=3, shrinks=10),
    Column("job", rank=4, shrinks=12),
    Column("event", rank=1),
    Column("to", shrinks=20),
    Column("attempt", is_right=True, rank=2),
    Column("due"),
    Column("error", shrinks=30),
)


@click.group()
def callbacks() -> None:
    """List callbacks and redeliver given-up callbacks."""


@callbacks.command("ls")
@click.option("--given-up", is_flag=True, help="Callbacks whose delivery was given up.")
@limit_option
@json_option
@with_service
def ls(service: Service, given_up: bool, limit: int, as_json: bool) -> None:
    """List pending callbacks, the next due first.

    With --given-up, list given-up callbacks, the oldest first; `due` is then the time of their removal. With --json,
    one object per line.

    \b
    Example:
      windlass callbacks ls --given-up
    """
    now_ms = service.now().wait()
    found = _read_callbacks(service, given_up)
    shown = islice(found, limit or None)
    if as_json:
        for pending in shown:
            print_json_line(to_record(structs.replace(pending, id=pending.job.id)) | {"id": pending.key})
    else:
        empty = "No given-up callbacks." if given_up else "No pending callbacks."
        print_table(COLUMNS, (_row(pending, now_ms) for pending in shown), empty=empty)
    if limit and next(found, None) is not None:
        print_note(f"Only the first {format_count(limit, 'callback')}: --limit 0 shows all.")


def _read_callbacks(service: Service, given_up: bool) -> Iterator[PendingCallback]:
    page = service.callbacks(given_up=given_up, most=CALLBACKS_MAX).wait()
    yield from page.callbacks
    while page.cursor:
        page = service.callbacks(given_up=given_up, most=CALLBACKS_MAX, cursor=page.cursor).wait()
        yield from page.callbacks


def _row(pending: PendingCallback, now_ms: int) -> tuple[object, ...]:
    callback, job = pending.callback, pending.job
    to = callback.url or f"{callback.type}: {callback.destination}"
    due = InstantCell(pending.due_at_ms or pending.removed_at_ms, now_ms)
    error = pending.error.replace("\n", " ")
    return pending.key, job.queue, job.name, job.state.label, to, pending.attempt, due, error


@callbacks.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "all_of_them", is_flag=True, help="All given-up callbacks.")
@click.option("--queue", "-q", default="", help="With --all: only jobs of this queue.")
@yes_option
@with_service
def redeliver(service: Service, ids: tuple[str, ...], all_of_them: bool, queue: str, yes: bool) -> None:
    """Deliver given-up callbacks again.

    Select them by their ids, or by the ids or other names of their jobs. They are due at once, and get all their
    attempts again.

    \b
    Example:
      windlass callbacks redeliver 019e2f10-7ac2-7000-8a21-0c5d1f4b9e33-7
      windlass callbacks redeliver --all --queue mail
    """
    if bool(ids) == all_of_them:
        raise click.UsageError("Give ids of callbacks or jobs, or --all.")
    if ids:
        _redeliver_each(service, ids)
        return
    callbacks = _read_callbacks(service, given_up=True)
    found = [pending.id for pending in callbacks if queue in ("", pending.job.queue)]
    if not found:
        print_note("No given-up callbacks.")
        return
    confirm(f"Deliver {format_count(len(found), 'callback')} again?", yes)
    answers = [answer for batch in batches(found) for answer in service.redeliver(batch).wait()]
    done = sum(not isinstance(answer, Refusal) for answer in answers)
    print_text(f"{format_count(done, 'callback')} will be delivered again.")


def _redeliver_each(service: Service, ids: tuple[str, ...]) -> None:
    answers = service.redeliver([_parse_id(service, text) for text in ids]).wait()
    for text, answer in zip(ids, answers, strict=True):
        if isinstance(answer, WrongState):
            print_note(f"windlass: {text}: It is still pending: `windlass callbacks ls` shows its next attempt.")
        elif isinstance(answer, Refusal):
            print_note(f"windlass: {text}: {answer}")
        else:
            click.echo(f"{text}\t{printable(answer)}")
    if any(isinstance(answer, Refusal) for answer in answers):
        raise click.exceptions.Exit(1)


def _parse_id(service: Service, text: str) -> bytes:
    """Return the id of a callback, or of the job that has this id, a part of it, or another name."""
    with contextlib.suppress(BadInput):
        return parse_pending_callback_id(text) if text.count("-") == 5 else parse_id(text)
    # A job that has ended may not be kept, so a part of its id is looked up among the callbacks.
    part = id_part(text)
    found = [pending.id for pending in _read_callbacks(service, given_up=True) if part and part.is_in(pending.job.id)]
    if len(found) > 1:
        raise BadInput(f"{text} means {len(found)} callbacks; give the id of one: `windlass callbacks ls --given-up`.")
    return found[0] if found else find_jobs(service, [text])[0]
