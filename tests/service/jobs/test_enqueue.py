"""enqueue: acceptance, order, and detection of jobs that exist already."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from tests.service.helpers import counts, new, put, read, take
from tests.support.engine_process import EngineProcess
from windlass.core.errors import BadInput, BadSetting, IdConflict, QueueFull, RevisionConflict, TooLarge
from windlass.core.job import Blob, Codec, Durability
from windlass.core.operations import Enqueued, Fail, Finish, LeaseRef, Listing
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

HOUR_MS = 3_600_000


def now_of(service: Service) -> int:
    return service.promote().wait().now_ms


# When it runs


def test_a_job_for_now_is_queued(service: Service) -> None:
    (answer,) = put(service, new(payload=Blob(b'{"a":1}')))
    assert (answer.status, answer.revision, answer.is_durable) == ("queued", 1, True)
    job = read(service, answer.id)
    assert (job.state, job.queue, job.name, job.payload) == (State.QUEUED, "q", "n", Blob(b'{"a":1}'))
    assert (job.attempt, job.lease_token, job.worker, job.started_at_ms, job.ended_at_ms) == (0, 0, None, None, None)
    assert counts(service) == {"queued": 1}


def test_run_at_ahead_is_scheduled_and_taken_at_its_time(service: Service) -> None:
    at_ms = now_of(service) + HOUR_MS
    (answer,) = put(service, new(run_at_ms=at_ms))
    assert answer.status == "scheduled"
    assert read(service, answer.id).run_at_ms == at_ms
    assert take(service) == []
    assert counts(service) == {"scheduled": 1}
    service.store.clock_offset_ms += HOUR_MS
    assert [job.id for job in take(service)] == [answer.id]


def test_run_at_in_the_past_is_queued_before_what_is_enqueued_now(service: Service) -> None:
    (later,) = put(service, new())
    (earlier,) = put(service, new(run_at_ms=now_of(service) - 1000))
    assert earlier.status == "queued"
    assert [job.id for job in take(service, most=2)] == [earlier.id, later.id]


def test_a_delay_is_counted_from_the_engines_time(service: Service) -> None:
    service.store.clock_offset_ms += HOUR_MS
    before_ms = now_of(service)
    (answer,) = put(service, new(delay_ms=5_000))
    assert answer.status == "scheduled"
    assert before_ms + 4_900 <= read(service, answer.id).run_at_ms <= before_ms + 10_000
    service.store.clock_offset_ms += 10_100
    assert len(take(service)) == 1


# In which order


def test_order_is_priority_then_ready_time_then_arrival(service: Service) -> None:
    base_ms = now_of(service) - 10_000
    wanted = [(-(2**31), 5), (-1, 0), (-1, 3), (0, 1), (0, 2), (7, 0), (2**31 - 1, 0)]
    shuffled = random.Random(3).sample(wanted, len(wanted))
    put(service, *(new(priority=priority, run_at_ms=base_ms + at) for priority, at in shuffled))
    assert [(job.priority, job.run_at_ms - base_ms) for job in take(service, most=10)] == wanted


def test_a_thousand_jobs_of_one_call_come_out_first_in_first_out(service: Service) -> None:
    ids = [one.id for one in put(service, *(new() for _ in range(1000)))]
    assert [job.id for job in take(service, most=1000)] == ids


def test_2500_jobs_in_one_call_are_all_there_once_and_in_order(service: Service) -> None:
    ids = [one.id for one in put(service, *(new(payload=Blob(b"%d" % at)) for at in range(2500)))]
    assert counts(service) == {"queued": 2500}
    taken = [job for _ in range(3) for job in take(service, most=1000)]
    assert [job.id for job in taken] == ids
    assert [job.payload.data for job in taken] == [b"%d" % at for at in range(2500)]


def test_no_jobs_is_no_question(service: Service) -> None:
    assert service.enqueue([]).wait() == []


# Ids


def test_a_repeated_id_is_one_job(service: Service) -> None:
    job_id = service.store.new_id("q")
    answers = [put(service, new(id=job_id, payload=Blob(b"1")))[0] for _ in range(3)]
    assert [one.status for one in answers] == ["queued", "existing", "existing"]
    assert {one.id for one in answers} == {job_id}
    assert counts(service) == {"queued": 1}


def test_a_repeated_id_while_it_runs_is_no_second_job(service: Service) -> None:
    job_id = service.store.new_id("q")
    put(service, new(id=job_id))
    take(service)
    assert put(service, new(id=job_id))[0].status == "existing"
    assert counts(service) == {"running": 1}


def test_a_repeated_id_twice_in_one_call_is_one_job(service: Service) -> None:
    job_id = service.store.new_id("q")
    assert [one.status for one in put(service, new(id=job_id), new(id=job_id))] == ["queued", "existing"]
    assert counts(service) == {"queued": 1}


def test_a_repeated_delay_is_the_same_job(service: Service) -> None:
    job_id = service.store.new_id("q")
    put(service, new(id=job_id, delay_ms=5000))
    first = read(service, job_id).run_at_ms
    service.store.clock_offset_ms += 1000
    assert put(service, new(id=job_id, delay_ms=5000))[0].status == "existing"
    assert read(service, job_id).run_at_ms == first


@pytest.mark.parametrize("passed_ms", [0, 590_000])
def test_an_id_that_has_ended_does_not_run_again(service: Service, passed_ms: int) -> None:
    job_id = service.store.new_id("q")
    put(service, new(id=job_id))
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    service.store.clock_offset_ms += passed_ms
    assert put(service, new(id=job_id))[0].status == "ended"
    assert take(service) == []
    assert counts(service) == {}


@pytest.mark.parametrize(
    "other",
    [{"payload": Blob(b"2")}, {"name": "other"}, {"priority": 1}, {"lane": "l"}, {"unique": "u"}, {"queue": "q2"}],
)
def test_the_same_id_with_other_content_is_refused(service: Service, other: dict[str, object]) -> None:
    job_id = service.store.new_id("q")
    put(service, new(id=job_id, payload=Blob(b"1")))
    second: dict[str, object] = {"id": job_id, "payload": Blob(b"1")} | other
    with pytest.raises(IdConflict):
        service.enqueue([new(**second)]).one().wait()  # type: ignore[arg-type]
    (job,) = take(service, most=2)
    assert job.payload.data == b"1"
    assert counts(service) == {"running": 1}


def test_a_conflict_in_the_middle_leaves_the_others_alone(service: Service) -> None:
    job_id = service.store.new_id("q")
    put(service, new(id=job_id))
    answers = service.enqueue([new(), new(id=job_id, name="other"), new()]).wait()
    assert isinstance(answers[1], IdConflict)
    assert [one.status for one in answers if isinstance(one, Enqueued)] == ["queued", "queued"]
    assert counts(service) == {"queued": 3}


# Unique keys


def test_a_held_unique_key_names_the_job_that_holds_it(service: Service) -> None:
    (first,) = put(service, new(unique="u", payload=Blob(b"1")))
    (second,) = put(service, new(unique="u", payload=Blob(b"2")))
    assert (second.status, second.id, second.revision) == ("existing", first.id, 1)
    assert read(service, first.id).payload.data == b"1"
    assert counts(service) == {"queued": 1}


def test_a_unique_key_belongs_to_its_queue(service: Service) -> None:
    put(service, new(unique="u"), new("q2", unique="u"))
    assert counts(service) == counts(service, "q2") == {"queued": 1}


def test_two_jobs_with_one_unique_key_in_one_call(service: Service) -> None:
    first, second, third = put(service, new(unique="u"), new(unique="u"), new(unique="v"))
    assert (first.status, second.status, third.status) == ("queued", "existing", "queued")
    assert second.id == first.id
    assert counts(service) == {"queued": 2}


def test_a_unique_key_is_held_until_the_end(service: Service) -> None:
    (first,) = put(service, new(unique="u"))
    (job,) = take(service)
    assert put(service, new(unique="u"))[0].status == "existing"
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    (second,) = put(service, new(unique="u"))
    assert second.status == "queued"
    assert second.id != first.id


@pytest.mark.parametrize("then", ["final", "cancelled"])
def test_a_job_that_ended_badly_does_not_block_its_key(service: Service, then: str) -> None:
    put(service, new(unique="u"))
    (job,) = take(service)
    service.fail([Fail(id=job.id, token=job.lease_token, then=then)]).one().wait()  # type: ignore[arg-type]
    assert put(service, new(unique="u"))[0].status == "queued"


def test_a_retried_job_still_holds_its_key(service: Service) -> None:
    put(service, new(unique="u"))
    (job,) = take(service)
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry", delay_ms=1000)]).one().wait()
    assert put(service, new(unique="u"))[0].status == "existing"


def test_unique_while_kept_blocks_until_the_record_is_gone(service: Service) -> None:
    (first,) = put(service, new(unique="u", unique_while_kept=True, result_ttl_ms=60_000))
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token, Blob(b"1"))]).one().wait()
    (again,) = put(service, new(unique="u", unique_while_kept=True, result_ttl_ms=60_000))
    assert (again.status, again.id) == ("existing", first.id)
    service.store.clock_offset_ms += 60_001
    service.clean().wait()
    assert put(service, new(unique="u"))[0].status == "queued"


def test_a_kept_result_alone_does_not_block(service: Service) -> None:
    put(service, new(unique="u", result_ttl_ms=60_000))
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    assert put(service, new(unique="u"))[0].status == "queued"


def test_declared_keys_are_not_enforced_and_look_up_gives_the_oldest(service: Service) -> None:
    first, second = put(service, *(new(unique="u", unique_check="none") for _ in range(2)))
    assert [first.status, second.status] == ["queued", "queued"]
    assert put(service, new(unique="u"))[0].id == first.id
    service.delete([first.id]).one().wait()
    assert put(service, new(unique="u"))[0].id == second.id


def test_replace_of_a_waiting_job_keeps_its_id_and_takes_the_new_content(service: Service) -> None:
    (first,) = put(service, new(unique="u", payload=Blob(b"1"), tags=("old",)))
    (other,) = put(service, new())
    (answer,) = put(
        service,
        new(
            unique="u", unique_check="replace", payload=Blob(b"\x02" * 3000, Codec.MSGPACK), priority=-1, tags=("new",)
        ),
    )
    assert (answer.status, answer.id, answer.revision) == ("replaced", first.id, 2)
    assert [job.id for job in service.jobs(Listing(tag="new")).wait().jobs] == [first.id]
    assert service.jobs(Listing(tag="old")).wait().jobs == []
    one, two = take(service, most=3)
    assert (one.id, one.payload, one.priority, one.revision) == (first.id, Blob(b"\x02" * 3000, Codec.MSGPACK), -1, 2)
    assert two.id == other.id


def test_replace_without_a_holder_is_a_new_job(service: Service) -> None:
    assert put(service, new(unique="u", unique_check="replace"))[0].status == "queued"


def test_replace_keeps_the_place_in_time_unless_a_time_is_given(service: Service) -> None:
    (first,) = put(service, new(unique="u"))
    put(service, new())
    put(service, new(unique="u", unique_check="replace"))
    assert take(service)[0].id == first.id


def test_replace_moves_a_scheduled_job_to_now_and_back(service: Service) -> None:
    (first,) = put(service, new(unique="u", delay_ms=HOUR_MS))
    put(service, new(unique="u", unique_check="replace", run_at_ms=now_of(service)))
    assert counts(service) == {"queued": 1}
    put(service, new(unique="u", unique_check="replace", delay_ms=HOUR_MS))
    assert counts(service) == {"scheduled": 1}
    put(service, new(unique="u", unique_check="replace", payload=Blob(b"9")))
    assert counts(service) == {"scheduled": 1}
    service.store.clock_offset_ms += HOUR_MS + 1000
    (job,) = take(service, most=2)
    assert (job.id, job.payload.data, job.revision) == (first.id, b"9", 4)


def test_replace_of_a_running_job_changes_the_content_for_the_next_attempt(service: Service) -> None:
    (first,) = put(service, new(unique="u", payload=Blob(b"1")))
    (job,) = take(service)
    assert put(service, new(unique="u", unique_check="replace", payload=Blob(b"22")))[0].id == first.id
    assert counts(service) == {"running": 1}
    service.release([LeaseRef(job.id, job.lease_token)]).one().wait()
    (again,) = take(service, most=2)
    assert (again.id, again.payload.data, again.revision) == (first.id, b"22", 2)


def test_the_revision_guard(service: Service) -> None:
    put(service, new(unique="u", payload=Blob(b"1")))
    guarded = new(unique="u", unique_check="replace", if_revision=1, payload=Blob(b"2"))
    assert put(service, guarded)[0].revision == 2
    with pytest.raises(RevisionConflict, match="it is 2 now"):
        service.enqueue([new(unique="u", unique_check="replace", if_revision=1, payload=Blob(b"3"))]).one().wait()
    assert take(service)[0].payload.data == b"2"


def test_replace_of_a_job_of_the_same_call(service: Service) -> None:
    first, second = put(
        service,
        new(unique="u", payload=Blob(b"1")),
        new(unique="u", unique_check="replace", payload=Blob(b"2" * 2000)),
    )
    assert (second.status, second.id) == ("replaced", first.id)
    (job,) = take(service, most=2)
    assert job.payload.data == b"2" * 2000


def test_replaced_jobs_leave_no_bytes_behind(service: Service) -> None:
    put(service, new(unique="u", payload=Blob(b"1" * 5000)))
    put(service, new(unique="u", unique_check="replace", payload=Blob(b"1")))
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    assert service.stats(["q"]).wait()[0].bytes == 0


# Expiry, lanes, tags


def test_a_job_that_did_not_start_in_time_fails_as_expired(service: Service) -> None:
    (gone,) = put(service, new(expires_in_ms=1000))
    (kept,) = put(service, new(expires_at_ms=now_of(service) + HOUR_MS))
    service.store.clock_offset_ms += 2000
    assert [job.id for job in take(service, most=5)] == [kept.id]
    timeline = service.job([gone.id]).one().wait()
    assert timeline.job.state is State.FAILED
    assert [one.reason for one in timeline.attempts] == ["expired"]


def test_an_expired_job_that_no_taker_reaches_is_failed_by_the_janitor(service: Service) -> None:
    put(service, new(expires_in_ms=1000), new(delay_ms=HOUR_MS, expires_in_ms=1000), new())
    service.store.clock_offset_ms += 2000
    assert service.clean().wait().done == 2
    assert counts(service) == {"queued": 1, "failed": 2}


def test_a_started_job_does_not_expire(service: Service) -> None:
    put(service, new(expires_in_ms=1000))
    (job,) = take(service, lease_ms=HOUR_MS)
    service.store.clock_offset_ms += 2000
    service.clean().wait()
    assert service.finish([Finish(job.id, job.lease_token)]).one().wait() is None


def test_lanes_share_a_queue_in_its_order(service: Service) -> None:
    lanes = ["", "a", "b", "a", "", "ü"]
    ids = [put(service, new(lane=lane))[0].id for lane in lanes]
    taken = take(service, most=10)
    assert [(job.id, job.lane) for job in taken] == list(zip(ids, lanes, strict=True))


def test_tags_find_jobs_of_any_queue_and_are_gone_with_the_job(service: Service) -> None:
    one, two = put(service, new(tags=("red", "größe")), new("q2", tags=("red",)))
    found = service.jobs(Listing(tag="red")).wait().jobs
    assert {job.id for job in found} == {one.id, two.id}
    assert [job.tags for job in service.jobs(Listing(tag="größe")).wait().jobs] == [("red", "größe")]
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    assert [job.id for job in service.jobs(Listing(tag="red")).wait().jobs] == [two.id]


# Bounds


def test_a_full_queue_refuses_while_workers_go_on(service: Service) -> None:
    service.configure("q", {"max_length": 3}).wait()
    answers = service.enqueue([new(), new(delay_ms=HOUR_MS), new(lane="l"), new(), new("q2")]).wait()
    assert isinstance(answers[3], QueueFull)
    assert sum(isinstance(one, Enqueued) for one in answers) == 4
    assert counts(service) == {"queued": 2, "scheduled": 1}
    (job,) = take(service)
    assert service.finish([Finish(job.id, job.lease_token)]).one().wait() is None
    put(service, new())
    with pytest.raises(QueueFull):
        service.enqueue([new()]).one().wait()


def test_a_retry_into_a_full_queue_is_not_lost(service: Service) -> None:
    service.configure("q", {"max_length": 1}).wait()
    put(service, new())
    (job,) = take(service)
    put(service, new())
    assert service.fail([Fail(id=job.id, token=job.lease_token, then="retry")]).one().wait() == "retried"
    assert counts(service) == {"queued": 2}


def test_a_known_job_is_no_growth_in_a_full_queue(service: Service) -> None:
    service.configure("q", {"max_length": 1}).wait()
    (answer,) = put(service, new(unique="u"))
    assert put(service, new(id=answer.id, unique="u"))[0].status == "existing"
    assert put(service, new(unique="u", unique_check="replace"))[0].status == "replaced"


def test_a_queue_bounded_in_bytes(service: Service) -> None:
    service.configure("q", {"max_bytes": 10_000}).wait()
    big = Blob(b"x" * 4000)
    answers = service.enqueue([new(payload=big) for _ in range(3)]).wait()
    assert [isinstance(one, QueueFull) for one in answers] == [False, False, True]
    (job,) = take(service)
    with pytest.raises(QueueFull):  # what runs counts too
        service.enqueue([new(payload=big)]).one().wait()
    put(service, new())
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    put(service, new(payload=big))


def test_payloads_of_a_mebibyte_and_not_a_byte_more(service: Service) -> None:
    payload = Blob(random.Random(1).randbytes(1024 * 1024), Codec.RAW)
    put(service, new(payload=payload))
    (job,) = take(service)
    assert job.payload == payload
    with pytest.raises(TooLarge):
        service.enqueue([new(payload=Blob(payload.data + b"x"))])


@pytest.mark.parametrize("text", ["größe", "名前", "a b/c:{d}*?[e]", "🧵", "x" * 255, "ü" * 127, "\x7f", "\u2028"])
def test_queues_names_lanes_and_keys_may_hold_any_text(service: Service, text: str) -> None:
    (answer,) = put(service, new(text, text, lane=text, unique=text, tags=(text[:60],)))
    (job,) = take(service, text)
    assert (job.id, job.queue, job.name, job.lane, job.unique) == (answer.id, text, text, text, text)
    assert put(service, new(text, text, unique=text))[0].id == answer.id
    assert service.queues().wait() == [text]


@pytest.mark.parametrize(
    "bad",
    [
        {"queue": ""},
        {"queue": "x" * 256},
        {"name": "a\0b"},
        {"name": "\ud800"},
        {"name": 7},
        {"priority": 2**31},
        {"priority": 1.0},
        {"priority": True},
        {"run_at_ms": -1},
        {"run_at_ms": 1, "delay_ms": 1},
        {"expires_at_ms": 1, "expires_in_ms": 1},
        {"id": b"short"},
        {"tags": ["a"]},
        {"tags": ("",)},
        {"tags": tuple("abcdefghijklmnopqrstuvw")},
        {"lane": "\n"},
        {"if_revision": 1},
        {"unique": "u", "unique_check": "maybe"},
        {"payload": b"bytes"},
        {"retry": Backoff(tries=-1)},
        {"lease_ms": FOREVER_MS + 1},
    ],
)
def test_bad_input_is_refused_as_a_whole(service: Service, bad: dict[str, object]) -> None:
    with pytest.raises((BadInput, TooLarge)):
        service.enqueue([new(), new(**bad)])  # type: ignore[arg-type]
    assert counts(service) == {}


# Durability


@pytest.fixture
def everysec(engine: EngineProcess) -> Iterator[Service]:
    """An engine that acknowledges before its file is on the disk."""
    with EngineProcess(engine._engine, config=("--appendonly", "yes", "--appendfsync", "everysec")) as process:
        store = Store(parse_url(process.unix_url), is_test=True, patience_s=10.0)
        yield Service(store)
        store.close_sync()


def test_fsync_on_an_engine_that_syncs_every_second(everysec: Service) -> None:
    """Neither Debian's Redis nor Valkey can confirm a single write."""
    with pytest.raises(BadSetting, match="appendfsync always"):
        everysec.enqueue([new()], durability="fsync").wait()
    assert counts(everysec) == {}


