"""Job history: jobs enqueued, taken, finished and failed at instants in the past, by moving the clock of a test
deployment. The history is the same every time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import msgspec

from tests.browser.sample_texts import TextMaker
from windlass.core.job import Blob, Job, NewJob
from windlass.core.operations import Fail, Finish, Take, WorkerInfo
from windlass.core.retry import Backoff
from windlass.sdk.failures import encode_error
from windlass.service import Service

MINUTE_MS = 60_000
# queue, name, mean jobs per minute, run time in ms, one of how many jobs fails
WORKLOADS = (
    ("mail", "send_mail", 14, 180, 250),
    ("images", "resize_image", 9, 2_400, 300),
    ("payments", "charge_card", 5, 650, 120),
    ("reports", "render_report", 2, 9_500, 60),
    ("imports", "import_feed", 3, 21_000, 40),
)
ERRORS = {
    "mail": ("SMTPServerDisconnected", "Connection unexpectedly closed by smtp.example.com"),
    "images": ("UnidentifiedImageError", "cannot identify image file 'upload-7713.webp'"),
    "payments": ("CardDeclined", "The card was declined: insufficient_funds"),
    "reports": ("MemoryError", "Unable to allocate 2.31 GiB for an array"),
    "imports": ("JSONDecodeError", "Expecting ',' delimiter: line 2911 column 14 (char 184320)"),
}
HISTORY_KEPT = 200
WORKER = b"worker of the ps"


def traceback_of(kind: str, message: str) -> str:
    return (
        "Traceback (most recent call last):\n"
        '  File "/srv/shop/tasks.py", line 118, in handle\n'
        "    answer = await send(order, timeout=10)\n"
        "             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        f"{kind}: {message}\n"
    )


class JobHistory:
    def __init__(self, service: Service, make_text: TextMaker) -> None:
        self._service = service
        self._make_text = make_text
        self._random = Random(20)

    async def create(self, ago_minutes: Sequence[int]) -> None:
        """Create some jobs of each workload in each of these minutes, given from the oldest to the newest. Jobs start
        with their minute, so that charts do not depend on the current second."""
        for queue, *_ in WORKLOADS:
            await self._service.configure(self._make_text(queue), {"history_length": HISTORY_KEPT})
        into_minute_ms = await self._service.now() % MINUTE_MS
        for ago in ago_minutes:
            for workload in WORKLOADS:
                await self._create_minute(ago * MINUTE_MS + into_minute_ms, *workload)
        self._service.store.clock_offset_ms = 0

    async def _create_minute(self, ago_ms: int, queue: str, name: str, busy: int, run_ms: int, bad: int) -> None:
        wave = 1 + 0.6 * math.sin(ago_ms / MINUTE_MS / 9 + busy)
        count = max(1, round(busy * wave * self._random.uniform(0.6, 1.4)))
        self._at(-ago_ms)
        await self._service.enqueue([self._job(queue, name) for _ in range(count)])
        self._at(-ago_ms + self._random.randint(5, 400))
        request = Take(queues=(self._make_text(queue),), most=count, worker=WORKER, lease_ms=10 * MINUTE_MS)
        taken = (await self._service.take(request)).jobs
        self._at(-ago_ms + 500 + int(run_ms * self._random.uniform(0.5, 2)))
        failed = [job for job in taken if self._random.randrange(bad) == 0]
        finished = [job for job in taken if job not in failed]
        await self._service.finish([Finish(job.id, job.lease_token, Blob(b'{"ok":true}')) for job in finished])
        await self._service.fail([self._failure(queue, job) for job in failed])

    def _at(self, offset_ms: int) -> None:
        self._service.store.clock_offset_ms = offset_ms

    def _job(self, queue: str, name: str) -> NewJob:
        number = self._random.randrange(10_000, 99_999)
        payload = {
            "order": number,
            "customer": self._make_text("Ada Lovelace"),
            "to": self._make_text(f"customer-{number % 7}"),
        }
        return NewJob(
            queue=self._make_text(queue),
            name=self._make_text(name),
            payload=Blob(msgspec.json.encode(payload)),
            tags=(self._make_text("shop"), self._make_text(f"region={'eu' if number % 3 else 'us'}")),
            retry=Backoff(tries=1),
        )

    def _failure(self, queue: str, job: Job) -> Fail:
        kind, message = ERRORS[queue]
        message = self._make_text(message)
        return Fail(id=job.id, token=job.lease_token, error=encode_error(kind, message, traceback_of(kind, message)))


async def register_worker(service: Service, make_text: TextMaker) -> None:
    """Register the worker of the history. It stays visible for a day after its last heartbeat."""
    info = WorkerInfo(
        host=make_text("app-2.example"),
        pid=4127,
        slots=8,
        name=make_text("app-2"),
        queues=(make_text("mail"),),
        names=(make_text("send_mail"), make_text("send_digest")),
        version="1.4.2",
        python="3.13.5",
        memory_bytes=187_000_000,
    )
    await service.register(WORKER, info, beat_ms=24 * 60 * MINUTE_MS)
