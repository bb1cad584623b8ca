"""Checks of what a line of an export says, beyond its types: nothing may come in that could not have been enqueued, or
that contradicts itself."""

from __future__ import annotations

from windlass.core.errors import BadInput, TooLarge
from windlass.core.export.lines import AttemptEntry, JobEntry, JobLine, QueueLine, ScheduleLine, WrittenBlob, read_blob
from windlass.core.ids import parse_id
from windlass.core.job import NewJob
from windlass.core.log import BYTES_KEPT

from . import callbacks, logs
from . import jobs as check
from . import limits as limit_check
from . import queues as queue_check

ENDED = ("finished", "failed", "cancelled")


def queue(line: QueueLine) -> None:
    check.new_name("queue", line.name, check.QUEUE_MAX)
    queue_check.configuration(line.configuration)
    limit_check.weights(line.name, line.weights)
    for pause in line.pauses:
        limit_check.pausing(line.name, pause.lane, pause.name)
        check.text("reason", pause.reason, limit_check.PAUSE_REASON_MAX, may_be_empty=True)
        if pause.name and not line.configuration.get("name_lanes"):
            raise BadInput("A name can be paused only in a queue with name_lanes.")


def schedule(line: ScheduleLine) -> None:
    for written in line.jobs:
        parse_id(written)


def job(line: JobLine, new: NewJob, payload_max: int) -> None:
    entry(line.job, new, payload_max)
    is_ended = line.job.state in ENDED
    if line.removed_at_ms and not is_ended:
        raise BadInput("removed_at_ms goes with a job that has ended.")
    if line.result is not None:
        _blob("result", line.result, check.RESULT_MAX)
        if not is_ended:
            raise BadInput("A result goes with a job that has ended.")
    for one in line.attempts:
        attempt(one)
    _logs(line)
    if len(line.after) > check.AFTER_MAX:
        raise TooLarge(f"A job may wait for {check.AFTER_MAX} jobs, not {len(line.after)}.")
    if line.after and not line.job.has_members:
        raise BadInput("after goes with has_members.")


def entry(one: JobEntry, new: NewJob, payload_max: int) -> None:
    check.new_job(new, payload_max)
    if new.callback is not None:
        callbacks.callback(new.callback)
    check.text("schedule", one.schedule, 255, may_be_empty=True)
    _standing(one)


def _standing(one: JobEntry) -> None:
    check.opaque("note", one.note, check.NOTE_MAX)
    is_ended = one.state in ENDED
    if is_ended != (one.ended_at_ms > 0):
        raise BadInput("ended_at_ms goes with a job that has ended, and only with that.")
    if one.is_history and not is_ended:
        raise BadInput("is_history goes with a job that has ended.")
    if one.is_held and one.state != "waiting":
        raise BadInput("is_held goes with a job that waits.")
    if one.joins and one.state not in ("waiting", *ENDED):
        raise BadInput("A group (joins) waits or has ended.")
    if one.state == "waiting" and not (one.is_held or one.joins or one.has_members):
        raise BadInput("A job that waits is held, joins others, or has members.")
    if bool(one.parent) != bool(one.parent_queue):
        raise BadInput("parent and parent_queue go together.")


def _logs(line: JobLine) -> None:
    for one in line.logs:
        logs.line(one.at_ms, one.level, one.text)
    size = sum(len(one.text.encode()) for one in line.logs)
    if size > BYTES_KEPT:
        raise TooLarge(f"The log lines of a job have {size} bytes; at most {BYTES_KEPT} are kept.")
    if line.logs_dropped and not line.logs:
        raise BadInput("logs_dropped goes with logs.")


def attempt(one: AttemptEntry) -> None:
    check.text("reason", one.reason, 255, may_be_empty=True)
    if one.worker:
        parse_id(one.worker)
    if one.error is not None:
        _blob("error", one.error, check.ERROR_MAX)


def _blob(what: str, written: WrittenBlob, most_bytes: int) -> None:
    check.blob(what, read_blob(written), most_bytes)
