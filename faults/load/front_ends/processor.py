"""The processor: a child process that speaks in lines. This client is a producer and its workers at once.

The processor acknowledges nothing. A job counts as accepted when the processor lists or assigns it, and the effect of a
worker's report stays unknown."""

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

from ...history import JobFacts, PendingCall
from ..context import ClientContext
from ..job_generator import JobGenerator, JobMix, JobRequest

QUEUE = "piped"
TIMES = ("--tick", "5s", "--expiry", "6s", "--lease", "6s")  # a message may take a while
TURN_S = 0.4
PATIENCE_S = 5.0  # with a job that is not listed
LINE_MAX = 4 * 1024 * 1024


class ProcessorClient:
    def __init__(self, context: ClientContext, options: Sequence[str], workers: int, work_ms: int) -> None:
        self._context = context
        self._command = [sys.executable, "-m", "windlass", "processor", *TIMES, *options]
        self._workers = [str(uuid.UUID(int=context.random.getrandbits(128), version=4)) for _ in range(workers)]
        self._work_ms = work_ms
        self._generator = JobGenerator(context, JobMix(queues=(QUEUE,), most=2))
        self._unlisted: dict[str, tuple[JobRequest, PendingCall, float]] = {}  # by key
        self._tasks: set[asyncio.Task[None]] = set()
        self._child: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Run child after child: an ended child is replaced."""
        while not self._context.is_over:
            self._child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=LINE_MAX,
            )
            try:
                reading = asyncio.create_task(self._read(self._child))
                while not self._context.is_over and not reading.done():
                    await self._send_turn()
                    await self._context.pause(TURN_S * 2 * self._context.random.random())
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

    async def _send_turn(self) -> None:
        """Add new jobs, repeat jobs that are not listed yet, and announce all workers as idle."""
        for request in self._generator.next_batch():
            await self._add(request)
        for key, (request, pending, since_s) in list(self._unlisted.items()):
            if time.monotonic() > since_s + PATIENCE_S:
                pending.record_unknown("not listed")
                del self._unlisted[key]
                await self._add(request)
        for worker in self._workers:
            await self._send("job_queue/worker_idle", {"queue_name": QUEUE}, worker)
        await self._send("job_queue/list_queue_jobs", {"queue_name": QUEUE}, "")

    async def _add(self, request: JobRequest) -> None:
        """Add a job. Its uuid is made of its key, so a repeated request is the same job."""
        pending = self._context.recorder.begin("enqueue", [JobFacts(key=request.key, queue=QUEUE)])
        self._unlisted[request.key] = (request, pending, time.monotonic())
        payload = {"uuid": _uuid_of(request.key), "queue_name": QUEUE, "command": "work", "key": request.key}
        await self._send("job_queue/add_job", payload, "")

    async def _send(self, topic: str, payload: dict[str, Any], worker: str) -> None:
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
                self._record_listed({job["uuid"] for job in payload["jobs"]})
            elif topic[-1] == "job_assignment":
                self._record_listed({payload["uuid"]})
                self._start(payload, topic[-2])

    def _record_listed(self, uuids: set[str]) -> None:
        for key, (_, pending, _) in list(self._unlisted.items()):
            if _uuid_of(key) in uuids:
                pending.record_ok([JobFacts(outcome="queued")])
                del self._unlisted[key]

    def _start(self, job: dict[str, Any], worker: str) -> None:
        task = asyncio.create_task(self._work(job, worker))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, job: dict[str, Any], worker: str) -> None:
        facts = JobFacts(key=str(job.get("key", "")), queue=QUEUE)
        payload = {"uuid": job["uuid"], "queue_name": QUEUE}
        self._context.recorder.begin("run", [facts])
        await self._send(f"job_queue/workers/{worker}/job_accepted", payload, worker)
        await self._context.pause(self._context.random.random() * self._work_ms / 1000)
        pending = self._context.recorder.begin("finish", [facts])
        await self._send(f"job_queue/workers/{worker}/job_finished", payload, worker)
        pending.record_unknown("not acknowledged")


def _uuid_of(key: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, key))
