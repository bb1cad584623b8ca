"""Push worker as an ASGI application.

It registers with the master, runs the jobs that the master pushes, and reports their ends. Any ASGI server (uvicorn,
hypercorn, granian) can serve it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias, TypeVar

import msgspec

from windlass import __version__
from windlass.wire.push.worker_document import encode_worker_document

from .failures import GiveUp
from .push_master import MasterClient

__all__ = ["PushWorker"]

log = logging.getLogger("windlass.push")

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Handler = TypeVar("Handler", bound=Callable[[Any], Any])

PATH = "/worker-job"
DOCUMENT_PATH = "/openapi.json"
BODY_MAX = 16 * 1024 * 1024
SHUTDOWN_S = 30.0  # time for running jobs to end at shutdown
MESSAGE_MAX = 2_000


class PushRequest(msgspec.Struct, frozen=True):
    """Job as the master sends it. Unknown fields are ignored."""

    id: str
    name: str
    argument: Any = None
    timeout: float = 30


class PushWorker:
    """ASGI application that runs pushed jobs.

    Make it with `worker = PushWorker("http://master:8080/lightjq", url="http://me:9000", max_jobs=4)`, then put
    `@worker.job("name")` on functions of one argument, async or not. `url` is the address at which the master reaches
    this application. `token` is an access token of the master with the role `work`. `GET /openapi.json` describes the
    application.
    """

    def __init__(
        self, master: str, *, url: str, name: str = "push-worker", max_jobs: int = 10, token: str = ""
    ) -> None:
        self._master = MasterClient(master, token)
        self._description = {"name": name, "max_jobs": max_jobs, "url": url}
        self._max_jobs = max_jobs
        self._handlers: dict[str, Callable[[Any], Any]] = {}
        self._running: set[str] = set()  # ids of jobs
        self._tasks: set[asyncio.Task[None]] = set()  # runs and their reports
        self._threads = ThreadPoolExecutor(max_jobs, thread_name_prefix="windlass-push")
        self._is_registered = asyncio.Event()
        self._document = encode_worker_document(__version__, url)

    def job(self, name: str) -> Callable[[Handler], Handler]:
        """Register the function that runs jobs of this name."""

        def register(handler: Handler) -> Handler:
            self._handlers[name] = handler
            return handler

        return register

    @property
    def worker_id(self) -> str:
        """The id that the master gave this worker. Empty until it is registered."""
        return self._master.worker_id

    async def registered(self) -> None:
        """Wait until the master has registered this worker."""
        await self._is_registered.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            if scope["path"].endswith(DOCUMENT_PATH) and scope["method"] in ("GET", "HEAD"):
                await _send_response(send, 200, self._document, b"application/json")
            else:
                await _send_response(send, await self._answer(scope, receive))

    # Lifespan

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self._master:
            registering = asyncio.create_task(self._master.keep_registered(self._description, self._is_registered))
            await send({"type": "lifespan.startup.complete"})
            await receive()
            registering.cancel()
            await asyncio.wait({registering})
            await self._shut_down()
        await send({"type": "lifespan.shutdown.complete"})

    async def _shut_down(self) -> None:
        """End and report running jobs as far as possible, then deregister.

        The master gives jobs that are left to other workers at once.
        """
        tasks = set(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=SHUTDOWN_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.worker_id:
            await self._master.deregister()
        self._threads.shutdown(wait=False, cancel_futures=True)

    # Jobs

    async def _answer(self, scope: Scope, receive: Receive) -> int:
        """Return the HTTP status of a push.

        202 accepted, 404 unknown name, 400 not a job, 410 meant for an earlier registration of this worker, 429 no free
        slot.
        """
        if not scope["path"].endswith(PATH):
            return 404
        if scope["method"] != "POST":
            return 405
        body = await _read(receive)
        if body is None:
            return 413
        try:
            job = msgspec.msgpack.decode(body, type=PushRequest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return 400
        meant = dict(scope["headers"]).get(b"worker-id", b"").decode("latin-1")
        if self.worker_id and meant and meant != self.worker_id:
            return 410
        return self._accept(job, meant or self.worker_id)

    def _accept(self, job: PushRequest, worker_id: str) -> int:
        handler = self._handlers.get(job.name)
        if handler is None:
            return 404
        if job.id in self._running:
            return 202  # pushed again because the answer was lost
        if len(self._running) >= self._max_jobs:
            return 429
        self._running.add(job.id)
        task = asyncio.create_task(self._run(job, handler, worker_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return 202

    async def _run(self, job: PushRequest, handler: Callable[[Any], Any], worker_id: str) -> None:
        try:
            outcome = await self._outcome(job, handler)
        finally:
            # Free the slot before the report: the master may push the next job before its answer arrives here.
            self._running.discard(job.id)
        await self._master.report(worker_id, {"job_id": job.id, **outcome})

    async def _outcome(self, job: PushRequest, handler: Callable[[Any], Any]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(job.timeout) as limit:
                result = await self._call(handler, job.argument)
            msgspec.msgpack.encode(result)
        except TimeoutError as error:
            if limit.expired():
                return _failure("timeout", f"The job took more than {job.timeout:g} s.")
            return _failure("other", repr(error))
        except GiveUp as error:
            return _failure("other", str(error) or "The job was given up.", should_retry=False)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # the last two would end the server's event loop
            log.info("Job %s (%s) failed; reporting it to the master.", job.id, job.name, exc_info=True)
            return _failure("other", f"{type(error).__name__}: {error}")
        return {"type": "success", "result": result}

    async def _call(self, handler: Callable[[Any], Any], argument: Any) -> Any:
        if inspect.iscoroutinefunction(handler):
            return await handler(argument)
        return await asyncio.get_running_loop().run_in_executor(self._threads, handler, argument)


def _failure(reason: str, message: str, *, should_retry: bool = True) -> dict[str, Any]:
    return {"type": "failure", "reason": reason, "should_retry": should_retry, "message": message[:MESSAGE_MAX]}


async def _send_response(send: Send, status: int, body: bytes = b"", media_type: bytes = b"") -> None:
    headers = [(b"content-length", b"%d" % len(body))] + ([(b"content-type", media_type)] if media_type else [])
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _read(receive: Receive) -> bytes | None:
    """Read the body. Returns None if it is too long or the master disconnected."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        with contextlib.suppress(KeyError):
            body += message["body"]
        if len(body) > BODY_MAX:
            return None
        if not message.get("more_body"):
            return bytes(body)
