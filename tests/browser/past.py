"""What happened before now: jobs enqueued, taken, finished and failed at instants of the past, by moving the clock of a
test deployment. The same every time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import msgspec

from tests.browser.sentences import Wording
from windlass.core.job import Blob, Job, NewJob
from windlass.core.operations import Fail, Finish, Take, WorkerInfo
from windlass.core.retry import Backoff
from windlass.sdk.failures import encode_error
from windlass.service import Service

MINUTE_MS = 60_000
# queue, name, jobs per minute at noon, how long one runs, of how many one fails
TRADES = (
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


class Past:
    def __init__(self, service: Service, say: Wording) -> None:
        self._service = service
        self._say = say
        self._random = Random(20)

    async def happen(self, ago_minutes: Sequence[int]) -> None:
        """In each of these minutes a handful of jobs of each trade: begun when the minute begins, so that a picture of
        them is the same at any second. They must come from the oldest to the newest."""
        for queue, *_ in TRADES:
            await self._service.configure(self._say(queue), {"history_length": HISTORY_KEPT})
        into_minute_ms = await self._service.now() % MINUTE_MS
        for ago in ago_minutes:
            for trade in TRADES:
                await self._happen_once(ago * MINUTE_MS + into_minute_ms, *trade)
        self._service.store.clock_offset_ms = 0

    async def _happen_once(self, ago_ms: int, queue: str, name: str, busy: int, run_ms: int, bad: int) -> None:
        wave = 1 + 0.6 * math.sin(ago_ms / MINUTE_MS / 9 + busy)
        count = max(1, round(busy * wave * self._random.uniform(0.6, 1.4)))
        self._at(-ago_ms)
        await self._service.enqueue([self._job(queue, name) for _ in range(count)])
        self._at(-ago_ms + self._random.randint(5, 400))
        request = Take(queues=(self._say(queue),), most=count, worker=WORKER, lease_ms=10 * MINUTE_MS)
        taken = (await self._service.take(request)).jobs
        self._at(-ago_ms + 500 + int(run_ms * self._random.uniform(0.5, 2)))
        failed = [one for one in taken if self._random.randrange(bad) == 0]
        finished = [one for one in taken if one not in failed]
        await self._service.finish([Finish(one.id, one.lease_token, Blob(b'{"ok":true}')) for one in finished])
        await self._service.fail([self._failure(queue, one) for one in failed])

    def _at(self, offset_ms: int) -> None:
        self._service.store.clock_offset_ms = offset_ms

    def _job(self, queue: str, name: str) -> NewJob:
        number = self._random.randrange(10_000, 99_999)
        payload = {"order": number, "customer": self._say("Ada Lovelace"), "to": self._say(f"customer-{number % 7}")}
        return NewJob(
            queue=self._say(queue),
            name=self._say(name),
            payload=Blob(msgspec.json.encode(payload)),
            tags=(self._say("shop"), self._say(f"region={'eu' if number % 3 else 'us'}")),
            retry=Backoff(tries=1),
        )

    def _failure(self, queue: str, job: Job) -> Fail:
        kind, message = ERRORS[queue]
        message = self._say(message)
        return Fail(id=job.id, token=job.lease_token, error=encode_error(kind, message, traceback_of(kind, message)))


async def register_worker(service: Service, say: Wording) -> None:
    """The one that did it all; it is to be seen for a day after its last beat."""
    info = WorkerInfo(host=say("app-2.example"), pid=4127, slots=8, name=say("app-2"), queues=(say("mail"),))
    await service.register(WORKER, info, beat_ms=24 * 60 * MINUTE_MS)
