"""follow and events: every move of a job has one event, in order, for all followers; nothing is written without
followers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.service.helpers import another, new, put, take
from tests.service.machines import invariants
from tests.support.engine_process import EngineProcess
from tests.support.namespace import list_keys, send_command
from windlass.core.errors import BadInput
from windlass.core.event import Emit, Event, EventKind
from windlass.core.job import Blob, NewJob
from windlass.core.log import Log, LogLine
from windlass.core.operations import Edit, Fail, Finish, LeaseRef, Take, Update, WorkerInfo
from windlass.core.retry import Backoff
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

KEPT = 10_000
WORKER = bytes(range(16))


@pytest.fixture
def position(service: Service) -> str:
    """Start to follow from here on."""
    return service.events().wait().position


def since(service: Service, position: str, **which: Any) -> list[Event]:
    return service.events(position, most=500, **which).wait().events


def kinds(events: list[Event]) -> list[str]:
    return [event.kind.label for event in events]


def assert_consistent(store: Store) -> None:
    root = store.root(0)
    invariants.check_events(invariants.snapshot(store._sync_connection, root, 0, among=f"{root}*"))


def test_nothing_is_written_without_followers(service: Service, store: Store) -> None:
    put(service, new(), new(delay_ms=1_000), new(name="c"))
    (job, other) = take(service, most=2)
    service.update([Update(id=job.id, token=job.lease_token, progress=0.5)]).one().wait()
    service.emit([Emit(job.id, job.lease_token, Blob(b"1"))]).one().wait()
    service.log([Log(job.id, job.lease_token, [LogLine(1, "info", "x")])]).one().wait()
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    service.delete([other.id], even_leased=True).one().wait()
    assert not {b"events", b"followed"} & set(list_keys(store))


def test_log_lines_have_one_event_per_request(service: Service, position: str) -> None:
    put(service, new())
    (job,) = take(service)
    lines = [LogLine(1, "info", text) for text in ("one", "two")]
    service.log([Log(job.id, job.lease_token, lines)]).one().wait()
    service.log([Log(job.id, job.lease_token + 1, lines)]).wait()  # refused
    *_, event = since(service, position)
    assert kinds(since(service, position)) == ["queued", "running", "logged"]
    assert (event.job, event.queue, event.attempt, event.value) == (job.id, job.queue, 1, None)


def test_progress_tells_the_note_that_holds(service: Service, position: str) -> None:
    put(service, new())
    (job,) = take(service)
    for changes in ({"note": "one"}, {"progress": 0.5}, {"payload": Blob(b"2")}, {"note": ""}):
        service.update([Update(id=job.id, token=job.lease_token, **changes)]).one().wait()  # type: ignore[arg-type]
    told = [event for event in since(service, position) if event.kind is EventKind.PROGRESS]
    assert [(event.progress, event.note) for event in told] == [(0, "one"), (0.5, "one"), (0.5, "")]


def test_a_whole_life_in_order(service: Service, store: Store, position: str) -> None:
    (answer,) = put(service, new("q", "report", delay_ms=1_000))
    service.store.clock_offset_ms += 2_000
    (job,) = take(service, accept_ms=5_000)
    service.accept([LeaseRef(job.id, job.lease_token)]).one().wait()
    service.update([Update(id=job.id, token=job.lease_token, progress=0.25, note="a quarter ✓")]).one().wait()
    service.emit([Emit(job.id, job.lease_token, Blob(b"[1]"))]).one().wait()
    service.fail([Fail(id=job.id, token=job.lease_token, then="retry", delay_ms=1_000)]).one().wait()
    service.store.clock_offset_ms += 2_000
    service.promote().wait()
    (job,) = take(service)
    service.fail([Fail(id=job.id, token=job.lease_token)]).one().wait()
    service.retry([job.id]).one().wait()
    service.cancel([job.id]).one().wait()
    service.delete([job.id]).one().wait()
    events = since(service, position)
    assert kinds(events) == [
        "scheduled", "queued", "dispatched", "running", "progress", "emitted",
        "scheduled", "queued", "running", "failed", "queued", "cancelled", "deleted",
    ]  # fmt: skip
    assert {(event.job, event.queue, event.name) for event in events} == {(answer.id, "q", "report")}
    assert [event.attempt for event in events] == [0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 0, 0, 0]
    assert (events[4].progress, events[4].note, events[4].value) == (0.25, "a quarter ✓", None)
    assert events[5].value == Blob(b"[1]")
    instants = [event.at_ms for event in events]
    assert instants == sorted(instants)
    assert instants[6] - instants[0] >= 2_000
    assert_consistent(store)


def _finished(service: Service, **terms: Any) -> None:
    put(service, new(**terms))
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()


def _cancelled_while_running(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    service.cancel([job.id]).one().wait()
    service.fail([Fail(id=job.id, token=job.lease_token, then="cancelled")]).one().wait()


def _lease_lost(service: Service, **terms: Any) -> None:
    put(service, new(lease_ms=1_000, **terms))
    take(service)
    service.store.clock_offset_ms += 2_000
    service.recover().wait()


def _worker_left(service: Service) -> None:
    service.register(WORKER, WorkerInfo()).wait()
    put(service, new())
    take(service, worker=WORKER)
    service.forget(WORKER).wait()


def _retaken(service: Service) -> None:
    put(service, new(retake=True, lease_ms=1_000))
    take(service)
    service.store.clock_offset_ms += 2_000
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()


def _expired(service: Service) -> None:
    put(service, new(expires_in_ms=1_000))
    service.store.clock_offset_ms += 2_000
    assert take(service) == []


def _timed_out(service: Service) -> None:
    put(service, new(timeout_ms=1_000, retry=Backoff(tries=1)))
    take(service)
    service.store.clock_offset_ms += 2_000
    service.recover().wait()


def _exchanged(service: Service) -> None:
    put(service, new())
    (job,) = take(service)
    retried = Fail(id=job.id, token=job.lease_token, then="retry")
    service.finish_and_take([], [retried], Take(queues=("q",))).wait()


def _promoted_by_a_taker(service: Service) -> None:
    put(service, new(delay_ms=1_000))
    service.store.clock_offset_ms += 2_000
    take(service)


def _edited(service: Service) -> None:
    (job,) = put(service, new())
    service.edit([Edit(id=job.id, priority=5)]).one().wait()
    service.edit([Edit(id=job.id, run_at_ms=2**46)]).one().wait()
    service.requeue([job.id]).one().wait()
    service.requeue([job.id]).one().wait()


def _replaced(service: Service) -> None:
    put(service, new(unique="u"))
    put(service, new(unique="u", unique_check="replace", payload=Blob(b"2")))
    put(service, new(unique="u"))


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        (_finished, "queued running finished"),
        (lambda service: _finished(service, result_ttl_ms=60_000), "queued running finished"),
        (_cancelled_while_running, "queued running cancelled"),
        (_lease_lost, "queued running queued"),
        (lambda service: _lease_lost(service, retry=Backoff(tries=1)), "queued running failed"),
        (_worker_left, "queued running queued"),
        (_retaken, "queued running running finished"),
        (_expired, "queued failed"),
        (_timed_out, "queued running failed"),
        (_exchanged, "queued running queued running"),
        (_promoted_by_a_taker, "scheduled queued running"),
        (_edited, "queued scheduled queued"),
        (_replaced, "queued"),
    ],
)
@pytest.mark.parametrize("history", [0, 5])
def test_each_move_has_one_event(service: Service, happens: Callable[[Service], None], told: str, history: int) -> None:
    service.configure("q", {"history_length": history}).wait()
    position = service.events().wait().position
    happens(service)
    assert kinds(since(service, position)) == told.split()


def test_refusals_tell_nothing(service: Service, position: str) -> None:
    put(service, new())
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token + 1)]).wait()
    service.update([Update(id=job.id, token=job.lease_token + 1, progress=0.5)]).wait()
    service.delete([job.id]).wait()
    service.retry([job.id]).wait()
    assert kinds(since(service, position)) == ["queued", "running"]


def test_batches_have_one_event_per_job(service: Service, store: Store, position: str) -> None:
    answers = put(service, *(new(payload=Blob(b"%d" % number)) for number in range(150)))
    jobs = take(service, most=150)
    service.finish([Finish(job.id, job.lease_token) for job in jobs]).wait()
    events = since(service, position)
    assert kinds(events) == ["queued"] * 150 + ["running"] * 150 + ["finished"] * 150
    assert [event.job for event in events] == [answer.id for answer in answers] * 3
    assert_consistent(store)


def test_pages_go_on_where_they_ended(service: Service, position: str) -> None:
    put(service, *(new() for _ in range(25)))
    seen: list[Event] = []
    for expected in (10, 10, 5, 0):
        page = service.events(position, most=10).wait()
        assert len(page.events) == expected
        seen += page.events
        position = page.position
    assert len({event.job for event in seen}) == 25
    again = service.events(seen[6].position, most=3).wait()
    assert [event.job for event in again.events] == [event.job for event in seen[7:10]]


def test_one_queue_and_one_job(service: Service, position: str) -> None:
    first, second, _ = put(service, new(), new("r"), new())
    assert [event.job for event in since(service, position, queue="r")] == [second.id]
    assert [event.job for event in since(service, position, job=first.id)] == [first.id]
    assert since(service, position, queue="nobody") == []


def test_what_was_trimmed_away_is_counted(service: Service, store: Store, position: str) -> None:
    for _ in range(0, KEPT + 2_000, 1_000):
        put(service, *(new() for _ in range(1_000)))
    length = send_command(store, "XLEN", f"{store.root(0)}:events")
    assert KEPT <= length <= KEPT + 200
    first, second = service.events(position, most=1).wait().events
    assert (first.kind, first.missed) == (EventKind.MISSED, KEPT + 2_000 - length)
    assert second.kind is EventKind.QUEUED
    assert service.events(first.position, most=1).wait().events == [second]
    assert_consistent(store)


def test_large_values_leave_room_for_fewer(service: Service, store: Store, position: str) -> None:
    put(service, new())
    (job,) = take(service)
    value = Blob(b"x" * 16 * 1024)
    for _ in range(3):
        service.emit([Emit(job.id, job.lease_token, value)] * 1_000).wait()
    assert send_command(store, "XLEN", f"{store.root(0)}:events") <= 1_024
    assert send_command(store, "MEMORY", "USAGE", f"{store.root(0)}:events") < 32 * 1024 * 1024
    first = service.events(position, most=1).wait().events[0]
    assert first.kind is EventKind.MISSED
    assert first.missed is not None
    assert first.missed >= 1_900


@pytest.mark.parametrize("loses_stream", [False, True])
def test_a_time_without_followers_is_reported(service: Service, store: Store, loses_stream: bool) -> None:
    position = service.events().wait().position
    put(service, new(name="seen"))
    send_command(store, "DEL", f"{store.root(0)}:followed", *[f"{store.root(0)}:events"] * loses_stream)
    store.clock_offset_ms += 1_000
    put(service, new(name="unseen"))
    page = service.events(position).wait()
    if not loses_stream:
        assert [event.name for event in page.events] == ["seen"]
        page = service.events(page.position).wait()
    assert [(event.kind, event.missed) for event in page.events] == [(EventKind.MISSED, None)]
    put(service, new(name="later"))
    assert [event.name for event in since(service, page.position)] == ["later"]
    assert_consistent(store)


def test_a_lapse_shows_between_two_events(service: Service, store: Store, position: str) -> None:
    put(service, new(name="seen"))
    send_command(store, "DEL", f"{store.root(0)}:followed")
    put(service, new(name="unseen"))
    service.events().wait()
    put(service, new(name="later"))
    assert [(event.name, event.kind.label) for event in since(service, position)] == [
        ("seen", "queued"), ("", "missed"), ("later", "queued"),
    ]  # fmt: skip
    assert_consistent(store)


def test_an_engine_that_has_lost_the_last_events(service: Service, store: Store, position: str) -> None:
    put(service, new(), new())
    page = service.events(position).wait()
    send_command(store, "DEL", f"{store.root(0)}:events")  # as after a failover to a replica that was behind
    put(service, new(name="after"))
    (missed,) = service.events(page.position).wait().events
    assert (missed.kind, missed.missed) == (EventKind.MISSED, None)


def test_all_keys_expire_when_the_last_follower_has_left(service: Service, store: Store, position: str) -> None:
    put(service, new())
    followed_ms, events_ms = (send_command(store, "PTTL", f"{store.root(0)}:{key}") for key in ("followed", "events"))
    assert 0 < followed_ms <= 60_000 < events_ms <= 600_000


@pytest.mark.parametrize(
    "bad", [{"position": "x"}, {"position": "0:0-0"}, {"position": "1:5-5"}, {"position": "0:5-5,0"}, {"position": 5},
            {"queue": 5}, {"job": b"1"}, {"most": 0}, {"most": 501}],
)  # fmt: skip
def test_bad_input(service: Service, store: Store, bad: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        service.events(**bad).wait()
    assert list_keys(store) == []


# Following


async def _next(following: Any, count: int) -> list[Event]:
    async with asyncio.timeout(20):
        return [await following.next() for _ in range(count)]


@pytest.mark.anyio
async def test_two_followers_see_the_same(service: Service, store: Store) -> None:
    async with service.follow() as one, service.follow() as two:
        await service.enqueue([new(name=str(number)) for number in range(5)])
        first, second = await _next(one, 5), await _next(two, 5)
        assert [event.name for event in first] == list("01234")
        assert first == second
        async with service.follow(first[2].position) as third:
            assert [event.name for event in await _next(third, 2)] == list("34")
            await service.enqueue([new(name="5")])
            assert [event.name for event in await _next(third, 1)] == ["5"]
    await store.close()


@pytest.mark.anyio
async def test_events_arrive_while_it_waits(service: Service, store: Store) -> None:
    async with service.follow(queue="q") as following:
        waiting = asyncio.ensure_future(following.next())
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await service.enqueue([new("r")])
        await service.enqueue([new(name="mine")])
        async with asyncio.timeout(20):
            event = await waiting
        assert event.name == "mine"
        assert following.position == event.position
    await store.close()


@pytest.mark.anyio
async def test_a_loop_over_events_ends_cleanly(service: Service, store: Store) -> None:
    async def produce() -> None:
        for number in itertools.count():
            await service.enqueue([new(name=str(number))])
            await asyncio.sleep(0.01)

    producing = asyncio.ensure_future(produce())
    names = []
    async with asyncio.timeout(20):
        async for event in service.follow():
            names.append(int(event.name))
            if len(names) == 5:
                break
    producing.cancel()
    assert names == list(range(names[0], names[0] + 5))
    await store.close()


def test_without_an_event_loop(service: Service) -> None:
    with service.follow() as following:
        put(service, *(new(name=str(number)) for number in range(3)))
        names = [event.name for _, event in zip(range(3), following, strict=False)]
        assert names == list("012")
        put(service, new(name="3"))
        position = following.next_sync().position
    put(service, new(name="4"))
    for event in service.follow(position):
        assert event.name == "4"
        break
    with pytest.raises(RuntimeError):
        following.next_sync()


def test_a_bad_position_is_refused_when_it_begins(service: Service) -> None:
    with pytest.raises(BadInput), service.follow("7:5-5"):
        pass
    with pytest.raises(BadInput):
        service.follow("x" * 10, queue="\n")


@pytest.fixture(params=["valkey", "redis"])
def mortal(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    with EngineProcess(request.param, config=("--appendonly", "yes", "--appendfsync", "always")) as process:
        yield process


@pytest.mark.anyio
@pytest.mark.parametrize("forgets", [False, True])
async def test_a_follower_survives_its_engine(mortal: EngineProcess, forgets: bool) -> None:
    store = Store(parse_url(mortal.unix_url), is_test=True)
    service = Service(store)
    async with service.follow() as following:
        await service.enqueue([new(name="before")])
        assert [event.name for event in await _next(following, 1)] == ["before"]
        await asyncio.to_thread(mortal.crash_and_start, forgets)
        names: list[str] = []
        while "after" not in names:
            await service.enqueue([new(name="after")])
            names += [event.name or event.kind.label for event in await _next(following, 1)]
        # Jobs that came before the follower was registered again are reported as missed, never skipped.
        assert names[0] == ("missed" if forgets else "after")
    await store.close()


def test_a_second_process_keeps_the_record_going(service: Service) -> None:
    other = another(service)
    position = service.events().wait().position
    other.events().wait()
    other.enqueue([NewJob(queue="q", name="n")]).wait()
    assert kinds(since(service, position)) == ["queued"]
    other.store.close_sync()
