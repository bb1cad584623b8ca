"""Live workers that count as lost on a starved machine, and how soon dead ones do.

    python -m bench.programs.starved_workers [--patience 6 10 14 30] [--for 40] [--workers 6] [--hogs 16] [--nice 19]
        [--freeze 0] [--kills 3]

For each patience (seconds from the last heartbeat until a worker that holds jobs loses them; a third of it is the time
between the recoverer's two looks, a fifth the interval of heartbeats) it starts niced workers whose jobs run all the
time, beside as many busy processes, and reads the instants of their heartbeats. `--freeze` stops the engine for as
many seconds in the middle. Then it kills workers one by one and waits until each has lost its job.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from tests.support.engine_process import EngineProcess
from windlass import Backoff, Windlass, Worker
from windlass.background import recoverer, runner
from windlass.core.ids import parse_id
from windlass.core.job import Timeline
from windlass.core.operations import Worker as RegisteredWorker
from windlass.sdk.worker import heartbeat
from windlass.service import Service

READY_LIMIT_S = 180.0
LOOK_EVERY_S = 0.1

app = Windlass()


@app.task(lease="10m", retry=Backoff(tries=100, base=0))
async def endless() -> None:
    await asyncio.Event().wait()


def set_patience(patience_s: float) -> None:
    """Divide the patience as the defaults are: 9 s of silence, and 5 s between two looks."""
    recoverer.GRACE_S = patience_s * 5 / 14
    recoverer.LOOK_AGAIN_MS = int(recoverer.GRACE_S * 1000) + 50
    heartbeat.BUSY_BEAT_MS = int(patience_s * 9 / 14 * 1000)  # type: ignore[attr-defined]


def work(url: str, patience_s: float) -> None:
    set_patience(patience_s)
    app.redirect(url=url, data_dir=None, namespace=None)
    asyncio.run(Worker(app, concurrency=1, has_loops=False).run())


def burn() -> None:
    while True:
        pass


class Found(NamedTuple):
    lost: int
    gaps_s: list[float]  # between heartbeats
    recovery_s: list[float]


async def watch(
    service: Service, ids: Sequence[bytes], given: argparse.Namespace, engine: EngineProcess
) -> tuple[int, list[float]]:
    """Return how many jobs were taken from live workers, and the gaps between heartbeats."""
    before = {worker.id: worker.beat_at_ms for worker in await service.workers()}
    gaps_s: list[float] = []
    end_s = time.monotonic() + given.seconds
    freeze_at_s = time.monotonic() + given.seconds / 2 if given.freeze else end_s
    while time.monotonic() < end_s:
        if time.monotonic() >= freeze_at_s:
            freeze_at_s = end_s
            engine.freeze()
            await asyncio.sleep(given.freeze)
            engine.thaw()
        now = {worker.id: worker.beat_at_ms for worker in await service.workers()}
        gaps_s += [(now[one] - at_ms) / 1000 for one, at_ms in before.items() if one in now and now[one] > at_ms]
        before |= now
        await asyncio.sleep(LOOK_EVERY_S)
    timelines = [found for found in await service.job(ids) if isinstance(found, Timeline)]
    return sum(len(timeline.attempts) for timeline in timelines), gaps_s


async def until(is_so: Callable[[list[RegisteredWorker]], bool], service: Service) -> None:
    async with asyncio.timeout(READY_LIMIT_S):
        while not is_so(await service.workers()):  # noqa: ASYNC110 (of the engine)
            await asyncio.sleep(LOOK_EVERY_S)


async def measure(patience_s: float, given: argparse.Namespace, engine: EngineProcess) -> Found:
    set_patience(patience_s)
    app.redirect(url=engine.unix_url, data_dir=None, namespace=f"p{patience_s:g}")
    service = await app.aservice()
    command = [sys.executable, "-m", "bench.programs.starved_workers", "--work", f"{patience_s}", engine.unix_url]
    environment = {**os.environ, "WINDLASS_NAMESPACE": f"p{patience_s:g}"}
    workers = [subprocess.Popen(command, env=environment) for _ in range(given.workers)]  # noqa: ASYNC220 (at the start)
    hogs = [multiprocessing.Process(target=burn, daemon=True) for _ in range(given.hogs)]
    loops = asyncio.create_task(runner.run(service))
    try:
        await until(lambda found: len(found) == given.workers, service)
        handles = await app.aenqueue_many(endless.call() for _ in range(given.workers))
        await until(lambda found: all(worker.running_count for worker in found), service)
        await asyncio.sleep(patience_s / 3)  # until all have announced that they are busy
        for hog in hogs:
            hog.start()
        for worker in workers:
            os.setpriority(os.PRIO_PROCESS, worker.pid, given.nice)
            for thread in os.listdir(f"/proc/{worker.pid}/task"):
                os.setpriority(os.PRIO_PROCESS, int(thread), given.nice)
        lost, gaps_s = await watch(service, [parse_id(handle.id) for handle in handles], given, engine)
        for hog in hogs:
            hog.terminate()
        recovery_s = [await kill_one(service, worker) for worker in workers[: given.kills]] if not lost else []
    finally:
        loops.cancel()
        for process in workers:
            process.kill()
        await app.aclose()
    return Found(lost, gaps_s, recovery_s)


async def kill_one(service: Service, process: subprocess.Popen[bytes]) -> float:
    killed_at_s = time.monotonic()
    process.send_signal(signal.SIGKILL)
    await until(lambda found: all(worker.info.pid != process.pid for worker in found), service)
    return time.monotonic() - killed_at_s


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--patience", type=float, nargs="+", default=[6, 10, 14, 30])
    parser.add_argument("--for", type=float, default=40, dest="seconds")
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--hogs", type=int, default=16)
    parser.add_argument("--nice", type=int, default=19)
    parser.add_argument("--freeze", type=float, default=0)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--work", nargs=2)
    given = parser.parse_args()
    if given.work:
        work(given.work[1], float(given.work[0]))
        return
    engine = EngineProcess()
    engine.start()
    try:
        for patience_s in given.patience:
            found = asyncio.run(measure(patience_s, given, engine))
            gaps_s = sorted(found.gaps_s) or [0.0]
            gaps = f"p50 {median(gaps_s):.2f} s, p99 {gaps_s[int(0.99 * len(gaps_s))]:.2f} s, most {gaps_s[-1]:.2f} s"
            recovery = ", ".join(f"{value:.1f}" for value in sorted(found.recovery_s)) or "-"
            print(
                f"{patience_s:g} s: {found.lost} of {given.workers} live workers lost; gaps of heartbeats {gaps}; dead "
                f"workers noticed after {recovery} s",
                flush=True,
            )
    finally:
        engine.kill()


if __name__ == "__main__":
    main()
