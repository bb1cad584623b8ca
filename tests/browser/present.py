"""A deployment in the middle of its day: jobs in every state, made by a real SDK worker and by the service, and what
people set up around them. The same every time; `populated` keeps its worker at work until the block ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import msgspec

from tests.browser.past import ERRORS, MINUTE_MS, WORKER, Past, register_worker, traceback_of
from tests.browser.sentences import Wording
from windlass import Context, Windlass, Worker
from windlass.core.access.audit import AuditEntry
from windlass.core.bulk_action import Action
from windlass.core.callbacks.callback import FailedDelivery
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Callback, Cap, Job, NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.log import Log, LogLine
from windlass.core.operations import Fail, Finish, Listing, Take, Update, WorkerInfo
from windlass.core.retry import Backoff
from windlass.core.scheduling.schedule import Schedule
from windlass.downloads.api.aggregation import LIMIT
from windlass.downloads.worker.order import QUEUE
from windlass.sdk.failures import encode_error
from windlass.sdk.flows.spawn import ChildHandle
from windlass.service import Service
from windlass.store.store import Store

HOUR_MS = 60 * MINUTE_MS
WAITING_SINCE_MS, RUNNING_SINCE_MS = 4 * MINUTE_MS, 3 * MINUTE_MS
PUSHED = b"worker of pushes"
# Numbers that a browser's own arithmetic would change.
EXACT = b'{"order": 9007199254740993, "amount": 0.10, "huge": 123456789012345678901234567890, "none": null, "ok": true}'


class Shop:
    """The tasks of an application, and gates at which its running jobs wait."""

    def __init__(self, app: Windlass, say: Wording) -> None:
        self.go_on = asyncio.Event()
        self.are_held = asyncio.Semaphore(0)
        self.children: list[ChildHandle] = []  # that end by themselves

        @app.task(name=say("render_report"), queue=say("reports"), keep_result="1h", tags=(say("monthly"),))
        async def render(ctx: Context, title: str) -> dict[str, str]:
            ctx.log.info("rendering %s", title)
            return {"title": title, "url": say("reports.example/2026-10.pdf")}

        @app.task(name=say("import_feed"), queue=say("imports"), retry=1)
        async def break_down(feed: str) -> None:
            raise ValueError(say(f"The feed {feed} ends in the middle of a word"))

        @app.task(name=say("encode_video"), queue=say("images"), timeout="1h", tags=(say("video"),))
        async def encode(ctx: Context, file: str, done: float) -> None:
            ctx.log.info(say(f"opened {file}"))
            ctx.log.warning(say("frame 911 has no key, going on"))
            ctx.progress(done, note=say("pass 2 of 3"))
            self.are_held.release()
            await self.go_on.wait()

        @app.task(name=say("close_month"), queue=say("reports"), keep_result="1h", on_failure="ignore")
        async def close_month(ctx: Context, month: str) -> int:
            if not ctx.is_resumed:
                parts = {"eu": render.call(f"{month} EU"), "us": render.call(f"{month} US")}
                self.children += await ctx.aspawn_many(parts)
                self.children += await ctx.aspawn_many([break_down.using(queue=say("reports")).call("ledger.csv")])
                await ctx.aspawn_many([encode.using(queue=say("reports")).call("month.mp4", 0.25)])
            return len(ctx.children)

        self.render, self.break_down, self.encode, self.close_month = render, break_down, encode, close_month


class Present:
    """Makes it. `ids`: the jobs that tests ask for, by a word of ours."""

    def __init__(self, service: Service, say: Wording) -> None:
        self.service = service
        self.say = say
        self.ids: dict[str, str] = {}

    async def arrange(self) -> None:
        await register_worker(self.service, self.say)
        await self._limits()
        store = self.service.store
        store.clock_offset_ms = -WAITING_SINCE_MS
        await self._waiting_jobs()
        store.clock_offset_ms = -RUNNING_SINCE_MS
        await self._held_jobs()
        await self._downloads()
        store.clock_offset_ms = 0
        await self._failed_job()
        await self._callbacks()
        await self._pauses()
        await self._schedules()
        await self._audits()
        await self._action()

    async def work(self, shop: Shop) -> None:
        """What the SDK's worker does; its last two jobs run on until the gate opens."""
        finished = await shop.render.aenqueue(self.say("October, all shops"))
        await finished.aresult()
        self.ids["finished"] = finished.id
        parent = await shop.close_month.aenqueue("2026-10")
        running = await shop.encode.aenqueue(self.say("holiday.mov"), 0.62)
        for _ in range(2):
            await shop.are_held.acquire()
        for child in shop.children:
            await self.service.result(parse_id(child.id), wait_ms=MINUTE_MS)
        self.ids |= {"parent": parent.id, "running": running.id}

    async def enqueue(self, queue: str, name: str, **fields: object) -> str:
        job = NewJob(queue=self.say(queue), name=self.say(name), **fields)  # type: ignore[arg-type]
        (made,) = await self.service.enqueue([job])
        assert not isinstance(made, Exception), made
        return format_id(made.id)

    async def _limits(self) -> None:
        say = self.say
        for limit in (
            Limit(name=say("two imports at once"), matches=Matcher(queue=say("feeds")), running=2),
            Limit(
                name=say("one charge per customer"),
                matches=Matcher(queue=say("payments"), name=say("charge_card")),
                running=1,
                key="customer",
            ),
            Limit(name=say("gentle with SMTP"), matches=Matcher(queue=say("mail")), rate=50, per_ms=MINUTE_MS),
        ):
            await self.service.limit(limit)

    async def _waiting_jobs(self) -> None:
        ids, say = self.ids, self.say
        ids["queued"] = await self.enqueue(
            "mail", "send_mail", payload=Blob(EXACT), tags=(say("shop"), say("urgent")), priority=-5, lane=say("eu")
        )
        for number in range(8):
            await self.enqueue("mail", "send_mail", payload=_customer(say(f"customer {number}")), lane=say("eu"))
            await self.enqueue("newsletters", "send_newsletter", payload=_customer(say(f"reader {number}")))
        ids["scheduled"] = await self.enqueue("reports", "render_report", delay_ms=6 * HOUR_MS, unique=say("nightly"))
        ids["after"] = await self.enqueue("mail", "send_mail", after=(parse_id(ids["scheduled"]),))
        ids["paused"] = await self.enqueue("newsletters", "send_newsletter", payload=_long(say))
        gone = await self.enqueue("mail", "send_mail", payload=_customer(say("a customer who left")))
        await self.service.cancel([parse_id(gone)], reason=say("changed mind", 60))
        ids["cancelled"] = gone

    async def _held_jobs(self) -> None:
        """Two feeds run at another worker, the third is held back by the limit; two mails are on their way; a push
        worker has nothing to do."""
        for number in range(2):
            await self.enqueue("mail", "send_mail", payload=_customer(self.say(f"buyer {number}")), priority=-10)
        await self._take("mail", 2)
        for number in range(4):
            key = await self.enqueue("feeds", "import_feed", payload=_customer(self.say(f"feed {number}")))
            self.ids["held back"] = key
        taken = await self._take("feeds", 2)
        self.ids["held"] = taken[0].key
        note = self.say("14,200 of 51,000 rows", 200)
        for job, done in zip(taken, (0.28, 0.81), strict=True):
            await self.service.update([Update(id=job.id, token=job.lease_token, progress=done, note=note)])
        now_ms = await self.service.now()
        lines = [LogLine(now_ms + at, level, self.say(f"row {at}", 900)) for at, level in _LEVELS]
        await self.service.log([Log(taken[0].id, taken[0].lease_token, lines)])
        say = self.say
        info = WorkerInfo(
            host=say("edge-1.example"), name=say("edge"), url="http://192.0.2.1:9", slots=3, queues=(say("edge"),)
        )
        await self.service.register(PUSHED, info, beat_ms=24 * HOUR_MS)

    async def _downloads(self) -> None:
        """Two aggregations, each with as many downloads under way as it may have."""
        await self.service.limit(LIMIT)
        for key, count, most in ((self.say("shop.example"), 5, 2), (self.say("archive"), 3, 1)):
            cap = Cap(limit=LIMIT.name, running=most, note="http://proxy.example:3128")
            for number in range(count):
                order = {"id": f"{key[:4]}-{number}", "url": f"https://192.0.2.9/{number}.jpg", "aggr_id": key}
                payload = Blob(msgspec.json.encode(order))
                await self.service.enqueue([NewJob(queue=QUEUE, name="download", payload=payload, cap=cap)])
        request = Take(queues=(QUEUE,), most=10, worker=WORKER, lease_ms=24 * HOUR_MS)
        taken = (await self.service.take(request)).jobs
        await self.service.update([Update(id=one.id, token=one.lease_token, progress=0.4) for one in taken])

    async def _take(self, queue: str, most: int = 1) -> list[Job]:
        request = Take(queues=(self.say(queue),), most=most, worker=WORKER, lease_ms=24 * HOUR_MS)
        return (await self.service.take(request)).jobs

    async def _failed_job(self) -> None:
        """After three attempts within some minutes, each with its error and a line."""
        store = self.service.store
        store.clock_offset_ms = -11 * MINUTE_MS
        retry = Backoff(tries=3, base_ms=0, jitter=0)
        key = self.ids["failed"] = await self.enqueue("charges", "charge_card", payload=Blob(EXACT), retry=retry)
        kind, message = ERRORS["payments"]
        text = self.say(message, 1_000)
        for attempt in (1, 2, 3):
            store.clock_offset_ms += attempt * MINUTE_MS
            (job,) = await self._take("charges")
            assert job.key == key
            lines = [LogLine(await self.service.now(), "info", self.say("asking the bank", 1_000))]
            await self.service.log([Log(job.id, job.lease_token, lines)])
            store.clock_offset_ms += 20_000
            error = encode_error(kind, text, traceback_of(kind, text))
            then = "retry" if attempt < 3 else "final"
            await self.service.fail([Fail(id=job.id, token=job.lease_token, error=error, then=then)])  # type: ignore[arg-type]
        store.clock_offset_ms = 0

    async def _callbacks(self) -> None:
        """One is owed in an hour, after a failed delivery; one was given up."""
        for word in ("owed", "given-up"):
            hook = Callback(url=f"https://192.0.2.7/hooks/{word}?x=%3Cscript%3E", events=("finished",))
            self.ids[word] = await self.enqueue("orders", "ship_order", callback=hook, result_ttl_ms=HOUR_MS)
            (job,) = await self._take("orders")
            await self.service.finish([Finish(job.id, job.lease_token, Blob(b'{"parcel": 18446744073709551616}'))])
            (debt,) = (await self.service.take_callbacks(most=1)).callbacks
            error = self.say("answered 503 Service Unavailable", 900)
            undelivered = FailedDelivery(
                id=debt.id, token=debt.token, delay_ms=HOUR_MS, error=error, give_up=word == "given-up"
            )
            await self.service.retry_callbacks([undelivered])

    async def _pauses(self) -> None:
        say = self.say
        await self.service.pause(say("newsletters"), reason=say("Legal looks at the text first", 400))
        await self.service.pause(say("mail"), lane=say("us"), reason=say("the US relay is down"))
        await self.service.configure(say("orders"), {"name_lanes": True})
        await self.service.pause(say("orders"), name=say("send_survey"), reason=say("after the holidays"))

    async def _schedules(self) -> None:
        say = self.say
        job = NewJob(queue=say("reports"), name=say("render_report"), payload=_customer(say("nightly")))
        for schedule in (
            Schedule(name=say("nightly report"), job=job, cron="30 3 * * 1-5", timezone="Europe/Madrid"),
            Schedule(name=say("warm the cache"), job=job, every_ms=12 * HOUR_MS, overlap="skip"),
            Schedule(name=say("monthly invoices"), job=job, cron="0 6 1 * *", misfire="all"),
        ):
            await self.service.schedule(schedule)
        await self.service.pause_schedule(say("monthly invoices"), reason=say("new prices come in January", 400))

    async def _action(self) -> None:
        """One that finds nothing to do."""
        listing = Listing(queue=self.say("orders"), state="failed", error=self.say("timeout"))
        action = Action(verb="retry", listing=listing, asked_by=self.say("grace"))
        self.ids["action"] = format_id((await self.service.act(action)).id)

    async def _audits(self) -> None:
        say = self.say
        await self.service.audit(
            [
                AuditEntry(who=say("grace"), what="pause_queue", target=say("newsletters"), peer="192.0.2.20"),
                AuditEntry(who=say("ada"), what="delete_job", target=self.ids["failed"], outcome="wrong_state"),
                AuditEntry(
                    who=say("deploy"), what="limit", target=say("gentle with SMTP"), detail=say("rate: 50", 900)
                ),
            ]
        )


