"""Wrong calls, never run. Each marked line must be an error of the given code, and no other line."""

from __future__ import annotations

from datetime import UTC, datetime

from windlass import Backoff, Call, Context, JobHandle, Limit, Rate, Windlass

app = Windlass()


@app.task
def add(a: int, b: int = 2) -> int:
    return a + b


@app.task(queue="mail")
async def send(order: int, *, note: str = "") -> str:
    return note


@app.task
def first(ctx: Context, order: int) -> None: ...


@app.task(queue="mail")
async def first_async(ctx: Context, order: int) -> None: ...


# Arguments
add("one")  # error: arg-type
add()  # error: call-arg
add(1, 2, 3)  # error: call-arg
add(1, c=3)  # error: call-arg
add.enqueue("one")  # error: arg-type
add.enqueue()  # error: call-arg
add.enqueue(1, c=3)  # error: call-arg
add.delay(None)  # error: arg-type
add.delay(1, 2, 3)  # error: call-arg
add.call(a="one")  # error: arg-type
add.call()  # error: call-arg
add.using(delay=1).enqueue("one")  # error: arg-type
add.using(delay=1)("one")  # error: arg-type
send.enqueue(1, "note")  # error: call-arg
send.enqueue(1, note=2)  # error: arg-type

# The context is given by the worker
first.enqueue(1, 2)  # error: call-arg
first.enqueue("one")  # error: arg-type
first.enqueue(Context, 1)  # error: call-arg, arg-type
first_async.enqueue("one")  # error: arg-type
first_async.enqueue(ctx=None, order=1)  # error: call-arg

# Options of a call
add.using(dealy="1s")  # error: call-arg
add.using(delay=None)  # error: arg-type
add.using(delay=datetime.now(UTC))  # error: arg-type
add.using(run_at="tomorrow")  # error: arg-type
add.using(priority="high")  # error: arg-type
add.using(retry="often")  # error: arg-type
add.using(tags=[1])  # error: list-item
add.using(tags={"shop": 1})  # error: dict-item
add.using(index=[1])  # error: list-item
add.using(unique=lambda a: 1)  # error: arg-type, return-value
add.using(durability="disk")  # error: arg-type
add.using(pool="process")  # error: call-arg
add.using(limits=[Limit(1)])  # error: call-arg
add.call(1).using(queue=1)  # error: arg-type


# Options of a task
app.task(colour="red")  # error: call-overload
app.task(pool="fibre")  # error: call-overload
app.task(limits=[1])  # error: list-item
app.task(timeout=datetime.now(UTC))  # error: call-overload
app.task("mail")  # error: call-overload
Backoff(tries="3")  # error: arg-type
Backoff(cap=None)  # error: arg-type
Rate(1, every="1s")  # error: call-arg
Limit("1")  # error: arg-type
Limit(1, where=["plan"])  # error: arg-type

# Results
text: str = add(1)  # error: assignment
handle: JobHandle[str] = add.enqueue(1)  # error: assignment
call: Call[str] = add.call(1)  # error: assignment
result: str = add.enqueue(1).result()  # error: assignment
add.enqueue(1).result(timeout=[1])  # error: arg-type
number: int = send(1)  # error: assignment

# Many
app.enqueue_many([add.enqueue(1)])  # error: arg-type
app.enqueue_many([add])  # error: arg-type
app.enqueue_many(add.call("one") for _ in "12")  # error: arg-type
handles: list[JobHandle[str]] = app.enqueue_many([add.call(1)])  # error: list-item


def say(text: str) -> None: ...


async def in_an_event_loop() -> None:
    await add(1)  # error: misc
    await send("one")  # error: arg-type
    await add.aenqueue("one")  # error: arg-type
    await add.aenqueue()  # error: call-arg
    await send.using(delay=1).aenqueue(1, "note")  # error: call-arg
    await add.enqueue(1, 2, 3)  # error: call-arg
    say(await (await add.aenqueue(1)))  # error: arg-type
    say(await send.aenqueue(1))  # error: arg-type
    await app.aenqueue_many([send(1)])  # error: arg-type


with app.testing(now="noon") as t:  # error: arg-type
    t.advance(None)  # error: arg-type
    t.run_all(twice=True)  # error: call-arg
