"""Downloads from the order to the delivered callback: one server with real origins and receivers on loopback, and its
roles in processes of their own, each of which is killed in the middle."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from aiohttp import web

from tests.background.receiver import Received, Receiver
from tests.downloads.origin import Origin, ReceivedRequest, answer, files_in, in_turn
from tests.support.server_process import ServerProcess, store_options
from windlass.background.callbacks.http_backend import HttpBackend
from windlass.background.callbacks.notifier import Notifier
from windlass.core.ids import format_id
from windlass.downloads.worker import callback_body
from windlass.downloads.worker.report import INVALID_RESULT
from windlass.outbound import Outbound, parse_policy
from windlass.server import open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
LIMIT = "downloads per aggregation"
PATIENCE_S = 60


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class RunningDownloader:
    """Server with all roles, and a client that orders downloads."""

    def __init__(self, client: httpx.AsyncClient, service: Service, directory: Path, receiver: Receiver) -> None:
        self.client = client
        self.service = service
        self.directory = directory
        self.receiver = receiver

    async def order(self, url: str, **fields: Any) -> str:
        order = {"url": url, "aggr_id": "shop", "aggr_limit": 3, "callback_url": self.receiver.url} | fields
        made = await self.client.post("/downloader/download", json=order)
        assert made.status_code == 201, made.text
        return str(made.json()["id"])

    async def next_callback(self) -> Received:
        async with asyncio.timeout(PATIENCE_S):
            return await self.receiver.got.get()

    async def until_gone(self, download_id: str) -> None:
        async def is_gone() -> bool:
            return await self.service.holder("downloads", download_id) is None

        await until(is_gone)


@contextlib.asynccontextmanager
async def at_work(store: Store, directory: Path, **settings: Any) -> AsyncIterator[RunningDownloader]:
    wanted = {
        "port": 0, "bedrock_port": None, "download_dir": str(directory), "download_retry_delay_ms": 10,
        "callback_retry_delay_ms": 10,
    } | settings  # fmt: skip
    async with (
        open_server(store, Settings(**wanted)) as running,
        Receiver().open() as receiver,
        httpx.AsyncClient(base_url=running.url, timeout=PATIENCE_S) as client,
    ):
        yield RunningDownloader(client, running.service, directory, receiver)


async def test_from_the_order_to_the_callback(store: Store, tmp_path: Path) -> None:
    content = b"<html>" + b"x" * 100_000
    async with at_work(store, tmp_path) as whole, Origin({"/a": answer(content)}).open() as origin:
        download_id = await whole.order(origin.url("/a"), extra="mine")
        received = await whole.next_callback()
        download_url = f"{whole.client.base_url}/downloader/files/{download_id[:3]}/{download_id}"
        assert received.body == msgspec.json.encode(
            {
                "success": True, "error": "", "extra": "mine", "image_size": "", "resource_url": origin.url("/a"),
                "download_url": download_url, "job_id": download_id, "response_code": 200, "delivered": True,
                "delivery_error": "",
            }
        )  # fmt: skip
        assert received.headers["content-type"] == "application/json"
        assert files_in(tmp_path) == {f"{download_id[:3]}/{download_id}": content}
        await whole.until_gone(download_id)
        assert (await whole.client.get(download_url)).content == content
        (stats,) = await whole.service.stats(["downloads-files"])
        assert stats.scheduled == 1  # the file goes later

        async def are_published() -> bool:
            return bool(await whole.service.stats_of("processor"))

        await until(are_published)


async def test_a_file_goes_when_its_time_is_over(store: Store, tmp_path: Path) -> None:
    async with at_work(store, tmp_path, download_keep_ms=1) as whole, Origin(answer(b"x")).open() as origin:
        await whole.until_gone(await whole.order(origin.url()))

        async def is_gone() -> bool:
            return not files_in(tmp_path)

        await until(is_gone)


async def test_a_failure_is_reported(store: Store, tmp_path: Path) -> None:
    async with at_work(store, tmp_path) as whole, Origin({}).open() as origin:
        download_id = await whole.order(origin.url("/nobody"))
        received = (await whole.next_callback()).decoded
        assert (received["success"], received["download_url"], received["response_code"]) == (False, "", 404)
        assert "Received status code 404 Not Found" in received["error"]
        assert received["job_id"] == download_id
        await whole.until_gone(download_id)
        assert files_in(tmp_path) == {}


async def test_attempts_are_those_that_were_ordered(store: Store, tmp_path: Path) -> None:
    trouble = answer(b"", "500 Internal Server Error")
    routes = {"/once": trouble, "/twice": trouble, "/late": in_turn(trouble, trouble, answer(b"x"))}
    async with at_work(store, tmp_path) as whole, Origin(routes).open() as origin:
        for path, retries in (("/once", 0), ("/twice", 1), ("/late", 2)):
            await whole.order(origin.url(path), max_retries=retries, extra=path)
        outcomes = {one["extra"]: one["success"] for one in [(await whole.next_callback()).decoded for _ in range(3)]}
        assert outcomes == {"/once": False, "/twice": False, "/late": True}
        assert Counter(asked.target for asked in origin.requests) == {"/once": 1, "/twice": 2, "/late": 3}


async def test_a_callback_has_two_attempts_and_two_more(store: Store, tmp_path: Path) -> None:
    async with at_work(store, tmp_path) as whole, Origin(answer(b"x")).open() as origin:
        whole.receiver.answer = 500
        download_id = await whole.order(origin.url())
        bodies = [(await whole.next_callback()).body for _ in range(2)]

        async def is_given_up() -> bool:
            return bool((await whole.service.callbacks(given_up=True)).callbacks)

        await until(is_given_up)
        assert whole.receiver.got.empty()
        whole.receiver.answer = 202
        assert (await whole.client.post(f"/downloader/retry/{download_id}")).status_code == 204
        bodies.append((await whole.next_callback()).body)
        assert len(set(bodies)) == 1
        await whole.until_gone(download_id)
        assert (await whole.client.post(f"/downloader/retry/{download_id}")).status_code == 400


async def test_the_native_api_shows_the_same_job(store: Store, tmp_path: Path) -> None:
    async with at_work(store, tmp_path, roles="api") as whole:
        download_id = await whole.order("http://127.0.0.1:9/x")
        job_id = await whole.service.holder("downloads", download_id)
        assert job_id is not None
        shown = (await whole.client.get(f"/api/v1/jobs/{format_id(job_id)}")).json()["job"]
        assert (shown["queue"], shown["name"], shown["state"]) == ("downloads", "download", "queued")
        assert shown["payload"]["id"] == download_id


async def test_an_order_of_the_native_api_has_a_callback_too(store: Store, tmp_path: Path) -> None:
    async with at_work(store, tmp_path, download_keep_ms=1) as whole, Origin(answer(b"content")).open() as origin:
        payload = {"url": origin.url(), "aggr_id": "shop", "extra": "mine"}
        callback = {"url": whole.receiver.url}
        job = {"queue": "downloads", "name": "n", "payload": payload, "callback": callback, "result_ttl_ms": 600_000}
        assert (await whole.client.post("/api/v1/jobs", json=job)).status_code == 201
        received = (await whole.next_callback()).decoded
        download_id = received["job_id"]
        assert (received["success"], received["extra"], len(download_id)) == (True, "mine", 14)
        assert received["download_url"].endswith(f"/files/{download_id[:3]}/{download_id}")

        async def is_gone() -> bool:
            return not files_in(tmp_path)

        await until(is_gone)


@pytest.mark.parametrize("ttl_ms", [0, 600_000])
async def test_what_another_worker_reports_is_no_callback_body(store: Store, tmp_path: Path, ttl_ms: int) -> None:
    async with at_work(store, tmp_path, roles="api,notifier") as whole:
        job = {
            "queue": "downloads",
            "name": "n",
            "payload": {"url": "http://x/"},
            "callback": {"url": whole.receiver.url},
        }
        assert (await whole.client.post("/api/v1/jobs", json=job | {"result_ttl_ms": ttl_ms})).status_code == 201
        (taken,) = (await whole.client.post("/api/v1/take", json={"queues": ["downloads"]})).json()["jobs"]
        result = {"success": True, "job_id": "mine", "download_url": "http://evil/", "<script>": 1}
        done = {"token": taken["lease_token"], "result": result}
        assert (await whole.client.post(f"/api/v1/jobs/{taken['id']}/finish", json=done)).status_code < 300
        received = (await whole.next_callback()).decoded
        assert received == {
            "success": False, "error": INVALID_RESULT, "extra": "", "image_size": "", "resource_url": "http://x/",
            "download_url": "", "job_id": received["job_id"], "response_code": 0, "delivered": True,
            "delivery_error": "",
        }  # fmt: skip
        assert len(received["job_id"]) == (14 if ttl_ms else 36)


class Counting:
    """An origin's handler that counts how many of each aggregation it serves at once."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def __call__(self, asked: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        aggregation = asked.target.split("/")[1]
        self.now[aggregation] += 1
        self.most[aggregation] = max(self.most[aggregation], self.now[aggregation])
        await asyncio.sleep(0.005)
        self.now[aggregation] -= 1
        await answer(asked.target.encode())(asked, writer)


