"""An envelope → what it asks for. No I/O, and no clock but the one that is given."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from windlass.core.errors import BadInput
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Said, Saying, WorkerInfo
from windlass.core.validation import jobs as check
from windlass.core.validation import worker_reports

from . import instants, jobs
from .envelope import Envelope, Identity, opened

WORKERS_KNOWN = 100_000
_SERVICE_UUID = re.compile(r"[^\s/+#\x00-\x1f]{1,128}")
_OF_A_WORKER = re.compile(r"workers/\w{8}-\w{4}-\w{4}-\w{4}-\w{12}/(\w+)")


class Terms(NamedTuple):
    """What the operator has chosen."""

    tick_ms: int = 3_000
    expiry_ms: int = 9_000  # a worker that is silent for so long is gone
    accept_ms: int = 9_000  # a dispatched job goes back unless it is accepted by then
    attempts: int = 0  # 0: any number
    keep_ms: int = 3_600_000  # finished jobs


class Add(NamedTuple):
    job: NewJob


class Speak(NamedTuple):
    said: Said
    warning: str = ""
    is_fresh: bool = True  # less than a tick old: when it makes its sender idle, it triggers a dispatch

    @property
    def makes_idle(self) -> bool:
        return self.said.says in ("idle", "finished")


class Tick(NamedTuple):
    """Time to look after silent workers and dispatches that nobody accepted."""


Shown: TypeAlias = Literal["queued", "workers", "progress", "dispatched"]


class Show(NamedTuple):
    name: str  # as it was asked
    what: Shown
    queue: str
    later_than_ms: float
    earlier_than_ms: float


class Nothing(NamedTuple):
    """Nobody here is meant, or nothing follows from it."""

    why: str = ""


Message: TypeAlias = Add | Speak | Tick | Show | Nothing
NOT_MEANT = Nothing()


def _fields(payload: msgspec.Raw) -> dict[str, Any]:
    try:
        fields = msgspec.json.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"The payload cannot be read: {str(error).removesuffix('.')}.") from error
    if not isinstance(fields, dict):
        raise BadInput("The payload must be an object.")
    return fields


def _text(fields: dict[str, Any], name: str, most: int) -> str:
    if name not in fields:
        raise BadInput(f"The payload has no field {name}.")
    check.text(name, fields[name], most)
    return str(fields[name])


def _progress(fields: dict[str, Any]) -> tuple[float, str]:
    """Where it is missing nothing is done yet. A worker that counts wrongly is alive all the same."""
    status = fields.get("status")
    given: Any = fields.get("progress", status.get("progress", 0) if isinstance(status, dict) else 0)
    if type(given) not in (int, float):
        raise BadInput(f"progress must be a number from 0 to 1, not {str(given)[:40]!r}.")
    clamped = min(max(given, 0), 1)
    return float(clamped), "" if clamped == given else f"A progress of {str(given)[:40]} was taken as {clamped}."


class Reader:
    """Knows how a line is meant for one processor."""

    def __init__(self, identity: Identity, terms: Terms) -> None:
        self._prefix = f"{identity.listener}/"
        self._terms = terms
        self._queues: dict[str, tuple[str, ...]] = {}  # worker -> those that it has named

    def read(self, line: bytes, now_ms: int) -> Message:
        """A refusal says what is wrong with it."""
        envelope = opened(line)
        topic = envelope.topic.removeprefix(self._prefix)
        if topic == envelope.topic and not _has_no_namespace(topic):
            return NOT_MEANT
        if topic == "tick":
            return Tick()
        word = topic.removeprefix("job_queue/")
        found = _OF_A_WORKER.fullmatch(word) if topic != word else None
        if found:
            return self._spoken(found[1], envelope, now_ms)
        if topic != word and word in _SAYINGS:
            return self._spoken(word, envelope, now_ms)
        if topic != word and word == "add_job":
            return self._added(envelope)
        if word in _SHOWN:
            return _show(word, envelope)
        return Nothing("del_job does nothing; `windlass jobs cancel` does.") if word == "del_job" else NOT_MEANT

    def _added(self, envelope: Envelope) -> Add:
        fields = _fields(envelope.payload)
        _text(fields, "uuid", check.UNIQUE_MAX)
        _text(fields, "queue_name", check.QUEUE_MAX)
        terms = self._terms
        return Add(jobs.new_job(bytes(envelope.payload), fields, keep_ms=terms.keep_ms, attempts=terms.attempts))

    def _spoken(self, word: str, envelope: Envelope, now_ms: int) -> Message:
        says = _SAYINGS.get(word)
        if says is None:
            return NOT_MEANT
        if not _SERVICE_UUID.fullmatch(envelope.service_uuid):
            raise BadInput("A worker's message needs its service_uuid: letters, digits and dashes.")
        fields = _fields(envelope.payload)
        queue = _text(fields, "queue_name", check.QUEUE_MAX)
        age_ms = max(0, now_ms - instants.read(envelope.created_at)) if envelope.created_at else 0
        idle_ms = max(0, self._terms.expiry_ms - age_ms) if says in ("idle", "finished") else 0
        uuid = "" if says == "idle" else _text(fields, "uuid", check.UNIQUE_MAX)
        progress, warning = _progress(fields) if says == "progress" else (0.0, "")
        result = None
        if says == "finished":
            result, warning = _result(bytes(envelope.payload))
        elif says == "idle":
            warning = self._warn_of_age(envelope.service_uuid, age_ms)
        said = Said(
            queue=queue,
            worker=jobs.worker_id(envelope.service_uuid),
            info=self._described(envelope, queue),
            says=says,
            unique=uuid,
            id=jobs.id_of(uuid),
            age_ms=age_ms,
            idle_ms=idle_ms,
            progress=progress,
            result=result,
        )
        worker_reports.said(said)
        return Speak(said, warning, is_fresh=age_ms < self._terms.tick_ms)

    def _warn_of_age(self, worker: str, age_ms: int) -> str:
        if age_ms >= self._terms.expiry_ms:
            return f"Worker {worker} said {age_ms} ms ago that it is idle: too old to give it a job."
        if age_ms >= self._terms.tick_ms:
            return (
                f"Worker {worker} said {age_ms} ms ago that it is idle, which is more than a tick: it gets a job with "
                "the next message that triggers a dispatch. Check its clock, and whether messages are held up."
            )
        return ""

    def _described(self, envelope: Envelope, queue: str) -> WorkerInfo:
        name = envelope.service_uuid
        queues = self._queues.get(name, ())
        if queue not in queues:
            if len(self._queues) >= WORKERS_KNOWN:
                self._queues.clear()
            queues = tuple(sorted((*queues, queue)))[-check.QUEUES_PER_TAKE :]
            self._queues[name] = queues
        return WorkerInfo(name=name, host=envelope.service_host, queues=queues, slots=1)


def _has_no_namespace(topic: str) -> bool:
    """Some clients leave the namespace out."""
    return topic == "tick" or topic.startswith("job_queue/")


def _result(payload: bytes) -> tuple[Blob | None, str]:
    if len(payload) > check.RESULT_MAX:
        return None, f"What was said with the end of a job has more than {check.RESULT_MAX} bytes; it is not kept."
    return Blob(payload), ""


# Both forms of a topic, `job_queue/<word>` and `job_queue/workers/<uuid>/<word>`, mean the same.
_SAYINGS: dict[str, Saying] = {
    "worker_idle": "idle",
    "request_job": "idle",
    "lease_job": "idle",
    "job_accepted": "accepted",
    "worker_progress": "progress",
    "worker_busy": "progress",
    "job_finished": "finished",
    "complete_job": "finished",
}
_SHOWN: dict[str, Shown] = {
    "list_queue_jobs": "queued",
    "list_job_queue": "queued",
    "list_queue_workers": "workers",
    "list_worker_queue": "workers",
    "list_queue_progress": "progress",
    "list_progress_queue": "progress",
    "list_queue_dispatched": "dispatched",
    "list_leased_queue": "dispatched",
}


def _show(word: str, envelope: Envelope) -> Show:
    fields = _fields(envelope.payload)
    queue = _text(fields, "queue_name", check.QUEUE_MAX)
    edge: Callable[[str, str], float] = lambda name, usual: _edge(fields.get(name, usual))  # noqa: E731
    return Show(word, _SHOWN[word], queue, edge("later_than", "-inf"), edge("earlier_than", "+inf"))


def _edge(given: Any) -> float:
    if given in ("-inf", "+inf", "inf"):
        return float(given)
    if not isinstance(given, str):
        raise BadInput("later_than and earlier_than are instants, -inf or +inf.")
    return instants.read(given)
