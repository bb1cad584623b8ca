"""Protocol between the runner and every program under test. Each app.py passes a peer to `main`.

It uses only the standard library, because every peer has its own environment. A program is called as

    app.py enqueue one|tasks|bulk COUNT   enqueues the numbers 0 to COUNT-1
    app.py send idle COUNT                enqueues the time one by one, with pauses
    app.py send tasks COUNT RATE          the same from many tasks at RATE jobs a second (0: as fast as possible)
    app.py work SLOTS loop|threads        runs queued jobs until it receives a line on its input

with PEER_URL in the environment. It prints `ready`, starts at a line on its input and ends with one line of JSON. While
it works it prints the number of jobs that have run, whenever that changes.
"""

import asyncio
import json
import os
import random
import select
import sys
import threading
from collections.abc import Callable, Coroutine
from time import monotonic_ns, sleep
from typing import Any

TASKS = 50
WARM_UP = -1  # argument of jobs that only open connections; they are not counted
PAUSE_S = 0.008  # shortest pause: the worker must wait again
SAY_EVERY_S = 0.02
URL = os.environ.get("PEER_URL", "")
# redis-py 8 allows 100 connections by default, which workers with 100 slots exceed.
ROOMY_URL = f"{URL}&max_connections=1000"
SOCKET_PATH = URL.removeprefix("unix://").partition("?")[0]

_ran: list[tuple[int, int]] = []  # number, at_ns


def ran(number: int) -> None:
    """Record a run. This is all a job does; appending to a list is atomic, in threads too."""
    _ran.append((number, monotonic_ns()))


class ThreadedPeer:
    """Program whose calls block. Concurrent producers are threads."""

    send: Callable[[int], object]
    send_many: Callable[[range], object] | None = None

    def prepare(self, slots: int, is_threaded: bool) -> None:
        """Load the worker and connect, before the measurement starts."""

    def work(self) -> None:
        """Run forever."""
        raise NotImplementedError


class AsyncPeer:
    """Program with an event loop. Concurrent producers are asyncio tasks."""

    send_many: Callable[[range], Coroutine[Any, Any, object]] | None = None

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        import uvloop  # makes each of these programs faster

        uvloop.run(main)

    async def open(self) -> None:
        """Connect, before the measurement starts."""

    async def send(self, number: int) -> object:
        raise NotImplementedError

    async def prepare(self, slots: int, is_threaded: bool) -> None:
        """Load the worker and connect, before the measurement starts."""

    async def work(self) -> None:
        """Run forever."""
        raise NotImplementedError


Peer = ThreadedPeer | AsyncPeer


def say(text: str) -> None:
    print(text, flush=True)


def _begin() -> int:
    say("ready")
    sys.stdin.readline()
    return monotonic_ns()


def _end(**findings: object) -> None:
    """Print the findings and exit at once, because shutdown is not measured."""
    say(json.dumps(findings))
    os._exit(0)


def _share(count: int, task: int) -> range:
    return range(task, count, TASKS)


def _wait_s(rate: float, sent: int, began_at_ns: int) -> float:
    """Return the time until the next job of a task is due. A random offset keeps the tasks out of step."""
    due_at_ns = began_at_ns + (sent + random.random()) * TASKS / rate * 1e9
    return (due_at_ns - monotonic_ns()) / 1e9


# --- blocking programs


def _in_threads(work: Callable[[int], None]) -> tuple[int, int]:
    """Run the work in threads and return start and end. All threads wait for the runner before they start."""
    gate = threading.Barrier(TASKS + 1)

    def run(task: int) -> None:
        work(-1)
        gate.wait()
        gate.wait()
        work(task)

    threads = [threading.Thread(target=run, args=(task,), daemon=True) for task in range(TASKS)]
    for thread in threads:
        thread.start()
    gate.wait()
    began_at_ns = _begin()
    gate.wait()
    for thread in threads:
        thread.join()
    return began_at_ns, monotonic_ns()


def _enqueue_threaded(peer: ThreadedPeer, way: str, count: int) -> None:
    if way == "tasks":

        def work(task: int) -> None:
            for number in _share(count, task) if task >= 0 else [WARM_UP]:
                peer.send(number)

        began_at_ns, ended_at_ns = _in_threads(work)
        _end(began_at_ns=began_at_ns, ended_at_ns=ended_at_ns, warm_up=TASKS)
    peer.send(WARM_UP)
    began_at_ns = _begin()
    if way == "bulk":
        assert peer.send_many is not None, "this peer has no call for many jobs"
        peer.send_many(range(count))
    else:
        for number in range(count):
            peer.send(number)
    _end(began_at_ns=began_at_ns, ended_at_ns=monotonic_ns(), warm_up=1)


