"""Examples of the documents about flows and schedules, run with a worker."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest

import windlass
from windlass import Windlass, Worker

DOCUMENTS = Path(__file__).parents[3] / "docs"
RESULT = "  # → "


def at_work(app: Windlass, is_over: threading.Event) -> threading.Thread:
    """Run a worker in a thread: the examples wait without an event loop."""

    async def work() -> None:
        worker = Worker(app, concurrency=4)
        running = asyncio.create_task(worker.run())
        await worker.wait_until_ready()
        await asyncio.to_thread(is_over.wait)
        worker.stop()
        await running
        await app.aclose()

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    return thread


@pytest.fixture
def names(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the names for an example: its `Windlass()` is the test's own application."""
    monkeypatch.setattr(windlass, "Windlass", lambda: app, raising=False)
    return {"__name__": "example"}


def test_flows(app: Windlass, names: dict[str, Any]) -> None:
    first, *others = blocks_of("flows.md")
    run(first, names)
    is_over = threading.Event()
    thread = at_work(app, is_over)
    try:
        assert sum(run(block, names) for block in others) >= 8
    finally:
        is_over.set()
        thread.join()


def test_schedules(names: dict[str, Any]) -> None:
    (block,) = blocks_of("cron.md")
    assert run(block, names) == 1


def blocks_of(document: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (DOCUMENTS / document).read_text(), re.MULTILINE | re.DOTALL)


def run(block: str, names: dict[str, Any]) -> int:
    waiting: list[str] = []
    checked = 0
    for line in block.splitlines():
        expression, mark, expected = line.partition(RESULT)
        if not mark:
            waiting.append(line)
            continue
        exec("\n".join(waiting), names)  # noqa: S102
        assert repr(eval(expression, names)) == expected, line  # noqa: S307
        waiting, checked = [], checked + 1
    exec("\n".join(waiting), names)  # noqa: S102
    return checked
