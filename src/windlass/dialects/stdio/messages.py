"""Interpretation of messages by their topic. No I/O; the time is an argument."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from windlass.core.errors import BadInput
from windlass.core.job import Blob, NewJob
from windlass.core.operations import WorkerInfo, WorkerReport, WorkerReportKind
from windlass.core.validation.bounds import QUEUE_MAX, QUEUES_PER_TAKE, RESULT_MAX, UNIQUE_MAX
from windlass.core.validation.values import check_text
from windlass.core.validation.workers import check_worker_report

from . import instants, jobs
from .envelope import Envelope, Identity, parse_envelope
from .failures import NO_FAILURE, parse_failure

WORKERS_REMEMBERED = 100_000
_SERVICE_UUID = re.compile(r"[^\s/+#\x00-\x1f]{1,128}")
_WORKER_TOPIC = re.compile(r"workers/\w{8}-\w{4}-\w{4}-\w{4}-\w{12}/(\w+)")


class ProcessorOptions(NamedTuple):
    """Options of the processor, set by the operator."""

    tick_ms: int = 3_000
    expiry_ms: int = 9_000  # a worker that is silent for longer is removed
    accept_ms: int = 9_000  # a dispatched job is requeued if it is not accepted in time
    attempts: int = 0  # 0: no limit
    keep_ms: int = 3_600_000  # how long finished jobs are kept


class AddJobMessage(NamedTuple):
    job: NewJob


class WorkerMessage(NamedTuple):
    report: WorkerReport
    warning: str = ""
    is_fresh: bool = True  # less than a tick old: only a fresh message of an idle worker triggers a dispatch

    @property
    def makes_idle(self) -> bool:
        return self.report.kind in _IDLE_AFTER


class DeleteJobMessage(NamedTuple):
    queue: str
    uuid: str


class TickMessage(NamedTuple):
    """Request to remove silent workers and to requeue jobs that were not accepted."""


ListKind: TypeAlias = Literal["queued", "workers", "progress", "dispatched"]


class ListMessage(NamedTuple):
    name: str  # of the request, for the topic of the answer
    kind: ListKind
    queue: str
    later_than_ms: float
    earlier_than_ms: float


class IgnoredMessage:
    """A message for another program."""


Message: TypeAlias = AddJobMessage | DeleteJobMessage | WorkerMessage | TickMessage | ListMessage | IgnoredMessage
NOT_ADDRESSED = IgnoredMessage()


def _decode_payload(payload: msgspec.Raw) -> dict[str, Any]:
    try:
        fields = msgspec.json.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"The payload cannot be read: {str(error).removesuffix('.')}.") from error
    if not isinstance(fields, dict):
        raise BadInput("The payload must be an object.")
    return fields


def _required_text(fields: dict[str, Any], name: str, most: int) -> str:
    if name not in fields:
        raise BadInput(f"The payload has no field {name}.")
    check_text(name, fields[name], most)
    return str(fields[name])


def _parse_progress(fields: dict[str, Any]) -> tuple[float, str]:
    """Return the progress, 0 by default, and a warning.

    A value out of range is clamped: the worker is alive, so its message counts."""
    status = fields.get("status")
    given: Any = fields.get("progress", status.get("progress", 0) if isinstance(status, dict) else 0)
    if type(given) not in (int, float):
        raise BadInput(f"progress must be a number from 0 to 1, not {str(given)[:40]!r}.")
    clamped = min(max(given, 0), 1)
    return float(
        clamped
    ), "" if clamped == given else f"Progress {str(given)[:40]} is not between 0 and 1; using {clamped}."


class MessageReader:
    """Parser of the lines of one processor."""

    def __init__(self, identity: Identity, options: ProcessorOptions) -> None:
        self._prefix = f"{identity.listener}/"
        self._options = options
        self._queues: dict[str, tuple[str, ...]] = {}  # by worker, from its messages

    def read(self, line: bytes, now_ms: int) -> Message:
        """Parse a line. Raise a Refusal if it is not valid."""
        envelope = parse_envelope(line)
        topic = envelope.topic.removeprefix(self._prefix)
        if topic == envelope.topic and not _has_no_namespace(topic):
            return NOT_ADDRESSED
        if topic == "tick":
            return TickMessage()
        word = topic.removeprefix("job_queue/")
        match = _WORKER_TOPIC.fullmatch(word) if topic != word else None
        if match:
            return self._read_report(match[1], envelope, now_ms)
        if topic != word and word in _REPORT_TOPICS:
            return self._read_report(word, envelope, now_ms)
        if topic != word and word == "add_job":
            return self._read_new_job(envelope)
        if word == "del_job":
            return _delete_message(envelope)
        if word in _LIST_TOPICS:
            return _list_message(word, envelope)
        return NOT_ADDRESSED

    def _read_new_job(self, envelope: Envelope) -> AddJobMessage:
        fields = _decode_payload(envelope.payload)
        _required_text(fields, "uuid", UNIQUE_MAX)
        _required_text(fields, "queue_name", QUEUE_MAX)
        options = self._options
        return AddJobMessage(
            jobs.new_job(bytes(envelope.payload), fields, keep_ms=options.keep_ms, attempts=options.attempts)
        )

    def _read_report(self, word: str, envelope: Envelope, now_ms: int) -> Message:
        kind = _REPORT_TOPICS.get(word)
        if kind is None:
            return NOT_ADDRESSED
        if not _SERVICE_UUID.fullmatch(envelope.service_uuid):
            raise BadInput("A message of a worker needs its service_uuid: letters, digits and dashes.")
        fields = _decode_payload(envelope.payload)
        queue = _required_text(fields, "queue_name", QUEUE_MAX)
        age_ms = max(0, now_ms - instants.parse_instant(envelope.created_at)) if envelope.created_at else 0
        idle_ms = max(0, self._options.expiry_ms - age_ms) if kind in _IDLE_AFTER else 0
        uuid = "" if kind == "idle" else _required_text(fields, "uuid", UNIQUE_MAX)
        progress, warning = _parse_progress(fields) if kind == "progress" else (0.0, "")
        result, failure = None, NO_FAILURE
        if kind == "finished":
            result, warning = _result(bytes(envelope.payload))
        elif kind == "failed":
            failure = parse_failure(envelope.payload, fields)
            warning = failure.warning
        elif kind == "idle":
            warning = self._age_warning(envelope.service_uuid, age_ms)
        report = WorkerReport(
            queue=queue,
            worker=jobs.worker_id(envelope.service_uuid),
            info=self._worker_info(envelope, queue),
            kind=kind,
            unique=uuid,
            id=jobs.engine_id(uuid),
            age_ms=age_ms,
            idle_ms=idle_ms,
            progress=progress,
            result=result,
            error=failure.error,
            then=failure.then,
        )
        check_worker_report(report)
        return WorkerMessage(report, warning, is_fresh=age_ms < self._options.tick_ms)

    def _age_warning(self, worker: str, age_ms: int) -> str:
        if age_ms >= self._options.expiry_ms:
            return f"The idle message of worker {worker} is {age_ms} ms old: too old to give it a job."
        if age_ms >= self._options.tick_ms:
            return (
                f"The idle message of worker {worker} is {age_ms} ms old, more than a tick. The worker gets a job with "
                "the next message that triggers a dispatch. Check its clock, and whether messages are delayed."
            )
        return ""

    def _worker_info(self, envelope: Envelope, queue: str) -> WorkerInfo:
        name = envelope.service_uuid
        queues = self._queues.get(name, ())
        if queue not in queues:
            if len(self._queues) >= WORKERS_REMEMBERED:
                self._queues.clear()
            queues = tuple(sorted((*queues, queue)))[-QUEUES_PER_TAKE:]
            self._queues[name] = queues
        return WorkerInfo(name=name, host=envelope.service_host, queues=queues, slots=1)


def _has_no_namespace(topic: str) -> bool:
    """Whether the client left out the namespace, as some do."""
    return topic == "tick" or topic.startswith("job_queue/")


def _result(payload: bytes) -> tuple[Blob | None, str]:
    if len(payload) > RESULT_MAX:
        return None, f"The message on the end of a job has more than {RESULT_MAX} bytes; its content is not kept."
    return Blob(payload), ""


# `job_queue/<word>` and `job_queue/workers/<uuid>/<word>` have the same meaning.
_REPORT_TOPICS: dict[str, WorkerReportKind] = {
    "worker_idle": "idle",
    "request_job": "idle",
    "lease_job": "idle",
    "job_accepted": "accepted",
    "worker_progress": "progress",
    "worker_busy": "progress",
    "job_finished": "finished",
    "complete_job": "finished",
    "job_failed": "failed",
}
_IDLE_AFTER = ("idle", "finished", "failed")
_LIST_TOPICS: dict[str, ListKind] = {
    "list_queue_jobs": "queued",
    "list_job_queue": "queued",
    "list_queue_workers": "workers",
    "list_worker_queue": "workers",
    "list_queue_progress": "progress",
    "list_progress_queue": "progress",
    "list_queue_dispatched": "dispatched",
    "list_leased_queue": "dispatched",
}


def _delete_message(envelope: Envelope) -> DeleteJobMessage:
    fields = _decode_payload(envelope.payload)
    uuid = _required_text(fields, "uuid", UNIQUE_MAX)
    return DeleteJobMessage(_required_text(fields, "queue_name", QUEUE_MAX), uuid)


def _list_message(word: str, envelope: Envelope) -> ListMessage:
    fields = _decode_payload(envelope.payload)
    queue = _required_text(fields, "queue_name", QUEUE_MAX)
    later_than_ms = _parse_bound(fields.get("later_than", "-inf"))
    earlier_than_ms = _parse_bound(fields.get("earlier_than", "+inf"))
    return ListMessage(word, _LIST_TOPICS[word], queue, later_than_ms, earlier_than_ms)


def _parse_bound(given: Any) -> float:
    if given in ("-inf", "+inf", "inf"):
        return float(given)
    if not isinstance(given, str):
        raise BadInput("later_than and earlier_than must be instants, -inf or +inf.")
    return instants.parse_instant(given)
