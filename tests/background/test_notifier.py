"""Notifier against real receivers: good, slow, dead, failing, redirecting and invalid ones."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from tests.background.receiver import Received, Receiver, raw_receiver, silent_receiver
from windlass.background.callbacks.backend import Undeliverable
from windlass.background.callbacks.http_backend import HttpBackend
from windlass.background.callbacks.notifier import Notifier
from windlass.core.callbacks.callback import PendingCallback
from windlass.core.callbacks.signing import compute_digest, verify_signature
from windlass.core.job import Blob, Callback, Codec, NewJob
from windlass.core.operations import Fail, Finish, Take
from windlass.outbound import Outbound, parse_policy
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
POLICY = parse_policy("", is_local=True)
KEY, OTHER = "k" * 32, "o" * 32
HOUR_MS = 3_600_000


@pytest.fixture
async def opened(service: Service, store: Store) -> AsyncIterator[Service]:
    async with store, asyncio.timeout(60):
        yield service


@contextlib.asynccontextmanager
async def notifier(keys: tuple[str, ...] = (), timeout_s: float = 30.0, **options: Any) -> AsyncIterator[Notifier]:
    async with Outbound(POLICY) as outbound:
        yield Notifier({"http": HttpBackend(outbound, keys, timeout_s=timeout_s)}, **options)


@contextlib.asynccontextmanager
async def notifying(service: Service, **options: Any) -> AsyncIterator[Notifier]:
    async with notifier(**options) as one:
        running = asyncio.create_task(one.run(service))
        try:
            yield one
        finally:
            running.cancel()
            await asyncio.wait({running})


async def end(service: Service, *urls: str | Callback, result: Blob | None = None, **fields: Any) -> None:
    """Finish jobs with callbacks."""
    callbacks = [Callback(url=url) if isinstance(url, str) else url for url in urls]
    jobs = [NewJob(**({"queue": "q", "name": "n", "callback": one} | fields)) for one in callbacks]
    await service.enqueue(jobs)
    taken = await service.take(Take(queues=(jobs[0].queue,), most=len(jobs)))
    await service.finish([Finish(job.id, job.lease_token, result) for job in taken.jobs])


async def pending_callbacks(service: Service, *, given_up: bool = False) -> list[PendingCallback]:
    return (await service.callbacks(given_up=given_up)).callbacks


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 (a real receiver's news)
        await asyncio.sleep(0.002)


async def until_settled(service: Service) -> None:
    while await pending_callbacks(service):  # noqa: ASYNC110 (the engine's news, not ours)
        await asyncio.sleep(0.002)


# Callback bodies


async def test_a_receiver_gets_the_callback_of_a_finished_job(opened: Service) -> None:
    callback = Callback(url="", headers=(("X-Key", "mine"), ("Windlass-Event", "lies")), data=Blob(b'{"order":7}'))
    async with Receiver(202).open() as receiver, notifying(opened) as one:
        callback = Callback(url=receiver.url, headers=callback.headers, data=callback.data)
        await end(opened, callback, result=Blob(b"[1, 2]"), payload=Blob(b'{"a": 1}'), tags=("t",), unique="u")
        received = await receiver.got.get()
        await until_settled(opened)
        assert one.counters() == {
            "alive": 1,
            "successfulCallbacks": 1,
            "failedCallbacks": 0,
            "undefinedBackendWithCallback": 0,
            "unknownTopicOrPartition": 0,
        }
    body = received.decoded
    assert received.path == "/hook"
    assert (body["event"], body["result"], body["reason"], body["error"]) == ("finished", [1, 2], None, None)
    assert (body["job"]["queue"], body["job"]["name"], body["job"]["payload"]) == ("q", "n", {"a": 1})
    assert (body["job"]["tags"], body["job"]["unique"], body["job"]["attempt"]) == (["t"], "u", 1)
    assert body["data"] == {"order": 7}
    assert body["id"] == received.id == f"{body['job']['id']}-1"
    headers = received.headers
    assert (headers["content-type"], headers["windlass-event"], headers["x-key"]) == (
        "application/json", "finished", "mine"
    )  # fmt: skip
    assert headers["windlass-attempt"] == "1"
    assert "windlass-signature" not in headers


async def test_a_receiver_gets_the_callback_of_a_failed_job(opened: Service) -> None:
    async with Receiver().open() as receiver, notifying(opened):
        await opened.enqueue([NewJob(queue="q", name="n", callback=Callback(url=receiver.url))])
        (job,) = (await opened.take(Take(queues=("q",)))).jobs
        error = Blob(b'{"message": "no"}')
        await opened.fail([Fail(id=job.id, token=job.lease_token, then="final", reason="boom", error=error)])
        body = (await receiver.got.get()).decoded
        assert (body["event"], body["reason"], body["error"]) == ("failed", "boom", {"message": "no"})
        assert body["result"] is None
        await until_settled(opened)


async def test_what_json_cannot_say_comes_as_base64(opened: Service) -> None:
    async with Receiver().open() as receiver, notifier() as one:
        await end(
            opened, receiver.url, result=Blob(b"\0\xff", Codec.RAW), payload=Blob(b"\x81\xa1a\x01", Codec.MSGPACK)
        )
        await one.deliver_once(opened)
        body = receiver.all[0].decoded
        assert (body["result"], body["result_base64"], body["result_codec"]) == (None, "AP8=", "raw")
        assert body["job"]["payload"] == {"a": 1}


async def test_a_queue_may_have_a_body_and_a_hook_of_its_own(opened: Service) -> None:
    seen: list[tuple[str, int]] = []

    async def hook(pending: PendingCallback) -> None:
        seen.append((pending.key, len(await pending_callbacks(opened))))  # not settled yet

    options: dict[str, Any] = {
        "bodies": {"d": lambda pending: b"own " + pending.job.name.encode()},
        "on_delivered": {"d": hook},
    }
    async with Receiver().open() as receiver, notifier(**options) as one:
        await end(opened, receiver.url, queue="d", name="x")
        await one.deliver_once(opened)
        assert receiver.all[0].body == b"own x"
        assert seen == [(receiver.all[0].id, 1)]
        assert await pending_callbacks(opened) == []


async def test_a_body_that_cannot_be_made_is_a_failed_attempt(opened: Service) -> None:
    def broken(pending: PendingCallback) -> bytes:
        raise ValueError("no such field")

    async with Receiver().open() as receiver, notifier(bodies={"q": broken}) as one:
        await end(opened, receiver.url)
        await one.deliver_once(opened)
        assert "no such field" in (await pending_callbacks(opened))[0].error
        assert receiver.all == []


async def test_a_hook_that_fails_is_a_failed_attempt(opened: Service, store: Store) -> None:
    """It is delivered again with the hook, a limited number of times: neither for ever nor never."""

    async def hook(pending: PendingCallback) -> None:
        raise OSError("disk gone")

    async with Receiver().open() as receiver, notifier(on_delivered={"q": hook}, attempts=2) as one:
        await end(opened, receiver.url)
        await one.deliver_once(opened)
        store.clock_offset_ms += HOUR_MS
        await one.deliver_once(opened)
        (pending,) = await pending_callbacks(opened, given_up=True)
        assert "disk gone" in pending.error
        assert len(receiver.all) == 2
        assert one.counters()["successfulCallbacks"] == 0


async def test_a_backend_that_breaks_is_a_failed_attempt(opened: Service) -> None:
    class Broken:
        async def deliver(self, pending: PendingCallback, body: bytes) -> None:
            raise KeyError("oh")

        async def close(self) -> None: ...

    await end(opened, Callback(type="broken", destination="x"))
    await Notifier({"broken": Broken()}).deliver_once(opened)
    assert "KeyError('oh')" in (await pending_callbacks(opened))[0].error


# Attempts


async def test_attempts_say_the_same_until_one_is_received(opened: Service, store: Store) -> None:
    async with Receiver(503).open() as receiver, notifier((KEY,), retry_delay_ms=1_000) as one:
        await end(opened, receiver.url, result=Blob(b'{"b": 1, "a": [1.50]}'))
        for attempt in (1, 2, 3):
            assert await one.deliver_once(opened) == 1
            (pending,) = await pending_callbacks(opened)
            assert (pending.attempt, pending.error) == (attempt, "The receiver answered 503.")
            assert await one.deliver_once(opened) == 0  # not before its delay
            store.clock_offset_ms += 1_200 * 2 ** (attempt - 1)
        receiver.answer = 204
        assert await one.deliver_once(opened) == 1
        assert await pending_callbacks(opened) == []
        assert [received.headers["windlass-attempt"] for received in receiver.all] == ["1", "2", "3", "4"]
        assert len({received.body for received in receiver.all}) == 1
        assert len({received.id for received in receiver.all}) == 1
        assert (one.counters()["successfulCallbacks"], one.counters()["failedCallbacks"]) == (1, 3)


async def test_attempts_are_limited_and_redeliver_grants_new_ones(opened: Service, store: Store) -> None:
    async with Receiver(500).open() as receiver, notifier(attempts=3, attempts_by_queue={"d": 2}) as one:
        await end(opened, receiver.url)
        await end(opened, receiver.url, queue="d")
        for expected in (2, 2, 1, 0):
            assert await one.deliver_once(opened) == expected
            store.clock_offset_ms += HOUR_MS
        given_up = await pending_callbacks(opened, given_up=True)
        assert sorted((pending.job.queue, pending.attempt) for pending in given_up) == [("d", 2), ("q", 3)]
        for pending in await pending_callbacks(opened, given_up=True):
            await opened.redeliver([pending.job.id]).one()
        receiver.answer = 200
        assert await one.deliver_once(opened) == 2
        assert await pending_callbacks(opened) == await pending_callbacks(opened, given_up=True) == []
        bodies = {received.id: received.body for received in receiver.all}
        assert all(received.body == bodies[received.id] for received in receiver.all)
        assert len(bodies) == 2


async def test_a_storm_of_errors_passes(opened: Service) -> None:
    times: Counter[str] = Counter()

    async def answer(received: Received) -> web.Response:
        times[received.id] += 1
        return web.Response(status=500 if times[received.id] < 3 else 200)

    async with Receiver(answer).open() as receiver, notifying(opened, retry_delay_ms=1):
        await end(opened, *[receiver.url] * 60)
        await until_settled(opened)
    assert list(times.values()) == [3] * 60
    assert len({(received.id, received.body) for received in receiver.all}) == 60


async def _redirect(received: Received) -> web.Response:
    return web.Response(status=307, headers={"Location": received.path + "/elsewhere"})


async def _garbage(received: Received) -> web.Response:
    return web.Response(status=500, body=b"\x1b[31m\xff\0" + "Ü".encode() * 1_000)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (_redirect, "answered 307"),
        (404, "answered 404"),
        (410, "answered 410"),
        (_garbage, "answered 500: ?[31m"),
    ],
)
async def test_whatever_is_no_2xx_is_tried_again(opened: Service, answer: Any, said: str) -> None:
    async with Receiver(answer).open() as receiver, notifier() as one:
        await end(opened, receiver.url)
        await one.deliver_once(opened)
        (pending,) = await pending_callbacks(opened)
        assert said in pending.error
        assert pending.error.isprintable()
        assert [received.path for received in receiver.all] == ["/hook"]


async def _huge(received: Received) -> web.Response:
    return web.Response(status=200, body=b"x" * 10_000_000)


async def test_a_huge_answer_is_not_read_and_settles_all_the_same(opened: Service) -> None:
    async with Receiver(_huge).open() as receiver, notifier() as one:
        await end(opened, receiver.url)
        await one.deliver_once(opened)
        assert await pending_callbacks(opened) == []


@pytest.mark.parametrize(
    ("answer", "is_settled"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", True),  # the rest never comes
        (b"hello, I am not HTTP\r\n\r\n", False),
        (b"HTTP/1.1 9999 No\r\n\r\n", False),
        (b"", False),
    ],
)
async def test_answers_that_are_cut_or_none(
    opened: Service, answer: bytes, is_settled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.outbound.client.BODY_S", 0.05)
    async with raw_receiver(answer) as url, notifier(timeout_s=0.5 if not answer else 20) as one:
        await end(opened, url)
        await one.deliver_once(opened)
        assert (await pending_callbacks(opened) == []) == is_settled


async def test_a_receiver_that_is_not_there(opened: Service) -> None:
    async with Receiver().open() as receiver:
        url = receiver.url
    async with notifier() as one:
        await end(opened, url)
        await one.deliver_once(opened)
        assert "cannot be reached" in (await pending_callbacks(opened))[0].error


@pytest.mark.parametrize("host", ["10.0.0.1", "169.254.169.254", "[::ffff:192.168.0.1]", "0.0.0.0"])  # noqa: S104
async def test_private_addresses_are_not_dialled(opened: Service, host: str) -> None:
    async with notifier() as one:
        await end(opened, f"http://{host}/")
        await one.deliver_once(opened)
        assert "is not a public address" in (await pending_callbacks(opened))[0].error


async def test_an_unknown_type_is_a_failed_attempt(opened: Service, store: Store) -> None:
    async with notifier(attempts=2) as one:
        await end(opened, Callback(type="pigeon", destination="the old town"))
        await one.deliver_once(opened)
        assert "no callbacks of type 'pigeon'" in (await pending_callbacks(opened))[0].error
        store.clock_offset_ms += HOUR_MS
        await one.deliver_once(opened)
        assert len(await pending_callbacks(opened, given_up=True)) == 1
        assert one.counters()["undefinedBackendWithCallback"] == one.counters()["failedCallbacks"] == 2


async def test_a_destination_that_is_no_url_is_a_failed_attempt(opened: Service) -> None:
    async with notifier() as one:
        await end(opened, Callback(type="http", destination="httpfoo"))
        await one.deliver_once(opened)
        assert "must begin with http" in (await pending_callbacks(opened))[0].error


async def test_a_connection_that_was_closed_in_between_costs_no_attempt(opened: Service) -> None:
    """As with a receiver whose patience with idle connections is shorter than ours."""
    answered = dropped = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal answered, dropped
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        answered += 1
        if await reader.read(1):  # the second request over this connection
            dropped += 1
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    async with notifier() as one:
        for _ in range(3):
            await end(opened, url)
            await one.deliver_once(opened)
        assert await pending_callbacks(opened) == []
        assert one.counters()["failedCallbacks"] == 0
    assert (answered, dropped) == (3, 2)
    server.close()
    await server.wait_closed()


# Signatures


async def test_a_signature_is_verified_by_the_recipe(opened: Service) -> None:
    async with Receiver().open() as receiver, notifier((KEY,)) as one:
        await end(opened, receiver.url)
        await one.deliver_once(opened)
    received = receiver.all[0]
    stamp, _, signed = received.headers["windlass-signature"].partition(",")
    assert signed == f"v1={compute_digest(KEY, int(stamp.removeprefix('t=')), received.id, received.body)}"


async def test_keys_are_rotated_without_a_gap(opened: Service) -> None:
    """Before, during and after: a receiver that knows one of the keys in use is always served."""
    for keys in ((KEY,), (KEY, OTHER), (OTHER,)):
        async with Receiver().open() as receiver, notifier(keys) as one:
            await end(opened, receiver.url)
            await one.deliver_once(opened)
        received = receiver.all[0]
        written = received.headers["windlass-signature"]
        for key in (KEY, OTHER):
            signed_at_s = verify_signature((key,), written, received.id, received.body)
            assert (signed_at_s is not None) == (key in keys)


# Many at once


async def test_a_dead_receiver_does_not_hold_up_the_others(opened: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dead one's come first and are many more than there is room for; not one of them has ended when all of the
    others have."""
    monkeypatch.setattr("windlass.background.callbacks.notifier.STOP_S", 0.05)
    async with (
        silent_receiver() as dead,
        Receiver().open() as good,
        notifying(opened, max_in_flight=6, max_per_destination=3) as one,
    ):
        await end(opened, *[dead] * 60)
        await end(opened, *[good.url] * 40)
        for _ in range(40):
            await good.got.get()
        await until(lambda: one.counters()["successfulCallbacks"] == 40)
        assert one.counters()["failedCallbacks"] == 0
        assert good.most_under_way <= 3
        left = await opened.callbacks(most=100)
        # Only as many are leased as are under way: the rest could be delivered by others at once.
        now_ms = await opened.now()
        assert sum((pending.due_at_ms or 0) > now_ms for pending in left.callbacks) <= 3
        assert sum(pending.attempt for pending in left.callbacks) <= 3


