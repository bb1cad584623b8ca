"""Jobs of the processor's Redis: queued, dispatched and processing jobs, priorities, and broken entries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.migration.source_redis import SourceRedis, drain, migrate
from windlass.dialects.stdio.jobs import new_job
from windlass.migration.processor import KEEP_MS, ProcessorReader
from windlass.migration.report import MigrationReport
from windlass.service import Service
from windlass.store.job_source import JobSource

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


def uuid(number: int) -> str:
    return f"{number:08d}-0000-4000-8000-000000000000"


def store(old: SourceRedis, number: int, **more: Any) -> str:
    fields = {"uuid": uuid(number), "queue_name": "convert", "command": "resize", "args": [number]} | more
    text = json.dumps(fields)
    old.call("HSET", uuid(number), "json", text)
    return text


def add(old: SourceRedis, number: int, **more: Any) -> str:
    """Add a job with the commands of the document."""
    old.call("MULTI")
    text = store(old, number, **more)
    old.call("LPUSH", f"jobs_queued:{more.get('queue_name', 'convert')}", uuid(number))
    old.call("EXEC")
    return text


def move(service: Service, old: SourceRedis, *, dry: bool = False) -> MigrationReport:
    with JobSource(old.url, "processor") as source:
        return migrate(service, source, ProcessorReader(source), dry=dry)


def keys(service: Service, queue: str = "convert") -> list[str | None]:
    return [job.unique for job in drain(service, queue)]


def test_queued_jobs_are_as_add_job_makes_them(service: Service, old: SourceRedis) -> None:
    texts = [add(old, number) for number in range(130)]
    add(old, 500, queue_name="other:queue")
    report = move(service, old)
    assert (report.moved, report.is_complete, report.queues["other:queue"]) == (131, True, 1)
    made = new_job(texts[0].encode(), json.loads(texts[0]), keep_ms=KEEP_MS, attempts=0)
    jobs = drain(service, "convert")
    assert [job.payload.data.decode() for job in jobs] == texts
    first = jobs[0]
    assert (first.name, first.priority, first.unique, first.result_ttl_ms, first.retry) == (
        made.name, made.priority, made.unique, made.result_ttl_ms, made.retry,
    )  # fmt: skip
    assert keys(service, "other:queue") == [uuid(500)]


def test_priorities_rule_the_order(service: Service, old: SourceRedis) -> None:
    for number, priority in enumerate((9, 5, 0, "5")):
        add(old, number, priority=priority)
    move(service, old)
    assert keys(service) == [uuid(2), uuid(1), uuid(3), uuid(0)]


def test_jobs_in_flight_come_first_and_once(service: Service, old: SourceRedis) -> None:
    add(old, 1)
    for number in (2, 3, 4):
        store(old, number)
    old.run(f"""
        ZADD jobs_dispatched:convert 1700000002 {uuid(2)}
        ZADD jobs_processing:convert 1700000000 {uuid(3)} 1700000001 {uuid(4)}
        ZADD jobs_progress:convert 0.25 {uuid(3)} 0.5 {uuid(4)}
        ZADD workers_last_seen:convert 1700000000 w1
        SADD workers_idle:convert w1 w2
        SADD workers_busy:convert w3
    """)
    report = move(service, old)
    assert (report.moved, report.in_flight, report.moved_before) == (4, 3, 0)
    assert report.progress == {uuid(3): 0.25, uuid(4): 0.5}
    assert report.workers == {"workers_last_seen:convert": 1, "workers_idle:convert": 2, "workers_busy:convert": 1}
    assert keys(service) == [uuid(3), uuid(4), uuid(2), uuid(1)]
    assert old.call("KEYS", "jobs_*") == []


def test_a_dry_run_counts_each_job_once_and_shows_progress(service: Service, old: SourceRedis) -> None:
    add(old, 1)
    store(old, 3)
    old.run(f"""
        ZADD jobs_processing:convert 1700000000 {uuid(3)}
        ZADD jobs_progress:convert 0.25 {uuid(3)}
    """)
    before = old.dump()
    report = move(service, old, dry=True)
    assert (report.moved, report.in_flight, report.progress) == (2, 1, {uuid(3): 0.25})
    assert old.dump() == before


def test_a_uuid_that_is_listed_twice_comes_once(service: Service, old: SourceRedis) -> None:
    add(old, 1)
    add(old, 1, args=["later"])
    report = move(service, old)
    assert (report.moved, report.moved_before) == (1, 1)
    assert keys(service) == [uuid(1)]
    assert move(service, old).moved == 0


def test_a_job_that_was_added_here_already_is_not_doubled(service: Service, old: SourceRedis) -> None:
    text = add(old, 1)
    service.enqueue([new_job(text.encode(), json.loads(text), keep_ms=1000, attempts=0)]).wait()
    report = move(service, old)
    assert (report.moved, report.existing) == (0, 1)
    assert keys(service) == [uuid(1)]


def test_broken_entries_stay(service: Service, old: SourceRedis) -> None:
    old.call("LPUSH", "jobs_queued:convert", uuid(1))  # without a hash
    for number, text in ((2, "{"), (3, "[]"), (4, "{}"), (5, json.dumps({"uuid": uuid(5), "queue_name": "b"}))):
        old.call("HSET", uuid(number), "json", text)
        old.call("LPUSH", "jobs_queued:convert", uuid(number))
    old.call("SET", uuid(6), "text")
    old.call("LPUSH", "jobs_queued:convert", uuid(6))
    add(old, 7, priority=12)
    add(old, 8)
    old.call("SET", "jobs_processing:convert", "text")
    report = move(service, old)
    assert (report.moved, report.problems) == (1, 8)
    assert keys(service) == [uuid(8)]
    assert old.call("LLEN", "jobs_queued:convert") == 7
    wrong_queue = next(problem for problem in report.reasons if problem.entry == uuid(5))
    assert "queue_name must be 'convert'" in wrong_queue.reason
