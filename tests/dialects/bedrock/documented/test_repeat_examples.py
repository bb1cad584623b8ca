"""Repeat rules of Bedrock's documentation, each line of it: the rule, its example, and the nextRun that follows.

The clock of the engine is set to the instants of the examples."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.dialects.bedrock.client import SocketClient, connect
from windlass.dialects.bedrock.times import parse_instant
from windlass.server import Server
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


class Worker:
    """A client whose commands arrive at chosen instants."""

    def __init__(self, client: SocketClient, store: Store) -> None:
        self._client = client
        self._store = store
        self._service = Service(store)

    async def set_clock(self, instant: str) -> None:
        at_ms = parse_instant(instant)
        assert at_ms is not None
        self._store.clock_offset_ms += at_ms - await self._service.now()

    async def create(self, repeat: str, first_run: str) -> None:
        reply = await self._client.call("CreateJob", name="foo", repeat=repeat, firstRun=first_run)
        assert reply.json == {"jobID": 1}

    async def run(self, started: str, finished: str) -> str:
        """Get the job at one instant and finish it at another. Return its next run."""
        await self.set_clock(started)
        assert (await self._client.call("GetJob", name="foo")).json["jobID"] == 1
        await self.set_clock(finished)
        assert (await self._client.call("FinishJob", jobID=1)).line == "200 OK"
        row = (await self._client.call("QueryJob", jobID=1)).json
        assert row["state"] == "QUEUED"
        return str(row["nextRun"])

    async def is_due(self, instant: str) -> bool:
        await self.set_clock(instant)
        reply = await self._client.call("GetJob", name="foo")
        assert reply.line in ("200 OK", "404 No job found")
        return reply.status == 200


@pytest.fixture
async def worker(running: Server, store: Store) -> AsyncIterator[Worker]:
    async with connect(running.bedrock) as client:
        worker = Worker(client, store)
        await worker.set_clock("2030-05-07 00:00:00")  # a Tuesday
        yield worker


# Repeat Base


@pytest.mark.parametrize(
    ("rule", "next_run"),
    [
        ("SCHEDULED, +1 HOUR", "2030-05-07 14:00:00"),
        ("STARTED, +1 HOUR", "2030-05-07 14:15:00"),
        ("FINISHED, +1 HOUR", "2030-05-07 14:45:00"),
    ],
)
async def test_bases(worker: Worker, rule: str, next_run: str) -> None:
    """Scheduled to start at 1:00pm, actually started at 1:15pm, took 30 minutes to complete."""
    await worker.create(rule, "2030-05-07 13:00:00")
    assert await worker.run("2030-05-07 13:15:00", "2030-05-07 13:45:00") == next_run


# Repeat Modifiers


@pytest.mark.parametrize(
    ("modifiers", "next_run"),
    [
        ("+5 MINUTES", "2030-05-07 13:05:00"),
        ("-5 MINUTES", "2030-05-07 12:55:00"),
        ("+5 HOURS", "2030-05-07 18:00:00"),
        ("-5 HOURS", "2030-05-07 08:00:00"),
        ("+5 DAYS", "2030-05-12 13:00:00"),
        ("-5 DAYS", "2030-05-02 13:00:00"),
        ("+5 MONTHS", "2030-10-07 13:00:00"),
        ("-5 MONTHS", "2029-12-07 13:00:00"),
        ("+5 YEARS", "2035-05-07 13:00:00"),
        ("-5 YEARS", "2025-05-07 13:00:00"),
        ("+123 MINUTES", "2030-05-07 15:03:00"),
        ("START OF DAY", "2030-05-07 00:00:00"),
        ("START OF MONTH", "2030-05-01 00:00:00"),
        ("START OF YEAR", "2030-01-01 00:00:00"),
        ("WEEKDAY 0", "2030-05-12 13:00:00"),
        ("WEEKDAY 1", "2030-05-13 13:00:00"),
        ("WEEKDAY 2", "2030-05-07 13:00:00"),
        ("WEEKDAY 6", "2030-05-11 13:00:00"),
    ],
)
async def test_modifiers(worker: Worker, modifiers: str, next_run: str) -> None:
    await worker.create(f"SCHEDULED, {modifiers}", "2030-05-07 13:00:00")
    assert await worker.run("2030-05-07 13:15:00", "2030-05-07 13:45:00") == next_run


# Repeat Examples


async def test_waits_60_minutes_before_repeating(worker: Worker) -> None:
    await worker.create("FINISHED, +1 HOUR", "2030-05-07 13:00:00")
    assert await worker.run("2030-05-07 13:15:00", "2030-05-07 16:20:30") == "2030-05-07 17:20:30"
    assert not await worker.is_due("2030-05-07 17:20:29")
    assert await worker.is_due("2030-05-07 17:20:30")


async def test_runs_once_every_hour_and_catches_up(worker: Worker) -> None:
    """If hours are missed it runs several times, back to back."""
    await worker.create("SCHEDULED, +1 HOUR", "2030-05-07 13:00:00")
    runs = [await worker.run("2030-05-07 16:30:00", "2030-05-07 16:30:00") for _ in range(4)]
    assert runs == [f"2030-05-07 {hour}:00:00" for hour in (14, 15, 16, 17)]
    assert not await worker.is_due("2030-05-07 16:59:59")
    assert await worker.run("2030-05-07 17:00:00", "2030-05-07 17:01:00") == "2030-05-07 18:00:00"


async def test_runs_every_day_at_4am(worker: Worker) -> None:
    await worker.create("FINISHED, +1 DAY, START OF DAY, +4 HOURS", "2030-05-07 04:00:00")
    assert await worker.run("2030-05-07 04:00:00", "2030-05-07 04:20:00") == "2030-05-08 04:00:00"
    assert await worker.run("2030-05-08 23:00:00", "2030-05-08 23:59:59") == "2030-05-09 04:00:00"
    assert await worker.run("2030-05-09 04:00:01", "2030-05-09 04:00:02") == "2030-05-10 04:00:00"


async def test_runs_every_monday_at_6am(worker: Worker) -> None:
    await worker.create("FINISHED, +1 DAY, WEEKDAY 1, START OF DAY, +6 HOURS", "2030-05-07 13:00:00")
    assert await worker.run("2030-05-07 13:00:00", "2030-05-07 14:00:00") == "2030-05-13 06:00:00"
    assert await worker.run("2030-05-13 06:00:00", "2030-05-13 06:30:00") == "2030-05-20 06:00:00"
    assert await worker.run("2030-05-20 06:00:00", "2030-05-26 23:00:00") == "2030-05-27 06:00:00"


# Canned Repeat Schedules


@pytest.mark.parametrize(
    ("canned", "rule", "next_run"),
    [
        ("HOURLY", "FINISHED, + 1 HOUR", "2030-05-07 14:45:00"),
        ("DAILY", "FINISHED, + 1 DAY", "2030-05-08 13:45:00"),
        ("WEEKLY", "FINISHED, + 7 DAYS", "2030-05-14 13:45:00"),
    ],
)
@pytest.mark.parametrize("is_canned", [True, False])
async def test_canned_schedules(worker: Worker, canned: str, rule: str, next_run: str, *, is_canned: bool) -> None:
    """Approximately the indicated frequency, but no greater. Each is spelled as in the documentation."""
    await worker.create(canned if is_canned else rule, "2030-05-07 13:00:00")
    assert await worker.run("2030-05-07 13:15:00", "2030-05-07 13:45:00") == next_run
