"""Overview: totals, rows, and charts of an hour and a day."""

from __future__ import annotations

import asyncio
import json
import time
from types import SimpleNamespace

import pytest

from tests.dashboard.page_client import Page, PageClient
from windlass.core.job import NewJob
from windlass.core.operations import Fail, Finish, Take
from windlass.dashboard import response_cache
from windlass.dashboard.pages import overview
from windlass.server import Server
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

MINUTE_MS = 60_000


def _work(service: Service, queue: str, finished: int, failed: int) -> None:
    service.enqueue([NewJob(queue=queue, name="send") for _ in range(finished + failed)]).wait()
    taken = service.take(Take(queues=(queue,), most=finished + failed)).wait().jobs
    service.finish([Finish(job.id, job.lease_token) for job in taken[:finished]]).wait()
    service.configure(queue, {"lease_ms": MINUTE_MS}).wait()  # a configured queue is listed even if it is empty
    service.fail([Fail(id=job.id, token=job.lease_token) for job in taken[finished:]]).wait()


def _charts(page: Page) -> list[dict[str, list[float]]]:
    """Return the series of each chart, by name."""
    charts = [json.loads(svg["data-chart"]) for svg in page.all("svg") if "data-chart" in svg]
    return [{line["name"]: line["values"] for line in chart["series"]} for chart in charts]


async def test_totals_of_all_queues(page_client: PageClient, service: Service) -> None:
    _work(service, "mail", 3, 2)
    service.enqueue([NewJob(queue="mail", name="send"), NewJob(queue="video", name="cut")]).wait()
    service.enqueue([NewJob(queue="video", name="cut", delay_ms=MINUTE_MS)]).wait()
    service.take(Take(queues=("video",))).wait()
    text = (await page_client.get("/")).text
    assert "Queued 1 now Running 1 now Scheduled 1 now Suspended 0 now Waiting 0 now Failed 2 now" in text
    assert "Finished/min 0 last 5 minutes" in text


async def test_charts_by_minute(page_client: PageClient, service: Service, store: Store) -> None:
    now_ms = service.now().wait()
    store.clock_offset_ms = 30_000 - now_ms % MINUTE_MS  # in the middle of a minute: the test stays within it
    for ago in (2, 0):
        store.clock_offset_ms -= ago * MINUTE_MS
        _work(service, "mail", 3, 1)
        _work(service, "video", 2, 0)
        store.clock_offset_ms += ago * MINUTE_MS
    jobs, latency = _charts(await page_client.get("/"))
    assert (jobs["Enqueued"][-3:], sum(jobs["Enqueued"])) == ([6, 0, 6], 12)
    assert (jobs["Finished"][-3:], sum(jobs["Finished"])) == ([5, 0, 5], 10)
    assert (jobs["Failed"][-3:], sum(jobs["Failed"])) == ([1, 0, 1], 2)
    assert [len(values) for values in jobs.values()] == [60, 60, 60]
    assert [value is None for value in latency["Wait p50"][-3:]] == [False, True, False]
    assert sorted(latency) == ["Run p50", "Run p95", "Wait p50", "Wait p95"]
    for path in ("/?span=quarter", "/queues/mail?span=quarter"):
        page = await page_client.get(path)
        shown, _ = _charts(page)
        assert [len(values) for values in shown.values()] == [15, 15, 15]
        assert page.all("a", aria_current="true")[-1]["href"] == path
    day = await page_client.get("/?span=day")
    assert "last 15 minutes" in day.text
    by_day, _ = _charts(day)
    assert len(by_day["Enqueued"]) == 96
    assert sum(by_day["Enqueued"]) == pytest.approx(12 / 15, abs=0.05)


async def test_rows_are_sorted_and_show_problems(
    page_client: PageClient, service: Service, store: Store, running: Server
) -> None:
    service.enqueue([NewJob(queue="b", name="n") for _ in range(9)]).wait()
    service.enqueue([NewJob(queue="a", name="n"), NewJob(queue="c", name="n")]).wait()
    service.pause("c", reason="x").wait()
    page = await page_client.get("/")
    assert [row["data-key"] for row in page.all("tr") if "data-key" in row] == ["a", "b", "c"]
    assert "no worker" not in page.text
    store.clock_offset_ms = overview.ABANDONED_AFTER_MS + 1000
    while (page := await page_client.get("/")).text.count("no worker") != 2:
        pass  # the data is cached for half a second
    assert page.text.count("paused") == 1


async def test_keeps_the_row_of_an_empty_queue(page_client: PageClient, running: Server) -> None:
    service = running.service
    await service.enqueue([NewJob(queue="mail", name="send")])
    assert (await page_client.get("/")).all("tr", data_key="mail")
    for job in (await service.take(Take(queues=("mail",)))).jobs:
        await service.finish([Finish(job.id, job.lease_token)])
    await service.sweep()
    assert await service.queues() == []
    while "Queued 0" not in (page := await page_client.get("/")).text:
        pass
    assert page.all("tr", data_key="mail")


async def test_shows_the_busiest_of_many_queues(page_client: PageClient, service: Service) -> None:
    service.enqueue([NewJob(queue=f"q{number:03}", name="n") for number in range(60)]).wait()
    service.enqueue([NewJob(queue="z", name="n") for _ in range(2)]).wait()
    page = await page_client.get("/")
    rows = [row["data-key"] for row in page.all("tr") if "data-key" in row]
    assert len(rows) == overview.ROWS_MAX
    assert rows[-1] == "z"
    assert "50 of 61 · counts now, rates of the last 5 minutes" in page.text
    assert "Queued 62 now" in page.text


async def test_viewers_share_the_data(
    page_client: PageClient, running: Server, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.enqueue([NewJob(queue="mail", name="n")]).wait()
    await page_client.get("/")
    calls = 0
    stats = running.service.stats

    def counted(names: list[str]) -> object:
        nonlocal calls
        calls += 1
        return stats(names)

    running.service.stats = counted  # type: ignore[method-assign,assignment]
    now_s = time.monotonic()  # stands still, so that the duration of twenty requests does not matter
    monkeypatch.setattr(response_cache, "time", SimpleNamespace(monotonic=lambda: now_s))
    await asyncio.gather(*(page_client.get("/") for _ in range(20)))
    assert calls <= 1


async def test_refuses_an_unknown_time_range(page_client: PageClient) -> None:
    page = await page_client.get("/?span=year")
    assert page.status == 400
    assert "span" in page.text
