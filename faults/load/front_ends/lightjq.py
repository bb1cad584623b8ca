"""LightJQ, MessagePack over HTTP: a producer, and a worker that jobs are pushed to.

A push does not name its lease and may arrive long after it was sent, so it is recorded as a run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from aiohttp import web

from ...history import JobFacts
from ..context import CallRefused, CallUnanswered, ClientContext
from ..job_generator import JobRequest
from ..worker import WorkerProfile
from .native_http import HttpClient, error_for

MEDIA = {"content-type": "application/msgpack", "accept": "application/msgpack"}
TIMEOUT_S = 3  # of an attempt
QUEUE, NAME = "lightjq", "work"
BEAT_S = 1.0


async def send_request(http: HttpClient, method: str, path: str, body: Any, **headers: str) -> Any:
    content = b"" if body is None else msgspec.msgpack.encode(body)
    all_headers = MEDIA | {name.replace("_", "-"): value for name, value in headers.items()}
    status, reply = await http.send(method, f"/lightjq{path}", content, all_headers)
    try:
        answer = msgspec.msgpack.decode(reply) if reply else None
    except msgspec.DecodeError as error:
        raise CallUnanswered("the answer was cut off") from error
    if not 200 <= status < 300:
        raise error_for(status, {"code": answer["error"]} if isinstance(answer, dict) and "error" in answer else None)
    return answer


class LightjqProducer:
    """One job per call. The server makes the id, so a call cannot be repeated."""

    is_repeatable = False

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def enqueue(self, requests: Sequence[JobRequest]) -> list[JobFacts]:
        (request,) = requests
        body = {"name": NAME, "argument": request.payload, "timeout": TIMEOUT_S, "priority": request.priority}
        answer = await send_request(self._http, "POST", "/job", body)
        return [JobFacts(id=answer["job_id"], outcome="queued")]


class PushWorker:
    """A worker that registers, runs pushed jobs and reports. It registers again if the server has dropped it."""

    def __init__(self, context: ClientContext, http: HttpClient, profile: WorkerProfile) -> None:
        self._context = context
        self._http = http
        self._profile = profile
        self._id = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, url: str) -> None:
        while not self._context.is_over:
            async with self._context.ignoring_failures():
                if not self._id:
                    body = {"name": self._context.client, "max_jobs": self._profile.slots, "url": url}
                    self._id = (await send_request(self._http, "POST", "/worker", body))["worker_id"]
                await self._context.pause(BEAT_S)
                await self._beat()
        with contextlib.suppress(CallRefused, CallUnanswered):
            await send_request(self._http, "DELETE", "/worker", None, worker_id=self._id)

    async def _beat(self) -> None:
        try:
            await send_request(self._http, "POST", "/worker/beat", None, worker_id=self._id)
        except CallRefused:
            self._id = ""

    async def receive(self, request: web.Request) -> web.Response:
        if request.headers.get("worker-id") != self._id or self._context.is_over:
            return web.Response(status=410)
        job = msgspec.msgpack.decode(await request.read())
        facts = JobFacts(key=str(job["argument"].get("key", "")), id=job["id"], queue=QUEUE, name=job["name"])
        self._context.recorder.begin("run", [facts])
        task = asyncio.create_task(self._work(facts, self._id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return web.Response(status=202)

    async def _work(self, facts: JobFacts, worker: str) -> None:
        rng = self._context.random
        await self._context.pause(rng.random() * self._profile.work_ms / 1000)
        action = rng.choice(self._profile.actions)
        if action == "abandon":
            return
        is_failure = action in ("retry", "give_up")
        report: dict[str, Any] = {"job_id": facts.id, "type": "success"}
        if is_failure:
            report |= {"type": "failure", "reason": "other", "should_retry": action == "retry", "message": "no"}
        pending = self._context.recorder.begin("fail" if is_failure else "finish", [facts])
        try:
            await send_request(self._http, "POST", "/done", report, worker_id=worker)
        except CallRefused as refused:
            pending.record_refusal(refused.code)
        except CallUnanswered as error:
            pending.record_unknown(str(error))
        else:
            pending.record_ok([JobFacts(outcome={"retry": "", "give_up": "failed"}.get(action, "finished"))])


@contextlib.asynccontextmanager
async def push_listener(worker: PushWorker, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Listen for pushes and yield the URL."""
    application = web.Application()
    application.router.add_post("/worker-job", worker.receive)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, reuse_address=True).start()
        yield f"http://{host}:{port or runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
