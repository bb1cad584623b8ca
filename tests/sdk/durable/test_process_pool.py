"""Durable calls in child processes of a worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.sdk.apps import durable_app
from tests.support.engine_process import EngineProcess
from windlass import Context, JobFailed, Suspended, Windlass
from windlass.sdk.tasks.middleware import CallNext
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
SECONDS = 30


@pytest.fixture
def children(engine: EngineProcess, store: Store, monkeypatch: pytest.MonkeyPatch) -> Windlass:
    """Connect the app, and its child processes by their environment."""
    monkeypatch.setenv("WINDLASS_URL", engine.unix_url)
    monkeypatch.setenv("WINDLASS_NAMESPACE", store.namespace)
    durable_app.app.connect(store)
    return durable_app.app


@pytest.mark.parametrize("name", ["in_process", "in_process_loop"])
@pytest.mark.parametrize("has_middleware", [False, True])
async def test_steps_sleeps_and_signals(
    children: Windlass, working: Any, tmp_path: Path, name: str, has_middleware: bool, ran: list[Any]
) -> None:
    async def watch(ctx: Context, call_next: CallNext) -> Any:
        try:
            return await call_next()
        except Suspended:
            ran.append("suspended")
            raise

    (tmp_path / "go").touch()
    children.middlewares = [watch] if has_middleware else []
    try:
        async with working(children, concurrency=2):
            handle = await children.tasks[name].aenqueue(str(tmp_path))
            await handle.asignal("approval", "yes")
            assert await handle.aresult(SECONDS) == ["first", "second", "yes", 1]
    finally:
        children.middlewares = []
    assert (tmp_path / "notes").read_text().split()[::3] == ["first", "second", "waits"]
    assert ran == (["suspended"] if has_middleware else [])


async def test_a_swallowed_suspension(children: Windlass, working: Any) -> None:
    async with working(children, concurrency=2):
        with pytest.raises(JobFailed) as told:
            await (await durable_app.swallow.aenqueue()).aresult(SECONDS)
    assert told.value.reason == "suspension_swallowed"


async def test_children_of_a_process_task(children: Windlass, working: Any) -> None:
    async with working(children, concurrency=2):
        assert await (await durable_app.parent.aenqueue()).aresult(SECONDS) == [0, 1, 4]