class Pigeons:
    """Backend that answers only after `answer` is set."""

    def __init__(self) -> None:
        self.is_silent = True
        self.under_way = self.most_under_way = 0

    async def deliver(self, pending: PendingCallback, body: bytes) -> None:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        if self.is_silent:
            raise Undeliverable("No pigeon came back.", is_silent=True)

    async def close(self) -> None: ...


async def test_a_silent_destination_is_asked_one_at_a_time_until_it_answers(opened: Service) -> None:
    pigeons, town = Pigeons(), Callback(type="pigeon", destination="the old town")
    one = Notifier({"pigeon": pigeons}, max_per_destination=5, retry_delay_ms=HOUR_MS)
    await end(opened, town)
    await one.deliver_once(opened)
    assert one.counters()["failedCallbacks"] == 1
    await end(opened, *[town] * 12)
    for _ in range(3):
        assert await one.deliver_once(opened) == 1
    pigeons.is_silent = False
    assert await one.deliver_once(opened) == 1
    assert pigeons.most_under_way == 1
    assert await one.deliver_once(opened) == 5
    assert pigeons.most_under_way == 5


async def test_room_of_a_full_destination_is_used_as_it_appears(opened: Service) -> None:
    """There is no wakeup: the callbacks exist already."""
    async with Receiver().open() as receiver, notifying(opened, max_in_flight=2, max_per_destination=1) as one:
        await end(opened, *[receiver.url] * 25)
        for _ in range(25):
            await receiver.got.get()
        await until_settled(opened)
        assert receiver.most_under_way == 1
        assert one.counters()["successfulCallbacks"] == 25


