"""`app.testing()`: features for tests of an application, and isolation from its real deployment."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from windlass import Backoff, Context, JobFailed, Limit, Rate, Windlass, flow
from windlass.core.errors import BadInput
from windlass.core.job import NewJob
from windlass.core.operations import Take
from windlass.core.scheduling.schedule import Schedule
from windlass.sdk.testing import Testing
from windlass.store.embedded.supervisor import STATE, send_command

SLOWLY = Backoff(tries=3, base="1m", factor=2, jitter=0)


@pytest.fixture
def app() -> Windlass:
    """Make an app that cannot connect: there is no engine at its URL."""
    return Windlass("redis://127.0.0.1:1/0", patience=0)


@pytest.fixture
def t(app: Windlass) -> Iterator[Testing]:
    with app.testing() as testing:
        yield testing


@dataclass
class Order:
    number: int
    paid_at: datetime


# Running


def test_jobs_run_when_the_test_says_so(app: Windlass, t: Testing) -> None:
    seen: list[Any] = []

    @app.task
    def add(a: int, b: int) -> int:
        seen.append((a, b))
        return a + b

    @app.task(queue="mail")
    async def send(order: Order) -> None:
        seen.append(order)

    order = Order(7, datetime(2026, 1, 2, tzinfo=UTC))
    handle = add.enqueue(1, b=2)
    send.enqueue(order)
    assert seen == []
    summary = t.run_all()
    assert (summary.ran, summary.finished, summary.failed, summary.retried) == (2, 2, 0, 0)
    assert (sorted(seen, key=str), handle.result()) == ([(1, 2), order], 3)
    assert t.run_all().ran == 0


def test_one_after_the_other_in_their_order(app: Windlass, t: Testing) -> None:
    seen = []

    @app.task
    async def add(a: int) -> None:
        seen.append(a)
        await asyncio.sleep(0)
        seen.append(a)

    app.enqueue_many(add.call(number) for number in range(20))
    t.run_all()
    assert seen == [number for number in range(20) for _ in (1, 2)]


def test_side_by_side_when_asked(app: Windlass, t: Testing) -> None:
    together = threading.Barrier(3)

    @app.task
    def meet() -> None:
        together.wait(10)

    app.enqueue_many(meet.call() for _ in range(3))
    assert t.run_all(concurrency=3).finished == 3


def test_jobs_that_jobs_enqueue_and_spawn_run_too(app: Windlass, t: Testing) -> None:
    @app.task
    def leaf(number: int) -> int:
        return number * 10

    @app.task
    async def parent(ctx: Context) -> int:
        if not ctx.children:
            for number in (1, 2):
                await ctx.aspawn(leaf.call(number))
            await leaf.using(queue="elsewhere").aenqueue(3)
            return 0
        return sum(child.result for child in ctx.children)

    handle = parent.enqueue()
    assert t.run_all().finished == 5  # the parent twice
    assert handle.result() == 30


def test_what_jobs_keep_in_the_event_loop_is_there_for_the_next(app: Windlass, t: Testing) -> None:
    loops = []

    @app.task
    async def look() -> None:
        loops.append(asyncio.get_running_loop())

    for _ in range(2):
        look.enqueue()
        t.run_all()
    assert loops[0] is loops[1]


def test_process_tasks_run_here(app: Windlass, t: Testing) -> None:
    @app.task(pool="process")
    def where() -> int:
        return os.getpid()

    handle = where.enqueue()
    t.run_all()
    assert (handle.result(), where.pool) == (os.getpid(), "process")


def test_a_name_that_nobody_knows_waits(app: Windlass, t: Testing) -> None:
    app.service.enqueue([NewJob(queue="default", name="stranger")]).wait()
    assert t.run_all().ran == 0
    assert [(job.name, job.state) for job in t.jobs()] == [("stranger", "queued")]


def test_a_job_that_enqueues_itself_for_ever(app: Windlass, t: Testing) -> None:
    @app.task
    def again() -> None:
        again.enqueue()

    again.enqueue()
    with pytest.raises(RuntimeError, match="enqueue itself"):
        t.run_all(most=20)


def test_any_durability_will_do(app: Windlass, t: Testing) -> None:
    @app.task(durability="fsync")
    def send() -> None: ...

    send.enqueue()
    send.using(durability="replica").enqueue()
    assert t.run_all().finished == 2


# Failures


def test_a_failure_waits_for_its_retry(app: Windlass, t: Testing) -> None:
    attempts = []

    @app.task(retry=SLOWLY)
    def fail(ctx: Context) -> None:
        attempts.append(ctx.attempt)
        raise LookupError("no such order")

    handle = fail.enqueue()
    summary = t.run_all()
    assert (summary.ran, summary.retried, summary.failed, handle.state) == (1, 1, 0, "scheduled")
    t.advance("30s")
    assert t.run_all().ran == 0
    t.advance("30s")
    assert t.run_all().retried == 1
    t.advance("2m")
    assert t.run_all().failed == 1
    assert attempts == [1, 2, 3]
    with pytest.raises(JobFailed, match="no such order"):
        handle.result()


@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "async"])
def test_the_exception_itself_is_raised(app: Windlass, t: Testing, is_async: bool) -> None:
    errors = [LookupError("first"), ValueError("second")]

    def fail(at: int) -> None:
        raise errors[at]

    async def fail_async(at: int) -> None:
        raise errors[at]

    task: Any = app.task(name="fail", retry=SLOWLY)(fail_async if is_async else fail)
    task.enqueue(0)
    task.enqueue(1)
    with pytest.raises(LookupError) as caught:
        t.run_all(raises=True)
    assert caught.value is errors[0]
    assert [job.state for job in t.jobs()] == ["scheduled"] * 2  # all have run
    t.advance("1h")
    assert t.run_all().errors == errors


def test_a_failure_that_raised_nothing(app: Windlass, t: Testing) -> None:
    @app.task(timeout="50ms", retry=1)
    async def hang() -> None:
        await asyncio.sleep(60)

    hang.enqueue()
    with pytest.raises(JobFailed, match="timeout"):
        t.run_all(raises=True)


def test_asking_for_a_retry_is_no_error(app: Windlass, t: Testing) -> None:
    @app.task
    def poll(ctx: Context) -> str:
        return "there" if ctx.attempt == 2 else ctx.retry(delay="5m")

    handle = poll.enqueue()
    assert t.run_all(raises=True).retried == 1
    t.advance("5m")
    t.run_all(raises=True)
    assert handle.result() == "there"


# Time


def test_a_job_for_later(app: Windlass, t: Testing) -> None:
    @app.task
    def send() -> None: ...

    handle = send.using(delay="1h").enqueue()
    assert (t.run_all().ran, handle.state) == (0, "scheduled")
    t.advance(timedelta(minutes=59))
    assert (t.run_all().ran, handle.state) == (0, "scheduled")
    t.advance("1m")
    assert (handle.state, t.run_all().finished) == ("queued", 1)


def test_the_clock_can_begin_anywhere(app: Windlass) -> None:
    start = datetime(2031, 12, 31, 23, 30, tzinfo=UTC)
    with app.testing(now=start) as t:
        assert start <= t.now < start + timedelta(minutes=1)
        t.advance("1h")
        assert start + timedelta(hours=1) <= t.now < start + timedelta(minutes=61)
    with pytest.raises(BadInput, match="time zone"):
        app.testing(now=datetime(2031, 1, 1))


def test_time_passes_for_everything(app: Windlass, t: Testing) -> None:
    @app.task(debounce="5s")
    def index(page: int) -> None: ...

    @app.task(throttle="1m")
    def ping(host: str) -> None: ...

    @app.task(expires="10m")
    def greet() -> None: ...

    @app.task(keep_result="1h")
    def add() -> int:
        return 1

    index.enqueue(1)
    assert [ping.enqueue("a").status for _ in range(2)] == ["queued", "existing"]
    kept, late = add.enqueue(), greet.using(delay="9m").enqueue()
    assert t.run_all().finished == 2
    t.advance("61s")
    assert ping.enqueue("a").status == "queued"
    assert t.run_all().finished == 2  # index and ping
    t.advance("30m")
    assert (late.info().state.label, kept.info().state.label) == ("failed", "finished")
    t.advance("1h")
    assert [job.name for job in t.jobs()] == ["greet"]


def test_a_lease_runs_out(app: Windlass, t: Testing) -> None:
    @app.task
    def send() -> None: ...

    handle = send.enqueue()
    app.service.take(Take(queues=("default",), worker=b"w" * 16)).wait()
    assert (t.run_all().ran, handle.state) == (0, "running")
    t.advance("10m")
    assert (handle.info().state.label, t.run_all().finished) == ("queued", 1)


def hourly(app: Windlass, **options: Any) -> list[datetime]:
    ran: list[datetime] = []

    @app.task
    def report() -> None:
        ran.append(datetime.now(UTC))

    job = NewJob(queue="default", name="report")
    app.service.schedule(Schedule(name="hourly", cron="0 * * * *", job=job, **options)).wait()
    return ran


def test_a_schedule_fires_at_each_of_its_times(app: Windlass) -> None:
    with app.testing(now=datetime(2031, 1, 1, 0, 30, tzinfo=UTC)) as t:
        hourly(app)
        t.advance("5h")
        planned = [job.job.created_at_ms for job in t.jobs(name="report", state="queued")]
        hours = [datetime.fromtimestamp(at / 1000, UTC).hour for at in planned]
        assert hours == [1, 2, 3, 4, 5]


def test_running_for_a_while(app: Windlass) -> None:
    with app.testing(now=datetime(2031, 1, 1, 0, 30, tzinfo=UTC)) as t:
        ran = hourly(app, overlap="skip")

        @app.task(retry=SLOWLY)
        def fail() -> None:
            raise LookupError

        @app.task(limits=[Rate(1, per="10m")])
        def slow() -> None: ...

        fail.enqueue()
        app.enqueue_many(slow.call() for _ in range(4))
        summary = t.run_for("3h")
        assert (len(ran), summary.finished, summary.retried, summary.failed) == (3, 7, 2, 1)
        fail.enqueue()
        with pytest.raises(LookupError):
            t.run_for("10m", raises=True)


def test_limits_hold(app: Windlass, t: Testing) -> None:
    @app.task(limits=[Rate(1, per="1m")])
    def send() -> None: ...

    app.enqueue_many(send.call() for _ in range(2))
    assert t.run_all().finished == 1
    t.advance("1m")
    assert t.run_all().finished == 1


# Inspection


def test_what_was_enqueued(app: Windlass, t: Testing) -> None:
    @app.task
    def send(order: Order, urgent: bool = False) -> None: ...

    @app.task(unique=True, queue="mail", replace=True)
    def index(page: int) -> None: ...

    order = Order(7, datetime(2026, 1, 2, tzinfo=UTC))
    send.enqueue(order, urgent=True)
    index.enqueue(1)
    t.run_all()
    for page in (2, 3, 3):
        index.using(delay="1h", unique="one", replace=page == 3).enqueue(page)
    for _ in range(2):
        index.using(delay="1h", replace=False).enqueue(4)
    found = [(call.name, call.queue, call.arguments, call.status) for call in t.enqueued]
    assert found == [
        ("send", "default", {"order": order, "urgent": True}, "queued"),
        ("index", "mail", {"page": 1}, "queued"),
        ("index", "mail", {"page": 3}, "replaced"),
        ("index", "mail", {"page": 4}, "scheduled"),
    ]


def test_which_jobs_are_there(app: Windlass, t: Testing) -> None:
    @app.task
    def send(order: Order) -> int:
        return 1

    @app.task(queue="mail")
    def index(page: int) -> None: ...

    order = Order(7, datetime(2026, 1, 2, tzinfo=UTC))
    handle = send.enqueue(order)
    t.run_all()
    index.using(delay="1h").enqueue(2)
    app.service.enqueue([NewJob(queue="other", name="stranger")]).wait()
    found = [(job.id == handle.id, job.name, job.queue, job.state, job.arguments) for job in t.jobs()]
    assert found == [
        (True, "send", "default", "finished", {"order": order}),
        (False, "index", "mail", "scheduled", {"page": 2}),
        (False, "stranger", "other", "queued", {"": None}),
    ]
    assert [job.name for job in t.jobs(queue="mail")] == ["index"]
    assert [job.name for job in t.jobs(state="finished")] == ["send"]
    assert [job.name for job in t.jobs(name="s*")] == ["send", "stranger"]
    assert t.jobs(state="scheduled")[0].run_at > t.now + timedelta(minutes=59)
    with pytest.raises(BadInput, match="is not a state"):
        t.jobs(state="done")


def test_clearing(app: Windlass, t: Testing) -> None:
    @app.task(limits=[Limit(1)])
    def send(order: int) -> int:
        return order

    hourly(app)
    send.enqueue(1)
    t.run_all()
    app.service.pause("default").wait()
    t.clear()
    assert (t.jobs(), t.enqueued, app.service.schedules().wait(), app.service.limits().wait()) == ([], [], [], [])
    t.advance("2h")
    assert t.jobs() == []
    t.clear()
    handle = send.enqueue(2)
    assert handle.info().state.label == "queued"
    assert [found.code for found in app.service.doctor().wait().findings] == ["no_persistence"]
    assert (t.run_all().finished, handle.result()) == (1, 2)
    assert [found.code for found in app.service.doctor().wait().findings] == ["no_persistence"]


def test_what_the_app_declares_is_told_before_time_passes(app: Windlass, t: Testing) -> None:
    @app.task(limits=[Limit(1)])
    def send() -> None: ...

    for pass_time in (t.advance, t.run_for):
        t.clear()
        pass_time("1s")
        assert [found.limit.name for found in app.service.limits().wait()] == ["send:0"]


# Isolation


def test_the_app_is_as_before_afterwards(app: Windlass, store: Any) -> None:
    @app.task
    def send() -> None: ...

    app.connect(store)
    send.enqueue()
    with app.testing() as t:
        assert t.jobs() == []
        send.enqueue()
        t.advance("1d")
        assert t.run_all().finished == 1
        app.close()
        send.enqueue()
        assert len(t.jobs()) == 1
    assert app.store is store
    (stats,) = app.service.stats(["default"]).wait()
    assert (stats.queued, store.clock_offset_ms) == (1, 0)
    with app.testing() as t:
        assert t.jobs() == []


def test_an_app_that_cannot_connect_can_be_tested(app: Windlass) -> None:
    @app.task
    def send() -> None: ...

    with app.testing():
        send.enqueue()
    with pytest.raises(Exception, match=r"127\.0\.0\.1"):
        send.enqueue()


def test_one_block_at_a_time(app: Windlass, t: Testing) -> None:
    with pytest.raises(BadInput, match="under test already"), app.testing():
        pass
    with pytest.raises(BadInput, match="begun already"), t:
        pass

    @app.task
    def send() -> None: ...

    send.enqueue()
    assert t.run_all().finished == 1
    other = Windlass()
    with other.testing() as of_other:
        assert (of_other.jobs(), other.is_under_test) == ([], True)


def test_jobs_cannot_run_jobs(app: Windlass, t: Testing) -> None:
    refused = []

    @app.task
    def nest() -> None:
        for act in (t.run_all, lambda: t.advance("1s")):
            with pytest.raises(BadInput, match="is running its jobs"):
                act()
            refused.append(act)

    nest.enqueue()
    t.run_all(raises=True)
    assert len(refused) == 2


def test_after_the_block(app: Windlass) -> None:
    with app.testing() as t:
        pass
    for act in (t.run_all, t.jobs, t.clear, lambda: t.advance("1s")):
        with pytest.raises(BadInput, match="has ended or has not begun"):
            act()


# With an event loop


@pytest.mark.anyio
async def test_in_an_event_loop(app: Windlass) -> None:
    @app.task
    async def where() -> bool:
        return asyncio.get_running_loop() is here

    here = asyncio.get_running_loop()
    async with app.testing() as t:
        first = await where.aenqueue()
        later = await where.using(delay="1h").aenqueue()
        assert (await t.arun_all(raises=True)).finished == 1
        assert await first
        t.advance("1h")
        assert (await t.arun_all()).finished == 1
        assert await later
        await where.using(delay="1h").aenqueue()
        assert (await t.arun_for("2h")).finished == 1
        with pytest.raises(BadInput, match=r"await t\.arun_all"):
            t.run_all()


@pytest.mark.anyio
async def test_a_block_without_async_in_an_event_loop(app: Windlass) -> None:
    @app.task
    async def send() -> int:
        return 1

    with app.testing() as t:
        handle = await send.aenqueue()
        await t.arun_all()
        assert await handle == 1


# The engine


def at_the_engine() -> tuple[int, int]:
    """Return the numbers of keys and connections."""
    with Windlass().testing() as t:  # it runs
        socket_path = t._require_store().endpoint.unix_path or ""
    clients = send_command(socket_path, b"CLIENT LIST").splitlines()
    return int(send_command(socket_path, b"DBSIZE")[1:]), len(clients)


def is_soon_no_more_than(before: tuple[int, int]) -> bool:
    give_up_at = time.monotonic() + 10
    while time.monotonic() < give_up_at:
        now = at_the_engine()
        if now[0] <= before[0] and now[1] <= before[1]:
            return True
        time.sleep(0.01)
    return False


def test_nothing_is_left_in_the_engine(app: Windlass) -> None:
    @app.task
    async def send() -> int:
        return 1

    before = at_the_engine()
    with app.testing() as t:
        app.enqueue_many(send.call() for _ in range(5))
        t.run_all()
        t.advance("1m")
        send.enqueue()
    assert is_soon_no_more_than(before)


@pytest.mark.anyio
async def test_nothing_is_left_of_an_event_loop(app: Windlass) -> None:
    @app.task
    async def send() -> int:
        return 1

    before = at_the_engine()
    async with app.testing() as t:
        handle = await send.aenqueue()
        await t.arun_all()
        await handle
    assert is_soon_no_more_than(before)  # although this loop still runs


SCRIPT = """
import os, signal, sys
from windlass import Windlass
from windlass.store.embedded import engine_for_tests