_LEVELS = ((1, "debug"), (2, "info"), (3, "warning"), (4, "error"))


def _customer(text: str) -> Blob:
    return Blob(msgspec.json.encode({"customer": text}))


def _long(say: Wording) -> Blob:
    """Bigger than a page shows at once, and deep."""
    deep: object = say("the end")
    for level in range(12):
        deep = {say(f"level {level}"): [deep, level]}
    return Blob(
        msgspec.json.encode({"rows": [{"n": n, "text": say(f"row {n}", 2_000)} for n in range(60)], "deep": deep})
    )


@contextlib.asynccontextmanager
async def populated(store: Store, say: Wording, ago_minutes: Sequence[int]) -> AsyncIterator[dict[str, str]]:
    """The ids of its jobs, by a word. The store must be open; the deployment is left as it is."""
    service = Service(store)
    await Past(service, say).happen(ago_minutes)
    present = Present(service, say)
    await present.arrange()
    app = Windlass()
    app.connect(store.clone())
    shop = Shop(app, say)
    worker = Worker(app, concurrency=4, name=say("app-1"), grace=5, has_loops=False)
    working = asyncio.create_task(worker.run())
    try:
        await worker.wait_until_ready()
        await present.work(shop)
        yield present.ids
    finally:
        shop.go_on.set()
        worker.stop()
        await working
        await app.aclose()
