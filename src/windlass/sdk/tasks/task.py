"""Tasks and calls: a decorated function stays callable and can be enqueued."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, Unpack, get_type_hints

from msgspec.structs import force_setattr

from windlass.core.errors import BadInput
from windlass.core.job import Blob, Job, NewJob
from windlass.core.job_template import PreparedJob
from windlass.core.retry import ENDLESS
from windlass.sdk.context import Context
from windlass.sdk.durations import duration_ms
from windlass.sdk.flows.flow import FlowPart
from windlass.sdk.flows.labels import shorten
from windlass.sdk.flows.plan import FlowPlan, Upstream
from windlass.sdk.sync_context import SyncContext

from .arguments import DecodedCall, Signature
from .depends import depends_on_context, find_dependencies
from .injection import BoundArguments, Injector, SharedDependencies
from .limits import compute_keys
from .options import (
    DEFAULT_KEPT_MS,
    DEFAULT_TIMEOUT_MS,
    CallOptions,
    JobOptions,
    Pool,
    TaskOptions,
    Unique,
    error_classes,
    make_job_options,
)
from .versions import Migrations, S

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass
    from windlass.sdk.handle import JobHandle

    from .batch import Batch

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

GRACE_MS = 10_000
MAX_CRASHES = 3
_TASK_ONLY_OPTIONS = TaskOptions.__annotations__.keys() - CallOptions.__annotations__.keys()


class Call(FlowPart[R_co]):
    """Task with its arguments, ready to be enqueued."""

    __slots__ = ("_options", "_signature", "arguments", "task")

    def __init__(
        self, task: Task[..., R_co], arguments: dict[str, Any], options: JobOptions, signature: Signature | None = None
    ) -> None:
        self.task = task
        self.arguments = arguments
        self._options = options
        self._signature = signature or task.signature  # differs if the first argument is an upstream result

    def using(self, **options: Unpack[CallOptions]) -> Call[R_co]:
        return Call(self.task, self.arguments, make_job_options(options, self._options), self._signature)

    def prepare(self, meta: dict[str, Any] | None = None) -> NewJob | PreparedJob:
        """Prepare the job, mostly as a template with a payload. Wrong arguments are refused here."""
        task, options = self.task, self._options
        if task.app.trace_source is not None:
            return self.new_job(meta=meta, id=task.app.new_id(options.queue))
        if options.unique or options.tenant:
            return self.new_job(meta=meta)
        return PreparedJob(options.template(task.name), self._payload(meta))

    def _payload(self, meta: dict[str, Any] | None) -> Blob:
        return self._signature.encode(self.arguments, self.task.make_meta(self.arguments, meta))

    def new_job(self, **extra: Any) -> NewJob:
        """Make a job with further fields."""
        task, options = self.task, self._options
        payload = self._payload(extra.pop("meta", None))
        fields = options.fields
        if options.unique:
            extra["unique"] = _make_unique_key(options.unique, task, self.arguments, payload.data)
        if options.tenant:
            extra["lane"] = options.tenant(**self.arguments) if callable(options.tenant) else options.tenant
        if task.app.trace_source is not None and not fields.get("trace"):
            extra["trace"] = task.app.trace_source(self, extra.get("id", b""))
        return NewJob(name=task.name, payload=payload, **(fields | extra if extra else fields))

    def decode_arguments(self) -> dict[str, Any]:
        """Return the arguments as a worker will see them."""
        decoded = self._signature.decode(self._signature.encode(self.arguments))
        return self._signature.bind(decoded.args, decoded.kwargs)

    @property
    def durability(self) -> Any:
        return self._options.durability

    @property
    def app(self) -> Windlass:
        return self.task.app

    @property
    def label(self) -> str:
        return shorten(self.task.name)

    @property
    def queue(self) -> str:
        return self._options.queue

    @property
    def options(self) -> JobOptions:
        return self._options

    def plan(self, plan: FlowPlan, upstream: Upstream | None) -> Upstream:
        return plan.add(self, upstream)

    def enqueue(self) -> JobHandle[R_co]:
        app = self.task.app
        return app.make_handle(
            self, app.service.enqueue_one(self.prepare(), durability=self._options.durability).wait()
        )

    async def aenqueue(self) -> JobHandle[R_co]:
        app = self.task.app
        batcher = (await app.loop_connection()).batcher
        return app.make_handle(self, await batcher.enqueue(self.prepare(), self._options.durability))


def _make_unique_key(unique: Unique, task: Task[..., Any], arguments: Mapping[str, Any], payload: bytes) -> str:
    if callable(unique):
        key = unique(**arguments)
        if not isinstance(key, str) or not key:
            raise BadInput(f"The unique function of {task.name} must return a non-empty string, not {key!r}.")
        return key
    if unique is True:
        return f"{task.name}:{hashlib.blake2b(payload, digest_size=16).hexdigest()}"
    return str(unique)


class Task(Generic[P, R_co]):
    """Function that can be enqueued. Calling it runs it inline."""

    batch: Batch | None = None

    def __init__(self, app: Windlass, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self.app = app
        self.function = function
        self.name: str = options.get("name") or function.__name__
        self.is_async = inspect.iscoroutinefunction(function)
        self.context_class: type[Context] = Context if self.is_async else SyncContext
        self.pool: Pool = options.get("pool") or ("async" if self.is_async else "thread")
        self.limits = tuple(options.get("limits", ()))
        self.memory_bytes = _parse_bytes(options.get("memory", 0))
        self.max_crashes: int = options.get("max_crashes", MAX_CRASHES)
        self.grace_ms = duration_ms("grace", options.get("grace", GRACE_MS / 1000))
        self.deadline_ms = duration_ms("deadline", options.get("deadline") or 0)  # 0: none
        self.retry_on = error_classes("retry_on", options.get("retry_on", ()))
        self.give_up_on = error_classes("give_up_on", options.get("give_up_on", ()))
        self.migrations = Migrations(self.name, options.get("version", 1))
        hints = _type_hints(function)
        self.context_parameter, self.is_context_first = _context_parameter(function, hints)
        self.dependencies = {
            name: dependency
            for name, dependency in find_dependencies(function, self.name).items()
            if name != self.context_parameter
        }
        self.needs_context = bool(self.context_parameter) or depends_on_context(self.dependencies)
        self.signature = self._make_signature(function, frozenset({self.context_parameter, *self.dependencies} - {""}))
        self.result_type: Any = self.signature.returns
        self._options = make_job_options(
            {
                "timeout": DEFAULT_TIMEOUT_MS / 1000,
                "keep_result": 0 if self.result_type is type(None) else DEFAULT_KEPT_MS / 1000,
                **{name: value for name, value in options.items() if name not in _TASK_ONLY_OPTIONS},
            }
        )
        self._check()
        for copied in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(self, copied, getattr(function, copied, None))
        self.__wrapped__ = function

    def _make_signature(self, function: Callable[..., Any], injected: frozenset[str]) -> Signature:
        return Signature.of(function, injected, name=self.name)

    def _check(self) -> None:
        if self.pool not in ("async", "thread", "process"):
            raise BadInput(f"{self.name}: pool must be async, thread or process, not {self.pool!r}.")
        if self.pool == "async" and not self.is_async:
            raise BadInput(f"{self.name} is not an async function: leave pool out, or give pool='thread'.")
        if self.pool == "thread" and self.is_async:
            raise BadInput(f"{self.name} is an async function: leave pool out, or give pool='process'.")
        if self.memory_bytes and self.pool != "process":
            raise BadInput(f"{self.name}: memory needs pool='process'.")
        for path in self._options.fields.get("index", ()):
            if not self.signature.may_store(path.partition(".")[0]):
                raise BadInput(f"{self.name}: index names {path!r}, but the task has no such argument.")

    @property
    def queue(self) -> str:
        return self._options.queue

    @property
    def options(self) -> JobOptions:
        return self._options

    def complete_policy(self, job: Job) -> None:
        """Give a taken job this task's timeout and retries where it has none, as most jobs of other dialects.

        The job is changed in place: a copy costs about 2 % of the instructions of a short job.
        """
        fields = self._options.fields
        if not job.timeout_ms and (timeout_ms := fields.get("timeout_ms")):
            force_setattr(job, "timeout_ms", timeout_ms)
        if (job.retry is ENDLESS or job.retry == ENDLESS) and fields["retry"] is not ENDLESS:
            force_setattr(job, "retry", fields["retry"])

    @property
    def version(self) -> int:
        return self.migrations.version

    def migrate(self, version: int) -> Callable[[S], S]:
        """Declare the step from this version of the arguments to the next.

        The step gets the arguments as a dict and returns a dict.
        """

        def declare(step: S) -> S:
            self.migrations.add(version, step)
            return step

        return declare

    def using(self, **options: Unpack[CallOptions]) -> Self:
        """Return the same task with other options for calls through it."""
        if self.limits and options.get("queue", self.queue) != self.queue:
            raise BadInput(
                f"{self.name} has limits in its queue {self.queue!r}, so its calls cannot use another queue."
            )
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._options = make_job_options(options, self._options)
        return other

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R_co]:
        return Call(self, self.signature.bind(args, kwargs), self._options)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        return self.call(*args, **kwargs).enqueue()

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        """Do the same as `enqueue`."""
        return self.call(*args, **kwargs).enqueue()

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[R_co]:
        return await self.call(*args, **kwargs).aenqueue()

    def make_meta(self, arguments: Mapping[str, Any], meta: dict[str, Any] | None) -> dict[str, Any] | None:
        """Return the metadata for the payload's reserved key, or None, as for most calls."""
        if self.migrations.version > 1:
            meta = {"v": self.version, **(meta or {})}
        keys = compute_keys(self.limits, arguments) if self.limits else None
        return {"keys": keys, **(meta or {})} if keys else meta

    def perform(self, payload: Blob, context: Context | None, shared: SharedDependencies | None = None) -> Any:
        """Call the function with the arguments of a payload. `shared` has the dependencies of the worker scope."""
        if self.migrations.version == 1 and (values := self.signature.positional(payload)) is not None:
            return self.function(*values)
        call = self.signature.decode(payload, self.migrations.needed_for(payload))
        if self.dependencies:
            return self._perform_injected(call, context, shared)
        if not self.context_parameter:
            return self.function(*call.args, **call.kwargs)
        args, kwargs = self.signature.bind_injected(call, {self.context_parameter: context or Context.inline(self)})
        return self.function(*args, **kwargs)

    def _perform_injected(self, call: DecodedCall, context: Context | None, shared: SharedDependencies | None) -> Any:
        own = {self.context_parameter: context or Context.inline(self)} if self.context_parameter else {}
        injector = Injector(self, context, shared)
        return (injector.acall if self.is_async else injector.call)(
            self.dependencies, lambda injected: self.signature.bind_injected(call, {**own, **injected})
        )

    def _inline(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = self._with_context(args, kwargs)
        if not self.dependencies:
            return self.function(*args, **kwargs)
        passed = inspect.signature(self.function).bind_partial(*args, **kwargs).arguments
        injector = Injector(self, Context.inline(self), None)
        return (injector.acall if self.is_async else injector.call)(
            {name: dependency for name, dependency in self.dependencies.items() if name not in passed},
            lambda injected: (args, {**kwargs, **injected}),
        )

    def _with_context(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BoundArguments:
        if not self.context_parameter or self.context_parameter in kwargs:
            return args, kwargs
        if self.is_context_first:
            return (Context.inline(self), *args), kwargs
        return args, {**kwargs, self.context_parameter: Context.inline(self)}

    def __repr__(self) -> str:
        return f"<task {self.name} in {self.queue}>"


class SyncTask(Task[P, R_co]):
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self._inline(args, kwargs)  # type: ignore[no-any-return]


class AsyncTask(Task[P, R_co]):
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:
        return self._inline(args, kwargs)  # type: ignore[no-any-return]


def _type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # a name is imported only for type checkers
        return dict(getattr(function, "__annotations__", {}))


def _context_parameter(function: Callable[..., Any], hints: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the name of the context parameter, and whether it is the first positional parameter."""
    wanted = (Context, SyncContext, "Context", "SyncContext", "windlass.Context", "windlass.SyncContext")
    for at, parameter in enumerate(inspect.signature(function).parameters.values()):
        if hints.get(parameter.name) in wanted:
            return parameter.name, at == 0 and parameter.kind is not parameter.KEYWORD_ONLY
    return "", False


def _parse_bytes(value: str | int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
    for unit, size in units.items():
        if isinstance(value, str) and value.endswith(unit) and value.removesuffix(unit).strip().isdigit():
            return int(value.removesuffix(unit)) * size
    raise BadInput(f"memory must be a number of bytes or a string such as '512MiB', not {value!r}.")
