"""Jobs in child processes: the parent encodes requests, the child runs them."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

import msgspec

from windlass.core.job import Blob, Job
from windlass.sdk.context import Context, current_job
from windlass.sdk.deployment import make_service
from windlass.sdk.driver import run_flow_sync
from windlass.sdk.flows.inputs import collect_inputs
from windlass.sdk.tasks.injection import ChildSharedDependencies

from .child import Terminated
from .outcome import AttemptFailed, AttemptFailure, AttemptResult, make_failure, make_success, refuse_swallowed
from .progress import ProgressSender

if TYPE_CHECKING:
    from windlass.sdk.app import Windlass
    from windlass.sdk.tasks.task import Task

_request = msgspec.msgpack.Decoder(Job)
_reply = msgspec.msgpack.Decoder(AttemptResult)
FLUSH_MAX_S = 10.0


def encode_request(job: Job) -> bytes:
    return msgspec.msgpack.encode(job)


def decode_reply(data: bytes) -> AttemptResult:
    return cast(AttemptResult, _reply.decode(data))


def make_handler(app: Windlass) -> Callable[[bytes], bytes]:
    """Return the function that handles a request in the child process."""
    reporter, shared = ChildReporter(app), ChildSharedDependencies(app)
    atexit.register(shared.end)

    def handle(request: bytes) -> bytes:
        ended = _run(app, _request.decode(request), reporter, shared)
        reporter.flush()
        return msgspec.msgpack.encode(ended)

    return handle


def _find_task(app: Windlass, job: Job) -> Task[..., Any]:
    """Find the task by `get`: tasks of a Django project are looked up on demand."""
    found = app.tasks.get(job.name)
    if found is None:
        raise LookupError(f"The child process does not know the task {job.name!r}, although its worker does.")
    return found


def _run(app: Windlass, job: Job, reporter: ChildReporter, shared: ChildSharedDependencies) -> AttemptResult:
    task = _find_task(app, job)
    current_job.set(job)
    try:
        context = _make_context(app, task, job, reporter)
        value = task.perform(job.payload, context, shared)
        if task.is_async:
            value = _perform(value, context)
            value = shared.run(value) if task.dependencies else asyncio.run(value)
        return refuse_swallowed(make_success(job, value), context)
    except Terminated:
        return AttemptFailed(AttemptFailure(reason="terminated"))
    except MemoryError:
        raise  # the pool reports it as out of memory and ends this process
    except BaseException as error:
        return make_failure(error, task)


def _make_context(app: Windlass, task: Task[..., Any], job: Job, reporter: ChildReporter) -> Context:
    context = task.context_class(app, task, job, reporter)
    has_children = True
    if job.is_durable:
        state = app.service.durable_states([job.id]).one().wait()
        has_children = state.has_yielded
        context.load_durable(state)
    if job.has_members:  # the parent has put upstream results into the payload, but not into the stored job
        inputs = run_flow_sync(collect_inputs(app.service, app.tasks, job, has_children=has_children))
        context.set_inputs(job, inputs.children, has_upstream_results=True)
    return context


async def _perform(value: Coroutine[Any, Any, Any], context: Context) -> Any:
    try:
        return await value
    finally:
        if context.durable is not None:
            await context.durable.close()


class ChildReporter:
    """Sends the progress, values and log lines of the job, in a thread that starts on first use."""

    def __init__(self, app: Windlass) -> None:
        self._app = app
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sender: ProgressSender | None = None
        self._is_ready = threading.Event()

    def progress(self, job: Job, fraction: float, note: str) -> None:
        self._start().progress(job, fraction, note)

    def emit(self, job: Job, value: Blob) -> None:
        self._start().emit(job, value)

    def log(self, job: Job, at_ms: int, level: str, text: str) -> None:
        self._start().log(job, at_ms, level, text)

    def flush(self) -> None:
        """Send everything before the end of the job is reported."""
        if self._sender is not None and self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._sender.flush(), self._loop).result(FLUSH_MAX_S)

    def _start(self) -> ProgressSender:
        if self._sender is None:
            threading.Thread(target=lambda: asyncio.run(self._work()), name="windlass-reporter", daemon=True).start()
            self._is_ready.wait()
        sender: Any = self._sender
        return sender  # type: ignore[no-any-return]

    async def _work(self) -> None:
        async with self._app.any_store.clone() as store:
            self._loop = asyncio.get_running_loop()
            self._sender = ProgressSender(make_service(store))
            self._is_ready.set()
            await self._sender.run()
