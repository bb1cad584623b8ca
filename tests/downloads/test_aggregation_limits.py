"""PUT /aggregations: limits and proxies of aggregations that change while downloads run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.downloads.origin import Origin, ReceivedRequest, answer
from tests.downloads.test_end_to_end import at_work
from windlass.core.operations import Take
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
ORDER: dict[str, Any] = {
    "url": "http://example.com/a.jpg", "aggr_id": "store", "aggr_limit": 1, "callback_url": "http://receiver/done",
    "aggr_proxy": "http://proxy:1",
}  # fmt: skip


@pytest.fixture
def server_settings() -> Settings:
    return Settings(port=0, bedrock_port=None, roles="api")


async def ordered(client: httpx.AsyncClient, count: int = 1, **changes: Any) -> None:
    for _ in range(count):
        assert (await client.post("/downloader/download", json=ORDER | changes)).status_code == 201


async def changed(client: httpx.AsyncClient, name: str = "store", **fields: Any) -> dict[str, Any]:
    made = await client.put(f"/downloader/aggregations/{name}", json=fields)
    assert made.status_code == 200, made.text
    found: dict[str, Any] = made.json()
    return found


async def test_limit_and_proxy(client: httpx.AsyncClient, service: Service) -> None:
    await ordered(client, 5)
    assert len((await service.take(Take(queues=("downloads",), most=10))).jobs) == 1
    assert await changed(client, aggr_limit=3.9) == {
        "aggr_id": "store", "aggr_limit": 3, "aggr_proxy": "http://proxy:1", "queued": 4, "scheduled": 0, "running": 1,
    }  # fmt: skip
    assert len((await service.take(Take(queues=("downloads",), most=10))).jobs) == 2
    found = await changed(client, aggr_proxy="http://other:2")
    assert (found["aggr_limit"], found["aggr_proxy"]) == (3, "http://other:2")
    assert (await changed(client, aggr_limit=1, aggr_proxy=""))["aggr_proxy"] == ""


async def test_a_later_order_still_changes_nothing(client: httpx.AsyncClient) -> None:
    await ordered(client)
    await changed(client, aggr_limit=3)
    await ordered(client, aggr_limit=9, aggr_proxy="http://later:9")
    found = await changed(client, aggr_limit=3)
    assert (found["aggr_limit"], found["aggr_proxy"]) == (3, "http://proxy:1")


@pytest.mark.parametrize("name", ["ü /?#", "a" * 1024, "line\nbreak"])
async def test_any_name(client: httpx.AsyncClient, name: str) -> None:
    await ordered(client, aggr_id=name)
    quoted = "".join(f"%{byte:02x}" for byte in name.encode())
    assert (await changed(client, quoted, aggr_limit=2))["aggr_id"] == name


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "Give aggr_limit or aggr_proxy"),
        ({"limit": 3}, "Give aggr_limit or aggr_proxy"),
        ({"aggr_limit": 0}, "aggr_limit must be at least 1."),
        ({"aggr_limit": "3"}, "aggr_limit must be a number."),
        ({"aggr_limit": None}, "aggr_limit must be a number."),
        ({"aggr_proxy": "foo"}, "aggr_proxy must be an absolute URL."),
        ({"aggr_proxy": 7}, "aggr_proxy must be a string."),
    ],
)
async def test_refused(client: httpx.AsyncClient, fields: dict[str, Any], said: str) -> None:
    await ordered(client)
    refused = await client.put("/downloader/aggregations/store", json=fields)
    assert (refused.status_code, refused.headers["content-type"]) == (400, "text/plain; charset=utf-8")
    assert refused.text.startswith(said)
    assert (await changed(client, aggr_limit=1))["aggr_proxy"] == "http://proxy:1"


async def test_unknown_aggregations(client: httpx.AsyncClient) -> None:
    for _ in range(2):
        answered = await client.put("/downloader/aggregations/none", json={"aggr_limit": 2})
        assert (answered.status_code, answered.text[:27]) == (404, "There is no aggregation of ")
        await ordered(client)  # now the limit exists


async def test_the_change_is_audited_without_the_proxy(client: httpx.AsyncClient, service: Service) -> None:
    await ordered(client)
    await changed(client, aggr_limit=2, aggr_proxy="http://me:secret@proxy:1")
    (record,) = (await service.audits()).entries
    assert (record.what, record.target, record.detail) == ("set_aggregation", "store", "aggr_limit=2")


async def test_downloads_under_way(store: Store, tmp_path: Path) -> None:
    """More start at once when the limit rises. When it falls, running ones end first."""
    running: set[str] = set()
    gates: dict[str, asyncio.Event] = {}

    async def watch(asked: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        running.add(asked.target)
        await gates.setdefault(asked.target, asyncio.Event()).wait()
        running.discard(asked.target)
        await answer(b"x")(asked, writer)

    async def until_running(count: int) -> None:
        async with asyncio.timeout(30):
            while len(running) != count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async with at_work(store, tmp_path) as whole, Origin(watch).open() as origin:
        for number in range(8):
            await whole.order(origin.url(f"/{number}"), aggr_limit=1)
        await until_running(1)
        await changed(whole.client, "shop", aggr_limit=4)
        await until_running(4)
        await changed(whole.client, "shop", aggr_limit=2)
        for expected in (3, 2):
            gates[next(iter(running))].set()
            await whole.next_callback()
            await until_running(expected)
        for number in range(8):
            gates.setdefault(f"/{number}", asyncio.Event()).set()
        for _ in range(6):
            assert (await whole.next_callback()).decoded["success"]
