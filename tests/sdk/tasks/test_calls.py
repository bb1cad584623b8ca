"""Tasks and calls: enqueued jobs, and calls that are refused before anything is enqueued."""

from __future__ import annotations

import asyncio
import gc
import weakref
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.support.namespace import send_command
from windlass import Backoff, Context, Rate, Windlass
from windlass.core.errors import BadInput
from windlass.core.job import Job
from windlass.core.operations import Listing


def jobs(app: Windlass, queue: str = "default", state: str = "queued") -> list[Job]:
    found: list[Job] = []
    cursor, is_more = "", True
    while is_more:
        page = app.service.jobs(Listing(queue=queue, state=state, cursor=cursor)).wait()
        found, cursor = found + page.jobs, page.cursor
        is_more = bool(cursor)
    return found


def payload(job: Job) -> Any:
    return msgspec.msgpack.decode(job.payload.data)


def test_a_task_stays_a_function(app: Windlass) -> None:
    @app.task
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    assert add(1) == 3
    assert (add.__name__, add.__doc__) == ("add", "Adds.")
    assert jobs(app) == []


@pytest.mark.anyio
async def test_an_async_task_is_awaited_inline(app: Windlass) -> None:
    @app.task
    async def add(a: int, *, ctx: Context) -> int:
        ctx.progress(1, 2)
        ctx.log.info("adding")
        return a + ctx.attempt

    assert await add(1) == 2


def test_arguments_are_stored_by_name(app: Windlass) -> None:
    @app.task(queue="mail")
    def send(order: int, urgent: bool = False) -> None: ...

    handle = send.enqueue(7, urgent=True)
    (job,) = jobs(app, "mail")
    assert (job.key, job.name, payload(job)) == (handle.id, "send", {"order": 7, "urgent": True})
    assert handle.status == "queued"


def test_delay_is_an_alias(app: Windlass) -> None:
    @app.task
    def send(order: int) -> None: ...

    send.delay(7)
    assert [payload(job) for job in jobs(app)] == [{"order": 7}]


@pytest.mark.parametrize("wrong", [(), (1, 2), ("seven",)], ids=["missing", "too many", "type"])
def test_a_wrong_call_enqueues_nothing(app: Windlass, wrong: tuple[Any, ...]) -> None:
    @app.task
    def send(order: int) -> None: ...

    with pytest.raises(TypeError, match="send"):
        send.enqueue(*wrong)
    assert jobs(app) == []


def test_defaults(app: Windlass) -> None:
    @app.task
    def kept(order: int) -> int:
        return order

    @app.task
    def unkept(order: int) -> None: ...

    kept.enqueue(1)
    unkept.enqueue(1)
    first, second = jobs(app)
    assert (first.retry.tries, first.timeout_ms, first.result_ttl_ms) == (3, 900_000, 3_600_000)
    assert second.result_ttl_ms == 0


def test_options_of_a_task_and_of_a_call(app: Windlass) -> None:
    @app.task(queue="mail", retry=Backoff(tries=6, base="2s", factor=3, cap="5m"), timeout="30s", tags=["a"])
    def send(order: int) -> None: ...

    send.using(priority=-5, tags={"src": "web"}, timeout=timedelta(minutes=1), keep_result=5).enqueue(7)
    send.enqueue(8)
    first, second = jobs(app, "mail")
    assert (first.priority, first.tags, first.timeout_ms, first.result_ttl_ms) == (-5, ("src=web",), 60_000, 5_000)
    assert (second.priority, second.tags, second.timeout_ms) == (0, ("a",), 30_000)
    assert (first.retry.tries, first.retry.base_ms, first.retry.factor, first.retry.cap_ms) == (6, 2_000, 3.0, 300_000)


def test_indexed_arguments_find_the_job(app: Windlass) -> None:
    @app.task(index=("order", "customer.email"))
    def send(order: int, customer: dict[str, str] | None = None) -> None: ...

    send.enqueue(4711, customer={"email": "a@b.c"})
    send.using(index=()).enqueue(4711)
    (job,) = app.service.jobs(Listing(where=("order=4711",))).wait().jobs
    assert job.indexed == ("order=4711", "customer.email=a@b.c")


def test_an_index_names_arguments(app: Windlass) -> None:
    with pytest.raises(BadInput, match="'ordr', but the task has no such argument"):

        @app.task(index=("ordr",))
        def send(order: int) -> None: ...

    @app.task(index=("anything.at_all",))
    def send_all(**fields: object) -> None: ...


