"""Durable jobs of the demo deployment: jobs that wait for signals, sleep, try a step again, failed in a step, or have
finished."""

from __future__ import annotations

import msgspec

from tests.browser.job_history import MINUTE_MS, WORKER
from tests.browser.sample_texts import TextMaker
from windlass.core.durable import SIGNAL_NAME_MAX, Signal, StepKind, StepStatus, StoreStep, StreamWrite, Suspend, Wait
from windlass.core.job import Blob, Job, NewJob
from windlass.core.operations import ANY_JOB_WITH_STEPS, Fail, Finish, Take
from windlass.core.retry import Backoff
from windlass.sdk.failures import encode_error
from windlass.service import Service

HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
SINCE_MS = 6 * HOUR_MS
STREAMED = 26


async def create_durable_jobs(service: Service, make_text: TextMaker) -> dict[str, str]:
    """Create the jobs within the last hours. Returns their ids, and the token of a link that answers one of them."""
    jobs = _DurableJobs(service, make_text)
    service.store.clock_offset_ms = -SINCE_MS
    ids = {
        "durable": await jobs.waits_for_approval(),
        "asleep": await jobs.sleeps(),
        "tried again": await jobs.tries_again(),
        "step failed": await jobs.fails_in_a_step(),
        "durable finished": await jobs.finishes(),
    }
    service.store.clock_offset_ms = 0
    return ids | {"signal link": jobs.link}


class _DurableJobs:
    def __init__(self, service: Service, make_text: TextMaker) -> None:
        self._service = service
        self._text = make_text
        self.link = ""

    async def start(self, name: str, **fields: object) -> Job:
        queue = self._text("fulfilment")
        payload = Blob(msgspec.json.encode({"order": 4711, "customer": self._text("Ada")}))
        new = NewJob(queue=queue, name=self._text(name), payload=payload, **fields)  # type: ignore[arg-type]
        await self._service.enqueue([new])
        return await self.take()

    async def take(self) -> Job:
        request = Take(
            queues=(self._text("fulfilment"),), worker=WORKER, lease_ms=24 * HOUR_MS, wants=ANY_JOB_WITH_STEPS
        )
        (job,) = (await self._service.take(request)).jobs
        return job

    async def step(self, job: Job, name: str, value: object, ran_ms: int, **fields: object) -> None:
        """Let time pass, and store a step that took it."""
        self._service.store.clock_offset_ms += ran_ms
        blob = value if isinstance(value, Blob) else Blob(msgspec.json.encode(value))
        request = StoreStep(
            id=job.id, token=job.lease_token, name=self._text(name), value=blob, ran_ms=ran_ms, **fields  # type: ignore[arg-type]
        )  # fmt: skip
        await self._service.store_steps([request]).one()

    async def suspend(self, job: Job, *waits: Wait) -> None:
        await self._service.suspend([Suspend(id=job.id, token=job.lease_token, waits=waits)]).one()

    def error(self, text: str) -> Blob:
        kind, message = "CardDeclined", self._text(text)
        return encode_error(kind, message, f"Traceback (most recent call last):\n{kind}: {message}")

    async def waits_for_approval(self) -> str:
        """Store steps, sleep for some hours, write a stream, and wait for a signal of a person."""
        text, service = self._text, self._service
        approval = text("approval", SIGNAL_NAME_MAX)
        job = await self.start("fulfil_order")
        await self.step(job, "reserve_stock", {"rows": [{"sku": text(f"book {n}"), "n": n} for n in range(6)]}, 900)
        await self.step(job, "charge_card", {"receipt": 9007199254740993, "by": text("bank")}, 95_000, tries=2)
        await self.suspend(job, Wait(name=text("cooling-off period"), kind="sleep", for_ms=3 * HOUR_MS))
        service.store.clock_offset_ms += 3 * HOUR_MS + 1_000
        job = await self.take()
        await self.step(job, "notify", True, 40)
        await self.step(job, "rows", 1250, 20 * MINUTE_MS, kind=StepKind.CURSOR, status=StepStatus.WAITING)
        values = tuple(Blob(msgspec.json.encode({"text": text(f"chunk {n}")})) for n in range(STREAMED))
        await service.write_stream([StreamWrite(id=job.id, token=job.lease_token, values=values, sequence=0)]).one()
        note = Signal(id=job.id, name=text("comment", SIGNAL_NAME_MAX), value=Blob(b'{"by": "grace", "text": "soon"}'))
        await service.signal([note]).one()
        await self.suspend(
            job,
            Wait(
                name=text("approval of a manager"),
                kind="signal",
                signal=approval,
                for_ms=3 * DAY_MS,
                schema=self.approval_schema(),
            ),
            Wait(name=text("reminder"), kind="sleep", for_ms=2 * DAY_MS),
        )
        self.link = (await service.signal_link(job.id, approval)).token
        return job.key

    def approval_schema(self) -> Blob:
        text = self._text
        properties = {
            text("by"): {"type": "string", "description": text("Your name")},
            text("is_granted"): {"type": "boolean"},
            text("reason"): {"enum": [text("in stock"), text("regular customer")], "default": text("in stock")},
            text("discount"): {"type": "number", "minimum": 0, "maximum": 30, "default": 0},
        }
        required = list(properties)[:2]
        schema = {"type": "object", "title": text("Approval"), "properties": properties, "required": required}
        return Blob(msgspec.json.encode(schema))

    async def sleeps(self) -> str:
        job = await self.start("ask_for_review")
        await self.step(job, "ship", {"parcel": self._text("RX 1")}, 2_000)
        await self.suspend(job, Wait(name="sleep", kind="sleep", for_ms=14 * DAY_MS))
        return job.key

    async def tries_again(self) -> str:
        job = await self.start("pay_supplier")
        error = self.error("the bank does not answer")
        await self.suspend(job, Wait(name=self._text("transfer"), kind="retry", for_ms=DAY_MS, tries=3, error=error))
        other = await self.start("send_contract")
        signature = self._text("signature", SIGNAL_NAME_MAX)
        await self.suspend(other, Wait(name=self._text("wait"), kind="signal", signal=signature))
        return job.key

    async def fails_in_a_step(self) -> str:
        job = await self.start("fulfil_order", retry=Backoff(tries=1))
        await self.step(job, "reserve_stock", {"rows": 3}, 900)
        error = self.error("the card was declined")
        await self.step(job, "charge_card", error, 7_000, status=StepStatus.FAILED, tries=3)
        await self._service.fail([Fail(id=job.id, token=job.lease_token, error=error, then="final")]).one()
        return job.key

    async def finishes(self) -> str:
        job = await self.start("fulfil_order", result_ttl_ms=DAY_MS)
        await self.step(job, "charge_card", {"receipt": 7}, 1_200)
        await self._service.finish([Finish(job.id, job.lease_token, Blob(b'"shipped"'))]).one()
        return job.key
