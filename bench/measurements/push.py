"""Push: jobs per second to one worker, compared with the bare client; latency from enqueue to the worker's handler."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from statistics import quantiles
from typing import Any

import msgspec
import uvloop

from bench.engine import BULK, QUEUE, Engine
from bench.figures import Setting, Table, in_turns, number, ratio, spread
from windlass.background.push_dispatcher import IN_FLIGHT_MAX
from windlass.core.job import Blob, Codec, NewJob
from windlass.core.operations import WorkerInfo
from windlass.outbound import Outbound, parse_policy
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

from .http_api import served

PUSHES = 8_000
SAMPLES = 300
PAUSE_S = 0.004
WORKER = b"w" * 16
_read = msgspec.msgpack.decode


class Handler(asyncio.Protocol):
    """HTTP handler that accepts every job and records the time of its arrival."""

    def __init__(self, got: list[tuple[int, bytes]], enough: asyncio.Event, count: int) -> None:
        self._got, self._enough, self._count = got, enough, count
        self._received = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, _, body = self._received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or -1)
        if len(body) < length or length < 0:
            return
        self._received = b""
        self._got.append((time.monotonic_ns(), body))
        self._transport.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        if len(self._got) == self._count:
            self._enough.set()


@asynccontextmanager
async def worker(count: int) -> AsyncIterator[tuple[str, list[tuple[int, bytes]], asyncio.Event]]:
    got: list[tuple[int, bytes]] = []
    enough = asyncio.Event()
    server = await asyncio.get_running_loop().create_server(lambda: Handler(got, enough, count), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", got, enough
    finally:
        server.close()


@asynccontextmanager
async def registered(engine: Engine, url: str, slots: int) -> AsyncIterator[Service]:
    async with Store(parse_url(engine.url)) as store:
        service = Service(store)
        await service.register(WORKER, WorkerInfo(queues=(QUEUE,), slots=slots, url=url), beat_ms=10**9)
        yield service


async def warm(service: Service, got: list[Any]) -> None:
    """Wait until the first job has passed through: the server listens before all its parts are ready."""
    await service.enqueue([NewJob(queue=QUEUE, name="no_op")])
    while not got:  # noqa: ASYNC110 (the event is in another process)
        await asyncio.sleep(PAUSE_S)


def pushed_per_s(engine: Engine, count: int) -> float:
    async def main() -> float:
        async with worker(count + 1) as (url, got, enough), registered(engine, url, count + 1) as service:
            await warm(service, got)
            began_at_s = time.perf_counter()
            for _ in range(0, count, BULK):
                await service.enqueue([NewJob(queue=QUEUE, name="no_op") for _ in range(BULK)])
            await enough.wait()
            return count / (time.perf_counter() - began_at_s)

    engine.empty()
    with served(engine):
        return uvloop.run(main())


def posted_per_s(count: int) -> float:
    """Post with the same client and the same number of concurrent requests, without a queue."""

    async def main() -> float:
        async with worker(count) as (url, _, _enough), Outbound(parse_policy("", is_local=True)) as outbound:
            left = iter(range(count))

            async def post() -> None:
                for _ in left:
                    await outbound.post(url, b"x" * 100, {"content-type": "application/msgpack"})

            began_at_s = time.perf_counter()
            await asyncio.gather(*(post() for _ in range(IN_FLIGHT_MAX)))
            return count / (time.perf_counter() - began_at_s)

    return uvloop.run(main())


def latencies_us(engine: Engine, count: int) -> list[float]:
    async def main() -> list[float]:
        async with worker(count + 1) as (url, got, enough), registered(engine, url, count + 1) as service:
            await warm(service, got)
            for _ in range(count):
                await asyncio.sleep(PAUSE_S)
                sent = Blob(msgspec.msgpack.encode(time.monotonic_ns()), Codec.MSGPACK)
                await service.enqueue([NewJob(queue=QUEUE, name="no_op", payload=sent)])
            await enough.wait()
            return [(at_ns - _read(body)["argument"]) / 1000 for at_ns, body in got[1:]]

    engine.empty()
    with served(engine):
        return uvloop.run(main())


def section(setting: Setting) -> list[Table]:
    pushes, samples = max(BULK, setting.scaled(PUSHES) // BULK * BULK), setting.scaled(SAMPLES)
    with Engine() as engine:
        rates = in_turns(
            setting,
            "push",
            {
                "pushed by `windlass serve`": partial(pushed_per_s, engine, pushes),
                "bare posts": partial(posted_per_s, pushes),
            },
        )
        found = [latencies_us(engine, samples) for _ in range(setting.rounds)]
    base = rates["bare posts"]
    rows = [(name, spread(values), ratio(values, base)) for name, values in rates.items()]
    note = (
        f"Jobs pushed to one worker with enough slots, {IN_FLIGHT_MAX} at once, from enqueue to the worker's handler. "
        "The worker answers 202 and shares the machine. *Bare posts*: the same client, without a queue."
    )
    cuts = quantiles([one for round_of in found for one in round_of], n=100)
    late = "From enqueue on an idle queue to the worker's handler, over HTTP on loopback, in µs."
    return [
        Table("Push", ("", "per second", "ratio to bare posts"), rows, note),
        Table(
            "Latency of a push",
            ("", "median", "95 %", "99 %"),
            [("enqueue to handler", number(cuts[49]), number(cuts[94]), number(cuts[98]))],
            late,
        ),
    ]
