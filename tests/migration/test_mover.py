"""A migration that is interrupted: at every call to the source or to the engine, before and after it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.migration import test_processor as processor
from tests.migration.source_redis import SourceRedis, drain
from tests.migration.test_jobber import QUEUE, entry, uuid4
from windlass.core.callbacks.callback import LeasedCallback
from windlass.core.errors import BadInput, QueueFull
from windlass.core.ids import format_id, parse_id
from windlass.core.operations import Take
from windlass.migration.downloader import DownloaderReader
from windlass.migration.entries import Reader
from windlass.migration.jobber import JobberReader
from windlass.migration.mover import Mover
from windlass.migration.processor import ProcessorReader
from windlass.migration.report import MigrationReport
from windlass.sdk.deployment import make_service
from windlass.service import Service
from windlass.store import job_source
from windlass.store.job_source import JobSource

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

HOUR_MS = 3_600_000  # the engine has forgotten the ids of ended jobs
WRITES = ("claim", "settle")
JOBS = 40
OPERATIONS = ("enqueue", "edit", "redeliver", "import_jobs")


class Interrupted(Exception):
    pass


class Interruption:
    """Raises in the n-th of the calls that change something: before the call (even n) or after it (odd n)."""

    def __init__(self, at: int) -> None:
        self._left = at

    def _passes(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Interrupted

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kw: Any) -> Any:
            self._passes()
            answer = call(*args, **kw)
            self._passes()
            return answer

        return wrapped

    def wrap_operation(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def wrapped(*args: Any, **kw: Any) -> Any:
            self._passes()
            answer = await call(*args, **kw)
            self._passes()
            return answer

        return wrapped


def run(service: Service, old: SourceRedis, make: Callable[[JobSource], Reader], at: int) -> MigrationReport | None:
    """Run a migration that is interrupted at the n-th point. None: it was."""
    interruption = Interruption(at)

    async def move(source: JobSource) -> MigrationReport:
        mover = Mover(source, make(source), MigrationReport(dialect="", source="", is_dry_run=False))
        async with service.store.clone() as store:
            here = make_service(store)
            for name in OPERATIONS:
                setattr(here, name, interruption.wrap_operation(getattr(here, name)))
            for name in WRITES:
                setattr(source, name, interruption.wrap(getattr(source, name)))
            await mover.move_all(here, lambda _: None)
            return mover.report

    with JobSource(old.url, "test") as source:
        try:
            return asyncio.run(move(source))
        except Interrupted:
            return None


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_source, "PAGE", 3)


@pytest.mark.parametrize("drains", [True, False], ids=["drained", "kept"])
def test_every_job_comes_once_and_in_order(service: Service, old: SourceRedis, small_pages: None, drains: bool) -> None:
    for number in range(JOBS):
        old.call("LPUSH", QUEUE, entry(number))
    got: list[str] = []
    interruptions = 0
    for at in range(200):
        done = run(service, old, JobberReader, at % 11)  # a page has eight points
        if drains:  # jobs end between the runs, and the engine forgets them
            got += [format_id(job.id) for job in drain(service, QUEUE)]
            service.store.clock_offset_ms += HOUR_MS
        interruptions += done is None
        if done:
            break
    assert interruptions > 10
    got += [format_id(job.id) for job in drain(service, QUEUE)]
    assert got == [uuid4(number) for number in range(JOBS)]
    assert old.call("HLEN", "windlass:moved:test") == JOBS
    assert old.call("EXISTS", "windlass:moving:test") == 0


@pytest.mark.parametrize("at", range(16))
def test_an_interruption_at_each_point(service: Service, old: SourceRedis, small_pages: None, at: int) -> None:
    for number in range(5):  # two pages of two times four calls
        old.call("LPUSH", QUEUE, entry(number))
    assert run(service, old, JobberReader, at) is None
    before = [format_id(job.id) for job in drain(service, QUEUE)]
    service.store.clock_offset_ms += HOUR_MS
    assert run(service, old, JobberReader, 10**6) is not None
    after = [format_id(job.id) for job in drain(service, QUEUE)]
    assert before + after == [uuid4(number) for number in range(5)]
    again = run(service, old, JobberReader, 10**6)
    assert again is not None
    assert (again.moved, drain(service, QUEUE)) == (0, [])


@pytest.mark.parametrize("at", range(16))
def test_jobs_of_the_processor_come_once(service: Service, old: SourceRedis, small_pages: None, at: int) -> None:
    for number in range(3):
        processor.add(old, number)
    processor.store(old, 7)  # a worker has it, so it is listed twice
    old.run(f"""
        ZADD jobs_processing:convert 1700000000 {processor.uuid(7)}
        ZADD jobs_progress:convert 0.5 {processor.uuid(7)}
    """)
    run(service, old, ProcessorReader, at)
    got = processor.keys(service)
    service.store.clock_offset_ms += HOUR_MS
    assert run(service, old, ProcessorReader, 10**6) is not None
    got += processor.keys(service)
    assert got == [processor.uuid(number) for number in (7, 0, 1, 2)]


@pytest.mark.parametrize("at", range(16))
def test_callbacks_come_once(service: Service, migrated: Service, old: SourceRedis, at: int) -> None:
    old.run("""
        HMSET aggr:shop id shop limit 2
        HMSET job:1323 id 1323 aggr_id shop url http://foo.bar/a.jpg callback_url http://foo.bar/done
        HMSET job:1323 download_state SUCCESS
        ZADD callbackQueue 1700000000 1323
        HMSET job:1324 id 1324 aggr_id shop url http://foo.bar/b.jpg callback_url http://foo.bar/done
        ZADD jobs:shop 1700000000 1324
    """)

    def make(source: JobSource) -> Reader:
        return DownloaderReader(source, "http://files")

    run(migrated, old, make, at)
    delivered = _deliver(service)
    service.store.clock_offset_ms += HOUR_MS
    assert run(migrated, old, make, 10**6) is not None
    delivered += _deliver(service)
    assert delivered == ["1323"]
    assert service.aggregation("downloads per aggregation", "shop").wait().cap == 2
    assert [job.unique for job in drain(service, "downloads")] == ["1324"]


def _deliver(service: Service) -> list[str]:
    taken = service.take_callbacks(most=100).wait().callbacks
    service.settle_callbacks([LeasedCallback(pending.id, pending.token) for pending in taken]).wait()
    return [json.loads(pending.result.data)["job_id"] for pending in taken if pending.result]


def test_an_interrupted_run_continues_only_in_its_deployment(
    service: Service, target: Service, old: SourceRedis
) -> None:
    old.call("LPUSH", QUEUE, entry(1))
    assert run(service, old, JobberReader, 4) is None  # claimed, not released
    assert old.call("HLEN", "windlass:moving:test") == 1
    with pytest.raises(BadInput, match="interrupted migration"):
        run(target, old, JobberReader, 10**6)
    assert run(service, old, JobberReader, 10**6) is not None
    assert len(drain(service, QUEUE)) == 1


def test_a_job_that_an_old_worker_takes_meanwhile_is_left_to_it(service: Service, old: SourceRedis) -> None:
    for number in (1, 2):
        old.call("LPUSH", QUEUE, entry(number))

    class Racing(JobSource):
        def claim(self, *args: Any) -> Any:
            old.call("RPOP", QUEUE)
            return super().claim(*args)

    async def move(source: JobSource) -> MigrationReport:
        mover = Mover(source, JobberReader(source), MigrationReport(dialect="", source="", is_dry_run=False))
        async with service.store.clone() as store:
            await mover.move_all(Service(store), lambda _: None)
        return mover.report

    with Racing(old.url, "test") as source:
        report = asyncio.run(move(source))
    assert (report.moved, report.running) == (1, 1)
    assert [format_id(job.id) for job in drain(service, QUEUE)] == [uuid4(2)]
    assert service.stats([QUEUE]).wait()[0].scheduled == 0  # the held job is gone


def test_two_migrations_at_the_same_time(service: Service, old: SourceRedis, small_pages: None) -> None:
    for number in range(40):
        old.call("LPUSH", QUEUE, entry(number))

    def move(source: JobSource, store: Any) -> Any:
        mover = Mover(source, JobberReader(source), MigrationReport(dialect="", source="", is_dry_run=False))
        return mover.move_all(Service(store), lambda _: None)

    async def both() -> None:
        with JobSource(old.url, "test") as first, JobSource(old.url, "test") as second:
            async with service.store.clone() as store:
                await asyncio.gather(move(first, store), move(second, store))

    asyncio.run(both())
    assert sorted(format_id(job.id) for job in drain(service, QUEUE)) == [uuid4(number) for number in range(40)]


def test_a_full_queue_stops_the_migration_and_loses_nothing(
    service: Service, old: SourceRedis, small_pages: None
) -> None:
    for number in range(7):
        old.call("LPUSH", QUEUE, entry(number))
    service.configure(QUEUE, {"max_length": 4}).wait()
    with pytest.raises(QueueFull):
        run(service, old, JobberReader, 10**6)
    service.configure(QUEUE, {"max_length": None}).wait()
    assert run(service, old, JobberReader, 10**6) is not None
    assert sorted(format_id(job.id) for job in drain(service, QUEUE)) == [uuid4(number) for number in range(7)]


def test_a_held_job_cannot_be_taken(service: Service, old: SourceRedis) -> None:
    old.call("LPUSH", QUEUE, entry(1))
    assert run(service, old, JobberReader, 2) is None  # held, not claimed
    service.store.clock_offset_ms += 1_000 * 24 * HOUR_MS
    assert service.take(Take(queues=(QUEUE,))).wait().jobs == []
    assert service.job([parse_id(uuid4(1))]).one().wait().job.state.label == "scheduled"
