"""Flows of the demo deployment: one that failed, one that runs, one that finished."""

from __future__ import annotations

from tests.browser.job_history import MINUTE_MS, WORKER
from tests.browser.sample_texts import TextMaker
from windlass.core.ids import format_id
from windlass.core.job import Blob, FlowRef, Job, NewJob
from windlass.core.operations import Fail, Finish, Take, Update
from windlass.sdk.failures import encode_error
from windlass.service import Service

CHECKOUT: dict[str, tuple[str, ...]] = {
    "check_cart": (),
    "reserve_stock": ("check_cart",),
    "charge_card": ("check_cart",),
    "render_invoice": ("charge_card",),
    "send_receipt": ("render_invoice",),
    "ship_order": ("reserve_stock", "charge_card"),
    "ask_for_review": ("ship_order", "send_receipt"),
}
REFUND: dict[str, tuple[str, ...]] = {"check_return": (), "pay_back": ("check_return",), "tell_customer": ("pay_back",)}
HOUR_MS = 60 * MINUTE_MS
SINCE_MS = 9 * MINUTE_MS


async def create_flows(service: Service, make_text: TextMaker) -> dict[str, str]:
    """Create the flows within the last minutes. Returns their ids, and the id of a step that could not run."""
    flows = _Flows(service, make_text)
    store = service.store
    store.clock_offset_ms = -SINCE_MS
    refund, _ = await flows.enqueue("refunds", "refund", REFUND)
    for _ in REFUND:
        await flows.finish("refunds")
    store.clock_offset_ms = -SINCE_MS
    failed, steps = await flows.enqueue("checkouts", "checkout", CHECKOUT)
    await flows.finish("checkouts")
    await flows.finish("checkouts")
    await flows.fail("checkouts", "the card has expired")
    store.clock_offset_ms = -5 * MINUTE_MS
    running, _ = await flows.enqueue("checkouts", "checkout", CHECKOUT)
    await flows.finish("checkouts")
    await flows.finish("checkouts")
    (job,) = await flows.take("checkouts")
    await service.update([Update(id=job.id, token=job.lease_token, progress=0.4)])
    store.clock_offset_ms = 0
    return {"flow": failed, "flow running": running, "flow finished": refund, "flow step": steps["ship_order"]}


class _Flows:
    def __init__(self, service: Service, make_text: TextMaker) -> None:
        self._service = service
        self._text = make_text

    async def enqueue(self, queue: str, name: str, steps: dict[str, tuple[str, ...]]) -> tuple[str, dict[str, str]]:
        """Enqueue a flow and return its id and those of its jobs."""
        text = self._text
        flow_id, *ids = self._service.store.new_ids([text(queue)] * (len(steps) + 1))
        jobs = dict(zip(steps, ids, strict=True))
        added = await self._service.enqueue(
            [
                NewJob(
                    queue=text(queue),
                    name=text(step),
                    id=jobs[step],
                    after=tuple(jobs[before] for before in after),
                    flow=FlowRef(flow_id, text(name), text(step)),
                    result_ttl_ms=HOUR_MS,
                )
                for step, after in steps.items()
            ],
            whole=True,
        )
        assert not any(isinstance(answer, Exception) for answer in added), added
        return format_id(flow_id), {step: format_id(job_id) for step, job_id in jobs.items()}

    async def take(self, queue: str) -> list[Job]:
        """Take a step some seconds later."""
        self._service.store.clock_offset_ms += 6_000
        request = Take(queues=(self._text(queue),), most=1, worker=WORKER, lease_ms=24 * HOUR_MS)
        return (await self._service.take(request)).jobs

    async def finish(self, queue: str) -> None:
        (job,) = await self.take(queue)
        self._service.store.clock_offset_ms += 17_000
        await self._service.finish([Finish(job.id, job.lease_token, Blob(b'{"done": true}'))])

    async def fail(self, queue: str, message: str) -> None:
        (job,) = await self.take(queue)
        self._service.store.clock_offset_ms += 31_000
        error = encode_error("CardRefused", self._text(message, 1_000))
        await self._service.fail([Fail(id=job.id, token=job.lease_token, error=error, then="final")])
