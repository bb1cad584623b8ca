"""edit: allowed changes of a job, and its place afterwards."""

from __future__ import annotations

import pytest

from tests.service.helpers import counts, new, put, take
from windlass.core.errors import AlreadyEnded, RevisionConflict, StaleLease, UnknownJob, WrongState
from windlass.core.job import Blob, Codec, Job
from windlass.core.operations import Edit, Edited, Fail, Filter, Finish, LeaseRef
from windlass.core.states import State
from windlass.service import Service

FAR_MS = 2**46


def edit(service: Service, job_id: bytes, **kw: object) -> Edited:
    return service.edit([Edit(id=job_id, **kw)]).one().wait()  # type: ignore[arg-type]


def read(service: Service, job_id: bytes) -> Job:
    return service.job([job_id]).one().wait().job


def test_every_field_of_a_queued_job(service: Service) -> None:
    (job,) = put(service, new(payload=Blob(b"[1]"), tags=("a", "b"), unique="k", trace="t"))
    before = read(service, job.id)
    answer = edit(service, job.id, name="other", priority=-7, payload=Blob(b"\x91\x02", Codec.MSGPACK))
    assert answer == Edited(2, State.QUEUED)
    after = read(service, job.id)
    assert (after.name, after.priority, after.payload) == ("other", -7, Blob(b"\x91\x02", Codec.MSGPACK))
    assert after.revision == 2
    unchanged = ("queue", "tags", "unique", "trace", "created_at_ms", "run_at_ms", "sequence", "retry", "attempt")
    assert [getattr(after, field) for field in unchanged] == [getattr(before, field) for field in unchanged]


def test_an_edit_of_nothing_still_makes_a_revision(service: Service) -> None:
    (job,) = put(service, new(payload=Blob(b"x" * 5_000)))
    before = read(service, job.id)
    edit(service, job.id)
    after = read(service, job.id)
    assert (after.revision, after.payload, after.name) == (2, before.payload, before.name)


def test_priority_decides_the_order_at_once(service: Service) -> None:
    first, second, third = put(service, new(), new(), new())
    edit(service, third.id, priority=-1)
    edit(service, first.id, priority=1)
    assert [job.id for job in take(service, most=3)] == [third.id, second.id, first.id]


def test_a_queued_job_moves_to_scheduled_and_back(service: Service) -> None:
    (job,) = put(service, new())
    assert edit(service, job.id, run_at_ms=FAR_MS).state == State.SCHEDULED
    assert counts(service) == {"scheduled": 1}
    assert take(service) == []
    assert edit(service, job.id, run_at_ms=0).state == State.QUEUED
    assert counts(service) == {"queued": 1}
    assert take(service)[0].id == job.id


def test_a_scheduled_job_can_be_due_earlier_or_later(service: Service) -> None:
    (job,) = put(service, new(delay_ms=60_000))
    due_at_ms = read(service, job.id).run_at_ms
    edit(service, job.id, run_at_ms=due_at_ms - 50_000)
    assert service.stats(["q"]).wait()[0].next_due_at_ms == due_at_ms - 50_000
    service.store.clock_offset_ms += 11_000
    assert service.promote().wait().done == 1
    edit(service, job.id, run_at_ms=due_at_ms + 1_000)
    service.store.clock_offset_ms += 49_500
    assert service.promote().wait().done == 0
    assert take(service) == []
    service.store.clock_offset_ms += 1_000
    assert take(service)[0].id == job.id


def test_a_revision_guard_lets_only_the_first_of_two_writers_through(service: Service) -> None:
    (job,) = put(service, new())
    assert edit(service, job.id, name="a", if_revision=1).revision == 2
    with pytest.raises(RevisionConflict):
        edit(service, job.id, name="b", if_revision=1)
    assert read(service, job.id).name == "a"
    assert edit(service, job.id, name="b", if_revision=2).revision == 3


def test_an_edit_under_a_lease(service: Service) -> None:
    """It is refused if the lease with this token does not hold, whatever the state."""
    put(service, new())
    (job,) = take(service)
    assert edit(service, job.id, name="a", if_token=job.lease_token, in_any_state=True).revision == 2
    with pytest.raises(StaleLease):
        edit(service, job.id, name="b", if_token=job.lease_token + 1, in_any_state=True)
    service.release([LeaseRef(job.id, job.lease_token)]).wait()
    with pytest.raises(StaleLease):
        edit(service, job.id, name="b", if_token=job.lease_token)
    (again,) = take(service)
    service.fail([Fail(id=again.id, token=again.lease_token, then="final")]).wait()
    with pytest.raises(StaleLease):
        edit(service, job.id, name="b", if_token=again.lease_token, in_any_state=True)


def test_two_edits_of_one_job_in_one_call(service: Service) -> None:
    (job,) = put(service, new())
    answers = service.edit([Edit(id=job.id, name="a"), Edit(id=job.id, priority=4, if_revision=2)]).wait()
    assert answers == [Edited(2, State.QUEUED), Edited(3, State.QUEUED)]
    after = read(service, job.id)
    assert (after.name, after.priority) == ("a", 4)
    assert counts(service) == {"queued": 1}


