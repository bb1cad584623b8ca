"""Demo deployment: jobs in every state, created by a real SDK worker and by the service, with limits, schedules,
callbacks and pauses. The content is the same every time; the worker of `populated` runs until the block ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import msgspec

from tests.browser.demo_flows import create_flows
from tests.browser.durable.demo_jobs import create_durable_jobs
from tests.browser.job_history import ERRORS, MINUTE_MS, WORKER, JobHistory, register_worker, traceback_of
from tests.browser.sample_texts import TextMaker
from windlass import Context, Windlass, Worker
from windlass.background.alerts.evaluator import AlertEvaluator
from windlass.core.access.audit import AuditEntry
from windlass.core.alerts.rule import AlertRule
from windlass.core.bulk_action import Action
from windlass.core.callbacks.callback import FailedDelivery
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Callback, Cap, Job, NewJob
from windlass.core.limits.condition import Condition
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.log import Log, LogLine
from windlass.core.operations import Fail, Finish, Listing, Take, Update, WorkerInfo
from windlass.core.retry import Backoff
from windlass.core.scheduling.schedule import Schedule
from windlass.core.stats.task_figures import TaskSums, bucket_of
from windlass.downloads.api.aggregation import LIMIT
from windlass.downloads.worker.order import QUEUE
from windlass.sdk.failures import encode_error
from windlass.sdk.flows.spawn import ChildHandle
from windlass.service import Service
from windlass.store.store import Store

HOUR_MS = 60 * MINUTE_MS
WAITING_SINCE_MS, RUNNING_SINCE_MS = 4 * MINUTE_MS, 3 * MINUTE_MS
PUSHED = b"worker of pushes"
DOWNLOADER = b"downloads worker"
# Numbers that JavaScript numbers cannot represent exactly.
EXACT = b'{"order": 9007199254740993, "amount": 0.10, "huge": 123456789012345678901234567890, "none": null, "ok": true}'


class Shop:
    """Tasks of an application, with gates at which its running jobs wait."""

    def __init__(self, app: Windlass, make_text: TextMaker) -> None:
        self.go_on = asyncio.Event()
        self.are_held = asyncio.Semaphore(0)
        self.children: list[ChildHandle] = []  # that end without the gate

        @app.task(
            name=make_text("render_report"), queue=make_text("reports"), keep_result="1h", tags=(make_text("monthly"),)
        )
        async def render(ctx: Context, title: str) -> dict[str, str]:
            ctx.log.info("rendering %s", title)
            return {"title": title, "url": make_text("reports.example/2026-10.pdf")}

        @app.task(name=make_text("import_feed"), queue=make_text("imports"), retry=1)
        async def break_down(feed: str) -> None:
            raise ValueError(make_text(f"The feed {feed} ends in the middle of a word"))

        @app.task(name=make_text("encode_video"), queue=make_text("images"), timeout="1h", tags=(make_text("video"),))
        async def encode(ctx: Context, file: str, done: float) -> None:
            ctx.log.info(make_text(f"opened {file}"))
            ctx.log.warning(make_text("frame 911 has no key, going on"))
            ctx.progress(done, note=make_text("pass 2 of 3"))
            self.are_held.release()
            await self.go_on.wait()

        @app.task(name=make_text("close_month"), queue=make_text("reports"), keep_result="1h", on_failure="ignore")
        async def close_month(ctx: Context, month: str) -> int:
            if not ctx.is_resumed:
                parts = {"eu": render.call(f"{month} EU"), "us": render.call(f"{month} US")}
                self.children += await ctx.aspawn_many(parts)
                self.children += await ctx.aspawn_many(
                    [break_down.using(queue=make_text("reports")).call("ledger.csv")]
                )
                await ctx.aspawn_many([encode.using(queue=make_text("reports")).call("month.mp4", 0.25)])
            return len(ctx.children)

        self.render, self.break_down, self.encode, self.close_month = render, break_down, encode, close_month


class DemoDeployment:
    """Creates the deployment. `ids` holds the jobs that tests need, by a short name."""

    def __init__(self, service: Service, make_text: TextMaker) -> None:
        self.service = service
        self.make_text = make_text
        self.ids: dict[str, str] = {}

    async def create(self) -> None:
        await register_worker(self.service, self.make_text)
        await self._limits()
        store = self.service.store
        store.clock_offset_ms = -WAITING_SINCE_MS
        await self._waiting_jobs()
        store.clock_offset_ms = -RUNNING_SINCE_MS
        await self._held_jobs()
        await self._downloads()
        store.clock_offset_ms = 0
        await self._failed_job()
        await self._task_figures()
        self.ids |= await create_flows(self.service, self.make_text)
        self.ids |= await create_durable_jobs(self.service, self.make_text)
        await self._callbacks()
        await self._pauses()
        await self._schedules()
        await self._alerts()
        await self._audits()
        await self._action()

    async def work(self, shop: Shop) -> None:
        """Run the jobs of the SDK worker. Its last two jobs run until the gate opens."""
        finished = await shop.render.aenqueue(self.make_text("October, all shops"))
        await finished.aresult()
        self.ids["finished"] = finished.id
        parent = await shop.close_month.aenqueue("2026-10")
        running = await shop.encode.aenqueue(self.make_text("holiday.mov"), 0.62)
        for _ in range(2):
            await shop.are_held.acquire()
        for child in shop.children:
            await self.service.result(parse_id(child.id), wait_ms=MINUTE_MS)
        self.ids |= {"parent": parent.id, "running": running.id}

    async def enqueue(self, queue: str, name: str, **fields: object) -> str:
        job = NewJob(queue=self.make_text(queue), name=self.make_text(name), **fields)  # type: ignore[arg-type]
        (added,) = await self.service.enqueue([job])
        assert not isinstance(added, Exception), added
        return format_id(added.id)

    async def _limits(self) -> None:
        make_text = self.make_text
        for limit in (
            Limit(name=make_text("two imports at once"), matches=Matcher(queue=make_text("feeds")), running=2),
            Limit(
                name=make_text("one charge per customer"),
                matches=Matcher(queue=make_text("payments"), name=make_text("charge_card")),
                running=1,
                key="customer",
            ),
            Limit(
                name=make_text("large reports"),
                matches=Matcher(
                    queue=Condition(in_=(make_text("reports"), make_text("archive"))),
                    payload={"pages": Condition(gt=1000), "plan": Condition(not_=make_text("gold"))},
                ),
                running=1,
            ),
            Limit(
                name=make_text("gentle with SMTP"), matches=Matcher(queue=make_text("mail")), rate=50, per_ms=MINUTE_MS
            ),
        ):
            await self.service.limit(limit)

    async def _waiting_jobs(self) -> None:
        ids, make_text = self.ids, self.make_text
        ids["queued"] = await self.enqueue(
            "mail",
            "send_mail",
            payload=Blob(EXACT),
            tags=(make_text("shop"), make_text("urgent")),
            priority=-5,
            lane=make_text("eu"),
        )
        for number in range(8):
            await self.enqueue(
                "mail", "send_mail", payload=_customer(make_text(f"customer {number}")), lane=make_text("eu")
            )
            await self.enqueue("newsletters", "send_newsletter", payload=_customer(make_text(f"reader {number}")))
        ids["scheduled"] = await self.enqueue(
            "reports", "render_report", delay_ms=6 * HOUR_MS, unique=make_text("nightly")
        )
        ids["after"] = await self.enqueue("mail", "send_mail", after=(parse_id(ids["scheduled"]),))
        ids["paused"] = await self.enqueue("newsletters", "send_newsletter", payload=_long(make_text))
        gone = await self.enqueue("mail", "send_mail", payload=_customer(make_text("a customer who left")))
        await self.service.cancel([parse_id(gone)], reason=make_text("changed mind", 60))
        ids["cancelled"] = gone

    async def _held_jobs(self) -> None:
        """Let another worker run two mails and two feeds. The limit blocks the other feeds. A push worker is idle."""
        for number in range(2):
            await self.enqueue("mail", "send_mail", payload=_customer(self.make_text(f"buyer {number}")), priority=-10)
        await self._take("mail", 2)
        for number in range(4):
            key = await self.enqueue("feeds", "import_feed", payload=_customer(self.make_text(f"feed {number}")))
            self.ids["held back"] = key
        taken = await self._take("feeds", 2)
        self.ids["held"] = taken[0].key
        note = self.make_text("14,200 of 51,000 rows", 200)
        for job, done in zip(taken, (0.28, 0.81), strict=True):
            await self.service.update([Update(id=job.id, token=job.lease_token, progress=done, note=note)])
        now_ms = await self.service.now()
        lines = [LogLine(now_ms + at, level, self.make_text(f"row {at}", 900)) for at, level in _LEVELS]
        await self.service.log([Log(taken[0].id, taken[0].lease_token, lines)])
        make_text = self.make_text
        info = WorkerInfo(
            host=make_text("edge-1.example"),
            name=make_text("edge"),
            url="http://192.0.2.1:9",
            slots=3,
            queues=(make_text("edge"),),
        )
        await self.service.register(PUSHED, info, beat_ms=24 * HOUR_MS)
        part = WorkerInfo(
            host=make_text("server-1.example"), pid=88, queues=(QUEUE,), slots=30, name="downloads",
            component="downloads", version="1.4.2", python="3.13.5", memory_bytes=96_000_000,
        )  # fmt: skip
        await self.service.register(DOWNLOADER, part, beat_ms=24 * HOUR_MS)

    async def _downloads(self) -> None:
        """Create two aggregations, each with as many running downloads as it allows."""
        await self.service.limit(LIMIT)
        for key, count, most in ((self.make_text("shop.example"), 5, 2), (self.make_text("archive"), 3, 1)):
            cap = Cap(limit=LIMIT.name, running=most, note="http://proxy.example:3128")
            for number in range(count):
                order = {"id": f"{key[:4]}-{number}", "url": f"https://192.0.2.9/{number}.jpg", "aggr_id": key}
                payload = Blob(msgspec.json.encode(order))
                await self.service.enqueue([NewJob(queue=QUEUE, name="download", payload=payload, cap=cap)])
        request = Take(queues=(QUEUE,), most=10, worker=WORKER, lease_ms=24 * HOUR_MS)
        taken = (await self.service.take(request)).jobs
        await self.service.update([Update(id=job.id, token=job.lease_token, progress=0.4) for job in taken])

    async def _take(self, queue: str, most: int = 1) -> list[Job]:
        request = Take(queues=(self.make_text(queue),), most=most, worker=WORKER, lease_ms=24 * HOUR_MS)
        return (await self.service.take(request)).jobs

    async def _failed_job(self) -> None:
        """Fail a job in three attempts within some minutes, each with an error and a log line."""
        store = self.service.store
        store.clock_offset_ms = -11 * MINUTE_MS
        retry = Backoff(tries=3, base_ms=0, jitter=0)
        key = self.ids["failed"] = await self.enqueue("charges", "charge_card", payload=Blob(EXACT), retry=retry)
        kind, message = ERRORS["payments"]
        text = self.make_text(message, 1_000)
        for attempt in (1, 2, 3):
            store.clock_offset_ms += attempt * MINUTE_MS
            (job,) = await self._take("charges")
            assert job.key == key
            lines = [LogLine(await self.service.now(), "info", self.make_text("asking the bank", 1_000))]
            await self.service.log([Log(job.id, job.lease_token, lines)])
            store.clock_offset_ms += 20_000
            error = encode_error(kind, text, traceback_of(kind, text))
            then = "retry" if attempt < 3 else "final"
            await self.service.fail([Fail(id=job.id, token=job.lease_token, error=error, then=then)])  # type: ignore[arg-type]
        store.clock_offset_ms = 0

    async def _task_figures(self) -> None:
        """Report half an hour of attempts of one task, which fail now and then and become slower."""
        store, sums = self.service.store, TaskSums(queue=self.make_text("charges"), name=self.make_text("charge_card"))
        for number, ago in enumerate(range(30, -1, -1), 1):
            store.clock_offset_ms = -ago * MINUTE_MS
            runs = {bucket_of(20 * number * share): count for share, count in ((1, 40), (3, 8), (9, 2))}
            report = msgspec.structs.replace(sums, runs=runs, retried=number % 4, failed=int(number % 7 == 0))
            await self.service.report_tasks(WORKER, number, [report])
        store.clock_offset_ms = 0

    async def _callbacks(self) -> None:
        """Create a callback that is due in an hour after a failed delivery, and a given-up callback."""
        for state in ("pending", "given-up"):
            hook = Callback(url=f"https://192.0.2.7/hooks/{state}?x=%3Cscript%3E", events=("finished",))
            self.ids[state] = await self.enqueue("orders", "ship_order", callback=hook, result_ttl_ms=HOUR_MS)
            (job,) = await self._take("orders")
            await self.service.finish([Finish(job.id, job.lease_token, Blob(b'{"parcel": 18446744073709551616}'))])
            (leased,) = (await self.service.take_callbacks(most=1)).callbacks
            error = self.make_text("answered 503 Service Unavailable", 900)
            undelivered = FailedDelivery(
                id=leased.id, token=leased.token, delay_ms=HOUR_MS, error=error, give_up=state == "given-up"
            )
            await self.service.retry_callbacks([undelivered])

    async def _pauses(self) -> None:
        make_text = self.make_text
        await self.service.pause(make_text("newsletters"), reason=make_text("Legal looks at the text first", 400))
        await self.service.pause(make_text("mail"), lane=make_text("us"), reason=make_text("the US relay is down"))
        await self.service.configure(make_text("orders"), {"name_lanes": True})
        await self.service.pause(
            make_text("orders"), name=make_text("send_survey"), reason=make_text("after the holidays")
        )

    async def _schedules(self) -> None:
        make_text = self.make_text
        job = NewJob(
            queue=make_text("reports"), name=make_text("render_report"), payload=_customer(make_text("nightly"))
        )
        cached = NewJob(
            queue=make_text("cache"), name=make_text("warm_cache"), payload=_customer(make_text("all")),
            result_ttl_ms=24 * HOUR_MS,
        )  # fmt: skip
        for schedule in (
            Schedule(name=make_text("nightly report"), job=job, cron="30 3 * * 1-5", timezone="Europe/Madrid"),
            Schedule(name=make_text("warm the cache"), job=cached, every_ms=12 * HOUR_MS, overlap="skip"),
            Schedule(name=make_text("monthly invoices"), job=job, cron="0 6 1 * *", misfire="all"),
        ):
            await self.service.schedule(schedule)
        for _ in range(2):
            await self.service.run_schedule(make_text("warm the cache"))
            (run,) = await self._take("cache")
            await self.service.finish([Finish(run.id, run.lease_token, Blob(b'{"entries": 812}'))])
        await self.service.pause_schedule(
            make_text("monthly invoices"), reason=make_text("new prices come in January", 400)
        )

    async def _alerts(self) -> None:
        """Set a rule whose incident is open."""
        name, note = self.make_text("jobs pile up"), self.make_text("See the wiki.", 250)
        await self.service.set_alert(AlertRule(name=name, kind="oldest_age", threshold=MINUTE_MS, note=note))
        await AlertEvaluator().run_once(self.service)

    async def _action(self) -> None:
        """Start a background action without matching jobs."""
        listing = Listing(queue=self.make_text("orders"), state="failed", error=self.make_text("timeout"))
        action = Action(verb="retry", listing=listing, asked_by=self.make_text("grace"))
        self.ids["action"] = format_id((await self.service.act(action)).id)

    async def _audits(self) -> None:
        make_text = self.make_text
        await self.service.audit(
            [
                AuditEntry(
                    who=make_text("grace"), what="pause_queue", target=make_text("newsletters"), peer="192.0.2.20"
                ),
                AuditEntry(who=make_text("ada"), what="delete_job", target=self.ids["failed"], outcome="wrong_state"),
                AuditEntry(
                    who=make_text("deploy"),
                    what="limit",
                    target=make_text("gentle with SMTP"),
                    detail=make_text("rate: 50", 900),
                ),
            ]
        )


_LEVELS = ((1, "debug"), (2, "info"), (3, "warning"), (4, "error"))


def _customer(text: str) -> Blob:
    return Blob(msgspec.json.encode({"customer": text}))


def _long(make_text: TextMaker) -> Blob:
    """Build a payload that is too large and too deep for a page."""
    deep: object = make_text("the end")
    for level in range(12):
        deep = {make_text(f"level {level}"): [deep, level]}
    return Blob(
        msgspec.json.encode({"rows": [{"n": n, "text": make_text(f"row {n}", 2_000)} for n in range(60)], "deep": deep})
    )


@contextlib.asynccontextmanager
async def populated(store: Store, make_text: TextMaker, ago_minutes: Sequence[int]) -> AsyncIterator[dict[str, str]]:
    """Create the deployment in an open store and run its worker for the block. Yields the job ids by their short names.
    The data is not removed."""
    service = Service(store)
    await JobHistory(service, make_text).create(ago_minutes)
    present = DemoDeployment(service, make_text)
    await present.create()
    app = Windlass()
    app.connect(store.clone())
    shop = Shop(app, make_text)
    worker = Worker(app, concurrency=4, name=make_text("app-1"), grace=5, has_loops=False)
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
