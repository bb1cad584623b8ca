"""Middlewares: what they see, change and raise; and the error classes that are retried."""

from __future__ import annotations

import asyncio
import contextvars
from functools import partial
from typing import Any

import pytest

from windlass import Backoff, CallNext, Context, GiveUp, JobCancelled, JobFailed, Windlass
from windlass.core.errors import BadInput

pytestmark = pytest.mark.anyio
AT_ONCE = Backoff(tries=3, base=0)
tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="")


async def test_the_first_registered_is_outermost(app: Windlass, working: Any) -> None:
    said: list[str] = []

    def named(name: str) -> None:
        @app.middleware
        async def layer(ctx: Context, call_next: CallNext) -> Any:
            said.append(f"{name} before {ctx.task.name} {ctx.attempt}")
            result = await call_next()
            said.append(f"{name} after")
            return [*result, name]

    named("outer")
    named("inner")

    @app.task
    async def in_loop() -> list[str]:
        said.append("code")
        return ["code"]

    @app.task
    def in_thread() -> list[str]:
        said.append("code")
        return ["code"]

    async with working(app):
        for task in (in_loop, in_thread):
            said.clear()
            assert await (await task.aenqueue()) == ["code", "inner", "outer"]
            name = task.name
            assert said == [f"outer before {name} 1", f"inner before {name} 1", "code", "inner after", "outer after"]


async def test_an_error_is_turned_into_another(app: Windlass, working: Any) -> None:
    @app.middleware
    async def hopeless(ctx: Context, call_next: CallNext) -> Any:
        try:
            return await call_next()
        except PermissionError as error:
            raise GiveUp(f"not allowed: {error}") from error

    tried: list[str] = []

    @app.task(retry=AT_ONCE)
    async def in_loop(error: str) -> None:
        tried.append(error)
        raise PermissionError("no") if error == "permission" else OSError("down")

    @app.task(retry=AT_ONCE)
    def in_thread(error: str) -> None:
        tried.append(error)
        raise PermissionError("no") if error == "permission" else OSError("down")

    async with working(app):
        for task in (in_loop, in_thread):
            tried.clear()
            with pytest.raises(JobFailed, match="GiveUp: not allowed: no") as told:
                await (await task.aenqueue("permission"))
            assert "PermissionError" in told.value.traceback
            with pytest.raises(JobFailed, match="OSError"):
                await (await task.aenqueue("other"))
            assert tried == ["permission", "other", "other", "other"]


async def test_an_error_may_become_a_result_and_a_result_an_error(app: Windlass, working: Any) -> None:
    @app.middleware
    async def turned(ctx: Context, call_next: CallNext) -> Any:
        try:
            await call_next()
        except LookupError:
            return "found nothing"
        raise ValueError("found too much")

    @app.task(retry=1)
    async def find(fails: bool) -> str:
        if fails:
            raise LookupError
        return "found"

    async with working(app):
        assert await (await find.aenqueue(True)) == "found nothing"
        with pytest.raises(JobFailed, match="found too much"):
            await (await find.aenqueue(False))


async def test_the_code_may_be_left_out_or_called_again(app: Windlass, working: Any) -> None:
    @app.middleware
    async def cached(ctx: Context, call_next: CallNext) -> Any:
        if "cached" in ctx.job.tags:
            return "from the cache"
        try:
            return await call_next()
        except ConnectionError:
            return await call_next()

    calls: list[int] = []

    @app.task(retry=1)
    async def fetch() -> str:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError
        return f"fetched in {len(calls)}"

    async with working(app):
        assert await (await fetch.using(tags=["cached"]).aenqueue()) == "from the cache"
        assert calls == []
        assert await (await fetch.aenqueue()) == "fetched in 2"


async def test_context_variables_reach_the_code(app: Windlass, working: Any) -> None:
    @app.middleware
    async def known(ctx: Context, call_next: CallNext) -> Any:
        tenant.set(ctx.job.tags[0])
        return await call_next()

    @app.task
    async def in_loop() -> str:
        return tenant.get()

    @app.task
    def in_thread() -> str:
        return tenant.get()

    async with working(app):
        for task in (in_loop, in_thread):
            assert await (await task.using(tags=["acme"]).aenqueue()) == "acme"