def test_a_running_job_needs_in_any_state_and_keeps_its_lease(service: Service) -> None:
    put(service, new(payload=Blob(b"1")))
    (job,) = take(service)
    with pytest.raises(WrongState):
        edit(service, job.id, payload=Blob(b"2"))
    assert read(service, job.id).payload == Blob(b"1")
    assert edit(service, job.id, payload=Blob(b"2"), priority=3, in_any_state=True) == Edited(2, State.RUNNING)
    after = read(service, job.id)
    assert (after.payload, after.priority, after.lease_token) == (Blob(b"2"), 3, job.lease_token)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    assert service.stats(["q"]).wait()[0].bytes == 0


def test_a_running_job_whose_time_was_moved_ahead_returns_as_scheduled(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    edit(service, job.id, run_at_ms=FAR_MS, in_any_state=True)
    service.store.clock_offset_ms += 31_000
    service.recover().wait()
    assert counts(service) == {"scheduled": 1}


@pytest.mark.parametrize("end", ["failed", "finished", "history"])
def test_an_ended_job_needs_in_any_state_and_stays_ended(service: Service, end: str) -> None:
    service.configure("q", {"history_length": 10}).wait()
    put(service, new(result_ttl_ms=60_000 if end == "finished" else 0))
    (job,) = take(service)
    if end == "failed":
        service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait()
    else:
        service.finish([Finish(job.id, job.lease_token)]).one().wait()
    with pytest.raises(WrongState):
        edit(service, job.id, name="x")
    edit(service, job.id, name="x", payload=Blob(b"y" * 2_000), in_any_state=True)
    assert counts(service) == {end: 1}
    assert read(service, job.id).name == "x"
    assert service.stats(["q"]).wait()[0].bytes == 0


def test_the_bytes_of_a_history_follow_an_edit(service: Service) -> None:
    """Else a history that was once edited would be trimmed too early, or too late, for ever."""
    service.configure("q", {"history_length": 10, "history_bytes": 3_000}).wait()
    put(service, new(), new())
    jobs = take(service, most=2)
    service.finish([Finish(jobs[0].id, jobs[0].lease_token)]).one().wait()
    edit(service, jobs[0].id, payload=Blob(b"y" * 5_000), in_any_state=True)
    service.store.clock_offset_ms += 1
    service.finish([Finish(jobs[1].id, jobs[1].lease_token)]).one().wait()
    assert counts(service) == {"history": 1}
    assert read(service, jobs[1].id).is_history
    service.delete([jobs[1].id]).one().wait()
    put(service, new())
    (third,) = take(service)
    service.finish([Finish(third.id, third.lease_token)]).one().wait()
    assert counts(service) == {"history": 1}


def test_an_overdue_redeliverable_job_moves_within_its_lane(service: Service) -> None:
    put(service, new(retake=True))
    (job,) = take(service)
    service.store.clock_offset_ms += 31_000
    service.recover().wait()
    put(service, new())
    edit(service, job.id, priority=1, in_any_state=True)
    assert counts(service) == {"queued": 2, "running": 1}
    assert [one.id for one in take(service, most=2)][1] == job.id
    assert counts(service) == {"running": 2}


def test_a_new_name_is_a_new_lane(service: Service) -> None:
    service.configure("q", {"name_lanes": True}).wait()
    a, b = put(service, new(name="a"), new(name="b"))
    edit(service, a.id, name="b")
    assert service.stats(["q"]).wait()[0].lanes == 1
    assert take(service, wants=Filter(only=("a",))) == []
    assert [job.id for job in take(service, most=5, wants=Filter(only=("b",)))] == [a.id, b.id]
    assert service.stats(["q"]).wait()[0].lanes == 0


def test_a_new_priority_moves_a_lane_ahead_of_many(service: Service) -> None:
    """More lanes than one look reads: the order of the lanes' heads must know of the new priority."""
    service.configure("q", {"name_lanes": True}).wait()
    jobs = put(service, *(new(name=f"n{i}") for i in range(250)))
    edit(service, jobs[-1].id, priority=-1)
    edit(service, jobs[0].id, priority=1)
    assert [job.id for job in take(service, most=2)] == [jobs[-1].id, jobs[1].id]


def test_the_byte_count_follows_the_payload(service: Service) -> None:
    (job,) = put(service, new(payload=Blob(b"x" * 100)))
    before = service.stats(["q"]).wait()[0].bytes
    edit(service, job.id, payload=Blob(b"x" * 5_100))
    assert service.stats(["q"]).wait()[0].bytes == before + 5_000
    edit(service, job.id, payload=Blob(b""))
    assert service.stats(["q"]).wait()[0].bytes == before - 100


def test_jobs_that_are_not_there(service: Service) -> None:
    (gone,) = put(service, new())
    service.delete([gone.id]).one().wait()
    answers = service.edit([Edit(id=gone.id, name="x"), Edit(id=service.store.new_id("q"), name="x")]).wait()
    assert [type(one) for one in answers] == [AlreadyEnded, UnknownJob]
