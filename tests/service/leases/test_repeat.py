"""Repeating jobs: finish schedules their next run."""

from __future__ import annotations

import pytest

from tests.service.helpers import another, counts, new, put, read, take
from tests.support.namespace import dump_keys
from windlass.core.errors import BadInput, RevisionConflict, StaleLease
from windlass.core.job import Blob, Job
from windlass.core.operations import Edit, Fail, Finish, Take
from windlass.core.states import State
from windlass.core.text.durations import INSTANT_MAX
from windlass.service import Service
from windlass.store.commands import reports
from windlass.store.commands.command import Flow

HOUR_MS = 3_600_000


def finish(service: Service, job: Job, **kw: object) -> None:
    service.finish([Finish(job.id, job.lease_token, **kw)]).one().wait()  # type: ignore[arg-type]


def test_it_goes_back_under_its_id_with_a_full_set_of_attempts(service: Service) -> None:
    (answer,) = put(service, new(repeat="finished, +1 Hour", payload=Blob(b"7"), result_ttl_ms=1_000, tags=("t",)))
    (job,) = take(service)
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).one().wait()
    (job,) = take(service)
    assert job.attempt == 2
    finish(service, job, result=Blob(b"result"))
    again = read(service, answer.id)
    assert (again.state, again.attempt, again.progress, again.revision) == (State.SCHEDULED, 0, 0, 1)
    assert (again.repeat, again.payload, again.tags) == ("finished, +1 Hour", Blob(b"7"), ("t",))
    assert again.started_at_ms == job.started_at_ms
    assert job.started_at_ms is not None
    assert HOUR_MS - 2_000 < again.run_at_ms - job.started_at_ms <= HOUR_MS + 5_000
    assert again.planned_at_ms == again.run_at_ms
    assert service.result(answer.id).wait() is None  # it has not ended: no result of a single run is kept
    service.store.clock_offset_ms += HOUR_MS + 1_000
    (job,) = take(service)
    assert (job.id, job.attempt) == (answer.id, 1)
    assert counts(service) == {"running": 1}


def test_scheduled_catches_up_one_run_per_missed_slot(service: Service) -> None:
    start = 1_700_000_000_000
    put(service, new(repeat="SCHEDULED, +1 HOUR", run_at_ms=start))
    for slot in range(5):
        (job,) = take(service)
        assert job.planned_at_ms == job.run_at_ms == start + slot * HOUR_MS
        finish(service, job)
    assert counts(service) == {"queued": 1}


def test_a_retry_does_not_move_the_rhythm(service: Service) -> None:
    start = 1_700_000_000_000
    put(service, new(repeat="SCHEDULED, +1 HOUR", run_at_ms=start))
    (job,) = take(service)
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry", delay_ms=5_000)]).one().wait()
    service.store.clock_offset_ms += 5_000
    (job,) = take(service)
    assert job.run_at_ms > start
    assert job.planned_at_ms == start
    finish(service, job)
    assert read(service, job.id).run_at_ms == start + HOUR_MS


def test_without_a_time_it_is_planned_for_its_creation(service: Service) -> None:
    put(service, new(repeat="SCHEDULED, +1 HOUR"))
    (job,) = take(service)
    assert job.planned_at_ms == job.created_at_ms
    finish(service, job)
    assert read(service, job.id).run_at_ms == job.created_at_ms // 1000 * 1000 + HOUR_MS


def test_the_lease_of_a_redeliverable_job_does_not_move_the_rhythm(service: Service) -> None:
    start = 1_700_000_000_000
    put(service, new(repeat="SCHEDULED, +1 HOUR", run_at_ms=start, retake=True, lease_ms=1_000))
    take(service)
    service.store.clock_offset_ms += 2_000
    (job,) = take(service)
    assert job.run_at_ms > start  # its lease ran out: ordered by its deadline now
    finish(service, job)
    assert read(service, job.id).run_at_ms == start + HOUR_MS


def test_it_can_be_ended_for_good(service: Service) -> None:
    put(service, new(repeat="HOURLY", result_ttl_ms=1_000))
    (job,) = take(service)
    finish(service, job, result=Blob(b"1"), ignore_repeat=True)
    ending = service.result(job.id).wait()
    assert ending is not None
    assert (ending.state, ending.result) == (State.FINISHED, Blob(b"1"))


def test_a_requested_cancel_ends_it(service: Service) -> None:
    put(service, new(repeat="HOURLY", result_ttl_ms=1_000))
    (job,) = take(service)
    assert service.cancel([job.id]).one().wait() == "requested"
    finish(service, job)
    assert read(service, job.id).state is State.FINISHED