async def test_two_notifiers_share_the_work(opened: Service) -> None:
    """Two notifiers with a store each, like two processes."""
    other = Service(Store(opened.store.endpoint, namespace=opened.store.namespace, is_test=True, patience_s=10.0))
    async with (
        other.store,
        Receiver().open() as receiver,
        notifying(opened, max_per_destination=2),
        notifying(other, max_per_destination=2),
    ):
        await end(opened, *[receiver.url] * 100)
        await until_settled(opened)
    assert len(receiver.all) == 100
    assert receiver.most_under_way <= 4


async def test_partitions_share_the_room(divided_store: Callable[[int], Store]) -> None:
    service = Service(divided_store(4))
    async with (
        service.store,
        asyncio.timeout(60),
        Receiver().open() as receiver,
        notifying(service, max_in_flight=3, max_per_destination=2),
    ):
        for number in range(12):
            await end(service, *[receiver.url] * 5, queue=f"q{number}")
        await until_settled(service)
    assert len(receiver.all) == 60
    assert receiver.most_under_way <= 2
    assert {received.headers["windlass-attempt"] for received in receiver.all} == {"1"}  # what went back was not spent


async def test_one_that_stops_lets_what_is_under_way_end(opened: Service) -> None:
    hold = asyncio.Event()

    async def answer(received: Received) -> web.Response:
        await hold.wait()
        return web.Response(status=200)

    async with Receiver(answer).open() as receiver, notifier() as one:
        running = asyncio.create_task(one.run(opened))
        await end(opened, receiver.url)
        await receiver.got.get()
        running.cancel()
        await asyncio.sleep(0)
        hold.set()
        await asyncio.wait({running})
        assert await pending_callbacks(opened) == []


async def test_what_is_under_way_for_too_long_is_due_again_at_once(
    opened: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.background.callbacks.notifier.STOP_S", 0.05)
    async with silent_receiver() as url, notifier() as one:
        running = asyncio.create_task(one.run(opened))
        await end(opened, url)
        await until(lambda: not one._in_flight.is_idle)
        running.cancel()
        await asyncio.wait({running})
        (pending,) = (await opened.take_callbacks()).callbacks
        assert (pending.attempt, pending.error) == (2, "The server stopped before there was an answer.")
