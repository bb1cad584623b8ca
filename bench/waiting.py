"""Waiting takers: how soon one has a job of an idle queue, and what ten of them cost while nothing happens."""

import contextlib
import json
import random
import time
from collections.abc import Callable
from functools import partial
from itertools import chain
from statistics import quantiles

from windlass.core.job import Blob, Codec, NewJob
from windlass.service import Service

from .engine import QUEUE, Child, Engine
from .figures import Setting, Table, in_turns, number

SAMPLES = 300
PAUSE_S = 0.004  # at least, so that the taker waits again
IDLE_TAKERS = 10
IDLE_S = 10.0
READY_LIMIT_S = 20.0


def _await_takers(service: Service, count: int) -> None:
    give_up_at_s = time.monotonic() + READY_LIMIT_S
    while service.stats([QUEUE]).wait()[0].waiting_takers < count:
        assert time.monotonic() < give_up_at_s, "the takers do not come"
        time.sleep(0.01)


def _send(count: int, send: Callable[[bytes], object]) -> None:
    for _ in range(count):
        time.sleep(PAUSE_S * (1 + random.random()))
        send(b"%d" % time.monotonic_ns())
    time.sleep(PAUSE_S)
    send(b"stop")


def latencies_us(engine: Engine, kind: str, count: int) -> list[float]:
    engine.empty()
    with Child("taker", engine.url, kind) as child, engine.service() as service:
        child.wait_ready()
        if kind == "raw":
            time.sleep(0.2)
            _send(count, lambda sent_at: engine.control.call("RPUSH", "q", sent_at))
        else:

            def enqueue(sent_at: bytes) -> None:
                service.enqueue([NewJob(queue=QUEUE, name="noop", payload=Blob(sent_at, Codec.RAW))]).wait()

            _await_takers(service, 1)
            _send(count, enqueue)
        found: list[float] = json.loads(child.findings())
    assert len(found) == count, "a job did not arrive"
    return found


def idle_commands_per_s(engine: Engine, for_s: float) -> float:
    engine.empty()
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(engine.service())
        children = [stack.enter_context(Child("taker", engine.url, "async")) for _ in range(IDLE_TAKERS)]
        for child in children:
            child.wait_ready()
        _await_takers(service, IDLE_TAKERS)
        with engine.metered(1) as meter:
            time.sleep(for_s)
    return meter.spent.commands / for_s


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
    note = f"From before enqueue in one process to the job in another; {count * setting.rounds:,} jobs one at a time."
    head = ("pick-up on an idle queue", "p50, ms", "p99, ms", "p50 against bare", "p99 against bare")
    return Table("Pick-up latency", head, rows, note)


def section(setting: Setting) -> list[Table]:
    with Engine() as engine:
        latency = _latency_table(setting, engine)
        for_s = IDLE_S if not setting.is_quick else IDLE_S / 3
        setting.say(f"idle: {IDLE_TAKERS} processes for {for_s:.0f} s")
        rate = idle_commands_per_s(engine, for_s)
    rows = [[f"{IDLE_TAKERS} processes with a waiting taker, {for_s:.0f} s", number(rate), "0"]]
    head = ("idle", "engine commands/s", "ten connections blocked in BLPOP")
    return [latency, Table("Idle", head, rows)]
