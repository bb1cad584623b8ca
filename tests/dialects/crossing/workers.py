"""Workers: each takes a job from a queue with the client of its dialect and reports how it ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

import msgspec

from tests.dialects.stdio.processor_client import W, message_line
from tests.downloads.origin import at_work
from windlass import Backoff, GiveUp, Windlass, Worker
from windlass.sdk.failures import Retry
from windlass.service import Service

from .creators import NAME
from .crossing_table import HOME_QUEUES, Dialect
from .deployment import LIMIT_S, Deployment, HeldRequest

RESULT = {"size": 3}
ERROR = "the picture is broken"
JOB_NAMES = (NAME, "crossing", "download")  # as the creators name their jobs


class Run(Protocol):
    """A job that a worker holds. `payload`: all that the worker was given, as text.

    `stop` ends a job whose cancel was requested, as a worker of the dialect learns of the request."""

    payload: str

    async def finish(self) -> None: ...
    async def fail(self) -> None: ...
    async def retry(self) -> None: ...
    async def stop(self) -> None: ...


class WorkerSide(Protocol):
    async def take(self) -> Run: ...


OpenWorker = Callable[[Deployment, str], contextlib.AbstractAsyncContextManager[WorkerSide]]


class ProcessorRun:
    def __init__(self, side: ProcessorSide, job: dict[str, Any]) -> None:
        self._side = side
        self._uuid = job["uuid"]
        self.payload = str(job)

    async def say(self, word: str, **fields: Any) -> list[str]:
        return await self._side.say(word, uuid=self._uuid, **fields)

    async def finish(self) -> None:
        await self.say("job_finished", answer=RESULT)

    async def fail(self) -> None:
        await self.say("job_failed", message=ERROR, should_retry=False)

    async def retry(self) -> None:
        await self.say("job_failed", message=ERROR, should_retry=True)

    async def stop(self) -> None:
        assert any(topic.endswith("/job_cancelled") for topic in await self.say("worker_progress", progress=0.5))
        await self.say("job_failed", message=ERROR)


class ProcessorSide:
    def __init__(self, deployment: Deployment, queue: str) -> None:
        self._processor = deployment.processor
        self._queue = queue
        self._assigned: deque[dict[str, Any]] = deque()  # the end of a job may bring the next one at once

    async def say(self, word: str, **fields: Any) -> list[str]:
        """Send a message. Return the topics of the messages that follow from it. Assignments wait for `take`."""
        self._processor.send(message_line(f"job_queue/workers/{W}/{word}", {"queue_name": self._queue} | fields))
        self._processor.send(message_line("job_queue/list_queue_jobs", {"queue_name": self._queue}))
        topics: list[str] = []
        while not (message := await self._processor.receive())["topic"].endswith("list_queue_jobs_response"):
            topics.append(message["topic"])
            if topics[-1].endswith("/job_assignment"):
                self._assigned.append(message["payload"])
        return topics

    async def take(self) -> Run:
        while not self._assigned:
            await self.say("worker_idle")
            await asyncio.sleep(0 if self._assigned else 0.02)  # a retry waits for its time
        run = ProcessorRun(self, self._assigned.popleft())
        await run.say("job_accepted")
        return run


@contextlib.asynccontextmanager
async def open_processor(deployment: Deployment, queue: str) -> AsyncIterator[WorkerSide]:
    yield ProcessorSide(deployment, queue)


class BedrockRun:
    def __init__(self, deployment: Deployment, row: dict[str, Any]) -> None:
        self._deployment = deployment
        self._number = row["jobID"]
        self.payload = str(row)

    async def _report(self, verb: str, **headers: object) -> None:
        assert (await self._deployment.bedrock.call(verb, jobID=self._number, **headers)).line == "200 OK"

    async def finish(self) -> None:
        await self._report("FinishJob", data=msgspec.json.encode(RESULT).decode())

    async def fail(self) -> None:
        await self._report("FailJob", data=msgspec.json.encode({"error": ERROR}).decode())

    async def retry(self) -> None:
        await self._report("RetryJob")

    async def stop(self) -> None:
        """Give the job back: the dialect has no word for the request."""
        await self.retry()


class BedrockSide:
    def __init__(self, deployment: Deployment, queue: str) -> None:
        self._deployment = deployment
        self._queue = {} if queue == HOME_QUEUES["bedrock"] else {"queue": queue}

    async def take(self) -> Run:
        reply = await self._deployment.bedrock.call(
            "GetJob", name="*", connection="wait", timeout=int(LIMIT_S * 1000), **self._queue
        )
        assert reply.line == "200 OK", reply
        return BedrockRun(self._deployment, reply.json)


@contextlib.asynccontextmanager
async def open_bedrock(deployment: Deployment, queue: str) -> AsyncIterator[WorkerSide]:
    yield BedrockSide(deployment, queue)


class LightJqRun:
    def __init__(self, deployment: Deployment, worker: str, message: dict[str, Any]) -> None:
        self._lightjq = deployment.lightjq
        self._worker = worker
        self._job_id = message["job_id"]
        self.payload = str(message)

    async def finish(self) -> None:
        assert (await self._lightjq.succeed(self._worker, self._job_id, result=RESULT)).status == 204

    async def fail(self) -> None:
        await self._fail(should_retry=False)

    async def retry(self) -> None:
        await self._fail(should_retry=True)

    async def stop(self) -> None:
        """Give the job back: the dialect has no word for the request."""
        await self.retry()

    async def _fail(self, *, should_retry: bool) -> None:
        failed = await self._lightjq.fail(self._worker, self._job_id, message=ERROR, should_retry=should_retry)
        assert failed.status == 204, failed


class LightJqSide:
    """A worker on a real socket, to which the server pushes."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._pushed: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                assert lines[0].startswith("POST /worker-job "), lines
                headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
                body = await reader.readexactly(int(headers["content-length"]))
                self._pushed.put_nowait((headers["worker-id"], msgspec.msgpack.decode(body)))
                writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def take(self) -> Run:
        async with asyncio.timeout(LIMIT_S):
            return LightJqRun(self._deployment, *await self._pushed.get())


