"""Declared schedules: checked when the code is loaded, written when a worker starts, fired by the engine."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from windlass import Windlass
from windlass.core.errors import BadInput
from windlass.core.job import NewJob
from windlass.core.operations import Listing
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service

pytestmark = pytest.mark.anyio
SECONDS = 20


async def declare(app: Windlass) -> None:
    """Write the declarations, as a worker does when it starts."""
    await app.declared.apply(await app.aservice())


def complaints(caplog: Any) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "windlass.app"]


async def test_a_worker_runs_what_is_due(app: Windlass, service: Service, working: Any) -> None:
    ran: asyncio.Queue[str] = asyncio.Queue()

    @app.every("10m")
    @app.task
    async def tick() -> None:
        ran.put_nowait("tick")

    @app.task
    async def report(region: str, *, is_short: bool = False) -> None:
        ran.put_nowait(f"{region} {is_short}")

    app.schedule("report-eu", report.call("eu"), every="10m")
    app.schedule("report-us", report.call("us", is_short=True), every="10m")
    async with working(app):
        pass
    service.store.clock_offset_ms = 601_000
    async with working(app):
        found = {await asyncio.wait_for(ran.get(), SECONDS) for _ in range(3)}
    assert found == {"tick", "eu False", "us True"}
    assert ran.empty()
    assert [status.fired for status in service.schedules().wait()] == [1, 1, 1]


async def test_a_declaration_becomes_a_schedule(app: Windlass, service: Service) -> None:
    @app.cron(
        "30 2 * * MON-FRI", tz="Europe/Berlin", overlap="replace", misfire="all", misfire_after="5m", name="night"
    )
    @app.task(queue="reports", priority=-3, timeout="1h")
    async def report() -> None: ...

    await declare(app)
    (status,) = service.schedules().wait()
    found = status.schedule
    assert (found.name, found.cron, found.timezone) == ("night", "30 2 * * MON-FRI", "Europe/Berlin")
    assert (found.overlap, found.misfire, found.misfire_after_ms) == ("replace", "all", 300_000)
    assert (found.job.name, found.job.queue, found.job.priority, found.job.timeout_ms) == (
        "report",
        "reports",
        -3,
        3_600_000,
    )
    await report()
    await app.aclose()


async def test_bounds_and_rules(app: Windlass, service: Service) -> None:
    @app.task
    async def report() -> None: ...

    starts, ends = datetime(2040, 1, 1, tzinfo=UTC), datetime(2041, 1, 1, tzinfo=UTC)
    app.schedule("monthly", report.call(), repeat="SCHEDULED, +1 MONTH", starts=starts, ends=ends)
    await declare(app)
    (status,) = service.schedules().wait()
    found = status.schedule
    assert (found.starts_at_ms, found.ends_at_ms) == (starts.timestamp() * 1000, ends.timestamp() * 1000)
    assert found.overlap == "skip"
    await app.aclose()


async def test_what_has_not_changed_is_left_alone(app: Windlass, service: Service, caplog: Any) -> None:
    @app.cron("0 3 * * *")
    @app.task
    async def nightly() -> None: ...

    await declare(app)
    service.pause_schedule("nightly", reason="holidays").wait()
    (before,) = service.schedules().wait()
    with caplog.at_level(logging.WARNING):
        await declare(app)
    assert service.schedules().wait() == [before]
    assert complaints(caplog) == []
    await app.aclose()


async def test_what_has_changed_is_changed(app: Windlass, service: Service) -> None:
    @app.cron("0 3 * * *")
    @app.task
    async def nightly() -> None: ...

    await declare(app)
    later = Windlass()
    later.connect(service.store)
    later.cron("0 4 * * *")(later.task(nightly.function))
    await declare(later)
    (status,) = service.schedules().wait()
    assert (status.schedule.cron, status.revision) == ("0 4 * * *", 2)
    await app.aclose()
    await later.aclose()


async def test_what_no_code_declares_is_shown_and_stays(app: Windlass, service: Service, caplog: Any) -> None:
    @app.every("1h")
    @app.task
    async def nightly() -> None: ...

    for name, task in (("old", "nightly"), ("of others", "another")):
        service.schedule(Schedule(name=name, job=NewJob(queue="default", name=task), every_ms=60_000)).wait()
    with caplog.at_level(logging.WARNING):
        await declare(app)
    (complaint,) = complaints(caplog)
    assert "'old' still makes jobs of nightly" in complaint
    assert [status.schedule.name for status in service.schedules().wait()] == ["nightly", "of others", "old"]
    await app.aclose()


def test_wrong_declarations_are_refused_when_the_code_is_loaded(app: Windlass, service: Service) -> None:
    @app.task
    async def plain() -> None: ...

    @app.task
    async def with_argument(number: int) -> None: ...

    async def function() -> None: ...

    with pytest.raises(BadInput, match=r"'plain'.*not a cron expression"):
        app.cron("61 3 * * *")(plain)
    with pytest.raises(BadInput, match="not a time zone"):
        app.cron("0 3 * * *", tz="Europe/Berln")(plain)
    with pytest.raises(BadInput, match="overlap"):
        app.cron("0 3 * * *", overlap="never")(plain)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="every"):
        app.every("10ms")(plain)
    with pytest.raises(BadInput, match="exactly one"):
        app.schedule("both", plain.call(), cron="0 3 * * *", every="1h")
    with pytest.raises(BadInput, match="delay"):
        app.schedule("delayed", plain.using(delay=3).call(), every="1h")
    with pytest.raises(BadInput, match=r"app\.schedule"):
        app.cron("0 3 * * *")(with_argument)
    with pytest.raises(BadInput, match=r"put it above @app\.task"):
        app.cron("0 3 * * *")(function)  # type: ignore[type-var]
    with pytest.raises(BadInput, match=r"put it above @app\.task"):
        app.every("1h")(function)  # type: ignore[type-var]
    with pytest.raises(BadInput, match="needs a call"):
        app.schedule("no call", plain, every="1h")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="no time zone"):
        app.schedule("naive", plain.call(), every="1h", starts=datetime(2040, 1, 1))
    assert app.declared.schedules == []


def test_two_schedules_of_one_name(app: Windlass) -> None:
    @app.task
    async def plain() -> None: ...

    app.every("1h")(plain)
    app.every("1h")(plain)  # the same again, as when a module is loaded twice
    with pytest.raises(BadInput, match="already"):
        app.every("2h")(plain)
    app.every("2h", name="slower")(plain)
    assert [schedule.name for schedule in app.declared.schedules] == ["plain", "slower"]


async def test_a_task_that_repeats(app: Windlass, working: Any) -> None:
    """By the engine's rules, it makes up for missed runs, run by run, and then waits for its next time."""
    ran: asyncio.Queue[int] = asyncio.Queue()

    @app.task(repeat="SCHEDULED, +1 HOUR")
    async def poll(number: int) -> None:
        ran.put_nowait(number)

    async with working(app):
        since = datetime.now(UTC) - timedelta(hours=2, minutes=30)
        handle = await poll.using(run_at=since).aenqueue(7)
        assert [await asyncio.wait_for(ran.get(), SECONDS) for _ in range(3)] == [7, 7, 7]
    job = await asyncio.to_thread(handle.info)
    assert (job.state.label, job.attempt) == ("scheduled", 0)
    assert ran.empty()
    assert app.service.jobs(Listing(queue="default", state="scheduled")).wait().jobs[0].id == handle.id_bytes
