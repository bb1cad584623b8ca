"""Dependencies, error classes and middlewares of tasks in real child processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.apps import needy_app
from tests.support.engine_process import EngineProcess
from windlass import CallNext, Context, GiveUp, JobCancelled, JobFailed

pytestmark = pytest.mark.anyio


@pytest.fixture
def said(engine: EngineProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("WINDLASS_URL", engine.unix_url)
    monkeypatch.setenv("WINDLASS_NAMESPACE", f"needy-{os.urandom(4).hex()}")
    monkeypatch.setenv("SAID", str(tmp_path / "said"))
    yield tmp_path / "said"
    needy_app.app.middlewares.clear()
    needy_app.app.close()


def lines(said: Path) -> list[str]:
    return said.read_text().splitlines()


async def test_dependencies_are_made_in_the_child_and_shared_until_its_end(said: Path, working: Any) -> None:
    async with working(needy_app.app, concurrency=1):
        for task in (needy_app.plain, needy_app.waits, needy_app.plain):
            assert await (await task.aenqueue()) == ["client", True]
    assert lines(said) == ["connect", "open pool", "disconnect", *["connect", "disconnect"] * 2, "close pool"]


async def test_they_are_closed_when_the_job_is_cancelled(said: Path, working: Any, tmp_path: Path) -> None:
    started = tmp_path / "started"
    async with working(needy_app.app, concurrency=1):
        handle = await needy_app.hold.aenqueue(str(started))
        while not started.exists():  # noqa: ASYNC110 (another process makes it)
            await asyncio.sleep(0.01)
        await handle.acancel()
        with pytest.raises(JobCancelled):
            await handle
    assert lines(said) == ["connect", "disconnect"]


async def test_which_errors_are_tried_again(said: Path, working: Any) -> None:
    async with working(needy_app.app, concurrency=1):
        for kind, attempts in (("os", 3), ("value", 1)):
            with pytest.raises(JobFailed) as told:
                await (await needy_app.fail.aenqueue(kind))
            assert told.value.attempts == attempts


async def test_middleware_is_around_the_child(said: Path, working: Any) -> None:
    pids: list[int] = []

    @needy_app.app.middleware
    async def around(ctx: Context, call_next: CallNext) -> Any:
        pids.append(os.getpid())
        try:
            return [*await call_next(), "seen"]
        except Exception as error:
            raise GiveUp(str(error)) from error

    async with working(needy_app.app, concurrency=1):
        assert await (await needy_app.plain.aenqueue()) == ["client", True, "seen"]
        with pytest.raises(JobFailed) as told:
            await (await needy_app.fail.aenqueue("os"))
    assert (told.value.type, told.value.attempts) == ("GiveUp", 1)
    assert pids == [os.getpid()] * 2
