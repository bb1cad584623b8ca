"""finish: a job ends as finished; its stored data, and the check of the lease."""

from __future__ import annotations

import asyncio

import pytest

from tests.service.helpers import counts, new, put, read, take
from windlass.core.errors import AlreadyEnded, BadInput, Refusal, StaleLease, TooLarge, UnknownJob, WrongState
from windlass.core.job import Blob, Codec, Ending
from windlass.core.operations import Finish, LeaseRef, Listing, Take
from windlass.core.queue import FOREVER_MS
from windlass.core.states import State
from windlass.service import Service


def test_a_finished_job_is_gone(service: Service) -> None:
    (answer,) = put(service, new(payload=Blob(b"x" * 3000), unique="u", tags=("t",)))
    (job,) = take(service, worker=bytes(range(16)))
    assert service.finish([Finish(job.id, job.lease_token, Blob(b"1"))]).one().wait() is None
    assert counts(service) == {}
    (stats,) = service.stats(["q"]).wait()
    assert (stats.bytes, stats.lanes) == (0, 0)
    with pytest.raises(AlreadyEnded):
        service.job([answer.id]).one().wait()
    assert service.jobs(Listing(tag="t")).wait().jobs == []


@pytest.mark.parametrize("codec", list(Codec))
def test_a_result_is_kept_as_long_as_the_job_says(service: Service, codec: Codec) -> None:
    put(service, new(result_ttl_ms=60_000))
    (job,) = take(service)
    result = Blob(b"\0\1" * 40_000, codec)
    service.finish([Finish(job.id, job.lease_token, result)]).one().wait()
    assert service.result(job.id).wait() == Ending(state=State.FINISHED, result=result)
    stored = read(service, job.id)
    assert (stored.state, stored.progress, stored.lease_token) == (State.FINISHED, 1, 0)
    assert stored.ended_at_ms is not None
    assert counts(service) == {"finished": 1}
    service.store.clock_offset_ms += 59_000
    service.clean().wait()
    assert counts(service) == {"finished": 1}
    service.store.clock_offset_ms += 2_000
    service.clean().wait()
    assert counts(service) == {}
    with pytest.raises(AlreadyEnded):
        service.result(job.id).wait()


def test_no_result_may_be_kept_too(service: Service) -> None:
    put(service, new(result_ttl_ms=60_000), new(result_ttl_ms=60_000))
    one, two = take(service, most=2)
    service.finish([Finish(one.id, one.lease_token), Finish(two.id, two.lease_token, Blob(b""))]).wait()
    assert service.result(one.id).wait() == Ending(state=State.FINISHED)
    assert service.result(two.id).wait() == Ending(state=State.FINISHED, result=Blob(b""))


def test_a_result_may_be_kept_for_ever(service: Service) -> None:
    put(service, new(result_ttl_ms=FOREVER_MS))
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token, Blob(b"1"))]).wait()
    service.store.clock_offset_ms += 10**12
    service.clean().wait()
    assert counts(service) == {"finished": 1}


def test_a_repeated_finish_says_so(service: Service) -> None:
    put(service, new(), new(result_ttl_ms=60_000))
    for job in take(service, most=2):
        report = Finish(job.id, job.lease_token, Blob(b"1"))
        answers = service.finish([report, report]).wait()
        assert [type(one) for one in answers] == [type(None), AlreadyEnded]
        with pytest.raises(AlreadyEnded):
            service.finish([report]).one().wait()


def test_a_stale_token_changes_nothing(service: Service) -> None:
    put(service, new(result_ttl_ms=60_000))
    (old,) = take(service)
    service.store.clock_offset_ms += 31_000
    (job,) = take(service)
    before = read(service, job.id)
    with pytest.raises(StaleLease):
        service.finish([Finish(old.id, old.lease_token, Blob(b"old"))]).one().wait()
    assert read(service, job.id) == before
    service.finish([Finish(job.id, job.lease_token, Blob(b"new"))]).one().wait()
    with pytest.raises(StaleLease):
        service.finish([Finish(old.id, old.lease_token, Blob(b"old"))]).one().wait()
    ending = service.result(job.id).wait()
    assert ending is not None
    assert ending.result == Blob(b"new")


