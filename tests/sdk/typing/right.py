"""Right calls, never run. A type checker must accept each and infer its result."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from windlass import Backoff, Call, Context, JobHandle, Limit, Rate, Task, Windlass
from windlass.sdk.app import TaskDecorator
from windlass.sdk.handle import JobEvent
from windlass.sdk.tasks.task import AsyncTask, SyncTask
from windlass.sdk.testing import EnqueuedCall, Summary, TestedJob

app = Windlass()


@app.task
def add(a: int, b: int = 2, *, exact: bool = True) -> int:
    return a + b


@app.task(queue="mail", retry=Backoff(tries=6, base="2s", cap="10m"), timeout="30s", tags=["a"], index=["order"])
async def send(order: int, note: str = "") -> str:
    return note


@app.task
def first(ctx: Context, order: int) -> float:
    return ctx.attempt + order


@app.task(limits=[Rate(100, per="1s"), Limit(2, key="shop")], unique=lambda shop: shop, tenant="one")
async def sync(ctx: Context, shop: str) -> list[int]:
    return []


@app.task(pool="process", memory="512MiB", max_crashes=2, grace=5, version=2, name="other")
def nothing() -> None: ...


@app.task
def anything(value: object, times: int = 1) -> int:
    return times


@app.task(queue="mail")
async def anything_async(value: Any) -> int:
    return 1


@app.task
def last(order: int, *, ctx: Context | None = None) -> int:
    return order


assert_type(app.task(queue="mail"), TaskDecorator)

# Plain calls
assert_type(add(1), int)
assert_type(add(1, 2, exact=False), int)
sending: Coroutine[Any, Any, str] = send(1)
assert_type(first(1), float)
syncing: Coroutine[Any, Any, list[int]] = sync("shop")
nothing()

# Enqueued
assert_type(add.enqueue(1, b=2), JobHandle[int])
assert_type(add.delay(1), JobHandle[int])
assert_type(add.call(1), Call[int])
assert_type(add.call(1).enqueue(), JobHandle[int])
assert_type(add.call(1).using(delay=5).enqueue(), JobHandle[int])
assert_type(send.enqueue(1, note="x"), JobHandle[str])
assert_type(first.enqueue(1), JobHandle[float])
assert_type(sync.enqueue(shop="a"), JobHandle[list[int]])
assert_type(nothing.enqueue(), JobHandle[None])
assert_type(anything.enqueue("x", times=2), JobHandle[int])
anything_async.enqueue(value="x")
assert_type(last.enqueue(1), JobHandle[int])

# With options
soon = add.using(delay="10m", priority=-5, tags={"src": "web"}, expires=timedelta(hours=1), retry=3, index=("a",))
assert_type(soon.enqueue(1), JobHandle[int])
assert_type(soon(1), int)
sending = send.using(run_at=datetime.now(UTC), unique=True, keep_result=None)(1)
assert_type(send.using(durability="fsync", throttle=1.5, replace=True).enqueue(1), JobHandle[str])

# Results
assert_type(add.enqueue(1).result(timeout="10s"), int)
assert_type(nothing.enqueue().result(), None)
assert_type(add.enqueue(1).progress, float)
for event in add.enqueue(1).events():
    assert_type(event, JobEvent)

# Many
assert_type(app.enqueue_many(add.call(number) for number in range(3)), list[JobHandle[int]])
assert_type(app.enqueue_many([send.call(1), send.call(2)]), list[JobHandle[str]])


def mixed() -> Iterator[Call[int | str]]:
    yield add.call(1)
    yield send.call(1)


assert_type(app.enqueue_many(mixed()), list[JobHandle[int | str]])


async def in_an_event_loop() -> None:
    assert_type(await send(1), str)
    assert_type(await sync("shop"), list[int])
    assert_type(await add.aenqueue(1), JobHandle[int])
    assert_type(await (await add.aenqueue(1)), int)
    assert_type(await send.using(delay=1).aenqueue(1), JobHandle[str])
    assert_type(await (await send.aenqueue(1)).aresult(timeout=10), str)
    assert_type(await add.call(1).aenqueue(), JobHandle[int])
    assert_type(await app.aenqueue_many([add.call(1)]), list[JobHandle[int]])
    async for event in (await add.aenqueue(1)).events():
        assert_type(event, JobEvent)


def any_task(task: Task[..., object], typed: Task[[int], object]) -> None:
    task.enqueue(1, "x")
    typed.enqueue(1)


any_task(add, typed=first)
of_sync: SyncTask[[int], float] = first
of_async: AsyncTask[[str], list[int]] = sync
plain: Callable[[int], float] = first

with app.testing(now=datetime.now(UTC)) as t:
    assert_type(t.run_all(raises=True), Summary)
    assert_type(t.run_for("1h", concurrency=4), Summary)
    assert_type(t.jobs(queue="mail"), list[TestedJob])
    assert_type(t.enqueued, list[EnqueuedCall])
    assert_type(t.now, datetime)
