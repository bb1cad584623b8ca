"""Options of tasks and calls, converted once into fields of jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict

from windlass.core import retry as core
from windlass.core.errors import BadInput
from windlass.core.job import Callback, Durability, NewJob, OnFailure
from windlass.core.job_template import JobTemplate
from windlass.core.validation.bounds import DURATION_MAX
from windlass.core.validation.queues import check_index
from windlass.sdk.durations import Duration, duration_ms, instant_ms

from .limits import Limit, Rate

Pool: TypeAlias = Literal["async", "thread", "process"]
Expires: TypeAlias = Duration | datetime
Unique: TypeAlias = bool | str | Callable[..., str]
Tenant: TypeAlias = str | Callable[..., str]
Tags: TypeAlias = Sequence[str] | Mapping[str, str]
Errors: TypeAlias = type[BaseException] | Sequence[type[BaseException]]

DEFAULT_QUEUE = "default"
DEFAULT_TIMEOUT_MS = 15 * 60_000
DEFAULT_KEPT_MS = 60 * 60_000
DEFAULT_RETRY = core.Backoff()
# A call without a timeout or with endless tries, of a task that has them. Its job must differ from a job whose creator
# gave no policy, to which a worker applies the task's (Task.complete_policy).
NO_TIMEOUT_MS = DURATION_MAX
ENDLESS_BY_CHOICE = core.Backoff(tries=0, cap_ms=core.ENDLESS.cap_ms + 1)


def Backoff(  # noqa: N802 (named after the class that it makes)
    tries: int = 3,
    base: Duration = "1s",
    factor: float = 2.0,
    cap: Duration = "10m",
    jitter: float = 0.1,
) -> core.Backoff:
    """Make a retry policy: a number of attempts with growing pauses. `tries=0` never gives up."""
    return core.Backoff(tries, duration_ms("base", base), float(factor), duration_ms("cap", cap), float(jitter))


class CallOptions(TypedDict, total=False):
    """Options of a task, which `using` can change for a call."""

    queue: str
    priority: int  # smaller first
    delay: Duration
    run_at: datetime
    expires: Expires  # a job that has not started by then fails with reason `expired`
    retry: core.Backoff | int  # an int is the number of tries
    timeout: Duration | None  # execution time of an attempt
    keep_result: Duration | None
    unique: Unique  # True: by all arguments; else a string, or a function of the arguments
    replace: bool  # with unique: a waiting job gets this call's arguments
    debounce: Duration
    debounce_max: Duration
    throttle: Duration
    tenant: Tenant  # tenants share the queue fairly
    tags: Tags
    index: Sequence[str]  # payload fields that find the job, as "order_id" or "customer.email"
    lease: Duration
    repeat: str
    durability: Durability
    callback: Callback | str
    on_failure: OnFailure  # for a job that spawns: effect of a failed or cancelled child
    trace: str  # W3C traceparent


class TaskOptions(CallOptions, total=False):
    """Options of a task only."""

    name: str
    limits: Sequence[Limit | Rate]
    pool: Pool
    memory: str | int  # limit of a process job: "512MiB"
    max_crashes: int
    deadline: Duration | None  # time for the whole job from its creation, with its waits; then it fails
    grace: Duration  # time between the request to stop and the forced stop
    version: int  # of the arguments; see Task.migrate
    retry_on: Errors  # retry only these
    give_up_on: Errors  # never retry these


def error_classes(option: str, value: Errors) -> tuple[type[BaseException], ...]:
    classes = (value,) if isinstance(value, type) else tuple(value)
    for kind in classes:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise BadInput(f"{option} must be exception classes, such as (OSError, ValueError); not {kind!r}.")
    return classes


class JobOptions(NamedTuple):
    """Fields that all jobs of a call share, and the options that are computed from its arguments."""

    fields: dict[str, Any]  # of core.job.NewJob
    unique: Unique
    tenant: Tenant
    durability: Durability | None
    keeps_result: bool
    templates: dict[str, JobTemplate]  # by task

    def template(self, task: str) -> JobTemplate:
        """Return the common part of this task's jobs. Their unique key and lane must not depend on their arguments."""
        found = self.templates.get(task)
        if found is None:
            found = self.templates[task] = JobTemplate(NewJob(name=task, **self.fields))
        return found

    @property
    def queue(self) -> str:
        return str(self.fields["queue"])