def test_a_lease_that_ran_out_unnoticed_still_counts(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    service.store.clock_offset_ms += 31_000
    assert service.finish([Finish(job.id, job.lease_token)]).one().wait() is None
    assert take(service) == []


def test_token_0_means_the_current_holder(service: Service) -> None:
    (answer,) = put(service, new())
    assert isinstance(service.finish([Finish(answer.id, 0)]).wait()[0], WrongState)
    take(service)
    assert service.finish([Finish(answer.id, 0)]).one().wait() is None
    assert isinstance(service.finish([Finish(answer.id, 0)]).wait()[0], AlreadyEnded)


def test_a_dispatched_job_may_be_finished_before_its_acceptance(service: Service) -> None:
    put(service, new())
    (job,) = take(service, accept_ms=2_000)
    assert service.finish([Finish(job.id, job.lease_token)]).one().wait() is None
    assert counts(service) == {}


def test_a_job_that_was_asked_to_stop_may_still_finish(service: Service) -> None:
    put(service, new(result_ttl_ms=60_000))
    (job,) = take(service)
    service.cancel([job.id]).wait()
    assert service.finish([Finish(job.id, job.lease_token, Blob(b"1"))]).one().wait() is None
    stored = read(service, job.id)
    assert (stored.state, stored.is_cancel_requested) == (State.FINISHED, False)


def test_an_unknown_id(service: Service) -> None:
    with pytest.raises(UnknownJob):
        service.finish([Finish(service.store.new_id("q"), 1)]).one().wait()


def test_partial_refusals_leave_the_rest_alone(service: Service) -> None:
    put(service, *(new() for _ in range(3)))
    one, two, three = take(service, most=3)
    answers = service.finish(
        [Finish(one.id, one.lease_token), Finish(two.id, two.lease_token + 50), Finish(three.id, three.lease_token)]
    ).wait()
    assert [type(answer) for answer in answers] == [type(None), StaleLease, type(None)]
    assert counts(service) == {"running": 1}


def test_many_in_one_call(service: Service) -> None:
    put(service, *(new(lane=f"l{at % 3}", result_ttl_ms=at % 2 * 1000) for at in range(1500)))
    jobs = take(service, most=1000) + take(service, most=500)
    answers = service.finish([Finish(job.id, job.lease_token, Blob(b"1")) for job in jobs]).wait()
    assert answers == [None] * 1500
    assert counts(service) == {"finished": 750}


@pytest.mark.anyio
async def test_joined_calls_get_their_own_answers(service: Service) -> None:
    async with service.store:
        put(service, *(new() for _ in range(100)))
        jobs = (await service.take(Take(queues=("q",), most=100))).jobs

        async def report(at: int) -> Refusal | None:
            token = jobs[at].lease_token + (1000 if at % 3 == 0 else 0)
            (answer,) = await service.finish([Finish(jobs[at].id, token)])
            return answer

        answers = await asyncio.gather(*(report(at) for at in range(100)))
        assert [isinstance(one, StaleLease) for one in answers] == [at % 3 == 0 for at in range(100)]


def test_a_history_keeps_the_last_ones(service: Service) -> None:
    service.configure("q", {"history_length": 3}).wait()
    for at in range(10):
        put(service, new(name=f"n{at}", unique=f"u{at}"))
        (job,) = take(service)
        service.finish([Finish(job.id, job.lease_token)]).one().wait()
        service.store.clock_offset_ms += 1
    assert counts(service) == {"history": 3}
    kept = service.jobs(Listing(queue="q", state="history")).wait().jobs
    assert [job.name for job in kept] == ["n7", "n8", "n9"]
    assert all(job.is_history for job in kept)
    assert put(service, new(unique="u9"))[0].status == "queued"


def test_bad_input(service: Service) -> None:
    with pytest.raises(BadInput):
        service.finish([Finish(b"short", 1)])
    with pytest.raises(TooLarge):
        service.finish([Finish(bytes(16), 1, Blob(b"x" * (1024 * 1024 + 1)))])
    with pytest.raises(BadInput):
        service.finish([Finish(bytes(16), 1, b"bytes")])  # type: ignore[arg-type]


def test_the_lease_of_one_job_does_not_end_another(service: Service) -> None:
    put(service, new(), new())
    one, two = take(service, most=2)
    assert isinstance(service.finish([Finish(one.id, two.lease_token)]).wait()[0], StaleLease)
    service.release([LeaseRef(one.id, one.lease_token)]).one().wait()
    assert counts(service) == {"queued": 1, "running": 1}