async def test_a_stopped_job_passes_through(app: Windlass, working: Any) -> None:
    begun, seen = asyncio.Event(), []

    @app.middleware
    async def watched(ctx: Context, call_next: CallNext) -> Any:
        begun.set()
        try:
            return await call_next()
        except BaseException as error:
            seen.append(type(error).__name__)
            raise

    @app.task
    async def endless() -> None:
        await asyncio.Event().wait()

    async with working(app):
        handle = await endless.aenqueue()
        await begun.wait()
        await handle.acancel()
        with pytest.raises(JobCancelled):
            await handle
    assert seen == ["CancelledError"]


async def test_only_async_functions_are_middlewares(app: Windlass, working: Any) -> None:
    class Counting:
        def __init__(self) -> None:
            self.count = 0

        async def __call__(self, ctx: Context, call_next: CallNext) -> Any:
            self.count += 1
            return await call_next()

    async def tagged(word: str, ctx: Context, call_next: CallNext) -> Any:
        return f"{word} {await call_next()}"

    def forgotten(ctx: Context, call_next: CallNext) -> Any:
        return call_next()

    for wrong in (forgotten, 3, None):
        with pytest.raises(BadInput, match="async function"):
            app.middleware(wrong)  # type: ignore[type-var]
    counting = app.middleware(Counting())
    app.middleware(partial(tagged, "hello"))

    @app.task
    async def word() -> str:
        return "world"

    async with working(app):
        assert await (await word.aenqueue()) == "hello world"
    assert counting.count == 1


@pytest.mark.parametrize("pool", ["async", "thread"])
async def test_which_errors_are_tried_again(app: Windlass, working: Any, pool: Any) -> None:
    attempts: list[str] = []
    kinds: dict[str, type[BaseException]] = {
        "os": OSError, "missing": FileNotFoundError, "value": ValueError, "exit": SystemExit
    }  # fmt: skip

    def declare(name: str, **options: Any) -> Any:
        async def in_loop(kind: str) -> None:
            attempts.append(kind)
            raise kinds[kind]

        def in_thread(kind: str) -> None:
            attempts.append(kind)
            raise kinds[kind]

        return app.task(name=name, retry=Backoff(tries=2, base=0), **options)(in_loop if pool == "async" else in_thread)

    tasks = {
        "plain": (declare("plain"), {"os": 2, "missing": 2, "value": 2, "exit": 2}),
        "only": (declare("only", retry_on=OSError), {"os": 2, "missing": 2, "value": 1, "exit": 1}),
        "but": (declare("but", give_up_on=[OSError]), {"os": 1, "missing": 1, "value": 2, "exit": 2}),
        "both": (
            declare("both", retry_on=(OSError, ValueError), give_up_on=(FileNotFoundError,)),
            {"os": 2, "missing": 1, "value": 2, "exit": 1},
        ),
    }
    async with working(app):
        for name, (task, expected) in tasks.items():
            attempts.clear()
            for kind in expected:
                with pytest.raises(JobFailed):
                    await (await task.aenqueue(kind))
            assert {kind: attempts.count(kind) for kind in expected} == expected, name


async def test_a_retry_that_code_asks_for_is_made_whatever_the_classes(app: Windlass, working: Any) -> None:
    @app.task(retry=AT_ONCE, retry_on=OSError)
    async def again(ctx: Context) -> int:
        if ctx.attempt == 1:
            ctx.retry(delay=0)
        return ctx.attempt

    async with working(app):
        assert await (await again.aenqueue()) == 2


async def test_error_classes_are_checked(app: Windlass) -> None:
    for wrong in ("OSError", [ValueError()], (int,)):
        with pytest.raises(BadInput, match="exception classes"):
            app.task(retry_on=wrong)(lambda: None)  # type: ignore[arg-type]
