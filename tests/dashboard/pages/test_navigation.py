"""Entries of the navigation: optional ones appear once the deployment uses them."""

from __future__ import annotations

import pytest

from tests.dashboard.page_client import Page, PageClient
from windlass.core.callbacks.callback import Callback, LeasedCallback
from windlass.core.job import NewJob
from windlass.core.operations import Finish, Take
from windlass.dashboard import navigation
from windlass.downloads.api.aggregation import LIMIT
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

HOOK = Callback(url="https://192.0.2.7/done", events=("finished",))


@pytest.fixture(autouse=True)
def _checks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(navigation, "CHECK_EVERY_S", 0.0)


def entries(page: Page) -> list[str]:
    return [link["href"] for link in page.all("a") if "data-go" in link]


async def test_unused_entries_are_not_shown(page_client: PageClient) -> None:
    page = await page_client.get("/")
    assert entries(page)[-2:] == ["/engine", "/audit"]
    assert {"/aggregations", "/callbacks"}.isdisjoint(entries(page))
    assert "Downloads" not in page.text
    assert "g a Aggregations" not in page.text


@pytest.mark.parametrize("path", ["/aggregations", "/callbacks"])
async def test_bookmarks_of_unused_pages_work(page_client: PageClient, path: str) -> None:
    page = await page_client.get(path)
    assert (page.status, path in entries(page)) == (200, True)
    assert page.all("a", href=path, aria_current="page")


async def test_downloads_show_aggregations(service: Service, page_client: PageClient) -> None:
    await service.limit(LIMIT)  # as the first download does
    page = await page_client.get("/")
    assert ("/aggregations" in entries(page), "/callbacks" in entries(page)) == (True, False)
    assert "Downloads Aggregations" in page.text


async def end_a_job_with_a_callback(service: Service) -> None:
    await service.enqueue([NewJob(queue="mail", name="n", callback=HOOK)])
    (job,) = (await service.take(Take(queues=("mail",)))).jobs
    await service.finish([Finish(job.id, job.lease_token)])


async def test_a_pending_callback_of_a_job_shows_callbacks(service: Service, page_client: PageClient) -> None:
    """Without downloads there is no heading. The entry stays when the callback is delivered."""
    await end_a_job_with_a_callback(service)
    page = await page_client.get("/")
    assert ("/aggregations" in entries(page), "/callbacks" in entries(page)) == (False, True)
    assert "Downloads" not in page.text
    (leased,) = (await service.take_callbacks(most=1)).callbacks
    await service.settle_callbacks([LeasedCallback(leased.id, leased.token)])
    assert not (await service.callbacks()).callbacks
    assert "/callbacks" in entries(await page_client.get("/"))


@pytest.mark.parametrize(
    ("counter", "is_shown"), [("successfulCallbacks", True), ("failedCallbacks", True), ("alive", False)]
)
async def test_delivered_callbacks_count(
    service: Service, page_client: PageClient, counter: str, is_shown: bool
) -> None:
    await service.publish_stats("notifier", "one", {counter: 2})
    assert ("/callbacks" in entries(await page_client.get("/"))) is is_shown


async def test_checks_only_now_and_then(
    service: Service, page_client: PageClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await page_client.get("/")
    monkeypatch.setattr(navigation, "CHECK_EVERY_S", 3600.0)
    await service.limit(LIMIT)
    assert "/aggregations" not in entries(await page_client.get("/"))
    monkeypatch.setattr(navigation, "CHECK_EVERY_S", 0.0)
    assert "/aggregations" in entries(await page_client.get("/"))
