"""docs/tasks.md lists every option, and its examples give the results shown."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.support.engine_process import EngineProcess
from windlass import Windlass, Worker
from windlass.sdk.tasks.options import CallOptions, TaskOptions

DOCUMENT = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text()
RESULT = "  # → "


def documented(heading: str) -> set[str]:
    """Return the first column of the section's tables."""
    section = DOCUMENT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def test_every_option_is_there_and_no_other() -> None:
    of_call = set(CallOptions.__annotations__)
    assert documented("Options of a task and of a call") == of_call
    assert documented("Options of a task only") == set(TaskOptions.__annotations__) - of_call
    assert documented("The application") == set(inspect.signature(Windlass).parameters)


@contextlib.contextmanager
def at_work(app: Windlass) -> Iterator[None]:
    """Run a worker in a thread with its own event loop, as if in another process."""
    loop = asyncio.new_event_loop()
    started: Future[Worker] = Future()

    async def work() -> None:
        worker = Worker(app, queues=["default", "mail"], grace=5)
        running = asyncio.create_task(worker.run())
        await worker.wait_until_ready()
        started.set_result(worker)
        await running
        await app.aclose()

    thread = threading.Thread(target=lambda: loop.run_until_complete(work()))
    thread.start()
    worker = started.result(30)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(worker.stop)
        thread.join()
        loop.close()


def test_the_examples_do_what_they_say(engine: EngineProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_URL", engine.unix_url)
    monkeypatch.setenv("WINDLASS_NAMESPACE", f"doc{os.getpid()}")
    names: dict[str, Any] = {}
    checked = 0
    with contextlib.ExitStack() as stack:
        for expression, expected, before in examples():
            exec(before, names)  # noqa: S102
            if not checked:
                stack.enter_context(at_work(names["app"]))
            if expression:
                assert repr(eval(expression, names)) == expected, expression  # noqa: S307
                checked += 1
    names["app"].close()
    assert checked >= 17


def examples() -> Iterator[tuple[str, str, str]]:
    """Yield an expression, its result, and the lines before it."""
    for block in re.findall(r"^```python\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL):
        before: list[str] = []
        for line in block.splitlines():
            expression, mark, expected = line.partition(RESULT)
            if mark:
                yield expression, expected, "\n".join(before)
                before = []
            else:
                before.append(line)
        yield "", "", "\n".join(before)
