"""The processor: a child that is spoken to in lines, by a producer and workers in one. It acknowledges nothing: a job
counts as accepted when the processor shows or assigns it, and what a worker says of its end stays unknown."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from ..history import Pending, Seen
from .life import Life
from .wishes import Menu, Wish, Wishes

QUEUE = "piped"
TIMES = ("--tick", "5s", "--expiry", "6s", "--lease", "6s")  # a message may be on its way for a while
TURN_S = 0.4
PATIENCE_S = 5.0  # with a job that is not shown
LINE_MAX = 4 * 1024 * 1024


class Piped:
    def __init__(self, life: Life, options: Sequence[str], workers: int, work_ms: int) -> None:
        self._life = life
        self._command = [sys.executable, "-m", "windlass", "processor", *TIMES, *options]
        self._workers = [str(uuid.UUID(int=life.random.getrandbits(128), version=4)) for _ in range(workers)]
        self._work_ms = work_ms
        self._wishes = Wishes(life, Menu(queues=(QUEUE,), most=2))
        self._unshown: dict[str, tuple[Wish, Pending, float]] = {}  # by key
        self._tasks: set[asyncio.Task[None]] = set()
        self._child: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """A child that has ended is followed by the next."""
        while not self._life.is_over:
            self._child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=LINE_MAX,
            )
            try:
                reading = asyncio.create_task(self._read(self._child))
                while not self._life.is_over and not reading.done():
                    await self._turn()
                    await self._life.pause(TURN_S * 2 * self._life.random.random())
                reading.cancel()
            finally:
                await self._end(self._child)

    async def _end(self, child: asyncio.subprocess.Process) -> None:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
            try:
                await asyncio.wait_for(child.wait(), 5.0)
            except TimeoutError:
                child.kill()
                await child.wait()

    async def _turn(self) -> None:
        """Something new, what is not shown yet once more, and everybody who is idle says so."""
        for wish in self._wishes.some():
            await self._add(wish)
        for key, (wish, pending, since_s) in list(self._unshown.items()):
            if time.monotonic() > since_s + PATIENCE_S:
                pending.unknown("not shown")
                del self._unshown[key]
                await self._add(wish)
        for worker in self._workers:
            await self._say("job_queue/worker_idle", {"queue_name": QUEUE}, worker)
        await self._say("job_queue/list_queue_jobs", {"queue_name": QUEUE}, "")

    async def _add(self, wish: Wish) -> None:
        """Its uuid is made of its key: repeated, it is the same job."""
        pending = self._life.recorder.begin("enqueue", [Seen(key=wish.key, queue=QUEUE)])
        self._unshown[wish.key] = (wish, pending, time.monotonic())
        payload = {"uuid": _uuid_of(wish.key), "queue_name": QUEUE, "command": "work", "key": wish.key}
        await self._say("job_queue/add_job", payload, "")

    async def _say(self, topic: str, payload: dict[str, Any], worker: str) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"topic": f"default/{topic}", "service_uuid": worker, "created_at": at, "payload": payload}
        child = self._child
        if child is None or child.stdin is None or child.stdin.is_closing():
            return
        with contextlib.suppress(OSError):
            child.stdin.write(json.dumps(line).encode() + b"\n")
            await child.stdin.drain()

    async def _read(self, child: asyncio.subprocess.Process) -> None:
        if child.stdout is None:
            return
        async for line in child.stdout:
            message = json.loads(line)
            topic, payload = message["topic"].split("/"), message["payload"]
            if topic[-1] == "list_queue_jobs_response":
                self._shown({job["uuid"] for job in payload["jobs"]})
            elif topic[-1] == "job_assignment":
                self._shown({payload["uuid"]})
                self._start(payload, topic[-2])

    def _shown(self, uuids: set[str]) -> None:
        for key, (_, pending, _) in list(self._unshown.items()):
            if _uuid_of(key) in uuids:
                pending.ok([Seen(outcome="queued")])
                del self._unshown[key]

    def _start(self, job: dict[str, Any], worker: str) -> None:
        task = asyncio.create_task(self._work(job, worker))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, job: dict[str, Any], worker: str) -> None:
        seen = Seen(key=str(job.get("key", "")), queue=QUEUE)
        about = {"uuid": job["uuid"], "queue_name": QUEUE}
        self._life.recorder.begin("run", [seen])
        await self._say(f"job_queue/workers/{worker}/job_accepted", about, worker)
        await self._life.pause(self._life.random.random() * self._work_ms / 1000)
        pending = self._life.recorder.begin("finish", [seen])
        await self._say(f"job_queue/workers/{worker}/job_finished", about, worker)
        pending.unknown("nobody says")


def _uuid_of(key: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, key))
