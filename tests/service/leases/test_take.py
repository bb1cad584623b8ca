"""take: choice of jobs and queues, leases, and no job twice."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import sqlite3
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.service.helpers import counts, new, put, read, take
from tests.support.engine_process import EngineProcess
from windlass.core.errors import BadInput, NamesNeedLanes, StaleLease, TooLarge
from windlass.core.job import Blob, Job
from windlass.core.operations import Fail, Filter, Finish, LeaseRef, Take
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.reconnect import SyncReconnectingConnection
from windlass.store.scripts import join_modules

HOUR_MS = 3_600_000
WORKER = bytes(range(16))


def now_of(service: Service) -> int:
    return service.promote().wait().now_ms


def names(jobs: list[Job]) -> list[str]:
    return [job.name for job in jobs]


# From where


def test_nothing_is_there(service: Service) -> None:
    taken = service.take(Take(queues=("q",))).wait()
    assert (taken.jobs, taken.next_due_at_ms) == ([], None)


def test_a_taken_job_is_running_with_a_lease(service: Service) -> None:
    (answer,) = put(service, new())
    before_ms = now_of(service)
    (job,) = take(service, worker=WORKER)
    assert (job.id, job.state, job.attempt, job.worker) == (answer.id, State.RUNNING, 1, WORKER)
    assert job.lease_token > 0
    assert job.started_at_ms is not None
    assert before_ms <= job.started_at_ms <= before_ms + 5_000
    assert job.lease_deadline_at_ms == job.started_at_ms + 30_000
    assert read(service, job.id) == job
    assert counts(service) == {"running": 1}


def test_queues_are_emptied_in_the_order_given(service: Service) -> None:
    put(service, new("b", "b1", priority=-9), new("a", "a1"), new("c", "c1"), new("a", "a2"))
    request = Take(queues=("a", "b", "c"), most=3)
    assert names(service.take(request).wait().jobs) == ["a1", "a2", "b1"]
    assert names(service.take(request).wait().jobs) == ["c1"]


def test_most_is_a_bound(service: Service) -> None:
    put(service, *(new() for _ in range(5)))
    assert [len(take(service, most=3)) for _ in range(3)] == [3, 2, 0]


def test_by_weight_a_heavier_queue_comes_first_more_often(service: Service) -> None:
    put(service, *(new(queue) for queue in ("light", "heavy") for _ in range(300)))
    request = Take(queues=("light", "heavy"), weights=(1, 9))
    firsts = collections.Counter(service.take(request).wait().jobs[0].queue for _ in range(300))
    assert 225 <= firsts["heavy"] < 300  # 270 expected, ±5.2: the bounds are 8 standard deviations away
    assert firsts["light"] > 0


def test_by_weight_an_empty_queue_costs_nothing(service: Service) -> None:
    put(service, new("light"))
    assert len(service.take(Take(queues=("light", "heavy"), weights=(1, 1_000_000))).wait().jobs) == 1


@pytest.mark.parametrize(
    "bad",
    [
        {"queues": ()},
        {"queues": ["q"]},
        {"queues": ("q", "q")},
        {"queues": tuple(map(str, range(101)))},
        {"most": 0},
        {"most": 1001},
        {"weights": (1, 2)},
        {"weights": (0,)},
        {"worker": b"short"},
        {"lease_ms": -1},
        {"wait_ms": 1.5},
        {"wants": Filter(only=("a",), glob="b")},
        {"wants": Filter(only=tuple(map(str, range(101))))},
        {"wants": Filter(glob="*" * 17)},
        {"wants": Filter(priority=2**31)},
    ],
)
def test_bad_input_takes_nothing(service: Service, bad: dict[str, Any]) -> None:
    put(service, new())
    with pytest.raises((BadInput, TooLarge)):
        service.take(Take(**({"queues": ("q",)} | bad)))
    assert counts(service) == {"queued": 1}


# By name and priority


@pytest.fixture
def by_name(service: Service) -> Service:
    service.configure("q", {"name_lanes": True}).wait()
    return service


@pytest.mark.parametrize(
    ("wants", "expected"),
    [
        (Filter(), ["mail", "mail", "mall", "pdf", "ü"]),
        (Filter(only=("mail", "absent")), ["mail", "mail"]),
        (Filter(only=("pdf", "mail")), ["mail", "mail", "pdf"]),
        (Filter(all_but=("mail", "pdf")), ["mall", "ü"]),
        (Filter(glob="ma*l"), ["mail", "mail", "mall"]),
        (Filter(glob="*"), ["mail", "mail", "mall", "pdf", "ü"]),
        (Filter(glob="?"), ["ü"]),
        (Filter(glob="[^m]*"), ["pdf", "ü"]),
        (Filter(glob="MA*"), []),
        (Filter(only=("mail",), priority=5), ["mail"]),
        (Filter(glob="m*", priority=5), ["mail", "mall"]),
        (Filter(all_but=("mail",), priority=5), ["mall"]),
        (Filter(priority=5), ["mail", "mall"]),
        (Filter(priority=6), []),
    ],
)
def test_filters_on_a_queue_that_is_divided_by_name(by_name: Service, wants: Filter, expected: list[str]) -> None:
    put(by_name, new(name="mail"), new(name="mail", priority=5), new(name="mall", priority=5))
    put(by_name, new(name="pdf", priority=7), new(name="ü", priority=8))
    assert names(take(by_name, most=10, wants=wants)) == expected


@pytest.mark.parametrize("wants", [Filter(only=("a",)), Filter(all_but=("a",)), Filter(glob="a")])
def test_names_need_lanes(service: Service, wants: Filter) -> None:
    put(service, new(name="a"))
    with pytest.raises(NamesNeedLanes):
        take(service, wants=wants)
    assert counts(service) == {"queued": 1}


def test_an_exact_priority_needs_no_division(service: Service) -> None:
    put(service, new(name="a", priority=1), new(name="b", priority=2, lane="l"), new(name="c", priority=2))
    assert names(take(service, most=5, wants=Filter(priority=2))) == ["b", "c"]


def test_jobs_that_waited_before_the_division_are_found_by_name(service: Service) -> None:
    put(service, *(new(name=f"n{at % 3}", lane="l" * (at % 2)) for at in range(600)))
    put(service, new(name="n1", delay_ms=1000))
    service.configure("q", {"name_lanes": True}).wait()
    service.store.clock_offset_ms += 2000
    assert len(take(service, most=1000, wants=Filter(only=("n1",)))) == 201


def test_an_order_of_many_lanes_is_one_order(service: Service) -> None:
    """Lanes with different lengths, priorities and times, taken in steps of different sizes."""
    base_ms = now_of(service) - 100_000
    jobs = [
        new(lane=f"l{at * 7 % 43}", priority=at * 13 % 4, run_at_ms=base_ms + at * 31 % 101, name=str(at))
        for at in range(400)
    ]
    put(service, *jobs)
    expected = sorted(range(400), key=lambda at: (jobs[at].priority, jobs[at].run_at_ms, at))
    taken: list[str] = []
    for most in (1, 2, 3, 50, 7, 300, 100):
        taken += names(take(service, most=most))
    assert taken == [str(at) for at in expected]


def test_a_name_in_more_lanes_than_one_look_at_the_index_reads(by_name: Service) -> None:
    ids = [one.id for one in put(by_name, *(new(name="n", lane=f"l{at}") for at in range(250)))]
    put(by_name, new(name="other", priority=-1))
    assert [job.id for job in take(by_name, most=300, wants=Filter(only=("absent", "n")))] == ids


def test_a_pattern_that_only_the_last_of_thousands_of_lanes_matches(by_name: Service) -> None:
    put(by_name, *(new(name=f"n{at}") for at in range(6000)))
    put(by_name, new(name="last"))
    assert names(take(by_name, wants=Filter(glob="*ast"))) == ["last"]
    assert names(take(by_name, wants=Filter(glob="n59*9"))) == ["n599"]
    assert take(by_name, wants=Filter(glob="*z")) == []


# GLOB, with SQLite's as the judge

PATTERN_CHARS = st.sampled_from("ab-^]*?[ü名🧵z")
NAME_CHARS = st.sampled_from("ab-^]*?[ü名🧵m")


@pytest.fixture(scope="module")
def lua_glob(engine: EngineProcess) -> Any:
    link = SyncReconnectingConnection(parse_url(engine.unix_url))
    script = join_modules(["glob"]) + "\nreturn modules['glob'].match(ARGV[1], ARGV[2]) and 1 or 0"
    yield lambda pattern, text: link.call("EVAL", script, 0, pattern, text) == 1
    link.close()


@settings(max_examples=700, deadline=None)
@given(pattern=st.text(PATTERN_CHARS, max_size=9), text=st.text(NAME_CHARS, max_size=7))
def test_glob_agrees_with_sqlite(lua_glob: Any, pattern: str, text: str) -> None:
    _check_glob(lua_glob, pattern, text)


@settings(max_examples=300, deadline=None)
@given(
    low=st.characters(min_codepoint=33, max_codepoint=0x1FFFF, exclude_categories=("Cs",)),
    high=st.characters(min_codepoint=33, max_codepoint=0x1FFFF, exclude_categories=("Cs",)),
    char=st.characters(min_codepoint=33, max_codepoint=0x1FFFF, exclude_categories=("Cs",)),
    form=st.sampled_from(["[{}-{}]", "*[{}-{}]", "[^{}-{}]", "[x{}-{}-]*", "[]{}-{}]?"]),
)
def test_glob_ranges_agree_with_sqlite(lua_glob: Any, low: str, high: str, char: str, form: str) -> None:
    # SQLite reads the two non-characters at the end of each plane as U+FFFD.
    if all(ord(one) & 0xFFFE != 0xFFFE for one in low + high + char):
        _check_glob(lua_glob, form.format(low, high), char)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("[a", "a"), ("[", "["), ("[]", "]"), ("[]]", "]"), ("[^]]", "]"), ("[^", "^"), ("[a-]", "-"), ("[-a]", "-")],
)
def test_glob_brackets_agree_with_sqlite(lua_glob: Any, pattern: str, text: str) -> None:
    _check_glob(lua_glob, pattern, text)


def _check_glob(lua_glob: Any, pattern: str, text: str) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as judge:
        ((expected,),) = judge.execute("SELECT ? GLOB ?", (text, pattern))
    assert lua_glob(pattern, text) == bool(expected)


# Under what lease


@pytest.mark.parametrize(
    ("asked_ms", "own_ms", "queue_ms", "expected_ms"),
    [
        (0, 0, None, 30_000),
        (0, 0, 7_000, 7_000),
        (0, 9_000, 7_000, 9_000),
        (5_000, 9_000, 7_000, 5_000),
        (FOREVER_MS, 9_000, None, None),
        (0, FOREVER_MS, 7_000, None),
        (0, 0, FOREVER_MS, None),
        (2**43, 0, None, 2**43),
    ],
)
def test_the_lease_is_the_takers_or_the_jobs_or_the_queues(
    service: Service, asked_ms: int, own_ms: int, queue_ms: int | None, expected_ms: int | None
) -> None:
    service.configure("q", {"lease_ms": queue_ms}).wait()
    put(service, new(lease_ms=own_ms))
    (job,) = take(service, lease_ms=asked_ms)
    deadline_ms, started_ms = job.lease_deadline_at_ms, job.started_at_ms
    assert started_ms is not None
    assert (None if deadline_ms is None else deadline_ms - started_ms) == expected_ms


@pytest.mark.parametrize(
    ("own_ms", "queue_ms", "expected_ms"),
    [
        (0, None, 5_000),
        (0, 7_000, 5_000),
        (0, FOREVER_MS, 5_000),
        (FOREVER_MS, 7_000, 5_000),
        (9_000, 7_000, 9_000),
        (1, FOREVER_MS, 1),
    ],
)
@pytest.mark.parametrize("has_tag", [False, True], ids=["fast path", "general path"])
def test_a_fallback_is_for_jobs_without_an_own_lease_that_ends(
    service: Service, own_ms: int, queue_ms: int | None, expected_ms: int, *, has_tag: bool
) -> None:
    service.configure("q", {"lease_ms": queue_ms}).wait()
    put(service, new(lease_ms=own_ms, tags=("t",) if has_tag else ()))
    (job,) = take(service, fallback_lease_ms=5_000)
    assert job.started_at_ms is not None
    assert job.lease_deadline_at_ms == job.started_at_ms + expected_ms


def test_a_lease_without_a_deadline_never_runs_out(service: Service) -> None:
    put(service, new(lease_ms=FOREVER_MS))
    (job,) = take(service)
    service.store.clock_offset_ms += 1000 * 24 * HOUR_MS
    assert take(service) == []
    service.recover().wait()
    assert service.finish([Finish(job.id, job.lease_token)]).one().wait() is None


def test_tokens_only_grow(service: Service) -> None:
    put(service, *(new() for _ in range(4)))
    jobs = take(service, most=2) + take(service, most=2)
    service.release([LeaseRef(job.id, job.lease_token) for job in jobs]).wait()
    tokens = [job.lease_token for job in jobs + take(service, most=4)]
    assert tokens == sorted(set(tokens))


def test_a_dispatched_job_waits_for_its_acceptance_and_then_goes_back_unspent(service: Service) -> None:
    (answer,) = put(service, new(retry=Backoff(tries=1)))
    (job,) = take(service, accept_ms=2_000)
    assert (job.state, job.attempt) == (State.DISPATCHED, 1)
    assert job.started_at_ms is not None
    assert job.lease_deadline_at_ms == job.started_at_ms + 2_000
    service.store.clock_offset_ms += 2_100
    (again,) = take(service)
    assert (again.id, again.state, again.attempt) == (answer.id, State.RUNNING, 1)
    assert service.job([answer.id]).one().wait().attempts == []
    with pytest.raises(StaleLease):
        service.accept([LeaseRef(job.id, job.lease_token)]).one().wait()


# Time passes, and no loop runs


def test_due_scheduled_jobs_are_taken_in_order(service: Service) -> None:
    put(service, *(new(name=str(at), delay_ms=1000 + at) for at in reversed(range(300))))
    service.store.clock_offset_ms += 2000
    taken: list[str] = []
    while jobs := take(service, most=100):
        taken += names(jobs)
    assert taken == [str(at) for at in range(300)]


def test_next_due_is_the_next_scheduled_job_or_deadline(service: Service) -> None:
    put(service, new(delay_ms=2 * HOUR_MS))
    first = service.take(Take(queues=("q",))).wait().next_due_at_ms
    assert first is not None
    put(service, new("q2", delay_ms=HOUR_MS))
    second = service.take(Take(queues=("q", "q2"))).wait().next_due_at_ms
    assert second is not None
    assert HOUR_MS - 5_000 < first - second < HOUR_MS + 5_000
    put(service, new())
    (job,) = take(service)
    assert service.take(Take(queues=("q",))).wait().next_due_at_ms == job.lease_deadline_at_ms


def test_an_overdue_lease_is_returned_by_take_itself_to_its_place(service: Service) -> None:
    first, second = put(service, new(), new())
    (job,) = take(service)
    service.store.clock_offset_ms += 30_001
    one, two = take(service, most=2)
    assert [one.id, two.id] == [first.id, second.id]
    assert (one.attempt, two.attempt) == (2, 1)
    assert one.lease_token > job.lease_token
    (attempt,) = service.job([first.id]).one().wait().attempts
    assert (attempt.attempt, attempt.reason) == (1, "lease_expired")


def test_an_overdue_lease_with_no_attempt_left_fails(service: Service) -> None:
    (answer,) = put(service, new(retry=Backoff(tries=2)))
    for _ in range(2):
        assert len(take(service)) == 1
        service.store.clock_offset_ms += 30_001
    assert take(service) == []
    timeline = service.job([answer.id]).one().wait()
    assert timeline.job.state is State.FAILED
    assert [one.reason for one in timeline.attempts] == ["lease_expired", "lease_expired"]


def test_an_overdue_lease_after_a_cancel_is_cancelled(service: Service) -> None:
    (answer,) = put(service, new())
    take(service)
    service.cancel([answer.id]).one().wait()
    service.store.clock_offset_ms += 30_001
    assert take(service) == []
    assert counts(service) == {"cancelled": 1}


@pytest.mark.parametrize("lane", ["", "l"])
def test_expired_heads_are_failed_and_skipped_however_many(service: Service, lane: str) -> None:
    put(service, *(new(expires_in_ms=1000, lane=lane) for _ in range(500)))
    (good,) = put(service, new(lane=lane))
    service.store.clock_offset_ms += 2000
    assert [job.id for job in take(service)] == [good.id]
    assert take(service) == []
    assert counts(service) == {"running": 1, "failed": 500}


def test_a_big_answer_is_cut_and_the_rest_stays(service: Service) -> None:
    put(service, *(new(payload=Blob(b"x" * 1024 * 1024)) for _ in range(24)))
    taken = [len(take(service, most=1000)) for _ in range(3)]
    assert sum(taken) == 24
    assert 8 <= taken[0] < 24


# Jobs whose old holder may still report


def test_an_overdue_redeliverable_job_can_be_finished_by_its_holder_until_it_is_taken(service: Service) -> None:
    put(service, new(retake=True))
    (job,) = take(service)
    service.store.clock_offset_ms += 30_001
    service.recover().wait()
    stored = read(service, job.id)
    assert (stored.state, stored.is_overdue) == (State.RUNNING, True)
    assert service.finish([Finish(job.id, job.lease_token)]).one().wait() is None
    assert take(service) == []
    assert counts(service) == {}


def test_an_overdue_redeliverable_job_belongs_to_the_next_taker(service: Service) -> None:
    put(service, new(retake=True))
    (job,) = take(service)
    service.store.clock_offset_ms += 30_001
    (again,) = take(service, most=2)
    assert (again.id, again.attempt, again.is_overdue) == (job.id, 2, False)
    with pytest.raises(StaleLease):
        service.finish([Finish(job.id, job.lease_token)]).one().wait()
    assert counts(service) == {"running": 1}
    assert service.finish([Finish(again.id, again.lease_token)]).one().wait() is None


def test_an_overdue_redeliverable_job_is_ordered_by_its_deadline(service: Service) -> None:
    put(service, new(name="old", retake=True))
    take(service)
    service.store.clock_offset_ms += 20_000
    put(service, new(name="before"))
    service.store.clock_offset_ms += 20_000
    put(service, new(name="after"))
    assert names(take(service, most=3)) == ["before", "old", "after"]


def test_a_heartbeat_takes_an_overdue_redeliverable_job_back(service: Service) -> None:
    put(service, new(retake=True))
    (job,) = take(service)
    service.store.clock_offset_ms += 30_001
    service.recover().wait()
    service.extend([LeaseRef(job.id, job.lease_token)]).one().wait()
    assert take(service) == []
    assert not read(service, job.id).is_overdue


def test_a_redeliverable_job_fails_when_a_taker_finds_its_attempts_used_up(service: Service) -> None:
    (answer,) = put(service, new(retake=True, retry=Backoff(tries=2)))
    for _ in range(2):
        assert len(take(service)) == 1
        service.store.clock_offset_ms += 30_001
    service.recover().wait()
    assert counts(service)["running"] == 1  # only take decides that the deliveries are used up
    assert take(service) == []
    assert read(service, answer.id).state is State.FAILED
    assert counts(service) == {"failed": 1}


# Never the same one twice


@pytest.mark.anyio
async def test_concurrent_takers_never_get_the_same_job(service: Service) -> None:
    async with service.store:
        put(service, *(new(lane=f"l{at % 5}" if at % 2 else "") for at in range(400)))
        answers = await asyncio.gather(*(service.take(Take(queues=("q",), most=1 + at % 4)) for at in range(160)))
        taken = [job for answer in answers for job in answer.jobs]
        assert len({job.id for job in taken}) == len(taken) == 400
        assert len({job.lease_token for job in taken}) == 400


def test_threads_never_get_the_same_job(service: Service) -> None:
    put(service, *(new() for _ in range(300)))
    taken: list[bytes] = []

    def work() -> None:
        while jobs := take(service, most=3):
            taken.extend(job.id for job in jobs)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(taken)) == len(taken) == 300


def test_a_retried_job_is_taken_at_its_time_and_not_before(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry", delay_ms=5_000)]).one().wait()
    assert take(service) == []
    service.store.clock_offset_ms += 5_000
    assert take(service)[0].attempt == 2
