"""windlass schedules: list, show, run, pause, resume, remove."""

from __future__ import annotations

import pytest

from tests.service.helpers import new, read
from tests.support.console import run, run_ok
from windlass.core.ids import parse_id
from windlass.core.job import Blob
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


@pytest.fixture
def schedule(service: Service) -> Service:
    job = new("reports", "daily", payload=Blob(b'{"region":"eu"}'))
    service.schedule(Schedule(name="nightly", job=job, cron="30 2 * * MON-FRI", timezone="Europe/Berlin")).wait()
    service.schedule(Schedule(name="poll", job=new("poll"), every_ms=60_000)).wait()
    service.schedule(Schedule(name="rule", job=new("poll"), repeat="SCHEDULED, +1 DAY")).wait()
    return service


def test_ls(schedule: Service) -> None:
    schedule.pause_schedule("poll").wait()
    nightly, poll, rule = run_ok(schedule, "schedules", "ls").rows
    assert nightly[:4] == ["nightly", "30 2 * * MON-FRI Europe/Berlin", "reports", "daily"]
    assert nightly[4].endswith("Z")
    assert (poll[1], poll[4], rule[1]) == ("every 1m", "paused", "SCHEDULED, +1 DAY")
    lines = run_ok(schedule, "schedules", "ls", "--json").lines
    assert [line["schedule"]["name"] for line in lines] == ["nightly", "poll", "rule"]
    assert lines[0]["schedule"]["job"]["payload"] == {"region": "eu"}


def test_show_and_run(schedule: Service) -> None:
    key = run_ok(schedule, "schedules", "run", "nightly").out.strip()
    assert read(schedule, parse_id(key)).schedule == "nightly"
    page = run_ok(schedule, "schedules", "show", "nightly").out
    for words in (key, '{"region":"eu"}', "1 (skipped 0, missed 0)", "reports", "UTC (in "):
        assert words in page
    assert run_ok(schedule, "schedules", "show", "nightly", "--json").document["last_job"] == key


def test_pause_resume_rm(schedule: Service) -> None:
    run_ok(schedule, "schedules", "pause", "poll", "--reason", "closing")
    assert schedule.schedule_of("poll").wait().pause_reason == "closing"
    assert "closing" in run_ok(schedule, "schedules", "show", "poll").out
    assert "is resumed: next " in run_ok(schedule, "schedules", "resume", "poll").out
    assert not schedule.schedule_of("poll").wait().is_paused
    assert run(schedule, "schedules", "rm", "poll").code == 2
    run_ok(schedule, "schedules", "rm", "poll", "--yes")
    assert [status.schedule.name for status in schedule.schedules().wait()] == ["nightly", "rule"]


@pytest.mark.parametrize("verb", ["show", "run", "pause", "resume", "rm"])
def test_an_unknown_schedule_exits_with_1(service: Service, verb: str) -> None:
    done = run(service, "schedules", verb, "nothing")
    assert (done.code, done.err) == (1, "windlass: There is no schedule 'nothing'.\n")
