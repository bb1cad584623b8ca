"""Checks of what a line of an export says, beyond its types: nothing may come in that could not have been enqueued, or
that contradicts itself."""

from __future__ import annotations

from windlass.core.errors import BadInput, TooLarge
from windlass.core.export.lines import (
    AttemptEntry,
    EncodedBlob,
    JobEntry,
    JobLine,
    QueueLine,
    ScheduleLine,
    decode_blob,
)
from windlass.core.ids import parse_id
from windlass.core.job import NewJob
from windlass.core.log import BYTES_KEPT

from .bounds import AFTER_MAX, ERROR_MAX, NOTE_MAX, QUEUE_MAX, RESULT_MAX
from .callbacks import check_callback
from .jobs import check_new_job
from .limits import PAUSE_REASON_MAX, check_pause, check_weights
from .logs import check_log_line
from .queues import check_configuration
from .values import check_blob, check_free_text, check_new_name, check_text

ENDED = ("finished", "failed", "cancelled")


def check_queue_line(line: QueueLine) -> None:
    check_new_name("queue", line.name, QUEUE_MAX)
    check_configuration(line.configuration)
    check_weights(line.name, line.weights)
    for pause in line.pauses:
        check_pause(line.name, pause.lane, pause.name)
        check_text("reason", pause.reason, PAUSE_REASON_MAX, may_be_empty=True)
        if pause.name and not line.configuration.get("name_lanes"):
            raise BadInput("A name can be paused only in a queue with name_lanes.")


def check_schedule_line(line: ScheduleLine) -> None:
    for written in line.jobs:
        parse_id(written)


def check_job_line(line: JobLine, new: NewJob, payload_max: int) -> None:
    check_job_entry(line.job, new, payload_max)
    is_ended = line.job.state in ENDED
    if line.removed_at_ms and not is_ended:
        raise BadInput("removed_at_ms goes with a job that has ended.")
    if line.result is not None:
        _blob("result", line.result, RESULT_MAX)
        if not is_ended:
            raise BadInput("A result goes with a job that has ended.")
    for one in line.attempts:
        check_attempt_entry(one)
    _logs(line)
    if len(line.after) > AFTER_MAX:
        raise TooLarge(f"A job may wait for {AFTER_MAX} jobs, not {len(line.after)}.")
    if line.after and not line.job.has_members:
        raise BadInput("after goes with has_members.")


def check_job_entry(one: JobEntry, new: NewJob, payload_max: int) -> None:
    check_new_job(new, payload_max)
    if new.callback is not None:
        check_callback(new.callback)
    check_text("schedule", one.schedule, 255, may_be_empty=True)
    _standing(one)


def _standing(one: JobEntry) -> None:
    check_free_text("note", one.note, NOTE_MAX)
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
        check_log_line(one.at_ms, one.level, one.text)
    size = sum(len(one.text.encode()) for one in line.logs)
    if size > BYTES_KEPT:
        raise TooLarge(f"The log lines of a job have {size} bytes; at most {BYTES_KEPT} are kept.")
    if line.logs_dropped and not line.logs:
        raise BadInput("logs_dropped goes with logs.")


def check_attempt_entry(one: AttemptEntry) -> None:
    check_text("reason", one.reason, 255, may_be_empty=True)
    if one.worker:
        parse_id(one.worker)
    if one.error is not None:
        _blob("error", one.error, ERROR_MAX)


def _blob(what: str, written: EncodedBlob, most_bytes: int) -> None:
    check_blob(what, decode_blob(written), most_bytes)
