"""Thread for readers without an event loop: it ends with the app, and a fork starts its own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError

import pytest

from tests.support.fork import run_in_fork
from windlass.sdk.streams.loop_thread import LoopThread


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def fail() -> None:
    raise ValueError("wrong")


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "windlass-streams"]


def test_calls_share_one_thread_until_it_is_closed() -> None:
    thread = LoopThread()
    assert [thread.wait(answer(number)) for number in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="wrong"):
        thread.wait(fail())
    assert threads() == ["windlass-streams"]
    thread.close()
    assert threads() == []
    thread.close()
    assert thread.wait(answer(4)) == 4  # it starts again
    thread.close()


def test_closing_ends_what_still_runs() -> None:
    thread = LoopThread()
    began, ended = threading.Event(), threading.Event()

    async def wait_forever() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def wait() -> None:
        with pytest.raises(CancelledError):
            thread.wait(wait_forever())

    caller = threading.Thread(target=wait)
    caller.start()
    assert began.wait(20)
    thread.close()
    assert ended.is_set()
    caller.join(20)
    assert not caller.is_alive()


def test_a_fork_starts_a_thread_of_its_own() -> None:
    thread = LoopThread()
    assert thread.wait(answer(1)) == 1
    assert run_in_fork(lambda: str(thread.wait(answer(2)))) == "2"
    assert thread.wait(answer(3)) == 3
    thread.close()
