"""windlass jobs watch: follow jobs until they end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, Protocol

import click
import msgspec
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from windlass.cli.blobs import blob_text
from windlass.cli.names.jobs import with_jobs
from windlass.cli.output import (
    console,
    format_count,
    is_for_people,
    json_option,
    print_json_line,
    print_note,
    print_text,
)
from windlass.cli.parameters import DURATION
from windlass.cli.records import blob_fields, to_record
from windlass.core.errors import AlreadyEnded, UnknownJob
from windlass.core.ids import format_id, short_id
from windlass.core.job import Ending, Timeline
from windlass.core.text.control_characters import printable
from windlass.core.text.durations import format_duration
from windlass.core.text.error_text import error_line
from windlass.sdk.deployment import AnyStore, make_service
from windlass.sdk.job_events import JobEvent, follow_job
from windlass.service import Service

WATCHED_MAX = 100
FAILED, TRY_AGAIN = 1, 75


@click.command()
@click.option("--wait-limit", type=DURATION, help="Wait at most this long, then exit with 75. The jobs continue.")
@json_option
@with_jobs
def watch(service: Service, ids: tuple[bytes, ...], wait_limit: int | None, as_json: bool) -> None:
    """Follow jobs until they end.

    Shows their state, progress and notes, then the result. In a pipe, and with --json, each change is a line. Exit
    codes: 0 if all jobs finished, 1 if one failed, was cancelled or deleted, 75 if the wait limit was reached.

    \b
    Example:
      windlass jobs watch 01a1e1bf-329d-7000-8375-65a8ab1b4cf2
      windlass jobs watch order-7 order-8 --wait-limit 10m
      windlass jobs watch 01a1e1bf-329d-7000-8375-65a8ab1b4cf2 --json
    """
    watched = tuple(dict.fromkeys(ids))
    if len(watched) > WATCHED_MAX:
        raise click.UsageError(f"At most {WATCHED_MAX} jobs can be watched at once, not {len(watched)}.")
    view = _make_view(service, watched, as_json)
    with view:
        ends = asyncio.run(_watch(service.store.clone(), watched, wait_limit, view))
    if len(ends) < len(watched):
        _print_left(len(watched) - len(ends), wait_limit or 0)
        sys.exit(TRY_AGAIN)
    if any(kind != "finished" for kind in ends.values()):
        sys.exit(FAILED)


def _print_left(left: int, limit_ms: int) -> None:
    not_ended, goes_on = ("has not ended", "it continues") if left == 1 else ("have not ended", "they continue")
    print_note(f"windlass: {format_count(left, 'job')} {not_ended} within {format_duration(limit_ms)}; {goes_on}.")


async def _watch(store: AnyStore, ids: Sequence[bytes], limit_ms: int | None, view: View) -> dict[bytes, str]:
    """Show the events of jobs. Return how those ended that have ended within the limit."""
    ends: dict[bytes, str] = {}
    async with store:
        service = make_service(store)
        try:
            async with asyncio.timeout(None if limit_ms is None else limit_ms / 1000):
                await asyncio.gather(*(_watch_job(service, job_id, view, ends) for job_id in ids))
        except TimeoutError:
            pass
    return ends


async def _watch_job(service: Service, job_id: bytes, view: View, ends: dict[bytes, str]) -> None:
    async for event in follow_job(service, job_id, shared=True):
        if event.is_last:
            view.show(job_id, event, await _read_ending(service, job_id))
            ends[job_id] = event.kind
        else:
            view.show(job_id, event, None)


async def _read_ending(service: Service, job_id: bytes) -> Ending | None:
    try:
        return await service.result(job_id)
    except (AlreadyEnded, UnknownJob):  # nothing of it is kept
        return None


# Views


class View(Protocol):
    """Output of the events of jobs."""

    def show(self, job_id: bytes, event: JobEvent, ending: Ending | None) -> None: ...

    def __enter__(self) -> Any: ...

    def __exit__(self, *_exc: object) -> None: ...


def _make_view(service: Service, ids: Sequence[bytes], as_json: bool) -> View:
    if as_json:
        return JsonLines()
    if not is_for_people():
        return TextLines()
    found = service.job(ids).wait()
    names = {timeline.job.id: timeline.job.name for timeline in found if isinstance(timeline, Timeline)}
    return ProgressBars({job_id: f"{names.get(job_id, '')} {short_id(job_id)}".strip() for job_id in ids})


class _Output:
    def __enter__(self) -> None: ...

    def __exit__(self, *_exc: object) -> None: ...


class JsonLines(_Output):
    """One object for each event. The last one of a job has its result, or its last failed attempt."""

    def show(self, job_id: bytes, event: JobEvent, ending: Ending | None) -> None:
        record: dict[str, Any] = {
            "id": format_id(job_id),
            "kind": event.kind,
            "state": event.state,
            "at_ms": round(event.at.timestamp() * 1000),
            "attempt": event.attempt,
            "progress": event.progress,
            "note": event.note,
        }
        if event.kind == "emitted":
            record["value"] = msgspec.to_builtins(event.value, enc_hook=str, str_keys=True)
        if event.is_last:
            result = ending.result if ending else None
            record |= blob_fields("result", result) if result else {"result": None}
            record["last_attempt"] = to_record(ending.last_attempt) if ending else None
        print_json_line(record)


class TextLines(_Output):
    """One line for each event: time, id, kind, attempt, progress, and a note, result or error."""

    def show(self, job_id: bytes, event: JobEvent, ending: Ending | None) -> None:
        kind = f"{event.kind} {event.state}" if event.kind == "snapshot" else event.kind
        at = event.at.strftime("%Y-%m-%dT%H:%M:%SZ")
        cells = (at, format_id(job_id), kind, str(event.attempt), f"{event.progress:.0%}", _describe(event, ending))
        click.echo("\t".join(printable(cell) for cell in cells))


class ProgressBars:
    """One bar for each job, updated in place. Results follow below."""

    def __init__(self, labels: dict[bytes, str]) -> None:
        self._labels = labels
        self._outcomes: list[str] = []
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} %", markup=False),
            TextColumn("{task.fields[detail]}", markup=False),
            console=console(),
            auto_refresh=False,
        )
        self._bars: dict[bytes, TaskID] = {}

    def __enter__(self) -> None:
        self._progress.start()
        for job_id, label in self._labels.items():
            self._bars[job_id] = self._progress.add_task(printable(label), total=1.0, detail="")

    def __exit__(self, *_exc: object) -> None:
        self._progress.stop()
        for outcome in self._outcomes:
            print_text(outcome)

    def show(self, job_id: bytes, event: JobEvent, ending: Ending | None) -> None:
        done = 1.0 if event.kind == "finished" else event.progress
        label = f"{self._labels[job_id]}  {event.state}"
        bar = self._bars[job_id]
        if event.note:
            self._progress.update(bar, detail=printable(event.note))
        self._progress.update(bar, completed=done, description=printable(label), refresh=True)
        if event.is_last:
            what = _describe(event, ending)
            self._outcomes.append(f"{self._labels[job_id]} {_ENDS[event.kind]}{f': {what}' if what else '.'}")


_ENDS = {
    "finished": "has finished",
    "failed": "has failed",
    "cancelled": "was cancelled",
    "deleted": "was deleted",
    "ended": "has ended, and nothing of it is kept",
}


def _describe(event: JobEvent, ending: Ending | None) -> str:
    """Return the note of an event, or the result or error of an end."""
    if ending is None:
        return event.note
    if ending.result is not None:
        return blob_text(ending.result) if is_for_people() else " ".join(blob_text(ending.result).split())
    last = ending.last_attempt
    return error_line(last.reason, last.error).strip().partition("\n")[0] if last else ""
