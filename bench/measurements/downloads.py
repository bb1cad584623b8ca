"""Small downloads per second, and a large download, compared with the bare client that discards the bytes."""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import msgspec
import uvloop

from bench.engine import BULK, Engine
from bench.figures import Setting, Table, in_turns, number, ratio, spread
from windlass.core.job import Blob, NewJob
from windlass.downloads.worker import NAME, QUEUE, DownloadOptions, DownloadWorker
from windlass.outbound import FetchRequest, Outbound, parse_policy
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

SMALL = 10 * 1024
COUNT = 4_000
AT_ONCE = 50
LARGE = 2 * 1024**3
MIB = 1024**2
POLICY = parse_policy("", is_local=True)


@contextlib.contextmanager
def origin() -> Iterator[str]:
    command = [sys.executable, "-m", "bench.programs.file_origin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdin
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


@contextlib.asynccontextmanager
async def processing(engine: Engine, directory: Path) -> AsyncIterator[Service]:
    async with Store(parse_url(engine.url)) as store, Outbound(POLICY) as outbound:
        service = Service(store)
        processor = DownloadWorker(
            outbound, DownloadOptions(directory=directory, base="http://files.example", slots=AT_ONCE)
        )
        running = asyncio.create_task(processor.run(service))
        try:
            yield service
        finally:
            running.cancel()
            await asyncio.wait({running})


def _job(url: str, name: str, result_ttl_ms: int = 0) -> NewJob:
    payload = Blob(msgspec.json.encode({"id": name, "url": url, "aggr_id": "bench"}))
    return NewJob(queue=QUEUE, name=NAME, payload=payload, unique=name, result_ttl_ms=result_ttl_ms)


def downloaded_per_s(engine: Engine, base: str, count: int) -> float:
    async def main(directory: Path) -> float:
        async with processing(engine, directory) as service:
            jobs = [_job(f"{base}/{SMALL}", f"{n:06}") for n in range(count)]
            began_at_s = time.perf_counter()
            for start in range(0, count, BULK):
                await service.enqueue(jobs[start : start + BULK])
            while (stats := (await service.stats([QUEUE]))[0]).queued or stats.running:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            return count / (time.perf_counter() - began_at_s)

    engine.empty()
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as directory:
        return uvloop.run(main(Path(directory)))


def fetched_per_s(base: str, count: int) -> float:
    async def main() -> float:
        async with Outbound(POLICY) as outbound:
            left = iter(range(count))

            async def fetch() -> None:
                for _ in left:
                    await _read(outbound, f"{base}/{SMALL}")

            began_at_s = time.perf_counter()
            await asyncio.gather(*(fetch() for _ in range(AT_ONCE)))
            return count / (time.perf_counter() - began_at_s)

    return uvloop.run(main())


async def _read(outbound: Outbound, url: str) -> None:
    async with outbound.get(FetchRequest(url=url)) as incoming:
        while await incoming.read():
            pass


def _peak_mib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


grown_mib: list[float] = []


def large_mib_per_s(engine: Engine, base: str, size: int) -> float:
    async def main(directory: Path) -> float:
        async with processing(engine, directory) as service:
            before_mib = _peak_mib()
            began_at_s = time.perf_counter()
            job = (await service.enqueue([_job(f"{base}/{size}", "large", 60_000)]).one()).id
            await service.result(job, wait_ms=600_000)
            rate = size / MIB / (time.perf_counter() - began_at_s)
            grown_mib.append(_peak_mib() - before_mib)
            assert (directory / "lar" / "large").stat().st_size == size
            return rate

    engine.empty()
    with tempfile.TemporaryDirectory(prefix="windlass-bench-") as directory:
        return uvloop.run(main(Path(directory)))


def large_read_mib_per_s(base: str, size: int) -> float:
    async def main() -> float:
        async with Outbound(POLICY) as outbound:
            began_at_s = time.perf_counter()
            await _read(outbound, f"{base}/{size}")
            return size / MIB / (time.perf_counter() - began_at_s)

    return uvloop.run(main())


def section(setting: Setting) -> list[Table]:
    count, size = max(BULK, setting.scaled(COUNT)), setting.scaled(LARGE)
    grown_mib.clear()
    with Engine() as engine, origin() as base:
        small = in_turns(
            setting,
            "downloads",
            {
                "downloaded": partial(downloaded_per_s, engine, base, count),
                "only read": partial(fetched_per_s, base, count),
            },
        )
        large = in_turns(
            setting,
            "a large download",
            {
                "downloaded": partial(large_mib_per_s, engine, base, size),
                "only read": partial(large_read_mib_per_s, base, size),
            },
        )
    read = large["only read"]
    return [
        Table(
            "Downloads",
            ("", "per second", "ratio to only read"),
            [(name, spread(values), ratio(values, small["only read"])) for name, values in small.items()],
            f"Files of {SMALL // 1024} KiB from one origin on loopback, {AT_ONCE} at once in one process, from enqueue "
            "to the synced file on disk and the end of the job. *Only read*: the same client, no queue, no disk.",
        ),
        Table(
            "A large download",
            ("", "MiB per second", "ratio to only read", "more memory, MiB"),
            [
                ("downloaded", spread(large["downloaded"]), ratio(large["downloaded"], read), number(max(grown_mib))),
                ("only read", spread(read), ratio(read, read), ""),
            ],
            f"{size // MIB} MiB, synced to disk. *More memory*: growth of the peak memory of the process during the "
            "download.",
        ),
    ]
