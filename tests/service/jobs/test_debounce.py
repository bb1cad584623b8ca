"""enqueue, debounced and throttled: many calls with one unique key, few runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.service.frozen_engine import START_MS, frozen_store, frozen_time
from tests.service.helpers import counts, new, put, read, take
from tests.service.machines import invariants
from tests.support.engine_process import EngineProcess
from tests.support.namespace import dump_keys, send_command
from windlass.core.errors import BadInput, QueueFull
from windlass.core.ids import make_id
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Enqueued, Fail, Finish, LeaseRef
from windlass.core.states import State
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.reconnect import SyncReconnectingConnection


def call(content: bytes = b"1", **kw: Any) -> NewJob:
    return new(**{"unique": "u", "debounce_ms": 1_000, "payload": Blob(content)} | kw)


def throttled(content: bytes = b"1", **kw: Any) -> NewJob:
    return new(**{"unique": "u", "throttle_ms": 1_000, "payload": Blob(content)} | kw)


def pass_time(service: Service, by_ms: int) -> None:
    service.store.clock_offset_ms += by_ms


# Debounce


def test_the_last_call_runs_after_a_pause_of_calls(service: Service) -> None:
    (first,) = put(service, call(b"1"))
    assert first.status == "scheduled"
    for content in (b"2", b"3"):
        pass_time(service, 800)
        (later,) = put(service, call(content, priority=3, tags=("t",)))
        assert (later.id, later.status) == (first.id, "replaced")
    pass_time(service, 800)
    assert take(service) == []
    pass_time(service, 300)
    (job,) = take(service)
    assert (job.id, job.payload, job.priority, job.tags) == (first.id, Blob(b"3"), 3, ("t",))
    assert counts(service) == {"running": 1}


def test_it_is_not_pushed_beyond_its_bound(service: Service) -> None:
    put(service, call(b"1", debounce_max_ms=1_500))
    pass_time(service, 900)
    put(service, call(b"2", debounce_max_ms=1_500))
    pass_time(service, 700)
    (job,) = take(service)
    assert job.payload == Blob(b"2")
    assert job.run_at_ms == job.created_at_ms + 1_500


def test_a_call_while_it_runs_makes_a_new_job(service: Service) -> None:
    (first,) = put(service, call(b"1"))
    pass_time(service, 1_000)
    (job,) = take(service)
    (second,) = put(service, call(b"2"))
    assert (second.status, second.id != first.id) == ("scheduled", True)
    (third,) = put(service, call(b"3"))
    assert (third.status, third.id) == ("replaced", second.id)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    pass_time(service, 1_000)
    assert [one.payload for one in take(service, most=5)] == [Blob(b"3")]


def test_a_job_that_waits_for_its_next_attempt_has_been_taken(service: Service) -> None:
    put(service, call(b"1"))
    pass_time(service, 1_000)
    (job,) = take(service)
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry", delay_ms=500)]).one().wait()
    put(service, call(b"2"))
    pass_time(service, 1_000)
    assert sorted(one.payload.data for one in take(service, most=5)) == [b"1", b"2"]


def test_one_that_was_given_back_untouched_is_replaced(service: Service) -> None:
    (first,) = put(service, call(b"1"))
    pass_time(service, 1_000)
    (job,) = take(service)
    service.release([LeaseRef(job.id, job.lease_token)]).one().wait()
    (second,) = put(service, call(b"2"))
    assert (second.status, second.id) == ("replaced", first.id)
    assert counts(service) == {"scheduled": 1}


def test_calls_in_one_batch(service: Service) -> None:
    answers = put(service, *(call(b"%d" % at) for at in range(5)), call(b"x", unique="v"))
    assert [one.status for one in answers] == ["scheduled", *["replaced"] * 4, "scheduled"]
    pass_time(service, 1_000)
    assert sorted(one.payload.data for one in take(service, most=9)) == [b"4", b"x"]


def test_a_repeated_call_does_not_run_again(service: Service) -> None:
    """Its answer was lost, and the job with its content was taken in between."""
    put(service, call(b"1"))
    again = call(b"2", id=make_id(1, 0, 7))
    put(service, again)
    assert put(service, again)[0].status in ("replaced", "ended")
    pass_time(service, 1_000)
    assert len(take(service)) == 1
    assert put(service, again)[0].status == "ended"
    assert counts(service) == {"running": 1}
    first = call(b"3", id=make_id(1, 0, 8), unique="other")
    assert [put(service, first)[0].status for _ in range(2)] == ["scheduled", "existing"]


def test_another_queue_has_keys_of_its_own(service: Service) -> None:
    answers = put(service, call(), call(queue="r"))
    assert [one.status for one in answers] == ["scheduled", "scheduled"]


def test_a_debounced_job_may_repeat(service: Service) -> None:
    (answer,) = put(service, call(repeat="FINISHED, +1 HOUR"))
    pass_time(service, 1_000)
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    assert read(service, answer.id).state is State.SCHEDULED


# Throttle


def test_the_first_call_of_a_period_wins(service: Service) -> None:
    (first,) = put(service, throttled(b"1"))
    assert first.status == "queued"
    pass_time(service, 900)
    (second,) = put(service, throttled(b"2"))
    assert (second.status, second.id) == ("existing", first.id)
    pass_time(service, 100)
    (third,) = put(service, throttled(b"3"))
    assert (third.status, third.id != first.id) == ("queued", True)
    assert [one.payload for one in take(service, most=5)] == [Blob(b"1"), Blob(b"3")]


def test_it_wins_also_after_it_has_ended(service: Service) -> None:
    (first,) = put(service, throttled(b"1"))
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    assert counts(service) == {}
    (second,) = put(service, throttled(b"2"))
    assert (second.status, second.id, second.revision) == ("existing", first.id, 0)
    pass_time(service, 1_000)
    assert put(service, throttled(b"3"))[0].status == "queued"


def test_the_period_of_the_first_counts_and_its_key_goes_by_itself(service: Service) -> None:
    put(service, throttled(throttle_ms=60_000))
    put(service, throttled(throttle_ms=1))
    key = f"{service.store.root(0)}:throttle:q\0u"
    assert 0 < send_command(service.store, "PTTL", key) <= 60_000


def test_a_repeated_throttled_enqueue_is_harmless(service: Service) -> None:
    job = throttled(id=make_id(1, 0, 7))
    assert [put(service, job)[0].status for _ in range(3)] == ["queued", "existing", "existing"]
    assert counts(service) == {"queued": 1}


def test_a_full_queue_starts_no_period(service: Service) -> None:
    service.configure("q", {"max_length": 1}).wait()
    put(service, new())
    assert isinstance(service.enqueue([throttled()]).wait()[0], QueueFull)
    take(service)
    assert put(service, throttled())[0].status == "queued"


@pytest.mark.parametrize(
    "fields",
    [
        {"debounce_ms": 1},
        {"throttle_ms": 1},
        {"debounce_ms": 1, "throttle_ms": 1, "unique": "u"},
        {"debounce_ms": -1, "unique": "u"},
        {"debounce_ms": 1.5, "unique": "u"},
        {"throttle_ms": 2**60, "unique": "u"},
        {"debounce_ms": 5, "debounce_max_ms": 4, "unique": "u"},
        {"debounce_max_ms": 4, "unique": "u"},
        {"debounce_ms": 5, "delay_ms": 4, "unique": "u"},
        {"debounce_ms": 5, "run_at_ms": 4, "unique": "u"},
        {"debounce_ms": 5, "unique": "u", "unique_check": "replace"},
        {"throttle_ms": 5, "unique": "u", "unique_check": "none"},
    ],
)
def test_what_is_refused(service: Service, fields: dict[str, Any]) -> None:
    put(service, new())
    before = dump_keys(service.store)
    with pytest.raises(BadInput, match=r"debounce|throttle"):
        service.enqueue([new(**fields)])
    assert dump_keys(service.store) == before


# Against a model: what runs, and with which content

_namespaces = itertools.count(1)


@pytest.fixture
def frozen() -> Iterator[EngineProcess]:
    with EngineProcess("valkey", config=("--save", "", "--appendonly", "no")) as process, frozen_time():
        yield process


class Model:
    """One key. `jobs` are those that have not ended: [content, run_at, created, was taken, is leased]."""

    def __init__(self) -> None:
        self.now = START_MS
        self.jobs: list[list[Any]] = []
        self.throttled_until = 0

    def debounce(self, content: int, most_ms: int) -> str:
        last = self.jobs[-1] if self.jobs else None
        if last is None or last[3]:
            self.jobs.append([content, self.now + 1_000, self.now, False, False])
            return "scheduled"
        run_at = self.now + 1_000
        last[:2] = content, min(run_at, last[2] + most_ms) if most_ms else run_at
        return "replaced"

    def throttle(self, content: int) -> str:
        if self.throttled_until > self.now:
            return "existing"
        self.throttled_until = self.now + 3_000
        self.jobs.append([content, self.now, self.now, False, False])
        return "queued"

    def take(self) -> list[Any]:
        due = [job for job in self.jobs if job[1] <= self.now and not job[4]]
        taken = min(due, key=lambda job: (job[1], self.jobs.index(job)), default=None)
        if taken is None:
            return []
        taken[3:] = True, True
        return [taken[0]]


steps = st.lists(
    st.sampled_from(("call", "call", "call", "take", "take", "finish", "retry", 400, 700, 1_000, 3_000)),
    max_size=30,
)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(kind=st.sampled_from(("debounce", "throttle")), most_ms=st.sampled_from((0, 1_500)), does=steps)
def test_calls_and_runs_are_the_models(frozen: EngineProcess, kind: str, most_ms: int, does: list[Any]) -> None:
    store = frozen_store(frozen, f"pace{next(_namespaces)}")
    link = SyncReconnectingConnection(parse_url(frozen.unix_url))
    service, model, held = Service(store), Model(), list[Any]()
    link.call("FLUSHDB")
    for number, step in enumerate(does):
        if isinstance(step, int):
            model.now += step
            store.clock_offset_ms = model.now - START_MS
        elif step == "call":
            pace = {"debounce_ms": 1_000, "debounce_max_ms": most_ms} if kind == "debounce" else {"throttle_ms": 3_000}
            job = new(unique="u", payload=Blob(b"%d" % number), **pace)
            expected = model.debounce(number, most_ms) if kind == "debounce" else model.throttle(number)
            (answer,) = service.enqueue([job]).wait()
            assert isinstance(answer, Enqueued)
            assert answer.status == expected
        elif step == "take":
            taken = take(service, lease_ms=2**48 - 1)
            assert [int(job.payload.data) for job in taken] == model.take()
            held += taken
        elif held:
            lease = held.pop(0)
            mine = next(job for job in model.jobs if job[0] == int(lease.payload.data))
            if step == "finish":
                service.finish([Finish(lease.id, lease.lease_token)]).one().wait()
                model.jobs.remove(mine)
            else:
                service.fail([Fail(id=lease.id, token=lease.lease_token, then="retry")]).one().wait()
                mine[1], mine[4] = model.now, False
        invariants.check(invariants.snapshot(link, store.root(0), model.now))
    store.close_sync()
    link.close()
