"""Clients of a processor over real pipes: a session in this process, or a separate process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self

from tests.support.server_process import environment, store_options
from windlass.dialects.stdio.envelope import Identity
from windlass.dialects.stdio.messages import ProcessorOptions
from windlass.dialects.stdio.session import ProcessorSession
from windlass.service import Service
from windlass.store.store import Store

LIMIT_S = 120.0  # a busy machine is not a broken processor
IDENTITY = Identity(uuid="processor-1", host="here")
# Long, so that a busy machine makes no message old and no worker silent.
OPTIONS = ProcessorOptions(tick_ms=60_000, expiry_ms=180_000, accept_ms=180_000)


def worker_uuid(number: int) -> str:
    return f"aaaaaaaa-0000-4000-8000-{number:012}"


def job_uuid(number: int) -> str:
    return f"bbbbbbbb-0000-4000-8000-{number:012}"


W = worker_uuid(1)


def instant(age_s: float = 0.0) -> str:
    return (datetime.now(UTC) - timedelta(seconds=age_s)).isoformat().replace("+00:00", "Z")


def message_line(topic: str, payload: Any, worker: str = W, *, age_s: float = 0.0, **more: Any) -> str:
    envelope = {
        "topic": f"default/{topic}",
        "service_name": "test",
        "service_uuid": worker,
        "service_host": "there",
        "created_at": instant(age_s),
        "payload": payload,
    }
    return json.dumps(envelope | more)


def add(number: int = 1, queue_name: str = "q", **fields: Any) -> str:
    return message_line("job_queue/add_job", {"uuid": job_uuid(number), "queue_name": queue_name} | fields, "producer")


def worker_line(
    word: str, worker: str = W, number: int | None = None, queue_name: str = "q", *, age_s: float = 0.0, **fields: Any
) -> str:
    """Make a worker message with the worker in the topic."""
    payload = {"queue_name": queue_name} | fields
    if number is not None:
        payload["uuid"] = job_uuid(number)
    return message_line(f"job_queue/workers/{worker}/{word}", payload, worker, age_s=age_s)


def idle(worker: str = W, **more: Any) -> str:
    return worker_line("worker_idle", worker, **more)


def parse_assignment(message: dict[str, Any]) -> tuple[str, str]:
    """Return the worker and the job of an assignment."""
    _, job_queue, workers, worker, word = message["topic"].split("/")
    assert (job_queue, workers, word) == ("job_queue", "workers", "job_assignment")
    return worker, message["payload"]["uuid"]


class SessionClient:
    """A session in this process. `send` writes lines, `receive` reads the next message."""

    def __init__(self, session: ProcessorSession, input_fd: int, output_fd: int) -> None:
        self.session = session
        self._input_fd = input_fd
        self._output_file = os.fdopen(output_fd, "rb")
        self.running = asyncio.create_task(session.run())
        self._is_ended = False

    def send(self, *lines: str | bytes) -> None:
        for line in lines:
            os.write(self._input_fd, (line.encode() if isinstance(line, str) else line) + b"\n")

    async def receive(self) -> dict[str, Any]:
        async with asyncio.timeout(LIMIT_S):
            found = await asyncio.to_thread(self._output_file.readline)
        message: dict[str, Any] = json.loads(found)
        return message

    async def assignments(self, count: int) -> list[tuple[str, str]]:
        return [parse_assignment(await self.receive()) for _ in range(count)]

    async def list_jobs_after(self, *lines: str) -> dict[str, Any]:
        """Send lines and then a list request. Its answer shows that the lines before have taken effect."""
        self.send(*lines, message_line("job_queue/list_queue_jobs", {"queue_name": "q"}))
        return await self.receive()

    def end(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            os.close(self._input_fd)

    async def wait_ended(self) -> tuple[bool, list[dict[str, Any]]]:
        """End the input. Return the outcome of the session and its remaining output."""
        self.end()
        async with asyncio.timeout(LIMIT_S):
            outcome = await self.running
        return outcome, [json.loads(line) for line in self._output_file.readlines()]

    def close(self) -> None:
        self.end()
        self._output_file.close()


@contextlib.asynccontextmanager
async def running_session(
    service: Service, options: ProcessorOptions = OPTIONS, identity: Identity = IDENTITY
) -> AsyncIterator[SessionClient]:
    await service.store.open()
    session_stdin, input_fd = os.pipe()
    output_fd, session_stdout = os.pipe()
    session = ProcessorSession(service, identity, options, stdin=session_stdin, stdout=session_stdout)
    processor = SessionClient(session, input_fd, output_fd)

    def close_stdout(_: object) -> None:
        os.close(session_stdout)

    processor.running.add_done_callback(close_stdout)
    try:
        yield processor
    finally:
        processor.end()
        session.stop()
        await asyncio.wait({processor.running}, timeout=LIMIT_S)
        processor.close()
        await asyncio.to_thread(os.close, session_stdin)


class ProcessorProcess:
    """`windlass processor` on a test's deployment."""

    def __init__(self, store: Store, *options: str, reads: bool = True, **variables: str) -> None:
        words = [sys.executable, "-m", "windlass", "processor", *store_options(store), *options]
        self._received: queue.Queue[bytes] = queue.Queue()
        self.logs: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment() | variables
        )
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr
        self._threads = [threading.Thread(target=self._read_logs, daemon=True)]
        self._threads += [threading.Thread(target=self._read, daemon=True)] if reads else []
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        for line in self.stdout:
            self._received.put(line)

    def start_reading(self) -> None:
        self._threads.append(threading.Thread(target=self._read, daemon=True))
        self._threads[-1].start()

    def _read_logs(self) -> None:
        for line in self.stderr:
            self.logs.append(json.loads(line))

    def send(self, *lines: str) -> None:
        self.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self.stdin.flush()

    def receive(self, within_s: float = LIMIT_S) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._received.get(timeout=within_s))
        return message

    def received_so_far(self) -> list[dict[str, Any]]:
        found = []
        while not self._received.empty():
            found.append(json.loads(self._received.get()))
        return found

    def wait_ended(self) -> int:
        """Wait for the end of the process and of its output."""
        if not self.stdin.closed:
            self.stdin.close()
        code = self.process.wait(LIMIT_S)
        for thread in self._threads:
            thread.join(LIMIT_S)
        return code

    def __enter__(self) -> Self:
        """Wait until it is ready, so that messages are not old when it reads them."""
        until(lambda: any("Ready" in entry["log_message"] for entry in self.logs) or self.process.poll() is not None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(LIMIT_S)
        with contextlib.suppress(OSError):
            self.stdin.close()
        self.stdout.close()
        self.stderr.close()


def until(condition: Any) -> None:
    give_up_at_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < give_up_at_s, "the condition was not met in time"
        time.sleep(0.01)


def messages_of(log: Sequence[dict[str, Any]], level: str) -> list[str]:
    return [entry["log_message"] for entry in log if entry["log_level"] == level]
