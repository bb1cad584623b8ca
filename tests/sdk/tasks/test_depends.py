"""`Depends`: where and how often values are made, when they are closed, and that they are never in a payload."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from windlass import Backoff, Context, Depends, JobCancelled, JobFailed, Windlass
from windlass.core.errors import BadInput
from windlass.sdk.tasks.arguments import WrongCall
from windlass.sdk.tasks.injection import ChildSharedDependencies

pytestmark = pytest.mark.anyio
AT_ONCE = Backoff(tries=3, base=0)


class FactoryLog(list[str]):
    """Events in order."""

    def session(self) -> Iterator[str]:
        self.append("open")
        try:
            yield "session"
            self.append("commit")
        except BaseException as error:
            self.append(f"rollback {type(error).__name__}")
            raise
        finally:
            self.append("close")

    async def client(self) -> AsyncIterator[str]:
        self.append("connect")
        try:
            yield "client"
        finally:
            await asyncio.sleep(0)
            self.append("disconnect")


@pytest.fixture
def events() -> FactoryLog:
    return FactoryLog()


def number() -> int:
    return 7


async def token() -> str:
    await asyncio.sleep(0)
    return "token"


class Settings:
    def __init__(self, number: int = Depends(number)) -> None:
        self.number = number


async def test_every_kind_of_factory_in_an_async_and_in_a_sync_task(
    app: Windlass, working: Any, events: FactoryLog
) -> None:
    @app.task
    async def in_loop(
        word: str,
        n: int = Depends(number),
        t: str = Depends(token),
        s: str = Depends(events.session),
        c: str = Depends(events.client),
        settings: Settings = Depends(Settings),
    ) -> list[Any]:
        events.append("run")
        return [word, n, t, s, c, settings.number]

    @app.task
    def in_thread(
        word: str,
        *,
        n: int = Depends(number),
        t: str = Depends(token),
        s: str = Depends(events.session),
        c: str = Depends(events.client),
        settings: Settings = Depends(Settings),
    ) -> list[Any]:
        events.append("run")
        return [word, n, t, s, c, settings.number]

    async with working(app):
        for task in (in_loop, in_thread):
            events.clear()
            assert await (await task.aenqueue("hello")) == ["hello", 7, "token", "session", "client", 7]
            assert events == ["open", "connect", "run", "disconnect", "commit", "close"]


async def test_injected_parameters_are_no_part_of_a_call(app: Windlass) -> None:
    @app.task
    def report(order: int, db: Any = Depends(number), note: str = "") -> None: ...

    assert report.call(1, "x").arguments == {"order": 1, "note": "x"}
    with pytest.raises(WrongCall, match="db"):
        report.call(1, db=3)


async def test_a_value_is_made_once_per_job_however_many_want_it(app: Windlass, working: Any) -> None:
    made: list[int] = []

    def source() -> int:
        made.append(len(made))
        return made[-1]

    def doubled(n: int = Depends(source)) -> int:
        return n * 2

    @app.task
    async def add(a: int = Depends(source), b: int = Depends(doubled), c: int = Depends(source)) -> list[int]:
        return [a, b, c]

    async with working(app, concurrency=1):
        assert await (await add.aenqueue()) == [0, 0, 0]
        assert await (await add.aenqueue()) == [1, 2, 1]


async def test_the_context_is_a_dependency(app: Windlass, working: Any) -> None:
    def attempt_of(ctx: Context) -> int:
        return ctx.attempt

    class Tried:
        def __init__(self, ctx: Context, again: int = Depends(attempt_of)) -> None:
            self.both = [ctx.attempt, again]

    @app.task(retry=AT_ONCE)
    def run(word: str, ctx: Context = Depends(Context), n: int = Depends(attempt_of)) -> list[Any]:
        if ctx.attempt < 2:
            raise OSError
        return [word, ctx.attempt, n]

    @app.task(retry=AT_ONCE)
    async def hidden(tried: Tried = Depends(Tried)) -> list[int]:
        if tried.both[0] < 2:
            raise OSError
        return tried.both

    async with working(app):
        assert await (await run.aenqueue("a")) == ["a", 2, 2]
        assert await (await hidden.aenqueue()) == [2, 2]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_failing_job_reaches_its_dependencies(
    app: Windlass, working: Any, events: FactoryLog, is_async: bool
) -> None:
    async def in_loop(s: str = Depends(events.session), c: str = Depends(events.client)) -> None:
        raise ValueError("no")

    def in_thread(s: str = Depends(events.session), c: str = Depends(events.client)) -> None:
        raise ValueError("no")

    task: Any = app.task(retry=1, name="fail")(in_loop if is_async else in_thread)
    async with working(app):
        with pytest.raises(JobFailed, match="no") as told:
            await (await task.aenqueue())
    assert events == ["open", "connect", "disconnect", "rollback ValueError", "close"]
    assert "raise ValueError" in told.value.traceback


async def test_a_dependency_cannot_hide_a_failure_but_may_replace_it(
    app: Windlass, working: Any, events: FactoryLog
) -> None:
    def hiding() -> Iterator[int]:
        with contextlib.suppress(ValueError):
            yield 1

    def replacing() -> Iterator[int]:
        try:
            yield 1
        except ValueError as error:
            raise LookupError("translated") from error

    @app.task(retry=1)
    async def hidden(s: str = Depends(events.session), h: int = Depends(hiding)) -> None:
        raise ValueError("seen")

    @app.task(retry=1)
    def replaced(s: str = Depends(events.session), r: int = Depends(replacing)) -> None:
        raise ValueError

    async with working(app):
        with pytest.raises(JobFailed, match="seen"):
            await (await hidden.aenqueue())
        with pytest.raises(JobFailed, match="LookupError: translated"):
            await (await replaced.aenqueue())
    assert events == ["open", "rollback ValueError", "close", "open", "rollback LookupError", "close"]


async def test_an_error_in_a_factory_fails_the_attempt(app: Windlass, working: Any, events: FactoryLog) -> None:
    calls: list[int] = []

    def broken(s: str = Depends(events.session)) -> int:
        calls.append(1)
        if len(calls) < 2:
            raise OSError("down")
        return 5

    def failing_commit() -> Iterator[int]:
        yield 1
        raise OSError("commit failed")

    @app.task(retry=AT_ONCE)
    async def needs(n: int = Depends(broken)) -> int:
        return n

    @app.task(retry=1)
    async def commits(n: int = Depends(failing_commit)) -> int:
        return n

    async with working(app):
        assert await (await needs.aenqueue()) == 5
        with pytest.raises(JobFailed, match="commit failed"):
            await (await commits.aenqueue())
    assert events == ["open", "rollback OSError", "close", "open", "commit", "close"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_dependencies_are_closed_when_the_job_is_cancelled(
    app: Windlass, working: Any, events: FactoryLog, is_async: bool
) -> None:
    running = threading.Event()

    async def in_loop(s: str = Depends(events.session), c: str = Depends(events.client)) -> None:
        running.set()
        await asyncio.Event().wait()

    def in_thread(s: str = Depends(events.session), c: str = Depends(events.client)) -> None:
        running.set()
        while True:
            threading.Event().wait(0.01)

    task: Any = app.task(name="endless")(in_loop if is_async else in_thread)
    async with working(app):
        handle = await task.aenqueue()
        await asyncio.to_thread(running.wait, 10)
        await handle.acancel()
        with pytest.raises(JobCancelled):
            await handle
    kind = "CancelledError" if is_async else "Stopped"
    assert events == ["open", "connect", "disconnect", f"rollback {kind}", "close"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_job_cancelled_while_its_dependencies_are_made(
    app: Windlass, working: Any, events: FactoryLog, is_async: bool
) -> None:
    making = threading.Event()

    async def endless() -> AsyncIterator[None]:
        making.set()
        await asyncio.Event().wait()
        yield

    def looping() -> Iterator[None]:
        making.set()
        while True:
            threading.Event().wait(0.01)
        yield

    async def in_loop(s: str = Depends(events.session), e: None = Depends(endless)) -> None: ...

    def in_thread(s: str = Depends(events.session), e: None = Depends(looping)) -> None: ...

    task: Any = app.task(name="never")(in_loop if is_async else in_thread)
    async with working(app):
        handle = await task.aenqueue()
        await asyncio.to_thread(making.wait, 10)
        await handle.acancel()
        with pytest.raises(JobCancelled):
            await handle
    assert events == ["open", f"rollback {'CancelledError' if is_async else 'Stopped'}", "close"]


async def test_an_error_before_the_yield_is_told_once(app: Windlass, working: Any) -> None:
    def broken() -> Iterator[int]:
        raise OSError("no room")
        yield 1

    async def abroken() -> AsyncIterator[int]:
        raise OSError("no air")
        yield 1

    @app.task(retry=1)
    async def use(a: int = Depends(broken)) -> None: ...

    @app.task(retry=1)
    async def ause(a: int = Depends(abroken)) -> None: ...

    @app.task(retry=1)
    def in_thread(a: int = Depends(abroken)) -> None: ...

    async with working(app):
        for task, words in ((use, "no room"), (ause, "no air"), (in_thread, "no air")):
            with pytest.raises(JobFailed, match=words) as told:
                await (await task.aenqueue())
            assert told.value.traceback.count("Traceback") == 1


async def test_a_worker_shares_what_it_is_told_to(app: Windlass, working: Any, events: FactoryLog) -> None:
    gate = threading.Barrier(2, timeout=30)

    def pool(c: str = Depends(events.client)) -> Iterator[str]:
        events.append("open pool")
        yield f"pool of {c}"
        events.append("close pool")

    @app.task
    def in_thread(p: str = Depends(pool, scope="worker")) -> str:
        gate.wait()
        return p

    @app.task
    async def in_loop(p: str = Depends(pool, scope="worker"), c: str = Depends(events.client, scope="worker")) -> str:
        return f"{p} {c}"

    async with working(app):
        both = [await in_thread.aenqueue(), await in_thread.aenqueue()]
        assert [await handle for handle in both] == ["pool of client"] * 2
        assert await (await in_loop.aenqueue()) == "pool of client client"
        assert events == ["connect", "open pool"]
    assert events == ["connect", "open pool", "close pool", "disconnect"]


async def test_what_a_worker_shares_does_not_stop_its_event_loop(app: Windlass, working: Any) -> None:
    began, go_on = threading.Event(), threading.Event()

    def model() -> str:
        began.set()
        assert go_on.wait(10)
        return "model"

    @app.task(retry=1)
    async def use(m: str = Depends(model, scope="worker")) -> str:
        return m

    @app.task
    async def other() -> str:
        return "ran"

    async with working(app):
        waiting = await use.aenqueue()
        await asyncio.to_thread(began.wait, 10)
        assert await (await other.aenqueue()) == "ran"
        go_on.set()
        assert await waiting == "model"


async def test_what_a_worker_shares_is_made_again_after_an_error(app: Windlass, working: Any) -> None:
    calls: list[int] = []

    async def shared() -> int:
        calls.append(1)
        if len(calls) < 3:
            raise OSError
        return len(calls)

    @app.task(retry=AT_ONCE)
    async def use(n: int = Depends(shared, scope="worker")) -> int:
        return n

    async with working(app):
        assert await (await use.aenqueue()) == 3


async def test_overrides(app: Windlass, working: Any, events: FactoryLog) -> None:
    @app.task
    async def use(s: str = Depends(events.session), n: int = Depends(number, scope="worker")) -> list[Any]:
        return [s, n]

    def fake(settings: Settings = Depends(Settings)) -> str:
        return f"fake {settings.number}"

    def of_job(ctx: Context) -> int:
        return ctx.attempt

    async with working(app):
        assert await (await use.aenqueue()) == ["session", 7]
        with app.override(number, of_job), pytest.raises(JobFailed, match="shared by all jobs of a worker"):
            await (await use.using(retry=1).aenqueue())
        events.clear()
        with app.override(events.session, fake), app.override(number, lambda: 1):
            with app.override(number, lambda: 2):
                assert await (await use.aenqueue()) == ["fake 2", 2]
            assert await use() == ["fake 1", 1]
        assert await (await use.aenqueue()) == ["session", 7]


async def test_inline_calls(app: Windlass, events: FactoryLog) -> None:
    @app.task
    def report(order: int, db: str = Depends(events.session), n: int = Depends(number, scope="worker")) -> list[Any]:
        return [order, db, n]

    @app.task
    async def fetch(order: int, c: str = Depends(events.client), ctx: Context = Depends(Context)) -> list[Any]:
        return [order, c, ctx.attempt]

    @app.task
    def mixed(order: int, t: str = Depends(token)) -> list[Any]:
        return [order, t]

    assert report(1) == [1, "session", 7]
    assert report(1, "own") == [1, "own", 7]
    assert events == ["open", "commit", "close"]
    assert await fetch(2) == [2, "client", 1]
    assert mixed(3, t="given") == [3, "given"]
    with pytest.raises(BadInput, match="enqueue the task"):
        mixed(3)
    with pytest.raises(TypeError, match="order"):
        report()  # type: ignore[call-arg]


async def test_in_a_child_process(app: Windlass, events: FactoryLog) -> None:
    """Run the child's code in this process: values are made in the thread of the jobs and shared until its end."""
    threads: list[threading.Thread] = []

    def pool() -> Iterator[str]:
        threads.append(threading.current_thread())
        events.append("open pool")
        yield "pool"
        events.append("close pool")

    @app.task(pool="process")
    def plain(c: str = Depends(events.client), p: str = Depends(pool, scope="worker")) -> str:
        return f"{c} {p}"

    @app.task(pool="process")
    async def waits(c: str = Depends(events.client), p: str = Depends(pool, scope="worker")) -> str:
        return f"{c} {p}"

    def in_child() -> list[str]:
        shared = ChildSharedDependencies(app)
        answers = []
        for task in (plain, waits, plain):
            value = task.perform(task.call().new_job().payload, None, shared)
            answers.append(shared.run(value) if task.is_async else value)
        shared.end()
        return answers

    child = threading.Thread(target=lambda: answers.extend(in_child()))
    answers: list[str] = []
    child.start()
    await asyncio.to_thread(child.join)
    assert answers == ["client pool"] * 3
    assert events == ["connect", "open pool", "disconnect", *["connect", "disconnect"] * 2, "close pool"]
    assert threads == [child]


async def test_declarations_that_cannot_work(app: Windlass) -> None:
    def wants(url: str) -> str:
        return url

    def of_job(ctx: Context) -> str:
        return ctx.id

    def twice() -> Iterator[int]:
        yield 1
        yield 2

    with pytest.raises(BadInput, match="url has no value"):
        Depends(wants)
    with pytest.raises(BadInput, match="not 3"):
        Depends(3)  # type: ignore[call-overload]
    with pytest.raises(BadInput, match="shared by all jobs of a worker"):
        Depends(of_job, scope="worker")
    with pytest.raises(BadInput, match="scope"):
        Depends(number, scope="app")  # type: ignore[call-overload]
    with pytest.raises(BadInput, match="by keyword"):

        @app.task
        def positional(n: int = Depends(number), /) -> None: ...

    def around(n: int = Depends(number)) -> int:
        return n + 1

    with pytest.raises(BadInput, match="depend on itself"), app.override(number, around):
        pass

    @app.task
    def use(n: int = Depends(twice)) -> None: ...

    with pytest.raises(BadInput, match="yields twice"):
        use()
