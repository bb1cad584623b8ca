"""Checks of export lines beyond their types: an entry must be valid for an enqueue and consistent in itself."""

from __future__ import annotations

from msgspec.structs import replace

from windlass.core.alerts.message import decode_message
from windlass.core.alerts.targets import MAIL, SLACK, WEBHOOK, parse_target
from windlass.core.durable import SIGNAL_VALUE_MAX, STEP_VALUE_MAX, STREAM_VALUE_MAX
from windlass.core.errors import BadInput, TooLarge
from windlass.core.export.blobs import EncodedBlob, decode_blob
from windlass.core.export.lines import (
    AttemptEntry,
    DurableEntry,
    FlowLine,
    FlowStepEntry,
    JobEntry,
    JobLine,
    QueueLine,
    ScheduleLine,
    TombstoneLine,
)
from windlass.core.ids import parse_id
from windlass.core.job import NewJob
from windlass.core.log import BYTES_KEPT

from .bounds import (
    AFTER_MAX,
    ERROR_MAX,
    FLOW_AFTER_MAX,
    FLOW_NAME_MAX,
    NAME_MAX,
    NOTE_MAX,
    QUEUE_MAX,
    RESULT_MAX,
)
from .callbacks import check_callback
from .durable import check_signal_name, check_step_name
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
    for job_id in line.jobs:
        parse_id(job_id)


def check_tombstone_line(line: TombstoneLine) -> None:
    parse_id(line.id)
    check_new_name("queue", line.queue, QUEUE_MAX)


def check_flow_line(line: FlowLine) -> None:
    parse_id(line.id)
    check_new_name("the name of a flow", line.name, FLOW_NAME_MAX, may_be_empty=True)
    for step in line.steps:
        _check_flow_step(step)
    dependencies = sum(len(step.after) for step in line.steps)
    if dependencies > FLOW_AFTER_MAX:
        raise TooLarge(f"A flow may have {FLOW_AFTER_MAX} dependencies, not {dependencies}.")


def _check_flow_step(step: FlowStepEntry) -> None:
    for job_id in (step.id, *step.after):
        parse_id(job_id)
    check_new_name("queue", step.queue, QUEUE_MAX)
    check_new_name("name", step.name, NAME_MAX)
    check_new_name("the name of a step", step.step, FLOW_NAME_MAX, may_be_empty=True)
    if bool(step.state) != (step.ended_at_ms > 0):
        raise BadInput("ended_at_ms is required for a step that has ended, and only for such a step.")


def check_job_line(line: JobLine, new: NewJob, payload_max: int) -> None:
    check_job_entry(line.job, new, payload_max)
    is_ended = line.job.state in ENDED
    if line.removed_at_ms and not is_ended:
        raise BadInput("removed_at_ms is only for a job that has ended.")
    if line.result is not None:
        _check_encoded_blob("result", line.result, RESULT_MAX)
        if not is_ended:
            raise BadInput("A result is only for a job that has ended.")
    for attempt in line.attempts:
        check_attempt_entry(attempt)
    _check_logs(line)
    if line.durable is not None:
        _check_durable(line.durable)
    if len(line.after) > AFTER_MAX:
        raise TooLarge(f"A job may wait for {AFTER_MAX} jobs, not {len(line.after)}.")
    if line.after and not line.job.has_members:
        raise BadInput("after needs has_members.")
    if is_ended and line.job.has_members and (not line.after or line.job.state == "finished"):
        raise BadInput("has_members of a job that has ended is only for a failed or cancelled job with after.")


def check_message(entry: JobEntry, new: NewJob, payload_max: int) -> None:
    """Check a message about an alert, which only alerts can have as a callback."""
    check_job_entry(entry, replace(new, callback=None), payload_max)
    callback = new.callback
    prefix = {WEBHOOK: "", SLACK: "slack:", MAIL: "mailto:"}
    if callback is None or callback.type not in prefix or callback.url or callback.headers or callback.data is not None:
        raise BadInput("a message about an alert has a type and a destination only.")
    parse_target(prefix[callback.type] + callback.destination)
    decode_message(new.payload.data)


def check_job_entry(entry: JobEntry, new: NewJob, payload_max: int) -> None:
    check_new_job(new, payload_max)
    if new.callback is not None:
        check_callback(new.callback)
    check_text("schedule", entry.schedule, 255, may_be_empty=True)
    _check_state(entry)


def _check_durable(entry: DurableEntry) -> None:
    for step in entry.steps:
        check_step_name("name", step.name)
        if step.value is not None:
            _check_encoded_blob("value", step.value, STEP_VALUE_MAX)
    for signal in entry.signals:
        check_signal_name(signal.name)
        _check_encoded_blob("value", signal.value, SIGNAL_VALUE_MAX)
    for value in (item.value for item in entry.stream if item.value is not None):
        _check_encoded_blob("value", value, STREAM_VALUE_MAX)
    if len({step.name for step in entry.steps}) < len(entry.steps):
        raise BadInput("Two steps of a job have the same name.")


def _check_state(entry: JobEntry) -> None:
    check_free_text("note", entry.note, NOTE_MAX)
    is_ended = entry.state in ENDED
    if is_ended != (entry.ended_at_ms > 0):
        raise BadInput("ended_at_ms is required for a job that has ended, and only for such a job.")
    if entry.is_history and not is_ended:
        raise BadInput("is_history is only for a job that has ended.")
    if entry.is_held and entry.state != "waiting":
        raise BadInput("is_held is only for a waiting job.")
    if entry.joins and entry.state not in ("waiting", *ENDED):
        raise BadInput("A group (joins) must be waiting or have ended.")
    if entry.state == "waiting" and not (entry.is_held or entry.joins or entry.has_members):
        raise BadInput("A waiting job must be held, be a group (joins) or have members.")
    if entry.is_consequence and not (is_ended and entry.has_members):
        raise BadInput("is_consequence is only for a job that has ended and has members.")
    if bool(entry.parent) != bool(entry.parent_queue):
        raise BadInput("Give parent and parent_queue together.")


def _check_logs(line: JobLine) -> None:
    for entry in line.logs:
        check_log_line(entry.at_ms, entry.level, entry.text)
    size = sum(len(entry.text.encode()) for entry in line.logs)
    if size > BYTES_KEPT:
        raise TooLarge(f"The log lines of a job have {size} bytes; at most {BYTES_KEPT} are kept.")
    if line.logs_dropped and not line.logs:
        raise BadInput("logs_dropped needs logs.")


def check_attempt_entry(entry: AttemptEntry) -> None:
    check_text("reason", entry.reason, 255, may_be_empty=True)
    if entry.worker:
        parse_id(entry.worker)
    if entry.error is not None:
        _check_encoded_blob("error", entry.error, ERROR_MAX)


def _check_encoded_blob(what: str, encoded: EncodedBlob, most_bytes: int) -> None:
    check_blob(what, decode_blob(encoded), most_bytes)
