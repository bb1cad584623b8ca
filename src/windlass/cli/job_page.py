"""All that is known of one job, read together and shown on one page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from windlass.core.explain.reasons import Explanation
from windlass.core.ids import format_id
from windlass.core.job import Attempt, Blob, Job, Member, Timeline
from windlass.core.log import KeptLine, Logs
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import Backoff
from windlass.core.text import humanize
from windlass.core.text.durations import format_duration
from windlass.core.text.error_text import error_line
from windlass.service import Service

from .blobs import as_text, error_text
from .output import (
    ID,
    Column,
    block,
    brief,
    clock_time,
    counted,
    fields,
    heading,
    is_for_people,
    note,
    say,
    table,
    title,
)
from .records import blob_fields, record

MEMBERS_SHOWN = 20
TEXT_SHOWN = 8_000  # characters of a payload or result
MEMBER_COLUMNS = (ID, Column("name", shrinks=12), Column("state"), Column("queue", rank=1))


class Story(NamedTuple):
    timeline: Timeline
    explanation: Explanation
    result: Blob | None
    members: list[Member]
    has_more_members: bool
    logs: Logs


def read(service: Service, job_id: bytes) -> Story:
    timeline = service.job([job_id]).one().wait()
    explanation = service.explain(job_id).wait()
    ending = service.result(job_id).wait() if timeline.job.state.is_ended else None
    members, cursor = [], ""
    if timeline.job.has_members:
        page = service.list_members(job_id, most=MEMBERS_SHOWN).wait()
        members, cursor = page.members, page.cursor
    result = ending.result if ending else None
    return Story(timeline, explanation, result, members, bool(cursor), service.logs(job_id).wait())


def as_record(story: Story) -> dict[str, Any]:
    found: dict[str, Any] = record(story.timeline.job)
    found |= blob_fields("result", story.result) if story.result else {"result": None}
    found["attempts"] = record(story.timeline.attempts)
    found["members"] = [_member_record(one) for one in story.members]
    found["has_more_members"] = story.has_more_members
    found["logs"] = msgspec.to_builtins(story.logs)
    return found | {"explanation": msgspec.to_builtins(story.explanation)}


def _member_record(member: Member) -> dict[str, Any]:
    job = member.job
    return {"id": job.key, "queue": job.queue, "name": job.name, "state": job.state.label}


def show(story: Story, all_errors: bool) -> None:
    job, now_ms = story.timeline.job, story.explanation.at_ms
    title(job.key, job.state.label, job.name)
    say(story.explanation.summary)
    heading("About")
    fields(_about(job, now_ms))
    heading("Timeline")
    fields(_timeline(story.timeline, now_ms))
    _show_members(story)
    _show_blob("Payload", job.payload)
    if story.result is not None:
        _show_blob("Result", story.result)
    _show_errors(story.timeline.attempts, all_errors)
    _show_logs(story.logs)


def _about(job: Job, now_ms: int) -> Iterator[tuple[str, object]]:
    yield "queue", job.queue
    yield "lane", job.lane
    yield "priority", job.priority
    yield "attempt", f"{job.attempt} of {job.retry.tries or 'any number'}"
    yield "progress", f"{job.progress:.0%}" if job.progress else ""
    yield "note", job.note
    yield "worker", format_id(job.worker) if job.worker else ""
    yield "tags", ", ".join(job.tags)
    yield "unique", job.unique
    yield "retry", written_backoff(job.retry)
    yield "timeout", _lasting(job.timeout_ms)
    yield "lease", _lasting(job.lease_ms)
    yield "result kept", _lasting(job.result_ttl_ms)
    yield "repeats", job.repeat
    yield "schedule", job.schedule
    yield "planned for", _at(job.planned_at_ms, now_ms)
    yield "parent", format_id(job.parent) if job.parent else ""
    yield "on failure", job.on_failure if job.has_members else ""
    yield "callback", f"{job.callback.url} when {', '.join(job.callback.events)}" if job.callback else ""
    yield "trace", job.trace
    yield "revision", job.revision


def written_backoff(retry: Backoff) -> str:
    if retry.tries == 1:
        return "never"
    tries = f"{retry.tries} tries" if retry.tries else "any number of tries"
    grows = f", growing × {retry.factor:g} up to {format_duration(retry.cap_ms)}" if retry.factor != 1 else ""
    return f"{tries}; pauses of {format_duration(retry.base_ms)}{grows}"


def _lasting(span_ms: int) -> str:
    if span_ms == FOREVER_MS:
        return "for ever"
    return format_duration(span_ms) if span_ms else ""


def _at(at_ms: int | None, now_ms: int) -> str:
    return humanize.humanize_instant(at_ms, now_ms) if at_ms else ""


def _timeline(timeline: Timeline, now_ms: int) -> Iterator[tuple[str, object]]:
    job = timeline.job
    yield "created", _at(job.created_at_ms, now_ms)
    for attempt in timeline.attempts:
        yield f"attempt {attempt.attempt}", _attempt(attempt, now_ms)
    if job.run_at_ms > job.created_at_ms and (job.started_at_ms is None or job.run_at_ms > job.started_at_ms):
        yield "run at", _at(job.run_at_ms, now_ms)
    yield "expires", "" if job.started_at_ms else _at(job.expires_at_ms, now_ms)
    if job.started_at_ms and not any(one.started_at_ms == job.started_at_ms for one in timeline.attempts):
        yield "started", _at(job.started_at_ms, now_ms)
    yield "lease until", _at(job.lease_deadline_at_ms, now_ms)
    yield "ended", _at(job.ended_at_ms, now_ms)


def _attempt(attempt: Attempt, now_ms: int) -> str:
    began = attempt.started_at_ms
    ran = f" after {brief(attempt.ended_at_ms - began)}" if began else ""
    return f"{_at(began or attempt.ended_at_ms, now_ms)}, ended{ran}: {error_line(attempt.reason, attempt.error)}"


def _show_members(story: Story) -> None:
    if not story.members:
        return
    heading("Children and jobs it waits for")
    rows = [(one.job.key, one.job.name, one.job.state.label, one.job.queue) for one in story.members]
    table(MEMBER_COLUMNS, rows, empty="")
    if story.has_more_members:
        note(f"The first {counted(len(rows), 'job')}; there are more.")


def _show_blob(title: str, blob: Blob) -> None:
    heading(f"{title} ({blob.codec.name.lower()})")
    text = as_text(blob)
    block(text[:TEXT_SHOWN])
    if len(text) > TEXT_SHOWN:
        note(f"… and {counted(len(text) - TEXT_SHOWN, 'more character')}; --json has all of it.")


def _show_errors(attempts: list[Attempt], all_errors: bool) -> None:
    with_errors = [one for one in attempts if one.error is not None]
    for attempt in with_errors if all_errors else with_errors[-1:]:
        heading(f"Error of attempt {attempt.attempt} ({attempt.reason})")
        block(error_text(attempt.error or Blob(b"")))
    if len(with_errors) > 1 and not all_errors and is_for_people():
        note("--errors shows those of the attempts before, too.")


def _show_logs(logs: Logs) -> None:
    if not logs.lines:
        return
    heading("Log")
    before = f"… {counted(logs.dropped, 'line')} before\n" if logs.dropped else ""
    block(before + "\n".join(_log_line(line) for line in logs.lines))


def _log_line(line: KeptLine) -> str:
    return f"{clock_time(line.at_ms)}  attempt {line.attempt}  {line.level}  {line.text}"