def test_a_failure_for_good_ends_it_and_a_retry_by_a_person_goes_on(service: Service) -> None:
    put(service, new(repeat="FINISHED, +1 HOUR"))
    (job,) = take(service)
    service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait()
    assert counts(service) == {"failed": 1}
    service.retry([job.id]).one().wait()
    (job,) = take(service)
    finish(service, job)
    assert counts(service) == {"scheduled": 1}


def test_a_rule_that_leads_nowhere_fails_the_job(service: Service) -> None:
    put(service, new(repeat="FINISHED, +999 YEARS" + ", +999 YEARS" * 4))
    (job,) = take(service)
    finish(service, job)
    timeline = service.job([job.id]).one().wait()
    assert timeline.job.state is State.FAILED
    assert [one.reason for one in timeline.attempts] == ["repeat_out_of_range"]


def test_an_expiry_holds_for_the_first_run(service: Service) -> None:
    put(service, new(repeat="FINISHED, +1 HOUR", expires_in_ms=60_000))
    (job,) = take(service)
    finish(service, job)
    service.store.clock_offset_ms += 2 * HOUR_MS
    assert service.clean().wait().done == 0
    assert len(take(service)) == 1


def test_many_at_once_of_both_kinds(service: Service) -> None:
    put(service, *(new(repeat="HOURLY" if at % 2 else "", priority=at) for at in range(10)))
    jobs = take(service, most=10)
    answers = service.finish([Finish(job.id, job.lease_token) for job in jobs] + [Finish(jobs[1].id, 999)]).wait()
    assert answers[:10] == [None] * 10
    assert isinstance(answers[10], StaleLease)
    assert counts(service) == {"scheduled": 5}


def test_a_second_finish_is_refused(service: Service) -> None:
    put(service, new(repeat="HOURLY"))
    (job,) = take(service)
    finish(service, job)
    with pytest.raises(StaleLease):
        finish(service, job)


def test_an_exchange_repeats_before_it_takes(service: Service) -> None:
    put(service, new(repeat="FINISHED, +0 SECONDS"), new(priority=5))
    (job,) = take(service)
    (other,) = take(service)
    put(service, new(repeat="HOURLY", priority=-1))
    (hourly,) = take(service)
    done = service.finish_and_take(
        [Finish(job.id, job.lease_token), Finish(other.id, other.lease_token), Finish(hourly.id, hourly.lease_token)],
        [],
        Take(queues=("q",), most=5),
    ).wait()
    assert done.finished == [None, None, None]
    assert [one.id for one in done.taken.jobs] == [job.id]
    assert counts(service) == {"running": 1, "scheduled": 1}


def test_an_exchange_in_which_a_job_repeats_asks_before_it_changes_anything(service: Service) -> None:
    put(service, new(repeat="HOURLY"), new(), new())
    repeating, other = take(service, most=2)
    before = dump_keys(service.store)
    call = reports.finish([Finish(repeating.id, repeating.lease_token)], 0)
    (asked,) = service.store.run_sync(_flow(call))
    assert isinstance(asked, reports.NextRunNeeded)
    assert (asked.rule, asked.planned_at_ms, asked.revision) == ("HOURLY", repeating.created_at_ms, 1)
    assert dump_keys(service.store) == before
    done = service.finish_and_take(
        [Finish(repeating.id, repeating.lease_token)],
        [Fail(id=other.id, token=other.lease_token)],
        Take(queues=("q",)),
    ).wait()
    assert (done.finished, done.failed, len(done.taken.jobs)) == ([None], ["failed"], 1)


def _flow(call: object) -> Flow[object]:
    return (yield call)  # type: ignore[misc]


def test_an_edit_between_question_and_answer_counts(service: Service) -> None:
    """The next run is computed from the rule that stands when the job goes back."""
    put(service, new(repeat="FINISHED, +1 HOUR"))
    (job,) = take(service)
    request = Finish(job.id, job.lease_token)
    (asked,) = service.store.run_sync(_flow(reports.finish([request], 0)))
    service.edit([Edit(id=job.id, repeat="FINISHED, +2 HOURS", in_any_state=True)]).one().wait()
    stale = reports.FinishWithNextRun(request, 12_345, asked.revision)
    (again,) = service.store.run_sync(_flow(reports.finish([stale], 0)))
    assert again.rule == "FINISHED, +2 HOURS"
    assert read(service, job.id).state is State.RUNNING