app = Windlass()

@app.task
def send() -> int:
    return 1

with app.testing() as t:
    send.enqueue()
    assert t.run_all().finished == 1
    print(engine_for_tests._engine.socket_path, flush=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_the_engine_ends_with_the_process(how: str, tmp_path: Path) -> None:
    deep = tmp_path / ("long" * 20)  # too long for a socket
    deep.mkdir()
    environment = {**os.environ, "TMPDIR": str(deep), "WINDLASS_DATA_DIR": str(tmp_path / "mine")}
    command = [sys.executable, "-W", "error", "-c", SCRIPT, how]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0 if how == "ended" else -signal.SIGKILL, "")
    socket_path = Path(done.stdout.strip())
    give_up_at = time.monotonic() + 30
    state_path = socket_path.with_name(STATE)  # removed by the supervisor when the engine is gone
    while (send_command(str(socket_path), b"PING") or state_path.exists()) and time.monotonic() < give_up_at:
        time.sleep(0.01)
    assert (send_command(str(socket_path), b"PING"), state_path.exists()) == ("", False)
    assert (list(deep.iterdir()), (tmp_path / "mine").exists()) == ([], False)
    if how == "ended":
        assert not socket_path.parent.exists()
    else:
        shutil.rmtree(socket_path.parent)


def test_steps_of_a_flow_are_seen_as_they_were_enqueued(app: Windlass, t: Testing) -> None:
    @app.task
    def double(number: int) -> int:
        return number * 2

    @app.task
    def add(number: int, other: int) -> int:
        return number + other

    whole = double.call(2).then(add, 3).enqueue()
    assert [(call.name, call.arguments) for call in t.enqueued] == [("double", {"number": 2}), ("add", {"other": 3})]
    t.run_all()
    assert whole.result() == 7


def test_a_named_flow_runs_as_a_chain_does(app: Windlass, t: Testing) -> None:
    @app.task
    def double(number: int) -> int:
        return number * 2

    @app.task
    def add(number: int, other: int, more: int = 0) -> int:
        return number + other + more

    made = flow("sum")
    one, two = made.step("one", double.call(1)), made.step("two", double.call(2))
    made.step("sum", add, one, two, 10)
    whole = made.enqueue()
    assert [call.arguments for call in t.enqueued] == [{"number": 1}, {"number": 2}, {"more": 10}]
    t.run_all()
    assert whole.result() == {"sum": 16}
