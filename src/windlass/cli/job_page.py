"""Details of one job, for `jobs show`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from windlass.core.durable import DurableState
from windlass.core.explain.reasons import Explanation
from windlass.core.ids import format_id
from windlass.core.job import Attempt, Blob, Job, Member, Timeline
from windlass.core.job_aliases import JobAliases
from windlass.core.log import KeptLine, Logs
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import Backoff
from windlass.core.text import humanize
from windlass.core.text.durations import format_duration
from windlass.core.text.error_text import error_line
from windlass.service import Service

from . import step_page
from .blobs import blob_text, error_text
from .job_cause import JobCause, describe_cause, find_cause
from .output import (
    ID,
    Column,
    clock_time,
    format_brief,
    format_count,
    is_for_people,
    print_block,
    print_fields,
    print_heading,
    print_note,
    print_table,
    print_text,
    print_title,
)
from .records import blob_fields, to_record

MEMBERS_SHOWN = 20
TEXT_SHOWN = 8_000  # characters of a payload or result
MEMBER_COLUMNS = (ID, Column("name", shrinks=12), Column("state"), Column("queue", rank=1))


class JobDetails(NamedTuple):
    timeline: Timeline
    aliases: JobAliases
    explanation: Explanation
    result: Blob | None
    members: list[Member]
    has_more_members: bool
    logs: Logs
    cause: JobCause | None  # of a job that ended because of another job
    durable: DurableState | None  # its steps and signals, if it has any


def read(service: Service, job_id: bytes) -> JobDetails:
    timeline = service.job([job_id]).one().wait()
    aliases = service.aliases([timeline.job]).one().wait()
    explanation = service.explain(job_id).wait()
    ending = service.result(job_id).wait() if timeline.job.state.is_ended else None
    members, cursor = [], ""
    if timeline.job.has_members:
        page = service.list_members(job_id, most=MEMBERS_SHOWN).wait()
        members, cursor = page.members, page.cursor
    result = ending.result if ending else None
    logs, cause = service.logs(job_id).wait(), find_cause(service, timeline.job)
    durable = service.durable_states([job_id]).one().wait() if timeline.job.is_durable else None
    return JobDetails(timeline, aliases, explanation, result, members, bool(cursor), logs, cause, durable)


def as_record(details: JobDetails) -> dict[str, Any]:
    found: dict[str, Any] = to_record(details.timeline.job)
    found["aliases"] = msgspec.to_builtins(details.aliases)
    found |= blob_fields("result", details.result) if details.result else {"result": None}
    found["attempts"] = to_record(details.timeline.attempts)
    found["members"] = [_member_record(member) for member in details.members]
    found["has_more_members"] = details.has_more_members
    found["logs"] = msgspec.to_builtins(details.logs)
    found["cause"] = to_record(details.cause)
    found["durable"] = to_record(details.durable)
    return found | {"explanation": msgspec.to_builtins(details.explanation)}


def _member_record(member: Member) -> dict[str, Any]:
    job = member.job
    return {"id": job.key, "queue": job.queue, "name": job.name, "state": job.state.label}


def show(details: JobDetails, all_errors: bool) -> None:
    job, now_ms = details.timeline.job, details.explanation.at_ms
    print_title(job.key, job.state.label, job.name)
    print_text(details.explanation.summary)
    if details.cause is not None:
        print_text(describe_cause(job, details.cause))
    print_heading("About")
    print_fields((*_names(job, details.aliases), *_properties(job, now_ms)))
    print_heading("Timeline")
    print_fields(_timeline_fields(details.timeline, now_ms))
    if details.durable is not None:
        print_heading("Steps")
        step_page.show_steps(details.durable)
    _show_members(details)
    _show_blob("Payload", job.payload)
    if details.result is not None:
        _show_blob("Result", details.result)
    _show_errors(details.timeline.attempts, all_errors)
    _show_logs(details.logs)


def _names(job: Job, aliases: JobAliases) -> Iterator[tuple[str, object]]:
    yield "unique", job.unique
    yield "Bedrock job", "" if aliases.number is None else aliases.number
    yield "processor uuid", aliases.processor_uuid
    yield "download id", aliases.download_id


def _properties(job: Job, now_ms: int) -> Iterator[tuple[str, object]]:
    yield "queue", job.queue
    yield "flow", f"{format_id(job.flow.id)}  {job.flow.name}".rstrip() if job.flow else ""
    yield "step", job.flow.step if job.flow else ""
    yield "lane", job.lane
    yield "priority", job.priority
    yield "attempt", f"{job.attempt} of {job.retry.tries or 'unlimited'}"
    yield "progress", f"{job.progress:.0%}" if job.progress else ""
    yield "note", job.note
    yield "worker", format_id(job.worker) if job.worker else ""
    yield "tags", ", ".join(job.tags)
    yield "indexed", ", ".join(job.indexed)
    yield "retry", describe_backoff(job.retry)
    yield "timeout", _format_ttl(job.timeout_ms)
    yield "lease", _format_ttl(job.lease_ms)
    yield "result kept", _format_ttl(job.result_ttl_ms)
    yield "repeats", job.repeat
    yield "schedule", job.schedule
    yield "planned for", _format_instant(job.planned_at_ms, now_ms)
    yield "parent", format_id(job.parent) if job.parent else ""
    yield "on failure", job.on_failure if job.has_members else ""
    yield "callback", f"{job.callback.url} when {', '.join(job.callback.events)}" if job.callback else ""
    yield "trace", job.trace
    yield "revision", job.revision


def describe_backoff(retry: Backoff) -> str:
    if retry.tries == 1:
        return "never"
    tries = f"{retry.tries} tries" if retry.tries else "unlimited tries"
    growth = f", growing × {retry.factor:g} up to {format_duration(retry.cap_ms)}" if retry.factor != 1 else ""
    return f"{tries}; pauses of {format_duration(retry.base_ms)}{growth}"


def _format_ttl(span_ms: int) -> str:
    if span_ms == FOREVER_MS:
        return "forever"
    return format_duration(span_ms) if span_ms else ""


def _format_instant(at_ms: int | None, now_ms: int) -> str:
    return humanize.humanize_instant(at_ms, now_ms) if at_ms else ""


def _timeline_fields(timeline: Timeline, now_ms: int) -> Iterator[tuple[str, object]]:
    job = timeline.job
    yield "created", _format_instant(job.created_at_ms, now_ms)
    for attempt in timeline.attempts:
        yield f"attempt {attempt.attempt}", _format_attempt(attempt, now_ms)
    if job.run_at_ms > job.created_at_ms and (job.started_at_ms is None or job.run_at_ms > job.started_at_ms):
        yield "run at", _format_instant(job.run_at_ms, now_ms)
    yield "expires", "" if job.started_at_ms else _format_instant(job.expires_at_ms, now_ms)
    if job.started_at_ms and not any(attempt.started_at_ms == job.started_at_ms for attempt in timeline.attempts):
        yield "started", _format_instant(job.started_at_ms, now_ms)
    yield "lease until", _format_instant(job.lease_deadline_at_ms, now_ms)
    yield "ended", _format_instant(job.ended_at_ms, now_ms)


def _format_attempt(attempt: Attempt, now_ms: int) -> str:
    started = attempt.started_at_ms
    ran = f" after {format_brief(attempt.ended_at_ms - started)}" if started else ""
    at = _format_instant(started or attempt.ended_at_ms, now_ms)
    return f"{at}, ended{ran}: {error_line(attempt.reason, attempt.error)}"


def _show_members(details: JobDetails) -> None:
    if not details.members:
        return
    print_heading("Children and jobs it waits for")
    jobs = [member.job for member in details.members]
    rows = [(job.key, job.name, job.state.label, job.queue) for job in jobs]
    print_table(MEMBER_COLUMNS, rows, empty="")
    if details.has_more_members:
        print_note(f"Only the first {format_count(len(rows), 'job')} are shown.")


def _show_blob(title: str, blob: Blob) -> None:
    print_heading(f"{title} ({blob.codec.name.lower()})")
    text = blob_text(blob)
    print_block(text[:TEXT_SHOWN])
    if len(text) > TEXT_SHOWN:
        print_note(f"… and {format_count(len(text) - TEXT_SHOWN, 'more character')}; --json prints all of it.")


def _show_errors(attempts: list[Attempt], all_errors: bool) -> None:
    with_errors = [attempt for attempt in attempts if attempt.error is not None]
    for attempt in with_errors if all_errors else with_errors[-1:]:
        print_heading(f"Error of attempt {attempt.attempt} ({attempt.reason})")
        print_block(error_text(attempt.error or Blob(b"")))
    if len(with_errors) > 1 and not all_errors and is_for_people():
        print_note("--errors also shows the errors of earlier attempts.")


def _show_logs(logs: Logs) -> None:
    if not logs.lines:
        return
    print_heading("Log")
    before = f"… {format_count(logs.dropped, 'older line')} dropped\n" if logs.dropped else ""
    print_block(before + "\n".join(log_line(line) for line in logs.lines))


def log_line(line: KeptLine) -> str:
    return f"{clock_time(line.at_ms)}  attempt {line.attempt}  {line.level}  {line.text}"
