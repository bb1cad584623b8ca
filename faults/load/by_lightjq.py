"""LightJQ: MessagePack over HTTP. A producer, and a worker that jobs are pushed to. A push says nothing of the lease
behind it and may arrive long after it was sent, so it is written down as a run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from aiohttp import web

from ..history import Seen
from .by_http import Http, refusal
from .life import Life, Refused, Unanswered
from .wishes import Wish
from .working import Conduct

MEDIA = {"content-type": "application/msgpack", "accept": "application/msgpack"}
TIMEOUT_S = 3  # of an attempt
QUEUE, NAME = "lightjq", "work"
BEAT_S = 1.0


async def ask(http: Http, method: str, path: str, body: Any, **headers: str) -> Any:
    content = b"" if body is None else msgspec.msgpack.encode(body)
    given = MEDIA | {name.replace("_", "-"): value for name, value in headers.items()}
    status, answer = await http.send(method, f"/lightjq{path}", content, given)
    try:
        told = msgspec.msgpack.decode(answer) if answer else None
    except msgspec.DecodeError as error:
        raise Unanswered("an answer that was cut") from error
    if not 200 <= status < 300:
        raise refusal(status, {"code": told["error"]} if isinstance(told, dict) and "error" in told else None)
    return told


class LightCounter:
    """One job a call, with an id that the server makes: it cannot be repeated."""

    is_repeatable = False

    def __init__(self, http: Http) -> None:
        self._http = http

    async def enqueue(self, wishes: Sequence[Wish]) -> list[Seen]:
        (wish,) = wishes
        body = {"name": NAME, "argument": wish.payload, "timeout": TIMEOUT_S, "priority": wish.priority}
        answer = await ask(self._http, "POST", "/job", body)
        return [Seen(id=answer["job_id"], outcome="queued")]


class PushedWorker:
    """Registers, takes on what is pushed to it, and reports; again under a new id when the server has dropped it."""

    def __init__(self, life: Life, http: Http, conduct: Conduct) -> None:
        self._life = life
        self._http = http
        self._conduct = conduct
        self._id = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, url: str) -> None:
        while not self._life.is_over:
            async with self._life.surviving():
                if not self._id:
                    body = {"name": self._life.client, "max_jobs": self._conduct.slots, "url": url}
                    self._id = (await ask(self._http, "POST", "/worker", body))["worker_id"]
                await self._life.pause(BEAT_S)
                await self._beat()
        with contextlib.suppress(Refused, Unanswered):
            await ask(self._http, "DELETE", "/worker", None, worker_id=self._id)

    async def _beat(self) -> None:
        try:
            await ask(self._http, "POST", "/worker/beat", None, worker_id=self._id)
        except Refused:
            self._id = ""

    async def receive(self, request: web.Request) -> web.Response:
        if request.headers.get("worker-id") != self._id or self._life.is_over:
            return web.Response(status=410)
        job = msgspec.msgpack.decode(await request.read())
        seen = Seen(key=str(job["argument"].get("key", "")), id=job["id"], queue=QUEUE, name=job["name"])
        self._life.recorder.begin("run", [seen])
        task = asyncio.create_task(self._work(seen, self._id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return web.Response(status=202)

    async def _work(self, seen: Seen, worker: str) -> None:
        draw = self._life.random
        await self._life.pause(draw.random() * self._conduct.work_ms / 1000)
        manner = draw.choice(self._conduct.manners)
        if manner == "abandon":
            return
        is_failure = manner in ("retry", "give_up")
        report: dict[str, Any] = {"job_id": seen.id, "type": "success"}
        if is_failure:
            report |= {"type": "failure", "reason": "other", "should_retry": manner == "retry", "message": "no"}
        pending = self._life.recorder.begin("fail" if is_failure else "finish", [seen])
        try:
            await ask(self._http, "POST", "/done", report, worker_id=worker)
        except Refused as refused:
            pending.refused(refused.code)
        except Unanswered as trouble:
            pending.unknown(str(trouble))
        else:
            pending.ok([Seen(outcome={"retry": "", "give_up": "failed"}.get(manner, "finished"))])


@contextlib.asynccontextmanager
async def listening(worker: PushedWorker, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Its URL, while it listens."""
    application = web.Application()
    application.router.add_post("/worker-job", worker.receive)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, reuse_address=True).start()
        yield f"http://{host}:{port or runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
