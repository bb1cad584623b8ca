"""schedule, unschedule, pause, resume, run and list schedules."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.service.helpers import another, counts, new, put, read, take
from tests.service.schedules.schedule_builders import check, fire, now_ms, pass_time, scheduled
from tests.support.namespace import dump_keys, leftover_keys
from windlass.core.errors import BadInput, QueueFull, RevisionConflict, TooLarge, UnknownSchedule
from windlass.core.job import Blob
from windlass.core.limits.limit import LimitTable
from windlass.core.operations import Enqueued, Finish
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.service.facet import send
from windlass.store.commands import schedules as calls

HOUR_MS = 3_600_000


def test_a_schedule_comes_back_as_it_was_given(service: Service) -> None:
    job = new(payload=Blob(b"\0\xff"), priority=3, tags=("t",), unique="u", expires_in_ms=5)
    given = Schedule(
        name="ä report", job=job, cron="30 2 * * *", timezone="Europe/Berlin", overlap="replace", misfire="all",
        misfire_after_ms=7, starts_at_ms=now_ms(service) + HOUR_MS, ends_at_ms=2**46,
    )  # fmt: skip
    status = service.schedule(given).wait()
    assert status.schedule == given
    assert (status.revision, status.is_paused, status.fired, status.last_job) == (1, False, 0, None)
    assert status == service.schedule_of("ä report").wait()
    assert service.schedules().wait() == [status]
    assert status.next_at_ms is not None
    assert status.next_at_ms > now_ms(service) + HOUR_MS
    check(service)


def test_all_schedules_by_name(service: Service) -> None:
    names = [f"s{number:03}" for number in range(250)]
    for name in reversed(names):
        service.schedule(scheduled(name)).wait()
    assert [one.schedule.name for one in service.schedules().wait()] == names


def test_a_changed_job_leaves_the_rhythm_alone(service: Service) -> None:
    first = service.schedule(scheduled(every_ms=HOUR_MS)).wait()
    pass_time(service, 5_000)
    second = service.schedule(scheduled(every_ms=HOUR_MS, payload=Blob(b"2"), overlap="skip")).wait()
    assert (second.revision, second.next_at_ms) == (2, first.next_at_ms)
    assert (second.schedule.job.payload, second.schedule.overlap) == (Blob(b"2"), "skip")
    third = service.schedule(scheduled(every_ms=2 * HOUR_MS)).wait()
    assert third.next_at_ms is not None
    assert first.next_at_ms is not None
    assert third.next_at_ms > first.next_at_ms + HOUR_MS
    check(service)


def test_a_rule_in_other_letters_is_the_same_rhythm(service: Service) -> None:
    first = service.schedule(scheduled(repeat="SCHEDULED, +1 DAY")).wait()
    pass_time(service, 5_000)
    second = service.schedule(scheduled(repeat="scheduled, +1 day")).wait()
    assert (second.next_at_ms, second.schedule.repeat) == (first.next_at_ms, "scheduled, +1 day")
    third = service.schedule(scheduled(repeat="SCHEDULED, +1 HOUR")).wait()
    assert third.next_at_ms != first.next_at_ms


def test_the_same_again_is_no_change(service: Service) -> None:
    first = service.schedule(scheduled()).wait()
    before = dump_keys(service.store)
    assert service.schedule(scheduled()).wait() == first
    assert dump_keys(service.store) == before


def test_a_change_is_guarded_by_the_revision(service: Service) -> None:
    service.schedule(scheduled()).wait()
    service.schedule(scheduled(every_ms=2_000), if_revision=1).wait()
    before = dump_keys(service.store)
    with pytest.raises(RevisionConflict):
        service.schedule(scheduled(every_ms=3_000), if_revision=1).wait()
    with pytest.raises(RevisionConflict):
        service.schedule(scheduled("other"), if_revision=1).wait()
    with pytest.raises(RevisionConflict):
        service.unschedule("s", if_revision=1).wait()
    assert dump_keys(service.store) == before


def test_an_occurrence_is_no_change(service: Service) -> None:
    status = service.schedule(scheduled(every_ms=1_000)).wait()
    pass_time(service, 1_000)
    assert fire(service) == 1
    assert service.schedule_of("s").wait().revision == status.revision
    service.schedule(scheduled(every_ms=1_000, overlap="skip"), if_revision=status.revision).wait()


def test_unschedule_removes_all_but_its_jobs(service: Service) -> None:
    service.schedule(scheduled()).wait()
    pass_time(service, 1_000)
    fire(service)
    service.unschedule("s").wait()
    with pytest.raises(UnknownSchedule, match="'s'"):
        service.schedule_of("s").wait()
    (job,) = take(service)
    assert job.schedule == "s"
    service.delete([job.id], even_leased=True).one().wait()
    assert leftover_keys(service.store) == []
    pass_time(service, 10_000)
    assert fire(service) == 0


def test_a_paused_schedule_does_not_fire_and_does_not_make_up_for_it(service: Service) -> None:
    first = service.schedule(scheduled(every_ms=HOUR_MS, misfire="all")).wait()
    paused = service.pause_schedule("s", reason="holiday").wait()
    assert (paused.is_paused, paused.pause_reason, paused.next_at_ms) == (True, "holiday", None)
    check(service)
    pass_time(service, 10 * HOUR_MS + 1_000)
    assert fire(service) == 0
    resumed = service.resume_schedule("s").wait()
    assert first.next_at_ms is not None
    assert (resumed.is_paused, resumed.next_at_ms) == (False, first.next_at_ms + 10 * HOUR_MS)
    check(service)
    assert fire(service) == 0
    pass_time(service, HOUR_MS)
    assert fire(service) == 1
    assert service.resume_schedule("s").wait().revision == 3  # it is not paused: nothing to do


def test_a_change_while_paused_keeps_the_pause(service: Service) -> None:
    service.schedule(scheduled(every_ms=HOUR_MS)).wait()
    service.pause_schedule("s").wait()
    changed = service.schedule(scheduled(every_ms=1_000)).wait()
    assert changed.is_paused
    check(service)
    pass_time(service, 5_000)
    assert fire(service) == 0


def test_run_now_is_apart_from_the_rhythm(service: Service) -> None:
    before = service.schedule(scheduled(every_ms=HOUR_MS, payload=Blob(b"7"), overlap="skip")).wait()
    ran = [service.run_schedule("s").wait() for _ in range(2)]
    assert [one.status for one in ran] == ["queued", "queued"]
    after = service.schedule_of("s").wait()
    assert (after.next_at_ms, after.revision) == (before.next_at_ms, before.revision)
    assert (after.fired, after.last_job) == (2, ran[1].id)
    job = read(service, ran[0].id)
    assert (job.schedule, job.payload) == ("s", Blob(b"7"))
    assert job.planned_at_ms is not None
    assert abs(job.planned_at_ms - job.created_at_ms) < 1_000
    service.pause_schedule("s").wait()
    assert isinstance(service.run_schedule("s").wait(), Enqueued)
    check(service)


def test_a_run_that_is_repeated_after_a_lost_answer_runs_once(service: Service) -> None:
    status = service.schedule(scheduled(every_ms=HOUR_MS)).wait()
    call = calls.run_schedule(status, service.store.new_id("q"), now_ms(service), LimitTable(), 0)
    assert [service.store.run_sync(send(call)).status for _ in range(2)] == ["queued", "existing"]  # type: ignore[union-attr]
    (job,) = take(service, most=5)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    assert service.store.run_sync(send(call)).status == "ended"  # type: ignore[union-attr]
    assert counts(service) == {}
    assert service.schedule_of("s").wait().fired == 1
    check(service)


def test_run_now_into_a_full_queue(service: Service) -> None:
    service.configure("q", {"max_length": 1}).wait()
    service.schedule(scheduled()).wait()
    put(service, new())
    with pytest.raises(QueueFull):
        service.run_schedule("s").wait()
    assert counts(service) == {"queued": 1}


def test_what_does_not_exist(service: Service) -> None:
    before = dump_keys(service.store)
    for question in (
        lambda: service.unschedule("x"),
        lambda: service.pause_schedule("x"),
        lambda: service.resume_schedule("x"),
        lambda: service.run_schedule("x"),
        lambda: service.schedule_of("x"),
    ):
        with pytest.raises(UnknownSchedule):
            question().wait()
    assert service.schedules().wait() == []
    assert dump_keys(service.store) == before


@pytest.mark.parametrize(
    "fields",
    [
        {"every_ms": 0},
        {"every_ms": 1_000, "cron": "* * * * *"},
        {"every_ms": 999},
        {"every_ms": 1.5},
        {"every_ms": 0, "cron": "* * *"},
        {"every_ms": 0, "cron": "* * * * *", "timezone": "Nowhere"},
        {"every_ms": 1_000, "timezone": "Europe/Berlin"},
        {"every_ms": 0, "repeat": "SOON"},
        {"every_ms": 0, "repeat": 5},
        {"overlap": "some"},
        {"misfire": "most"},
        {"misfire_after_ms": -1},
        {"starts_at_ms": -1},
        {"ends_at_ms": 2**60},
        {"name": ""},
        {"job": "j"},
        {"job": new(run_at_ms=1)},
        {"job": new(delay_ms=1)},
        {"job": new(id=b"x" * 16)},
        {"job": new(repeat="DAILY")},
        {"job": new(unique="u", debounce_ms=1)},
        {"job": new(unique="u", throttle_ms=1)},
        {"job": new(queue="")},
    ],
)
def test_what_is_refused(service: Service, fields: dict[str, Any]) -> None:
    service.schedule(scheduled()).wait()
    before = dump_keys(service.store)
    with pytest.raises(BadInput):
        service.schedule(scheduled(**fields))
    assert dump_keys(service.store) == before


def test_a_name_that_is_too_long(service: Service) -> None:
    with pytest.raises(TooLarge):
        service.schedule(scheduled("x" * 256))
    with pytest.raises(TooLarge):
        service.schedule_of("x" * 256)


@pytest.mark.parametrize(
    "fields",
    [
        {"ends_at_ms": 5},
        {"every_ms": 0, "cron": "0 0 1 1 *", "ends_at_ms": 5},
        {"every_ms": 0, "repeat": "FINISHED, +0 DAYS"},
    ],
)
def test_one_that_would_never_fire(service: Service, fields: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="never fire"):
        service.schedule(scheduled(**fields)).wait()
    assert service.schedules().wait() == []


def test_a_change_computed_from_an_older_state_is_refused(service: Service) -> None:
    """Two processes have read the same state; the second has to read again."""
    service.schedule(scheduled()).wait()
    service.schedule(scheduled(every_ms=2_000)).wait()
    before = dump_keys(service.store)
    for revision in (0, 1, 3):
        answer = service.store.run_sync(send(calls.schedule(scheduled(every_ms=9_000), revision, 5, 0)))
        assert isinstance(answer, RevisionConflict)
    for revision in (0, 1):
        assert isinstance(service.store.run_sync(send(calls.resume_schedule("s", revision, 5, 0))), RevisionConflict)
        status = msgspec.structs.replace(service.schedule_of("s").wait(), revision=revision)
        call = calls.run_schedule(status, service.store.new_id("q"), 5, LimitTable(), 0)
        assert isinstance(service.store.run_sync(send(call)), RevisionConflict)
    assert dump_keys(service.store) == before


def test_two_processes_change_it_one_after_the_other(service: Service) -> None:
    other = another(service)
    service.schedule(scheduled()).wait()
    other.schedule(scheduled(every_ms=2_000)).wait()
    assert service.schedule(scheduled(every_ms=3_000)).wait().revision == 3
    other.store.close_sync()
