"""Waiting takers: pick-up latency on an idle queue, cost of a pick-up among many takers, and the idle cost of ten
takers or ten whole workers."""

import contextlib
import json
import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from statistics import median, quantiles

from bench.engine import QUEUE, Child, Engine, Spent
from bench.figures import Finding, Reading, Setting, Table, in_turns, number, spread
from windlass.background.lease_holder import BEAT_EVERY_S
from windlass.core.job import Blob, Codec, NewJob
from windlass.service import Service

SAMPLES = 300
PAUSE_S = 0.004  # shortest pause: the taker must wait again
IDLE_TAKERS = 10
IDLE_S = BEAT_EVERY_S  # each worker sends one heartbeat in this time
READY_LIMIT_S = 60.0


def await_takers(service: Service, count: int) -> None:
    give_up_at_s = time.monotonic() + READY_LIMIT_S
    while service.stats([QUEUE]).wait()[0].waiting_takers < count:
        assert time.monotonic() < give_up_at_s, f"fewer than {count} takers wait after {READY_LIMIT_S:.0f} s"
        time.sleep(0.01)


def _send(count: int, send: Callable[[bytes], object]) -> None:
    for _ in range(count):
        time.sleep(PAUSE_S * (1 + random.random()))
        send(b"%d" % time.monotonic_ns())
    time.sleep(PAUSE_S)


def waited(engine: Engine, kind: str, count: int, takers: int = 1) -> tuple[list[float], Spent]:
    """Return latencies in microseconds, and the cost of the jobs for the engine."""
    engine.empty()
    with Child("taker", engine.url, kind, str(takers)) as child, engine.service() as service:

        def enqueue(text: bytes) -> None:
            service.enqueue([NewJob(queue=QUEUE, name="noop", payload=Blob(text, Codec.RAW))]).wait()

        child.wait_ready()
        if kind == "raw":
            time.sleep(0.2)
        else:
            await_takers(service, takers)
        send = enqueue if kind != "raw" else partial(engine.control.call, "RPUSH", "q")
        with engine.metered(count) as meter:
            _send(count, send)
        for _ in range(takers):
            send(b"stop")
        found: list[float] = json.loads(child.findings())
    assert len(found) == count, "a job did not arrive"
    return found, meter.spent


def latencies_us(engine: Engine, kind: str, count: int) -> list[float]:
    return waited(engine, kind, count)[0]


def costs_of_waiting(engine: Engine, count: int, takers: int) -> dict[str, float]:
    """Return microseconds per job: CPU of the engine, and pick-up latency."""
    found = {}
    for kind, name in (("async", "enqueue, take, finish"), ("raw", "bare engine: RPUSH, BLPOP")):
        latencies, spent = waited(engine, kind, count, takers)
        found[f"{name}: CPU of the engine"] = spent.cpu_us_per_job
        found[f"{name}: median pick-up"] = median(latencies)
    return found


@contextlib.contextmanager
def _waiting(engine: Engine, *child: str) -> Iterator[None]:
    engine.empty()
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(engine.service())
        children = [stack.enter_context(Child(*child)) for _ in range(IDLE_TAKERS)]
        for one in children:
            one.wait_ready()
        await_takers(service, IDLE_TAKERS)
        yield


def _commands_per_s(engine: Engine, for_s: float) -> float:
    """Return commands per second, including those that scripts call."""
    with engine.metered(1) as meter:
        time.sleep(for_s)
    return meter.spent.commands / for_s


def idle_takers(engine: Engine, for_s: float) -> float:
    with _waiting(engine, "taker", engine.url, "async", "1"):
        return _commands_per_s(engine, for_s)


def idle_workers(engine: Engine, times: int) -> list[float]:
    """Measure whole workers, with their heartbeats and background loops."""
    os.environ["WINDLASS_URL"] = engine.url
    try:
        with _waiting(engine, "sdk_app", "wait", "16"):
            return [_commands_per_s(engine, IDLE_S) for _ in range(times)]
    finally:
        del os.environ["WINDLASS_URL"]


def readings(rates: list[float]) -> list[Reading]:
    return [Reading("idle_commands", rates)]


def _latency_table(setting: Setting, engine: Engine) -> Table:
    count = setting.scaled(SAMPLES)
    names = {"raw": "bare engine, RPUSH and BLPOP", "async": "take, asyncio", "sync": "take, `.wait()`"}
    ways = {kind: partial(latencies_us, engine, kind, count) for kind in names}
    samples = in_turns(setting, "pick-up latency", ways)
    points = {}
    for kind, rounds in samples.items():
        percentiles = quantiles(chain.from_iterable(rounds), n=100)
        points[kind] = percentiles[49] / 1000, percentiles[98] / 1000
    bare = points["raw"]
    rows = [
        [names[kind], f"{p50:.3f}", f"{p99:.3f}", f"{p50 / bare[0]:.2f}×", f"{p99 / bare[1]:.2f}×"]
        for kind, (p50, p99) in points.items()
    ]
    note = f"From before enqueue in one process to the job in another; {count * setting.rounds:,} jobs, one at a time."
    head = ("pick-up on an idle queue", "p50, ms", "p99, ms", "p50 against bare", "p99 against bare")
    return Table("Pick-up latency", head, rows, note)


def section(setting: Setting) -> list[Finding]:
    with Engine() as engine:
        latency = _latency_table(setting, engine)
        for_s, times = (IDLE_S / 3, 1) if setting.is_quick else (IDLE_S, setting.rounds)
        setting.say(f"idle: {IDLE_TAKERS} processes for {for_s:.0f} s, and as many workers")
        rate = idle_takers(engine, for_s)
        rates = idle_workers(engine, times)
    rows = [
        [f"{IDLE_TAKERS} processes with a waiting taker, {for_s:.0f} s", number(rate), "0"],
        [f"{IDLE_TAKERS} workers, {IDLE_S:.0f} s, {times}×", spread(rates), "0"],
    ]
    head = ("idle", "engine commands/s", "ten connections blocked in BLPOP")
    return [latency, Table("Idle", head, rows, "Commands that scripts call are included."), *readings(rates)]