def test_later_and_not_for_ever(app: Windlass) -> None:
    @app.task
    def send(order: int) -> None: ...

    at = datetime.now(UTC) + timedelta(hours=1)
    delayed, timed = send.using(delay="10m").enqueue(1), send.using(run_at=at, expires="2h").enqueue(2)
    assert (delayed.status, timed.status) == ("scheduled", "scheduled")
    job = timed.info()
    assert job.run_at_ms == round(at.timestamp() * 1000)
    assert job.expires_at_ms is not None
    found = delayed.info()
    assert 590_000 < found.run_at_ms - found.created_at_ms < 610_000  # two clocks


@pytest.mark.parametrize(
    "options",
    [
        {"run_at": datetime(2030, 1, 1)},
        {"delay": "soon"},
        {"delay": -1},
        {"timeout": True},
        {"retry": "often"},
        {"tags": "one"},
        {"index": "order"},
        {"index": ("order..id",)},
        {"index": (1,)},
        {"colour": "red"},
    ],
    ids=str,
)
def test_bad_options(app: Windlass, options: dict[str, Any]) -> None:
    @app.task
    def send(order: int) -> None: ...

    with pytest.raises(BadInput):
        send.using(**options)


def test_unique_by_function_by_text_and_by_all_arguments(app: Windlass) -> None:
    @app.task(unique=lambda order, urgent=False: f"mail:{order}")
    def send(order: int, urgent: bool = False) -> None: ...

    @app.task(unique=True)
    def index(page: int) -> None: ...

    first = send.enqueue(7)
    assert (send.enqueue(7, urgent=True).id, send.enqueue(8).id == first.id) == (first.id, False)
    assert index.enqueue(1).id == index.enqueue(1).id != index.enqueue(2).id
    text = send.using(unique="one")
    assert text.enqueue(1).id == text.enqueue(2).id


def test_replace_gives_the_waiting_job_new_arguments(app: Windlass) -> None:
    @app.task(unique="latest", replace=True)
    def send(order: int) -> None: ...

    first = send.enqueue(1)
    second = send.enqueue(2)
    assert (second.id, second.status) == (first.id, "replaced")
    assert [payload(job) for job in jobs(app)] == [{"order": 2}]


def test_debounce_and_throttle_need_no_key(app: Windlass) -> None:
    @app.task(debounce="5s")
    def index(page: int) -> None: ...

    @app.task(throttle="1m")
    def ping(host: str) -> None: ...

    assert index.enqueue(1).id == index.enqueue(1).id
    assert index.enqueue(2).status == "scheduled"
    assert (ping.enqueue("a").status, ping.enqueue("a").status) == ("queued", "existing")


def test_a_tenant_is_a_lane(app: Windlass) -> None:
    @app.task(tenant=lambda shop: shop)
    def sync(shop: str) -> None: ...

    sync.enqueue("acme")
    sync.using(tenant="other").enqueue("acme")
    assert [job.lane for job in jobs(app)] == ["acme", "other"]


def test_many_at_once(app: Windlass) -> None:
    @app.task
    def send(order: int) -> None: ...

    handles = app.enqueue_many(send.call(number) for number in range(2_500))
    (stats,) = app.service.stats(["default"]).wait()
    assert (len(handles), stats.queued) == (2_500, 2_500)
    assert payload(handles[2_499].info()) == {"order": 2_499}


def test_two_tasks_of_one_name(app: Windlass) -> None:
    @app.task
    def send(order: int) -> None: ...

    with pytest.raises(BadInput, match="give one of them another name"):

        @app.task(name="send")
        def other() -> None: ...


def test_a_task_with_limits_keeps_to_its_queue(app: Windlass) -> None:
    @app.task(queue="mail", limits=[Rate(1, per="1m")])
    def send(order: int) -> None: ...

    with pytest.raises(BadInput, match="limits"):
        send.using(queue="other")


@pytest.mark.parametrize("options", [{"pool": "fibre"}, {"pool": "async"}, {"memory": "512MiB"}], ids=str)
def test_a_task_that_cannot_be(app: Windlass, options: dict[str, Any]) -> None:
    with pytest.raises(BadInput):

        @app.task(**options)
        def send(order: int) -> None: ...


def test_what_an_event_loop_uses_is_closed_with_it(app: Windlass) -> None:
    @app.task
    def send(order: int) -> None: ...

    loops = []

    async def enqueue(number: int) -> str:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        return (await send.aenqueue(number)).status

    send.enqueue(0)
    before = connections(app)
    assert [asyncio.run(enqueue(number)) for number in (1, 2)] == ["queued", "queued"]
    assert connections(app) == before
    gc.collect()
    assert [loop() for loop in loops] == [None, None]


def connections(app: Windlass) -> int:
    found: bytes = send_command(app.store, "CLIENT", "LIST")
    return found.count(b"\n")