async def test_three_hundred_jobs_over_five_aggregations(store: Store, tmp_path: Path) -> None:
    """Two servers share the work; each job is delivered once, and no aggregation is ever above its limit."""
    counting = Counting()
    async with (
        at_work(store, tmp_path) as whole,
        at_work(store.clone(), tmp_path),
        Origin(counting).open() as origin,
    ):
        orders = [
            whole.order(origin.url(f"/{number % 5}/{number}"), aggr_id=f"shop{number % 5}", aggr_limit=1 + number % 5)
            for number in range(300)
        ]
        ids = await asyncio.gather(*orders)
        received = [(await whole.next_callback()).decoded for _ in range(300)]
        assert Counter(one["job_id"] for one in received) == Counter(ids)
        assert all(one["success"] for one in received)
        assert {name: most <= 1 + int(name) for name, most in counting.most.items()} == dict.fromkeys("01234", True)
        assert counting.most["4"] > 1  # they do run side by side
        assert len(origin.requests) == 300
        contents = files_in(tmp_path)
        assert {contents[f"{one[:3]}/{one}"] for one in ids} == {b"/%d/%d" % (n % 5, n) for n in range(300)}
        for one in ids:
            await whole.until_gone(one)
        assert whole.receiver.got.empty()


async def test_one_aggregation_does_not_hold_up_another(store: Store, tmp_path: Path) -> None:
    async def never(_asked: ReceivedRequest, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    routes = {"/stuck": never, "/fine": answer(b"x")}
    async with at_work(store, tmp_path, download_slots=2) as whole, Origin(routes).open() as origin:
        for _ in range(5):
            await whole.order(origin.url("/stuck"), aggr_id="stuck", aggr_limit=1)
        await whole.order(origin.url("/fine"), aggr_id="fine", aggr_limit=1)
        assert (await whole.next_callback()).decoded["resource_url"] == origin.url("/fine")


# Roles in processes of their own


class Parts:
    """Server processes of one deployment."""

    def __init__(self, store: Store, directory: Path, stack: contextlib.ExitStack) -> None:
        self._store = store
        self._stack = stack
        self._settings = {
            "download_dir": str(directory), "download_url": "http://files.example/f", "allow_private_addresses": "yes",
            "download_retry_delay": "10ms",
        }  # fmt: skip

    async def start(self, role: str) -> ServerProcess:
        arguments = [*store_options(self._store), "--roles", role]
        arguments += [] if role == "api" else ["--health-port", "0"]
        process = ServerProcess(arguments, **self._settings)
        return await asyncio.to_thread(self._stack.enter_context, process)


async def _kill(process: ServerProcess) -> None:
    process.signal(signal.SIGKILL)
    await asyncio.to_thread(process.wait)


async def test_each_role_is_killed_in_the_middle(store: Store, tmp_path: Path) -> None:
    let_go = asyncio.Event()
    held = asyncio.Event()

    async def slow(asked: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        await let_go.wait()
        await answer(b"content")(asked, writer)

    async def silent(_received: Received) -> web.StreamResponse:
        await held.wait()
        return web.Response(status=200)

    service = Service(store)
    async with store, Origin(slow).open() as origin, Receiver(silent).open() as receiver:
        with contextlib.ExitStack() as stack:
            parts = Parts(store, tmp_path, stack)
            api, processor, notifier = [await parts.start(role) for role in ("api", "processor", "notifier")]
            async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
                assert (await client.get(f"{processor.url}/healthz")).status_code == 200
                assert (await client.get(f"{processor.url}/downloader/hb")).status_code == 404
                order = {"url": origin.url(), "aggr_id": "a", "aggr_limit": 1, "callback_url": receiver.url}
                download_id = (await client.post(f"{api.url}/downloader/download", json=order)).json()["id"]
            await _kill(api)

            async def is_asked() -> bool:
                return bool(origin.requests)

            await until(is_asked)
            await _kill(processor)
            store.clock_offset_ms += 60_000  # its lease is over
            await service.recover()
            store.clock_offset_ms = 0
            let_go.set()
            await parts.start("processor")
            async with asyncio.timeout(PATIENCE_S):
                first = await receiver.got.get()
            assert first.decoded["success"]
            assert files_in(tmp_path) == {f"{download_id[:3]}/{download_id}": b"content"}
            await _kill(notifier)
            held.set()
            store.clock_offset_ms += 600_000
            await _deliver(service)
        assert receiver.all[-1].body == first.body
        assert receiver.all[-1].id == first.id
        assert (await service.callbacks()).callbacks == []


async def _deliver(service: Service) -> None:
    """What a notifier does that comes later."""
    async with Outbound(parse_policy("yes", is_local=True)) as outbound:
        backend = HttpBackend(outbound, ())
        notifier = Notifier({"http": backend}, bodies={"downloads": lambda pending: callback_body(service, pending)})
        assert await notifier.deliver_once(service) == 1


async def test_several_processes_of_a_role_under_one_parent(store: Store, tmp_path: Path) -> None:
    async with store, Origin(answer(b"x")).open() as origin, Receiver().open() as receiver:
        arguments = [*store_options(store), "--workers", "2"]
        settings = {"download_dir": str(tmp_path), "allow_private_addresses": "yes"}
        with contextlib.ExitStack() as stack:
            process = await asyncio.to_thread(stack.enter_context, ServerProcess(arguments, **settings))
            order = {"url": origin.url(), "aggr_id": "a", "aggr_limit": 2, "callback_url": receiver.url}
            async with httpx.AsyncClient(base_url=process.url, timeout=PATIENCE_S) as client:
                for _ in range(4):
                    assert (await client.post("/downloader/download", json=order)).status_code == 201
            async with asyncio.timeout(PATIENCE_S):
                received = [(await receiver.got.get()).decoded for _ in range(4)]
        assert all(one["download_url"].startswith(f"{process.url}/downloader/files/") for one in received)
