"""Push worker process, built with the SDK: `python push_process.py <master> <port> <max_jobs> [<queue> …]`."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import Any

import uvicorn

from windlass import GiveUp
from windlass.sdk.push import PushWorker

master, port, max_jobs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
worker = PushWorker(master, url=f"http://127.0.0.1:{port}", name="library", max_jobs=max_jobs, queues=sys.argv[4:])


@worker.job("echo")
async def echo(argument: dict[str, Any]) -> Any:
    return argument["value"]


@worker.job("thread")
def thread(argument: Any) -> str:
    return threading.current_thread().name


@worker.job("slow")
async def slow(argument: dict[str, Any]) -> str:
    await asyncio.sleep(argument["value"])
    return "slept"


@worker.job("stuck")
def stuck(argument: dict[str, Any]) -> None:
    time.sleep(argument["value"])


@worker.job("broken")
def broken(argument: Any) -> None:
    raise ValueError("it is broken")


@worker.job("given_up")
def given_up(argument: Any) -> None:
    raise GiveUp("no use")


@worker.job("leave")
def leave(argument: Any) -> None:
    sys.exit(1)


@worker.job("interrupt")
async def interrupt(argument: Any) -> None:
    raise KeyboardInterrupt


@worker.job("odd")
def odd(argument: Any) -> Any:
    return object()


if __name__ == "__main__":
    uvicorn.run(worker, host="127.0.0.1", port=port, log_level="warning")
