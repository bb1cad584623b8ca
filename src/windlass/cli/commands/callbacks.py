"""windlass callbacks: notices that are owed or were given up, and another try for these (docs/callbacks.md)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import click
from msgspec import structs

from windlass.cli.bulk import ask, in_steps, yes_option
from windlass.cli.connection import connected
from windlass.cli.output import ID, At, Column, counted, json_line, json_option, limit_option, note, say, table
from windlass.cli.records import record
from windlass.core.callbacks.callback import CALLBACKS_MAX, PendingCallback, parse_pending_callback_id
from windlass.core.errors import BadInput, Refusal, WrongState
from windlass.core.ids import parse_id
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
    """Look at callbacks; deliver again those that were given up."""


@callbacks.command("ls")
@click.option("--given-up", is_flag=True, help="Those that nobody tries to deliver any more.")
@limit_option
@json_option
@connected
def ls(service: Service, given_up: bool, limit: int, as_json: bool) -> None:
    """List callbacks that are owed, the next due first.

    With --given-up, those that were given up, the oldest first; `due` is then when they are forgotten. With --json, one
    object per line.

    \b
    Example:
      windlass callbacks ls --given-up
    """
    now_ms = service.now().wait()
    found = _debts(service, given_up)
    shown = islice(found, limit or None)
    if as_json:
        for debt in shown:
            json_line(record(structs.replace(debt, id=debt.job.id)) | {"id": debt.key})
    else:
        empty = "No callbacks were given up." if given_up else "No callbacks are owed."
        table(COLUMNS, (_row(debt, now_ms) for debt in shown), empty=empty)
    if limit and next(found, None) is not None:
        note(f"The first {counted(limit, 'callback')}; there are more: --limit 0 shows all.")


def _debts(service: Service, given_up: bool) -> Iterator[PendingCallback]:
    page = service.callbacks(given_up=given_up, most=CALLBACKS_MAX).wait()
    yield from page.callbacks
    while page.cursor:
        page = service.callbacks(given_up=given_up, most=CALLBACKS_MAX, cursor=page.cursor).wait()
        yield from page.callbacks


def _row(debt: PendingCallback, now_ms: int) -> tuple[object, ...]:
    callback = debt.callback
    to = callback.url or f"{callback.type}: {callback.destination}"
    due = At(debt.due_at_ms or debt.removed_at_ms, now_ms)
    error = debt.error.replace("\n", " ")
    return debt.key, debt.job.queue, debt.job.name, debt.job.state.label, to, debt.attempt, due, error


@callbacks.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "all_of_them", is_flag=True, help="All that were given up.")
@click.option("--queue", "-q", default="", help="With --all: of jobs of this queue.")
@yes_option
@connected
def redeliver(service: Service, ids: tuple[str, ...], all_of_them: bool, queue: str, yes: bool) -> None:
    """Try again to deliver callbacks that were given up.

    By their ids, or by those of their jobs. They are due at once, with all attempts anew.

    \b
    Example:
      windlass callbacks redeliver 019e2f10-7ac2-7000-8a21-0c5d1f4b9e33-7
      windlass callbacks redeliver --all --queue mail
    """
    if bool(ids) == all_of_them:
        raise click.UsageError("Name callbacks or jobs by their ids, or say --all.")
    if ids:
        _redeliver_each(service, ids)
        return
    found = [debt.id for debt in _debts(service, given_up=True) if queue in ("", debt.job.queue)]
    if not found:
        note("No callbacks were given up.")
        return
    ask(f"Deliver {counted(len(found), 'callback')} again?", yes)
    answers = [one for step in in_steps(found) for one in service.redeliver(step).wait()]
    done = sum(not isinstance(one, Refusal) for one in answers)
    say(f"{counted(done, 'callback')} will be delivered again.")


def _redeliver_each(service: Service, ids: tuple[str, ...]) -> None:
    answers = service.redeliver([_read(one) for one in ids]).wait()
    for one, answer in zip(ids, answers, strict=True):
        if isinstance(answer, WrongState):
            note(f"windlass: {one}: It is still owed: `windlass callbacks ls` shows when it is tried next.")
        elif isinstance(answer, Refusal):
            note(f"windlass: {one}: {answer}")
        else:
            click.echo(f"{one}\t{answer}")
    if any(isinstance(answer, Refusal) for answer in answers):
        raise click.exceptions.Exit(1)


def _read(text: str) -> bytes:
    try:
        return parse_pending_callback_id(text) if text.count("-") == 5 else parse_id(text)
    except BadInput as error:
        raise click.UsageError(str(error)) from error
