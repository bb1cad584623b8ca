"""Lifecycle of a download worker: its leases, jobs given back, progress, and files left after a kill."""

from __future__ import annotations

import asyncio
import fcntl
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.downloads.download_process import download_process
from tests.downloads.origin import Handler, Origin, ReceivedRequest, answer, at_work, end_of, files_in, in_turn, put
from windlass.core.errors import EngineUnavailable
from windlass.core.job import Blob, NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Finish, FinishOutcome
from windlass.core.states import State
from windlass.downloads.worker import FILES_QUEUE, QUEUE
from windlass.service import Service
from windlass.store.operation import BatchOperation
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
NAME = "abcdefghijklmn"
MIB = 1024 * 1024


@pytest.fixture
async def opened(service: Service, store: Store) -> AsyncIterator[Service]:
    async with store, asyncio.timeout(60):
        yield service


class Slow:
    """Sends half of a body, then waits until it may go on."""

    def __init__(self, size: int = 2000) -> None:
        self._half = b"x" * (size // 2)
        self.is_requested = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.is_left = asyncio.Event()

    async def __call__(self, _: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {2 * len(self._half)}\r\n\r\n".encode() + self._half)
        await writer.drain()
        self.is_requested.set()
        try:
            await self.may_go_on.wait()
            writer.write(self._half)
            await writer.drain()
        finally:
            self.is_left.set()


async def test_a_running_download_stops_when_it_is_cancelled(opened: Service, tmp_path: Path) -> None:
    slow = Slow()
    async with Origin(slow).open() as origin, at_work(opened, tmp_path) as work:
        job_id = await work.put(origin.url())
        await slow.is_requested.wait()
        assert await opened.cancel([job_id]).one() == "requested"
        assert (await work.end_of(job_id))["state"] == "CANCELLED"
        await work.until(job_id, lambda _: not work.worker.counters()["workers"])
        assert work.files() == {}


async def test_progress_is_shown_while_it_runs(opened: Service, tmp_path: Path) -> None:
    slow = Slow(2000)
    async with Origin(slow).open() as origin, at_work(opened, tmp_path) as work:
        job_id = await work.put(origin.url())
        shown = await work.until(job_id, lambda read: read.job.progress > 0)
        assert (shown.job.progress, shown.job.note) == (0.5, "1000 of 2000 bytes")
        assert [one.info.name for one in await opened.workers()] == ["downloads"]
        slow.may_go_on.set()
        assert (await work.end_of(job_id))["success"]


async def test_a_processor_that_stops_gives_back_what_it_has_not_done(opened: Service, tmp_path: Path) -> None:
    slow = Slow()
    async with Origin(in_turn(slow, answer(b"whole"))).open() as origin:
        async with at_work(opened, tmp_path) as work:
            job_id = await work.put(origin.url(), max_retries=0)
            await slow.is_requested.wait()
        read = await opened.job([job_id]).one()
        assert (read.job.state, read.job.attempt, read.attempts) == (State.QUEUED, 0, [])
        assert (files_in(tmp_path), await opened.workers()) == ({}, [])
        async with at_work(opened, tmp_path) as work:
            assert (await work.end_of(job_id))["success"]


async def test_a_lease_that_is_lost_ends_the_download(opened: Service, store: Store, tmp_path: Path) -> None:
    slow = Slow()
    async with Origin(slow).open() as origin, at_work(opened, tmp_path, lease_ms=3000) as work:
        job_id = await work.put(origin.url())
        await slow.is_requested.wait()
        await opened.pause(QUEUE)
        assert await opened.requeue([job_id]).one() == "queued"
        await work.until(job_id, lambda _: not work.worker.counters()["workers"])
        assert ((await opened.job([job_id]).one()).job.state, work.files()) == (State.QUEUED, {})


async def test_a_download_that_outlives_a_fixed_lease_is_stopped(
    opened: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Slow()
    async with Origin(slow).open() as origin, at_work(opened, tmp_path, lease_ms=1500) as work:
        await opened.configure(QUEUE, {"lease_renewal": False})
        job_id = await work.put(origin.url())
        await slow.is_requested.wait()
        await opened.pause(QUEUE)
        await work.until(job_id, lambda _: not work.worker.counters()["workers"])
        await work.until(job_id, lambda read: read.job.state is State.QUEUED)
    assert f"windlass queues configure {QUEUE} --lease-renewal" in caplog.text


async def test_leases_are_kept_as_long_as_it_takes(opened: Service, tmp_path: Path) -> None:
    slow = Slow()
    async with Origin(slow).open() as origin, at_work(opened, tmp_path, lease_ms=3000) as work:
        job_id = await work.put(origin.url())
        first = (await work.until(job_id, lambda read: read.job.state == State.RUNNING)).job.lease_deadline_at_ms or 0
        longer = await work.until(job_id, lambda read: (read.job.lease_deadline_at_ms or 0) > first)
        assert longer.job.attempt == 1
        slow.may_go_on.set()
        assert (await work.end_of(job_id))["success"]


async def test_no_more_run_at_once_than_there_are_slots(opened: Service, tmp_path: Path) -> None:
    slow = Slow()
    async with Origin(slow).open() as origin, at_work(opened, tmp_path, slots=2) as work:
        ids = [await work.put(origin.url(), f"name{n}", aggr_id=f"shop{n}") for n in range(5)]
        await slow.is_requested.wait()
        (stats,) = await opened.stats([QUEUE])
        assert stats.running <= 2
        slow.may_go_on.set()
        for job_id in ids:
            assert (await work.end_of(job_id))["success"]
        numbers = work.worker.counters()
        assert numbers["spawnedWorkers"] == numbers["download.response.200"] == 5
        assert 1 <= numbers["maxWorkers"] <= 2
        assert 1 <= numbers["maxWorkerPools"] <= numbers["maxWorkers"]


async def test_300_downloads_of_5_aggregations_end_once_each_with_limits_held(
    opened: Service, store: Store, tmp_path: Path
) -> None:
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def watch(asked: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        shop = asked.target.split("/")[1]
        running[shop] += 1
        most[shop] = max(most[shop], running[shop])
        await asyncio.sleep(0)
        running[shop] -= 1  # before the answer: what follows it may begin at once
        await answer(asked.target.encode())(asked, writer)

    await opened.limit(Limit(name="shops", matches=Matcher(queue=QUEUE), running=10, key="aggr_id"))
    async with (
        Origin(watch).open() as origin,
        at_work(opened, tmp_path / "files", slots=40) as one,
        at_work(opened, tmp_path / "files", slots=40) as two,
    ):
        ids = [await put(opened, origin.url(f"/{n % 5}/{n}"), f"name{n}", aggr_id=str(n % 5)) for n in range(300)]
        for job_id in ids:
            assert (await end_of(opened, job_id))["success"]
        assert len(origin.requests) == 300
        assert {name: content.decode() for name, content in one.files().items()} == {
            f"nam/name{n}": f"/{n % 5}/{n}" for n in range(300)
        }
        assert max(most.values()) <= 10
        assert sum(work.worker.counters()["spawnedWorkers"] for work in (one, two)) == 300


# The disk


class Gauge:
    def __init__(self, share: float) -> None:
        self.share = share
        self.looks = 0

    def __call__(self, _: Path) -> float:
        self.looks += 1
        return self.share

    async def is_seen(self) -> None:
        """Wait until the worker has read the gauge and acted on it."""
        target = self.looks + 2
        while self.looks < target:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_full_disk_stops_new_downloads_until_there_is_room(opened: Service, tmp_path: Path) -> None:
    gauge = Gauge(0.95)
    slow = Slow()
    routes: dict[str, Handler] = {"/slow": slow, "/a": answer(b"a"), "/b": answer(b"b")}
    given: dict[str, Any] = {"used": gauge, "look_every_s": 0.01}
    async with Origin(routes).open() as origin, at_work(opened, tmp_path, given=given) as work:
        begun = await work.put(origin.url("/slow"), "slow")
        await slow.is_requested.wait()
        gauge.share = 0.951
        await gauge.is_seen()
        waiting = await work.put(origin.url("/a"), "aaaa")
        slow.may_go_on.set()
        assert (await work.end_of(begun))["success"]  # what runs goes on
        gauge.share = 0.901
        await gauge.is_seen()
        assert (await opened.job([waiting]).one()).job.state == State.QUEUED
        gauge.share = 0.90
        assert (await work.end_of(waiting))["success"]


async def test_files_are_deleted_from_a_full_disk(opened: Service, tmp_path: Path) -> None:
    """Else it would stay full."""
    file = tmp_path / "abc" / NAME
    file.parent.mkdir()
    file.write_bytes(b"x")
    async with at_work(opened, tmp_path, given={"used": Gauge(1.0)}) as work:
        job_id = await to_delete(opened, NAME)
        assert (await work.end_of(job_id))["state"] == "FINISHED"
        assert not file.exists()


async def test_trouble_with_the_disk_spends_no_attempt(opened: Service, tmp_path: Path) -> None:
    place = tmp_path / "abc"  # where the folder of the file should be
    place.write_bytes(b"")
    async with Origin(answer(b"x")).open() as origin, at_work(opened, tmp_path, retry_delay_ms=60_000) as work:
        job_id = await work.put(origin.url(), max_retries=0)
        read = await work.until(job_id, lambda read: read.job.state == State.SCHEDULED)
        assert (read.job.attempt, work.worker.counters()["failures"]) == (0, 1)
        assert work.files() == {"abc": b""}
        place.unlink()
        await opened.requeue([job_id])
        assert (await work.end_of(job_id))["success"]


async def test_a_file_that_another_still_writes_is_left_alone(opened: Service, tmp_path: Path) -> None:
    temp = tmp_path / f"{NAME}.tmp"
    with temp.open("wb") as other:
        other.write(b"half")
        other.flush()
        fcntl.flock(other, fcntl.LOCK_EX)
        async with Origin(answer(b"x")).open() as origin, at_work(opened, tmp_path, retry_delay_ms=60_000) as work:
            job_id = await work.put(origin.url())
            read = await work.until(job_id, lambda read: read.job.state == State.SCHEDULED)
            assert (read.job.attempt, work.files()) == (0, {f"{NAME}.tmp": b"half"})


async def test_what_processes_that_died_have_left_is_removed(opened: Service, tmp_path: Path) -> None:
    (tmp_path / "dead.tmp").write_bytes(b"half")
    (tmp_path / "abc").mkdir()
    (tmp_path / "abc" / "kept").write_bytes(b"whole")
    async with Origin(answer(b"x")).open() as origin, at_work(opened, tmp_path) as work:
        await work.download(origin.url(), "name")
        while (tmp_path / "dead.tmp").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert work.files() == {"abc/kept": b"whole", "nam/name": b"x"}


# Files leave


async def to_delete(service: Service, name: str) -> bytes:
    job = NewJob(queue=FILES_QUEUE, name="delete", payload=Blob(b'{"id":"%s"}' % name.encode()), result_ttl_ms=60_000)
    return (await service.enqueue([job]).one()).id


@pytest.mark.parametrize("name", [NAME, "unknown", "../abc/stays", ""])
async def test_the_reaper_deletes_files_also_unknown_ones(opened: Service, tmp_path: Path, name: str) -> None:
    directory = tmp_path / "files"
    for path in (directory / "abc" / NAME, tmp_path / "abc" / "stays"):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
    async with at_work(opened, directory) as work:
        assert (await work.end_of(await to_delete(opened, name)))["state"] == "FINISHED"
        assert work.files() == ({} if name == NAME else {f"abc/{NAME}": b"x"})
        assert (tmp_path / "abc" / "stays").exists()
        assert work.worker.counters()["reaperSuccessfulDeletions"] == 1


async def test_a_file_that_cannot_be_deleted_is_tried_again(opened: Service, tmp_path: Path) -> None:
    place = tmp_path / "abc" / NAME
    place.mkdir(parents=True)  # a folder is no file
    async with at_work(opened, tmp_path) as work:
        job_id = await to_delete(opened, NAME)
        await work.until(job_id, lambda read: len(read.attempts) > 1)
        assert work.worker.counters()["reaperFailures"] > 1
        place.rmdir()
        assert (await work.end_of(job_id))["state"] == "FINISHED"


class InterruptedService(Service):
    """Service whose first finish does not reach the engine."""

    is_interrupted = True

    def finish(self, requests: Sequence[Finish]) -> BatchOperation[FinishOutcome]:
        if self.is_interrupted:
            self.is_interrupted = False
            raise EngineUnavailable("away")
        return super().finish(requests)


async def test_the_report_of_a_deleted_file_survives_an_outage(opened: Service, tmp_path: Path) -> None:
    async with at_work(InterruptedService(opened.store), tmp_path) as work:
        job_id = await to_delete(opened, NAME)
        assert (await work.end_of(job_id))["state"] == "FINISHED"
        assert (await opened.job([job_id]).one()).job.attempt == 1


# In a separate process


async def test_a_killed_processor_loses_nothing(opened: Service, store: Store, tmp_path: Path) -> None:
    slow = Slow(4 * MIB)
    async with Origin(in_turn(slow, answer(b"whole"))).open() as origin:
        async with download_process(store, tmp_path) as process:
            job_id = await put(opened, origin.url(), max_retries=0)
            await slow.is_requested.wait()
            while not (tmp_path / f"{NAME}.tmp").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await process.kill()
        assert (await opened.job([job_id]).one()).job.state == State.RUNNING
        store.clock_offset_ms += 30_000
        async with at_work(opened, tmp_path) as work:
            assert (await work.end_of(job_id))["success"]
            assert work.files() == {f"abc/{NAME}": b"whole"}


async def test_memory_does_not_grow_with_the_file(opened: Service, store: Store, tmp_path: Path) -> None:
    part = b"\0" * MIB

    async def large(_: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {256 * MIB}\r\n\r\n".encode())
        for _ in range(256):
            writer.write(part)
            await writer.drain()

    routes: dict[str, Handler] = {"/small": answer(b"x" * MIB), "/large": large}
    async with Origin(routes).open() as origin, download_process(store, tmp_path) as process:
        assert (await end_of(opened, await put(opened, origin.url("/small"), "small")))["success"]
        before = await process.peak_kib()
        assert (await end_of(opened, await put(opened, origin.url("/large"), "large")))["success"]
        assert await process.peak_kib() - before < 32 * 1024
    file = tmp_path / "lar" / "large"
    assert file.stat().st_size == 256 * MIB
    file.unlink()
