"""Pending callbacks: written with the end of a job, delivered at least once, kept for inspection when given up."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from tests.service.helpers import another, new, put, read, take
from tests.service.machines import invariants
from tests.support.namespace import list_keys, send_command
from windlass.background.runner import all_loops, turn
from windlass.core.callbacks.callback import FailedDelivery, LeasedCallback, PendingCallback
from windlass.core.errors import BadInput, StaleLease, TooLarge, UnknownCallback, WrongState
from windlass.core.job import Blob, Callback, Codec, NewJob
from windlass.core.operations import Edit, Fail, Finish, Take
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.service import Service
from windlass.store.store import Store

URL = "https://example.org/hook?a=1"
HOOK = Callback(url=URL)
DAY_MS = 86_400_000
KIB_64 = 64 * 1024


def owing(**terms: Any) -> NewJob:
    return new(**({"callback": HOOK} | terms))


def taken(service: Service, most: int = 10, **terms: Any) -> list[PendingCallback]:
    return service.take_callbacks(most=most, **terms).wait().callbacks


def finished(service: Service, *results: Blob | None, **terms: Any) -> None:
    put(service, *(owing(**terms) for _ in results))
    jobs = take(service, most=len(results))
    service.finish([Finish(job.id, job.lease_token, result) for job, result in zip(jobs, results, strict=True)]).wait()


def stored(store: Store) -> invariants.Snapshot:
    root = store.root(0)
    return invariants.snapshot(store._sync_connection, root, 0, among=f"{root}*")


def assert_consistent(store: Store) -> None:
    invariants.check(stored(store))


# Pending callbacks


def test_a_finished_job_has_a_pending_callback(service: Service, store: Store) -> None:
    callback = Callback(url=URL, headers=(("X-Key", "v; w"),), data=Blob(b"\xc0", Codec.MSGPACK))
    (answer,) = put(service, owing(callback=callback, payload=Blob(b"[1]"), tags=("t",)))
    assert read(service, answer.id).callback == callback
    (job,) = take(service)
    assert taken(service) == []
    service.finish([Finish(job.id, job.lease_token, Blob(b"42"))]).one().wait()
    (pending,) = taken(service)
    assert pending.callback == callback
    assert (pending.job.id, pending.job.state, pending.job.payload, pending.job.tags) == (
        job.id, State.FINISHED, Blob(b"[1]"), ("t",)
    )  # fmt: skip
    assert pending.job.ended_at_ms is not None
    assert (pending.result, pending.is_result_too_big, pending.last_attempt) == (Blob(b"42"), False, None)
    assert (pending.attempt, pending.error) == (1, "")
    assert pending.key.startswith(job.key + "-")
    assert_consistent(store)
    service.settle_callbacks([LeasedCallback(pending.id, pending.token)]).one().wait()
    assert not {key for key in list_keys(store) if key.startswith((b"b:", b"owed", b"given_up"))}


def _fails(service: Service) -> None:
    (job,) = take(service)
    service.fail([Fail(id=job.id, token=job.lease_token, reason="boom", error=Blob(b"why"))]).one().wait()


def _is_cancelled(service: Service) -> None:
    service.cancel([service.callback_test_id], reason="not wanted").one().wait()  # type: ignore[attr-defined]


def _is_cancelled_while_running(service: Service) -> None:
    (job,) = take(service)
    service.cancel([job.id]).one().wait()
    service.fail([Fail(id=job.id, token=job.lease_token, then="cancelled", reason="stopped")]).one().wait()


def _loses_its_lease(service: Service) -> None:
    take(service, lease_ms=1_000)
    service.store.clock_offset_ms += 2_000
    service.recover().wait()


def _expires(service: Service) -> None:
    service.store.clock_offset_ms += 200_000
    service.clean().wait()


@pytest.mark.parametrize(
    ("happens", "state", "reason"),
    [
        (_fails, State.FAILED, "boom"),
        (_is_cancelled, State.CANCELLED, "not wanted"),
        (_is_cancelled_while_running, State.CANCELLED, "stopped"),
        (_loses_its_lease, State.FAILED, "lease_expired"),
        (_expires, State.FAILED, "expired"),
    ],
)
def test_every_other_end_has_a_pending_callback_too(
    service: Service, store: Store, happens: Callable[[Service], None], state: State, reason: str
) -> None:
    (answer,) = put(service, owing(retry=Backoff(tries=1), expires_in_ms=100_000))
    service.callback_test_id = answer.id  # type: ignore[attr-defined]
    happens(service)
    (pending,) = taken(service)
    assert (pending.job.id, pending.job.state, pending.result) == (answer.id, state, None)
    assert pending.last_attempt is not None
    assert pending.last_attempt.reason == reason
    if reason == "boom":
        assert pending.last_attempt.error == Blob(b"why")
    assert_consistent(store)


@pytest.mark.parametrize("wanted", ["finished", "failed", "cancelled"])
def test_only_the_ends_that_were_asked_for(service: Service, store: Store, wanted: Any) -> None:
    callback = Callback(url=URL, events=(wanted,))
    put(service, *(owing(callback=callback) for _ in range(3)))
    first, second, third = take(service, most=3)
    service.finish([Finish(first.id, first.lease_token)]).wait()
    service.fail([Fail(id=second.id, token=second.lease_token)]).wait()
    service.fail([Fail(id=third.id, token=third.lease_token, then="cancelled")]).wait()
    assert [pending.job.state.label for pending in taken(service)] == [wanted]
    assert_consistent(store)


def test_other_changes_create_no_callback(service: Service, store: Store) -> None:
    put(service, owing(), owing(), new())
    first, second, plain = take(service, most=3)
    service.fail([Fail(id=first.id, token=first.lease_token, then="retry")]).wait()
    service.delete([second.id], even_leased=True).wait()
    service.finish([Finish(plain.id, plain.lease_token)]).wait()
    service.finish([Finish(first.id, first.lease_token)]).wait()  # refused: it was put back
    assert taken(service) == []
    assert b"debts" not in list_keys(store)


def test_many_ends_in_one_call(service: Service, store: Store) -> None:
    finished(service, *(Blob(b"%d" % number) for number in range(30)))
    callbacks = taken(service, most=20) + taken(service, most=20)
    assert sorted(int(pending.result.data) for pending in callbacks if pending.result) == list(range(30))
    assert len({pending.id for pending in callbacks}) == len({pending.token for pending in callbacks}) == 30
    assert_consistent(store)
    answers = service.settle_callbacks([LeasedCallback(pending.id, pending.token) for pending in callbacks]).wait()
    assert answers == [None] * 30


def test_finish_and_take_creates_a_callback_as_well(service: Service) -> None:
    put(service, owing(), owing(name="b"))
    first, second = take(service, most=2)
    finish, fail = Finish(first.id, first.lease_token, Blob(b"1")), Fail(id=second.id, token=second.lease_token)
    service.finish_and_take([finish], [fail], Take(queues=("q",))).wait()
    assert {pending.job.state for pending in taken(service)} == {State.FINISHED, State.FAILED}


def test_a_job_that_ends_again_has_another_callback(service: Service, store: Store) -> None:
    (answer,) = put(service, owing())
    service.cancel([answer.id]).one().wait()
    service.retry([answer.id]).one().wait()
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    callbacks = taken(service)
    assert [pending.job.state for pending in callbacks] == [State.CANCELLED, State.FINISHED]
    assert callbacks[0].id != callbacks[1].id
    assert_consistent(store)


@pytest.mark.parametrize("size", [0, 1, 5_000, KIB_64, KIB_64 + 1, 1024 * 1024])
def test_a_long_payload_is_cut(service: Service, store: Store, size: int) -> None:
    payload = bytes(range(251)) * (size // 251 + 1)
    finished(service, None, payload=Blob(payload[:size]))
    (pending,) = taken(service)
    assert pending.job.payload.data == payload[: min(size, KIB_64)]
    assert pending.job.payload_is_whole == (size <= KIB_64)


@pytest.mark.parametrize(("size", "is_there"), [(KIB_64 - 1, True), (KIB_64, False), (1024 * 1024, False)])
@pytest.mark.parametrize("kept_ms", [0, 60_000])
def test_a_long_result_is_only_marked(service: Service, size: int, is_there: bool, kept_ms: int) -> None:
    finished(service, Blob(b"r" * size, Codec.RAW), result_ttl_ms=kept_ms)
    (pending,) = taken(service)
    assert pending.is_result_too_big != is_there
    assert pending.result == (Blob(b"r" * size, Codec.RAW) if is_there else None)


def test_a_callback_survives_its_job(service: Service, store: Store) -> None:
    (answer,) = put(service, owing(unique="u", tags=("t",)))
    service.cancel([answer.id]).one().wait()
    service.delete([answer.id]).one().wait()
    assert [pending.job.id for pending in taken(service)] == [answer.id]
    assert_consistent(store)


def test_replacing_a_job_replaces_its_callback(service: Service, store: Store) -> None:
    put(service, owing(unique="u"))
    put(service, new(unique="u", unique_check="replace"))
    assert_consistent(store)
    (job,) = take(service)
    service.finish([Finish(job.id, job.lease_token)]).wait()
    assert taken(service) == []
    put(service, new(unique="u"))
    other = Callback(url="http://other/", events=("failed",))
    put(service, owing(unique="u", unique_check="replace", callback=other))
    assert_consistent(store)
    _fails(service)
    assert [pending.callback for pending in taken(service)] == [other]


def test_an_edit_keeps_the_callback(service: Service) -> None:
    (answer,) = put(service, owing())
    service.edit([Edit(id=answer.id, payload=Blob(b"new", Codec.RAW), name="m")]).one().wait()
    service.cancel([answer.id]).one().wait()
    (pending,) = taken(service)
    assert (pending.callback, pending.job.name, pending.job.payload) == (HOOK, "m", Blob(b"new", Codec.RAW))


# Delivering


def test_a_leased_callback_cannot_be_taken_by_another(service: Service) -> None:
    finished(service, None)
    (pending,) = taken(service, lease_ms=10_000)
    answer = service.take_callbacks().wait()
    assert answer.callbacks == []
    assert answer.next_due_at_ms is not None
    service.store.clock_offset_ms += 9_000
    assert taken(service) == []
    service.store.clock_offset_ms += 2_000
    (again,) = taken(service)
    assert (again.id, again.attempt) == (pending.id, 2)
    assert again.token > pending.token
    stale = service.settle_callbacks([LeasedCallback(pending.id, pending.token)]).wait()
    stale += service.retry_callbacks([FailedDelivery(id=pending.id, token=pending.token)]).wait()  # type: ignore[arg-type]
    assert [type(one) for one in stale] == [StaleLease, StaleLease]
    service.settle_callbacks([LeasedCallback(again.id, again.token)]).one().wait()
    assert isinstance(service.settle_callbacks([LeasedCallback(again.id, again.token)]).wait()[0], UnknownCallback)


def test_a_failed_delivery_is_due_again_later(service: Service, store: Store) -> None:
    finished(service, Blob(b"1"))
    (pending,) = taken(service)
    request = FailedDelivery(id=pending.id, token=pending.token, delay_ms=5_000, error="503 \N{SNOWMAN}\nbusy")
    assert service.retry_callbacks([request]).one().wait() == "owed"
    assert_consistent(store)
    assert isinstance(service.retry_callbacks([request]).wait()[0], StaleLease)
    assert taken(service) == []
    service.store.clock_offset_ms += 6_000
    (again,) = taken(service)
    assert (again.id, again.attempt, again.error, again.result) == (pending.id, 2, "503 \N{SNOWMAN}\nbusy", Blob(b"1"))


def test_one_that_is_given_up_stays_for_people_to_see(service: Service, store: Store) -> None:
    finished(service, Blob(b"1" * 2_000), payload=Blob(b"p" * 5_000))
    (pending,) = taken(service)
    request = FailedDelivery(id=pending.id, token=pending.token, error="410 gone", give_up=True)
    assert service.retry_callbacks([request]).one().wait() == "given_up"
    assert_consistent(store)
    assert (taken(service), service.callbacks().wait().callbacks) == ([], [])
    (seen,) = service.callbacks(given_up=True).wait().callbacks
    assert (seen.id, seen.error, seen.attempt, seen.token) == (pending.id, "410 gone", 1, 0)
    assert (seen.job.payload.data, seen.job.payload_is_whole) == (b"p" * 1024, False)
    assert (seen.result, seen.is_result_too_big) == (None, True)
    service.store.clock_offset_ms += 14 * DAY_MS - 60_000
    step = service.clean().wait()
    assert (step.done, step.next_at_ms) == (0, seen.removed_at_ms)
    assert service.redeliver([pending.id]).one().wait() == "owed"
    assert_consistent(store)
    assert isinstance(service.redeliver([pending.id]).wait()[0], WrongState)
    (again,) = taken(service)
    assert (again.id, again.attempt, again.result) == (pending.id, 1, pending.result)
    service.retry_callbacks([FailedDelivery(id=again.id, token=again.token, give_up=True)]).one().wait()
    service.store.clock_offset_ms += 14 * DAY_MS + 1
    assert service.clean().wait().done == 1
    assert isinstance(service.redeliver([pending.id]).wait()[0], UnknownCallback)
    assert not {key for key in list_keys(store) if key.startswith((b"b:", b"owed", b"given_up"))}


def test_only_so_many_are_kept(service: Service, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.store.commands.callbacks.GIVEN_UP_MOST", 3)
    finished(service, *[None] * 5)
    callbacks = taken(service)
    for pending in callbacks:
        service.retry_callbacks([FailedDelivery(id=pending.id, token=pending.token, give_up=True)]).one().wait()
        service.store.clock_offset_ms += 10
    kept = service.callbacks(given_up=True).wait().callbacks
    assert [pending.id for pending in kept] == [pending.id for pending in callbacks[2:]]
    assert_consistent(store)


def test_pages(service: Service) -> None:
    finished(service, *[None] * 5)
    found, cursor = [], ""
    for expected in (2, 2, 1):
        page = service.callbacks(most=2, cursor=cursor).wait()
        assert len(page.callbacks) == expected
        found += page.callbacks
        cursor = page.cursor
    assert cursor == ""
    assert len({pending.id for pending in found}) == 5
    assert all(pending.due_at_ms is not None and pending.attempt == 0 for pending in found)


# Waiting


async def _until_registered(store: Store) -> None:
    while not await asyncio.to_thread(send_command, store, "EXISTS", f"{store.root(0)}:waiters:\2owed"):  # noqa: ASYNC110 (the engine's news, not ours)
        await asyncio.sleep(0.002)


async def _delivered(service: Service, store: Store, happens: Callable[[], Awaitable[Any]]) -> list[PendingCallback]:
    waiting = asyncio.ensure_future(service.take_callbacks(wait_ms=20_000))
    await _until_registered(store)
    await happens()
    async with asyncio.timeout(20):
        return (await waiting).callbacks


@pytest.mark.anyio
async def test_an_end_wakes_a_waiting_deliverer(service: Service, store: Store) -> None:
    (answer,) = await service.enqueue([owing()])
    assert not isinstance(answer, Exception)
    (pending,) = await _delivered(service, store, lambda: service.cancel([answer.id]).one())
    assert pending.job.id == answer.id
    give_up = FailedDelivery(id=pending.id, token=pending.token, give_up=True)
    await service.retry_callbacks([give_up]).one()
    (again,) = await _delivered(service, store, lambda: service.redeliver([pending.id]).one())
    assert again.id == pending.id
    retry = FailedDelivery(id=again.id, token=again.token, delay_ms=50)
    (third,) = await _delivered(service, store, lambda: service.retry_callbacks([retry]).one())
    assert (third.id, third.attempt) == (pending.id, 2)
    await store.close()


@pytest.mark.anyio
async def test_what_one_taker_leaves_behind_wakes_the_next(service: Service, store: Store) -> None:
    other = another(service)
    waiting = [asyncio.ensure_future(one.take_callbacks(most=1, wait_ms=20_000)) for one in (service, other, service)]
    while await asyncio.to_thread(send_command, store, "ZCARD", f"{store.root(0)}:waiters:\2owed") != 2:  # noqa: ASYNC110
        await asyncio.sleep(0.002)
    answers = await service.enqueue([owing(name=str(number)) for number in range(3)])
    await service.cancel([answer.id for answer in answers if not isinstance(answer, Exception)])
    async with asyncio.timeout(20):
        found = [one.callbacks for one in await asyncio.gather(*waiting)]
    assert sorted(pending.job.name for callbacks in found for pending in callbacks) == ["0", "1", "2"]
    await other.store.close()
    await store.close()


@pytest.mark.anyio
async def test_no_deliverer_stays_registered(service: Service, store: Store) -> None:
    assert (await service.take_callbacks(wait_ms=20)).callbacks == []
    async with asyncio.timeout(20):
        while await asyncio.to_thread(send_command, store, "ZCARD", f"{store.root(0)}:waiters:\2owed"):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    await store.close()


@pytest.mark.anyio
async def test_a_lost_wakeup_is_repeated(service: Service, store: Store) -> None:
    (answer,) = await service.enqueue([owing()])
    assert not isinstance(answer, Exception)
    await service.cancel([answer.id]).one()
    # A process was woken and died: its registration is gone, and another process waits that polled before.
    root = store.root(0)
    now_ms = int((await asyncio.to_thread(send_command, store, "TIME"))[0]) * 1000
    await asyncio.to_thread(send_command, store, "ZADD", f"{root}:timers:ring", now_ms, b"\2owed")
    await asyncio.to_thread(send_command, store, "ZADD", f"{root}:waiters:\2owed", now_ms + 60_000, b"other\1")
    await turn(service, all_loops())
    assert await asyncio.to_thread(send_command, store, "LLEN", f"{root}:bell:other") == 1
    await store.close()


TAKER = """
import sys, time
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store
service = Service(Store(parse_url(sys.argv[1]), namespace=sys.argv[2], is_test=True))
print(len(service.take_callbacks(lease_ms=5_000).wait().callbacks), flush=True)
time.sleep(60)
"""


def test_a_killed_taker_costs_its_lease(service: Service, store: Store) -> None:
    finished(service, Blob(b"1"))
    url = f"unix://{store.endpoint.unix_path}?db=0"
    with subprocess.Popen([sys.executable, "-c", TAKER, url, store.namespace], stdout=subprocess.PIPE) as taker:
        assert taker.stdout is not None
        assert taker.stdout.readline() == b"1\n"
        taker.kill()
    assert taken(service) == []
    service.store.clock_offset_ms += 6_000
    (pending,) = taken(service)
    assert (pending.attempt, pending.result) == (2, Blob(b"1"))


# Bad input


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({"url": "ftp://h/"}, BadInput),
        ({"url": "https:///path"}, BadInput),
        ({"url": "https://h:99999/"}, BadInput),
        ({"url": "https://h/\r\nX: y"}, BadInput),
        ({"url": "https://h/a b"}, BadInput),
        ({"url": "https://h/ü"}, BadInput),
        ({"url": ""}, BadInput),
        ({"url": "https://h/" + "x" * 2048}, TooLarge),
        ({"url": "", "type": "k" * 65, "destination": "topic"}, TooLarge),
        ({"url": "", "type": "kafka", "destination": "t" * 2049}, TooLarge),
        ({"events": ()}, BadInput),
        ({"events": ("running",)}, BadInput),
        ({"events": "failed"}, BadInput),
        ({"headers": (("X", "a\r\nY: b"),)}, BadInput),
        ({"headers": (("X Y", "a"),)}, BadInput),
        ({"headers": (("Host", "a"),)}, BadInput),
        ({"headers": {"X": "a"}}, BadInput),
        ({"headers": (("X", "a"),) * 21}, TooLarge),
        ({"headers": (("X", "a" * 1_000),) * 5}, TooLarge),
        ({"data": b"1"}, BadInput),
        ({"data": Blob(b"x" * (8 * 1024 + 1))}, TooLarge),
    ],
)
def test_a_callback_that_cannot_be(service: Service, store: Store, bad: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        service.enqueue([owing(callback=Callback(**({"url": URL} | bad)))]).wait()
    with pytest.raises(BadInput):
        service.enqueue([owing(callback=URL)])
    assert list_keys(store) == []


def test_the_largest_callback(service: Service, store: Store) -> None:
    callback = Callback(
        url="https://h/" + "x" * (2048 - 10),
        headers=tuple((f"X-{number:02}", "v" * 200) for number in range(20)),
        data=Blob(b"d" * 8 * 1024, Codec.RAW),
    )
    tags = tuple(f"{number:02}" + "t" * 126 for number in range(20))
    (answer,) = put(service, owing(callback=callback, name="n" * 1020, tags=tags, trace="t" * 1024))
    assert read(service, answer.id).callback == callback
    service.cancel([answer.id]).one().wait()
    assert taken(service)[0].callback == callback
    assert_consistent(store)


@pytest.mark.parametrize(
    "asks",
    [
        lambda service: service.take_callbacks(most=0),
        lambda service: service.take_callbacks(most=101),
        lambda service: service.take_callbacks(lease_ms=0),
        lambda service: service.take_callbacks(wait_ms=10),
        lambda service: service.settle_callbacks([LeasedCallback(bytes(16), 1)]),
        lambda service: service.settle_callbacks([LeasedCallback(bytes(22), 0)]),
        lambda service: service.retry_callbacks([LeasedCallback(bytes(22), 1)]),
        lambda service: service.retry_callbacks([FailedDelivery(id=bytes(22), token=1, delay_ms=-1)]),
        lambda service: service.retry_callbacks([FailedDelivery(id=bytes(22), token=1, error="x" * 1_025)]),
        lambda service: service.redeliver([b"1"]),
        lambda service: service.callbacks(cursor="x"),
        lambda service: service.callbacks(given_up=1),
    ],
)
def test_bad_requests(service: Service, asks: Callable[[Service], Any]) -> None:
    with pytest.raises(BadInput):
        asks(service).wait()


def test_unknown_callbacks(service: Service, store: Store) -> None:
    finished(service, None)
    before = stored(store)  # not their dump: an engine may reorder a hash while it reads
    unknown = service.store.new_id("q") + bytes(6)
    (pending,) = service.callbacks().wait().callbacks
    answers: list[Any] = [
        *service.settle_callbacks([LeasedCallback(unknown, 1), LeasedCallback(pending.id, 1)]).wait(),
        *service.retry_callbacks([FailedDelivery(id=unknown, token=1), FailedDelivery(id=pending.id, token=1)]).wait(),
        *service.redeliver([unknown, pending.id]).wait(),
    ]
    assert [type(one) for one in answers] == [
        UnknownCallback, StaleLease, UnknownCallback, StaleLease, UnknownCallback, WrongState,
    ]  # fmt: skip
    after = stored(store)
    assert (after.jobs, after.values) == (before.jobs, before.values)


def test_a_callback_is_part_of_the_job_that_callers_see() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(HOOK), type=Callback) == HOOK
