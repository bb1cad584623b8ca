"""Application for workers that are killed, stopped and hung."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

from windlass import Backoff, Windlass

app = Windlass()
AGAIN = Backoff(tries=20, base=0)
LONG = "10m"


def note(place: str, word: str, number: int) -> None:
    """Append a line in one write, so that lines of several processes do not mix."""
    with open(Path(place) / "notes", "ab", buffering=0) as notes:
        notes.write(f"{word} {number} {os.getpid()}\n".encode())


def may_go(place: str) -> bool:
    return (Path(place) / "go").exists()


@app.task(lease="1s", retry=AGAIN)
async def in_loop(place: str, number: int) -> int:
    note(place, "start", number)
    while not may_go(place):  # noqa: ASYNC110 (it waits for another process)
        await asyncio.sleep(0.01)
    return number


@app.task(lease="1s", retry=AGAIN)
def in_thread(place: str, number: int) -> int:
    note(place, "start", number)
    while not may_go(place):
        time.sleep(0.01)
    return number


@app.task(lease="1s", retry=AGAIN, pool="process")
def in_process(place: str, number: int) -> int:
    note(place, "start", number)
    while not may_go(place):
        time.sleep(0.01)
    return number


@app.task(lease=LONG, retry=AGAIN)
async def held_long(place: str, number: int) -> int:
    note(place, "start", number)
    while not may_go(place):  # noqa: ASYNC110 (it waits for another process)
        await asyncio.sleep(0.01)
    return number


@app.task(lease=LONG, retry=AGAIN)
def held_long_in_thread(place: str, number: int) -> int:
    note(place, "start", number)
    while not may_go(place):
        time.sleep(0.01)
    return number


@app.task(lease=LONG, retry=AGAIN, pool="process")
def held_long_in_process(place: str, number: int) -> int:
    note(place, "start", number)
    while not may_go(place):
        time.sleep(0.01)
    return number


@app.task(lease="1s", retry=AGAIN)
async def quick(place: str, number: int) -> int:
    note(place, "start", number)
    return number


@app.task(lease="2500ms", retry=AGAIN)
async def hang(place: str, number: int) -> int:
    note(place, "start", number)
    time.sleep(6)  # noqa: ASYNC251 (the mistake that is meant)
    return number


@app.task(lease=LONG, retry=AGAIN, max_crashes=2)
def poison(place: str, number: int) -> None:
    note(place, "start", number)
    if number % 2:
        os._exit(1)
    os.kill(os.getpid(), signal.SIGKILL)