def _send_threaded(peer: ThreadedPeer, count: int, rate: float | None) -> None:
    if rate is not None:

        def work(task: int) -> None:
            began_at_ns = monotonic_ns()
            for sent, _ in enumerate(_share(count, task) if task >= 0 else [WARM_UP]):
                if rate and task >= 0:
                    sleep(max(0.0, _wait_s(rate, sent, began_at_ns)))
                peer.send(monotonic_ns() if task >= 0 else WARM_UP)

        began_at_ns, ended_at_ns = _in_threads(work)
        _end(began_at_ns=began_at_ns, ended_at_ns=ended_at_ns, warm_up=TASKS)
    peer.send(WARM_UP)
    began_at_ns = _begin()
    for _ in range(count):
        sleep(PAUSE_S * (1 + random.random()))
        peer.send(monotonic_ns())
    _end(began_at_ns=began_at_ns, ended_at_ns=monotonic_ns(), warm_up=1)


# --- programs with an event loop


async def _enqueue_async(peer: AsyncPeer, way: str, count: int) -> None:
    await peer.open()
    if way == "tasks":

        async def work(task: int) -> None:
            for number in _share(count, task):
                await peer.send(number)

        await asyncio.gather(*(peer.send(WARM_UP) for _ in range(TASKS)))
        began_at_ns = _begin()
        await asyncio.gather(*(work(task) for task in range(TASKS)))
        _end(began_at_ns=began_at_ns, ended_at_ns=monotonic_ns(), warm_up=TASKS)
    await peer.send(WARM_UP)
    began_at_ns = _begin()
    if way == "bulk":
        assert peer.send_many is not None, "this peer has no call for many jobs"
        await peer.send_many(range(count))
    else:
        for number in range(count):
            await peer.send(number)
    _end(began_at_ns=began_at_ns, ended_at_ns=monotonic_ns(), warm_up=1)


async def _send_async(peer: AsyncPeer, count: int, rate: float | None) -> None:
    await peer.open()
    if rate is not None:

        async def work(task: int) -> None:
            for sent, _ in enumerate(_share(count, task)):
                if rate:
                    await asyncio.sleep(max(0.0, _wait_s(rate, sent, began_at_ns)))
                await peer.send(monotonic_ns())

        await asyncio.gather(*(peer.send(WARM_UP) for _ in range(TASKS)))
        began_at_ns = _begin()
        await asyncio.gather(*(work(task) for task in range(TASKS)))
        _end(began_at_ns=began_at_ns, ended_at_ns=monotonic_ns(), warm_up=TASKS)
    await peer.send(WARM_UP)
    began_at_ns = _begin()
    for _ in range(count):
        await asyncio.sleep(PAUSE_S * (1 + random.random()))
        await peer.send(monotonic_ns())
    _end(began_at_ns=began_at_ns, ended_at_ns=monotonic_ns(), warm_up=1)


# --- workers


def _report() -> None:
    """Print the number of jobs that have run. At the next line of the runner, print the details and exit."""
    said = 0
    while not select.select([0], [], [], SAY_EVERY_S)[0]:
        if len(_ran) != said:
            said = len(_ran)
            say(str(said))
    found = [(number, at_ns) for number, at_ns in _ran if number != WARM_UP]
    _end(
        numbers=[number for number, _ in found],
        first_at_ns=min((at_ns for _, at_ns in found), default=0),
        last_at_ns=max((at_ns for _, at_ns in found), default=0),
        ran_at_ns=[at_ns for _, at_ns in found] if "timed" in sys.argv else [],
    )


def _begin_work() -> None:
    _begin()
    threading.Thread(target=_report, daemon=True).start()


def _work_threaded(peer: ThreadedPeer, slots: int, is_threaded: bool) -> None:
    peer.prepare(slots, is_threaded)
    _begin_work()
    peer.work()


async def _work_async(peer: AsyncPeer, slots: int, is_threaded: bool) -> None:
    await peer.prepare(slots, is_threaded)
    _begin_work()
    await peer.work()


def main(peer: Peer, one: ThreadedPeer | None = None) -> None:
    """Run the command of the runner. `one` makes single calls, if the peer has a separate way for them."""
    task, *words = sys.argv[1:]
    if task == "work":
        slots, is_threaded = int(words[0]), words[1] == "threads"
        if isinstance(peer, ThreadedPeer):
            return _work_threaded(peer, slots, is_threaded)
        return peer.run(_work_async(peer, slots, is_threaded))
    way, count = words[0], int(words[1])
    caller = one if one is not None and way in ("one", "idle", "bulk") else peer
    if task == "enqueue":
        if isinstance(caller, ThreadedPeer):
            return _enqueue_threaded(caller, way, count)
        return caller.run(_enqueue_async(caller, way, count))
    rate = float(words[2]) if way == "tasks" else None
    if isinstance(caller, ThreadedPeer):
        return _send_threaded(caller, count, rate)
    return caller.run(_send_async(caller, count, rate))