def make_job_options(options: Mapping[str, Any], start: JobOptions | None = None) -> JobOptions:
    """Convert options to job options, on top of those in `start`."""
    for name in options:
        if name not in _READERS and name not in ("unique", "tenant", "durability"):
            raise BadInput(
                f"{name!r} is not an option; the options are {', '.join(sorted(CallOptions.__annotations__))}."
            )
    fields = dict(start.fields) if start else {"queue": DEFAULT_QUEUE, "retry": DEFAULT_RETRY}
    for name, value in options.items():
        if name in _READERS:
            fields.update(_READERS[name](value))
    if start is not None:
        _mark_choices(fields, start.fields)
    unique = options.get("unique", start.unique if start else False)
    if not unique and any(fields.get(name) for name in ("debounce_ms", "throttle_ms")):
        unique = True
    tenant = options.get("tenant", start.tenant if start else "")
    durability = options.get("durability", start.durability if start else None)
    return JobOptions(fields, unique, tenant, durability, bool(fields.get("result_ttl_ms")), {})


def _mark_choices(fields: dict[str, Any], start: Mapping[str, Any]) -> None:
    """Mark that a call chose no timeout, or endless tries, although its task has them."""
    if start.get("timeout_ms") and not fields["timeout_ms"]:
        fields["timeout_ms"] = NO_TIMEOUT_MS
    if start["retry"] != core.ENDLESS and fields["retry"] == core.ENDLESS:
        fields["retry"] = ENDLESS_BY_CHOICE


def _duration(option: str, field: str = "") -> Callable[[Any], dict[str, Any]]:
    def read(value: Any) -> dict[str, Any]:
        return {field or f"{option}_ms": 0 if value is None else duration_ms(option, value)}

    return read


def _unchanged(option: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {option: value}


def _delay(value: Any) -> dict[str, Any]:
    return {"delay_ms": duration_ms("delay", value), "run_at_ms": 0}


def _run_at(value: Any) -> dict[str, Any]:
    return {"run_at_ms": instant_ms("run_at", value), "delay_ms": 0}


def _expires(value: Any) -> dict[str, Any]:
    if isinstance(value, datetime):
        return {"expires_at_ms": instant_ms("expires", value), "expires_in_ms": 0}
    return {"expires_in_ms": duration_ms("expires", value), "expires_at_ms": 0}


def _retry(value: Any) -> dict[str, Any]:
    if type(value) is int:
        return {"retry": core.Backoff(tries=value)}
    if not isinstance(value, core.Backoff):
        raise BadInput(f"retry must be a number of tries or a Backoff(…), not {value!r}.")
    return {"retry": value}


def _tags(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        raise BadInput("tags must be a sequence of strings or a mapping, not a single string.")
    if isinstance(value, Mapping):
        return {"tags": tuple(f"{key}={text}" for key, text in value.items())}
    return {"tags": tuple(value)}


def _index(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        raise BadInput(f"index must be a sequence of payload fields, as ({value!r},), not a single string.")
    paths = tuple(value)
    check_index(paths)
    return {"index": paths}


def _on_failure(value: Any) -> dict[str, Any]:
    if value not in ("collect", "fail", "ignore"):
        raise BadInput(f"on_failure must be collect, fail or ignore, not {value!r}.")
    return {"on_failure": value}


def _callback(value: Any) -> dict[str, Any]:
    return {"callback": Callback(url=value) if isinstance(value, str) else value}


_READERS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "queue": _unchanged("queue"),
    "priority": _unchanged("priority"),
    "repeat": _unchanged("repeat"),
    "trace": _unchanged("trace"),
    "delay": _delay,
    "run_at": _run_at,
    "expires": _expires,
    "retry": _retry,
    "timeout": _duration("timeout"),
    "keep_result": _duration("keep_result", "result_ttl_ms"),
    "replace": lambda value: {"unique_check": "replace" if value else "keep"},
    "debounce": _duration("debounce"),
    "debounce_max": _duration("debounce_max"),
    "throttle": _duration("throttle"),
    "tags": _tags,
    "index": _index,
    "lease": _duration("lease"),
    "callback": _callback,
    "on_failure": _on_failure,
}
