"""windlass schedules: list, show, run, pause, resume, remove."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from tests.service.helpers import new, read
from tests.support.console import run, run_ok
from windlass.core.ids import parse_id
from windlass.core.job import Blob
from windlass.core.scheduling.schedule import Schedule
from windlass.core.text.humanize import humanize_instant
from windlass.service import Service
from windlass.store.operation import Operation

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


# add and edit

NIGHTLY = ("--cron", "30 2 * * MON-FRI", "--zone", "Europe/Berlin", "--queue", "reports", "--job", "build")


def test_add_creates_a_schedule_and_prints_its_next_occurrences(service: Service) -> None:
    done = run_ok(service, "schedules", "add", "nightly", *NIGHTLY, "--payload", '{"all":true}', "--overlap", "skip")
    first, *instants = done.out.splitlines()
    assert first == "Schedule nightly is added: weekdays at 02:30, Europe/Berlin."
    assert [line.split()[0] for line in instants] == ["next", "then", "then"]
    status = service.schedule_of("nightly").wait()
    schedule = status.schedule
    assert (schedule.cron, schedule.timezone, schedule.overlap) == ("30 2 * * MON-FRI", "Europe/Berlin", "skip")
    assert (schedule.job.queue, schedule.job.name, schedule.job.payload.data) == ("reports", "build", b'{"all":true}')
    assert (schedule.job.retry.tries, schedule.job.timeout_ms, schedule.job.result_ttl_ms) == (3, 900_000, 3_600_000)


def test_a_dry_run_changes_nothing(service: Service) -> None:
    done = run_ok(service, "schedules", "add", "nightly", *NIGHTLY, "--dry-run")
    assert done.out.startswith("Schedule nightly would be added: weekdays at 02:30, Europe/Berlin.\nnext")
    assert service.schedules().wait() == []


def test_add_does_not_replace_a_schedule(service: Service) -> None:
    run_ok(service, "schedules", "add", "nightly", *NIGHTLY)
    done = run(service, "schedules", "add", "nightly", "--every", "10m", "--queue", "q", "--job", "n")
    assert (done.code, done.out) == (1, "")
    assert "`windlass schedules edit` changes it" in done.err
    assert service.schedule_of("nightly").wait().schedule.every_ms == 0


def test_edit_changes_only_what_is_given(service: Service) -> None:
    run_ok(service, "schedules", "add", "nightly", *NIGHTLY, "--tag", "ours")
    before = service.schedule_of("nightly").wait()
    run_ok(service, "schedules", "edit", "nightly", "--priority", "-5", "--misfire", "none")
    after = service.schedule_of("nightly").wait()
    assert (after.schedule.job.priority, after.schedule.misfire, after.schedule.job.tags) == (-5, "none", ("ours",))
    assert (after.schedule.cron, after.planned_at_ms) == (before.schedule.cron, before.planned_at_ms)
    assert run_ok(service, "schedules", "edit", "nightly", "--every", "10m").out.startswith(
        "Schedule nightly is changed: every 10m.\n"
    )
    other = service.schedule_of("nightly").wait().schedule
    assert (other.cron, other.timezone, other.every_ms) == ("", "UTC", 600_000)


def test_edit_keeps_the_next_occurrence_of_a_period(service: Service) -> None:
    run_ok(service, "schedules", "add", "poll", "--every", "10m", "--queue", "q", "--job", "n")
    planned_at_ms = service.schedule_of("poll").wait().planned_at_ms
    service.pause_schedule("poll", reason="holidays").wait()
    done = run_ok(service, "schedules", "edit", "poll", "--priority", "3", "--dry-run")
    assert done.out.startswith("Schedule poll would be changed: every 10m; it is paused.\n")
    assert planned_at_ms is not None
    assert humanize_instant(planned_at_ms, 0).split(" (")[0] in done.out
    assert service.schedule_of("poll").wait().schedule.job.priority == 0


def test_a_concurrent_change_is_not_overwritten(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    run_ok(service, "schedules", "add", "poll", "--every", "10m", "--queue", "q", "--job", "n")
    read = Service.schedule_of

    def read_then_lose(self: Service, name: str) -> object:
        status = read(self, name).wait()
        service.pause_schedule(name, reason="by another person").wait()
        return Operation(self.store, lambda: _just(status))

    monkeypatch.setattr(Service, "schedule_of", read_then_lose)
    done = run(service, "schedules", "edit", "poll", "--every", "1h")
    assert (done.code, done.out) == (1, "")
    assert "revision" in done.err
    monkeypatch.undo()
    assert service.schedule_of("poll").wait().schedule.every_ms == 600_000


def _just(value: object) -> Any:
    return value
    yield


@pytest.mark.parametrize(
    ("command", "code", "sentence"),
    [
        ("add x --every 10m", 2, "Give --queue and --job"),
        ("add x --queue q --job n", 2, "Give one of --cron, --every and --repeat"),
        ("add x --queue q --job n --every 10m --cron '* * * * *'", 2, "Give one of --cron, --every and --repeat"),
        ("add x --queue q --job n --cron '* * *'", 1, "cron"),
        ("add x --queue q --job n --cron '* * * * *' --zone Mars/Base", 1, "Mars/Base"),
        ("add x --queue q --job n --every 10m --ends 2020-01-01T00:00Z", 1, "would never fire"),
        ("add x --queue q --job n --every 10m --ends 2020-01-01T00:00Z --dry-run", 1, "would never fire"),
        ("edit x", 2, "Give at least one change"),
        ("edit x --priority 3", 1, "There is no schedule 'x'"),
    ],
)
def test_wrong_definitions_change_nothing(service: Service, command: str, code: int, sentence: str) -> None:
    done = run(service, "schedules", *shlex.split(command))
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err
    assert service.schedules().wait() == []