def test_without_replicas_the_job_is_accepted_once_and_said_not_to_be_durable(
    everysec: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.store.store.DURABLE_WAIT_MS", 50)
    (answer,) = everysec.enqueue([new()], durability="replica").wait()
    assert isinstance(answer, Enqueued)
    assert (answer.status, answer.is_durable) == ("queued", False)
    assert [job.id for job in take(everysec, most=5)] == [answer.id]


@pytest.mark.anyio
async def test_levels_do_not_mix_when_calls_are_joined(everysec: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.store.store.DURABLE_WAIT_MS", 50)
    async with everysec.store:
        levels: list[Durability] = ["memory", "replica", "memory", "replica"]
        answers = await asyncio.gather(*(everysec.enqueue([new()], durability=level).one() for level in levels))
        assert [one.is_durable for one in answers] == [True, False, True, False]
        assert (await everysec.stats(["q"]))[0].queued == 4


def test_fsync_is_refused_without_a_file(service: Service) -> None:
    with pytest.raises(BadSetting, match="append-only file"):
        service.enqueue([new()], durability="fsync").wait()
    assert counts(service) == {}


def test_a_store_that_asks_for_too_much_says_so_when_it_opens(engine: EngineProcess) -> None:
    store = Store(parse_url(engine.unix_url), namespace="durable", durability="fsync", patience_s=10.0)
    with pytest.raises(BadSetting, match="append-only file"):
        store.open_sync()
    store.close_sync()


def test_an_unknown_level_is_refused(service: Service) -> None:
    with pytest.raises(BadInput, match="durability"):
        service.enqueue([new()], durability="tape")  # type: ignore[arg-type]


def test_a_replacement_counts_against_the_queues_bytes(service: Service) -> None:
    service.configure("q", {"max_bytes": 600}).wait()
    put(service, new(unique="u"))
    with pytest.raises(QueueFull):
        service.enqueue([new(unique="u", unique_check="replace", payload=Blob(b"x" * 1_000))]).one().wait()
    (job,) = take(service)
    assert job.payload.data == b"null"


@pytest.mark.parametrize(("before_ms", "after_ms"), [(FOREVER_MS, 60_000), (60_000, FOREVER_MS), (FOREVER_MS, 0)])
def test_replacing_a_finished_job_changes_how_long_it_is_kept(
    service: Service, store: Store, before_ms: int, after_ms: int
) -> None:
    keyed = {"unique": "u", "unique_while_kept": True, "unique_check": "replace"}
    (first,) = put(service, new(result_ttl_ms=before_ms, **keyed))
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token, Blob(b"1"))]).one().wait()
    (second,) = put(service, new(result_ttl_ms=after_ms, **keyed))
    assert (second.id, second.status) == (first.id, "replaced")
    store.clock_offset_ms += 120_000
    service.clean().wait()
    assert len(service.jobs(Listing(queue="q", state="finished")).wait().jobs) == (after_ms == FOREVER_MS)
