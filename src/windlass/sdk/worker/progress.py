"""Sender of progress, values and log lines. Code in any thread adds them; one event loop sends them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from typing import Any

from windlass.core.errors import Refusal, WindlassError
from windlass.core.event import Emit
from windlass.core.job import Blob, Job
from windlass.core.log import Log, LogLine
from windlass.core.operations import Update
from windlass.core.validation.bounds import EMITTED_MAX, LOG_LEVEL_MAX, LOG_LINE_MAX, LOG_LINES_MAX, NOTE_MAX
from windlass.service import Service

log = logging.getLogger("windlass.worker")

PAUSE_S = 0.1  # between flushes; only the newest progress of a job is sent
WAITING_MAX = 10_000  # pending values, and pending lines; beyond this the oldest are dropped
BATCH = 500


class ProgressSender:
    """Belongs to the event loop in which it is made. `progress`, `emit` and `log` are thread-safe."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._swap_lock = threading.Lock()  # never held during I/O
        self._progress: dict[bytes, Update] = {}
        self._values: deque[Emit] = deque(maxlen=WAITING_MAX)
        self._lines: deque[tuple[Job, LogLine]] = deque(maxlen=WAITING_MAX)
        self._pending: set[bytes] = set()  # jobs with something to send
        self._sending: set[bytes] = set()  # jobs with something in flight
        self._has_news = asyncio.Event()
        self._is_woken = False
        self._flush_lock = asyncio.Lock()

    # Called by running code, in any thread

    def progress(self, job: Job, fraction: float, note: str) -> None:
        """Set the progress of a job. Without a note, the last note stays."""
        with self._swap_lock:
            before = self._progress.get(job.id)
            kept = _cut(note, NOTE_MAX) if note else before.note if before else None
            self._progress[job.id] = Update(id=job.id, token=job.lease_token, progress=fraction, note=kept)
        self._wake(job)

    def emit(self, job: Job, value: Blob) -> None:
        if len(value.data) > EMITTED_MAX:
            log.warning(
                "Dropped an emitted value of %d bytes: the limit is %d. Emit a reference instead.",
                len(value.data),
                EMITTED_MAX,
            )
            return
        self._values.append(Emit(job.id, job.lease_token, value))
        self._wake(job)

    def log(self, job: Job, at_ms: int, level: str, text: str) -> None:
        self._lines.append((job, LogLine(at_ms, _cut(level, LOG_LEVEL_MAX), _cut(text, LOG_LINE_MAX))))
        self._wake(job)

    def _wake(self, job: Job) -> None:
        self._pending.add(job.id)
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._has_news.set)

    def has_pending(self, job: Job) -> bool:
        return job.id in self._pending or job.id in self._sending

    # Run by the event loop

    async def run(self) -> None:
        while True:
            await self._has_news.wait()
            await self.flush()
            await asyncio.sleep(PAUSE_S)

    async def flush(self) -> None:
        """Send everything that was added before this call. The engine may refuse it."""
        async with self._flush_lock:
            self._has_news.clear()
            self._is_woken = False
            self._sending, self._pending = self._pending, set()
            try:
                while self._progress or self._values or self._lines:
                    await self._send()
            except WindlassError as error:
                log.warning("Could not send progress, values or log lines of jobs: %s. They are lost.", error)
            finally:
                self._sending = set()

    async def _send(self) -> None:
        """Send one batch. It is lost if the engine goes away during the call: values and lines are not results."""
        with self._swap_lock:
            progress, self._progress = self._progress, {}
        values = [self._values.popleft() for _ in range(min(BATCH, len(self._values)))]
        lines = [self._lines.popleft() for _ in range(min(BATCH, len(self._lines)))]
        if progress:
            self._log_refusals(await self._service.update(list(progress.values())))
        if values:
            self._log_refusals(await self._service.emit(values))
        if lines:
            self._log_refusals(await self._service.log(_by_job(lines)))

    def _log_refusals(self, answers: list[Any]) -> None:
        for answer in answers:
            if isinstance(answer, Refusal):
                log.debug("The engine refused progress, a value or a log line of an ended job: %s", answer)


def _by_job(lines: list[tuple[Job, LogLine]]) -> list[Log]:
    """Group lines by job, in order within each job."""
    found: dict[bytes, tuple[Job, list[LogLine]]] = {}
    for job, line in lines:
        found.setdefault(job.id, (job, []))[1].append(line)
    return [
        Log(job.id, job.lease_token, tuple(some[start : start + LOG_LINES_MAX]))
        for job, some in found.values()
        for start in range(0, len(some), LOG_LINES_MAX)
    ]


def _cut(text: str, most_bytes: int) -> str:
    data = str(text).encode(errors="backslashreplace")
    return data[:most_bytes].decode(errors="ignore")