@contextlib.asynccontextmanager
async def open_lightjq(deployment: Deployment, queue: str) -> AsyncIterator[WorkerSide]:
    side = LightJqSide(deployment)
    server = await asyncio.start_server(side.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    queues = {} if queue == HOME_QUEUES["lightjq"] else {"queues": [queue]}
    worker = await deployment.lightjq.register(url=f"http://127.0.0.1:{port}", max_jobs=1, **queues)
    try:
        yield side
    finally:
        await deployment.lightjq("DELETE", "/worker", worker=worker)
        server.close()


class DownloadRun:
    """A download: its origin holds the answer. The downloader sees only the order."""

    def __init__(self, held: HeldRequest, order: dict[str, Any]) -> None:
        self._held = held
        self.payload = str(order)

    async def finish(self) -> None:
        self._held.status.set_result("200 OK")

    async def fail(self) -> None:
        self._held.status.set_result("404 Not Found")

    async def retry(self) -> None:
        self._held.status.set_result("503 Service Unavailable")

    async def stop(self) -> None:
        """Do nothing: the downloader drops the request by itself."""


class DownloadSide:
    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    async def take(self) -> Run:
        async with asyncio.timeout(LIMIT_S):
            return DownloadRun(await self._deployment.requests.get(), self._deployment.order)


@contextlib.asynccontextmanager
async def open_downloader(deployment: Deployment, queue: str) -> AsyncIterator[WorkerSide]:
    async with deployment.store.clone() as twin, at_work(Service(twin), deployment.directory):
        yield DownloadSide(deployment)


class NativeRun:
    def __init__(self, deployment: Deployment, job: dict[str, Any]) -> None:
        self._api = deployment.api
        self._path = f"/api/v1/jobs/{job['id']}"
        self._token = job["lease_token"]
        self.payload = str(job)

    async def _report(self, word: str, **fields: Any) -> Any:
        answered = await self._api.post(f"{self._path}/{word}", {"token": self._token} | fields)
        assert answered.status < 300, answered
        return answered.body

    async def finish(self) -> None:
        await self._report("finish", result=RESULT)

    async def fail(self) -> None:
        await self._report("fail", then="final", error={"message": ERROR})

    async def retry(self) -> None:
        await self._report("fail", then="retry", delay_ms=1, error={"message": ERROR})

    async def stop(self) -> None:
        assert (await self._report("extend"))["is_cancel_requested"]
        await self._report("fail", then="cancelled")


class NativeSide:
    def __init__(self, deployment: Deployment, queue: str) -> None:
        self._deployment = deployment
        self._queue = queue

    async def take(self) -> Run:
        answered = await self._deployment.api.post("/api/v1/take", {"queues": [self._queue], "wait_ms": 20_000})
        (job,) = answered.body["jobs"]
        return NativeRun(self._deployment, job)


@contextlib.asynccontextmanager
async def open_native(deployment: Deployment, queue: str) -> AsyncIterator[WorkerSide]:
    yield NativeSide(deployment, queue)


class SdkRun:
    def __init__(self, fields: dict[str, Any]) -> None:
        self.payload = str(fields)
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def finish(self) -> None:
        self.outcome.set_result(RESULT)

    async def fail(self) -> None:
        self.outcome.set_exception(GiveUp(ERROR))

    async def retry(self) -> None:
        self.outcome.set_exception(Retry(1, ERROR))

    async def stop(self) -> None:
        """Wait until the worker has stopped the code."""
        await asyncio.wait([self.outcome], timeout=LIMIT_S)
        assert self.outcome.cancelled()


class SdkSide:
    def __init__(self) -> None:
        self.runs: asyncio.Queue[SdkRun] = asyncio.Queue()

    async def take(self) -> Run:
        async with asyncio.timeout(LIMIT_S):
            return await self.runs.get()


@contextlib.asynccontextmanager
async def open_sdk(deployment: Deployment, queue: str) -> AsyncIterator[WorkerSide]:
    app, side = Windlass(), SdkSide()

    async def handle(**fields: Any) -> Any:
        run = SdkRun(fields)
        side.runs.put_nowait(run)
        return await run.outcome

    for name in JOB_NAMES:
        app.task(name=name, queue=queue, retry=Backoff(tries=3), keep_result=60)(handle)
    async with deployment.store.clone() as twin:
        app.connect(twin)
        worker = Worker(app, queues=[queue], concurrency=1, grace=1)
        running = asyncio.create_task(worker.run())
        try:
            yield side
        finally:
            worker.stop()
            await running
            await app.aclose()


WORKERS: Final[dict[Dialect, OpenWorker]] = {
    "processor": open_processor,
    "bedrock": open_bedrock,
    "lightjq": open_lightjq,
    "downloader": open_downloader,
    "native": open_native,
    "sdk": open_sdk,
}