def test_the_rule_can_be_changed_and_cleared(service: Service) -> None:
    (answer,) = put(service, new(repeat="HOURLY"))
    service.edit([Edit(id=answer.id, repeat="FINISHED, +1 DAY", payload=Blob(b"2"))]).one().wait()
    assert (read(service, answer.id).repeat, read(service, answer.id).payload) == ("FINISHED, +1 DAY", Blob(b"2"))
    service.edit([Edit(id=answer.id, priority=3)]).one().wait()
    assert read(service, answer.id).repeat == "FINISHED, +1 DAY"
    with pytest.raises(RevisionConflict):
        service.edit([Edit(id=answer.id, repeat="", if_revision=1)]).one().wait()
    service.edit([Edit(id=answer.id, repeat="")]).one().wait()
    assert (read(service, answer.id).repeat, read(service, answer.id).planned_at_ms) == ("", None)
    (job,) = take(service)
    finish(service, job)
    assert counts(service) == {}


def test_a_job_can_be_made_to_repeat_later_and_a_new_time_is_a_new_plan(service: Service) -> None:
    (answer,) = put(service, new(trace="t"))
    service.edit([Edit(id=answer.id, repeat="SCHEDULED, +1 HOUR", run_at_ms=1_000_000)]).one().wait()
    job = read(service, answer.id)
    assert (job.repeat, job.planned_at_ms, job.trace) == ("SCHEDULED, +1 HOUR", 1_000_000, "t")
    service.edit([Edit(id=answer.id, run_at_ms=2_000_000)]).one().wait()
    (job,) = take(service)
    finish(service, job)
    assert read(service, answer.id).run_at_ms == 2_000_000 + HOUR_MS


def test_a_replaced_job_has_the_new_rule_and_keeps_its_plan(service: Service) -> None:
    (answer,) = put(service, new(unique="u", repeat="HOURLY", run_at_ms=5_000_000))
    put(service, new(unique="u", unique_check="replace", repeat="DAILY"))
    assert (read(service, answer.id).repeat, read(service, answer.id).planned_at_ms) == ("DAILY", 5_000_000)
    put(service, new(unique="u", unique_check="replace"))
    assert read(service, answer.id).repeat == ""


def test_a_large_payload_stays(service: Service) -> None:
    payload = Blob(bytes(range(256)) * 1024)
    put(service, new(repeat="FINISHED, +0 SECONDS", payload=payload))
    for _ in range(3):
        (job,) = take(service)
        assert job.payload == payload
        finish(service, job)
    service.delete([job.id]).one().wait()
    assert service.stats(["q"]).wait()[0].bytes == 0


@pytest.mark.parametrize("rule", ["SOON", "FINISHED", "FINISHED, +1 FORTNIGHT", 7, "FINISHED, +1 DAY\n"])
def test_a_bad_rule_changes_nothing(service: Service, rule: object) -> None:
    (answer,) = put(service, new())
    before = dump_keys(service.store)
    with pytest.raises(BadInput):
        service.enqueue([new(repeat=rule)])
    with pytest.raises(BadInput):
        service.edit([Edit(id=answer.id, repeat=rule)])  # type: ignore[arg-type]
    with pytest.raises(BadInput):
        service.finish([Finish(answer.id, 1, None, 1)])  # type: ignore[arg-type]
    assert dump_keys(service.store) == before


def test_two_processes_finish_it_once(service: Service) -> None:
    put(service, new(repeat="SCHEDULED, +1 HOUR", run_at_ms=HOUR_MS))
    (job,) = take(service)
    other = another(service)
    request = Finish(job.id, job.lease_token)
    questions = [one.store.run_sync(_flow(reports.finish([request], 0)))[0] for one in (service, other)]
    answers = [
        one.store.run_sync(_flow(reports.finish([reports.FinishWithNextRun(request, 2 * HOUR_MS, asked.revision)], 0)))[
            0
        ]
        for one, asked in zip((service, other), questions, strict=True)
    ]
    other.store.close_sync()
    assert answers[0] is None
    assert isinstance(answers[1], StaleLease)
    assert read(service, job.id).run_at_ms == 2 * HOUR_MS


def test_the_latest_instant(service: Service) -> None:
    put(service, new(repeat="SCHEDULED, +1 SECOND"))
    (job,) = take(service)
    service.edit([Edit(id=job.id, run_at_ms=INSTANT_MAX, in_any_state=True)]).one().wait()
    finish(service, job)
    assert read(service, job.id).state is State.FAILED
