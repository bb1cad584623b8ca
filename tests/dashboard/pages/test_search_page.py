"""The search page and the filter of lists: parts of ids, and texts in payloads."""

from __future__ import annotations

import pytest

from tests.dashboard.page_client import Page, PageClient
from tests.service.flows.flow_builders import put_flow
from tests.service.helpers import new, put, take
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import format_id
from windlass.core.job import Blob
from windlass.core.operations import Finish
from windlass.service import Service
from windlass.settings import Settings
from windlass.store import id_scan

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

ATHENS, ROME = Blob(b'{"city": "Athens"}'), Blob(b'{"city": "Rome"}')


def rows(page: Page) -> list[str]:
    return [row["data-key"] for row in page.all("tr") if "data-key" in row]


def enqueue(service: Service, *jobs: object) -> list[str]:
    return [format_id(made.id) for made in put(service, *jobs)]  # type: ignore[arg-type]


async def location(page_client: PageClient, q: str) -> str | None:
    answer = await page_client.http.get("/search", params={"q": q})
    return answer.headers.get("location")


async def test_a_part_of_an_id_leads_to_the_job(page_client: PageClient, service: Service) -> None:
    key, _ = enqueue(service, new("mail"), new("news"))
    for q in (key[-6:], f"…{key[-6:]}", key[-6:].upper(), f" {key[:34]} ", f"{key[:34]}…", f"{key}…"):
        assert await location(page_client, q) == f"/jobs/{key}", q
    page = await page_client.get(f"/search?q={key[:6]}")
    assert len(rows(page)) == 2
    assert "2 jobs have this part of an id" in page.text


async def test_the_page_says_how_far_ids_were_searched(
    page_client: PageClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_scan, "LOOKED_AT_MAX", 10)
    monkeypatch.setattr(id_scan, "READ_AT_ONCE", 10)
    keys = enqueue(service, *(new() for _ in range(12)))
    page = await page_client.get(f"/search?q={keys[0][-6:]}")
    assert "The ids of the newest 10 jobs were searched" in page.text


async def test_a_part_of_an_id_leads_to_the_flow(page_client: PageClient, service: Service) -> None:
    first, second = (format_id(put_flow(service, {"only": ()}, flow=name)[0]) for name in ("shop", "other"))
    assert await location(page_client, first[-6:]) == f"/flows/{first}"
    assert await location(page_client, f"…{second[-6:]}") == f"/flows/{second}"
    page = await page_client.get(f"/search?q={first[:6]}")
    assert {first, second} < set(rows(page)), "with the jobs of these flows"


async def test_a_token_for_some_queues_finds_nothing_of_others(page_client: PageClient, service: Service) -> None:
    flow, jobs = put_flow(service, {"only": ()}, queue="S3CRET")
    (hidden,) = enqueue(service, new("S3CRET", payload=ATHENS))
    (key,) = enqueue(service, new("mail", payload=ATHENS))
    token = await service.create_token(NewToken(name="t", roles=frozenset({Role.READ}), queues=("mail",)))
    page_client.http.headers["authorization"] = f"Bearer {token.text}"
    for q in (hidden[-6:], format_id(jobs["only"])[-6:], format_id(flow)[-6:], format_id(flow)):
        page = await page_client.get(f"/search?q={q}")
        assert (page.status, rows(page)) == (200, [])
        assert "S3CRET" not in page.answer.text
    for path in ("/search?q=athens", "/jobs?text=athens"):
        assert rows(await page_client.get(path)) == [key]


async def test_the_search_finds_texts_of_payloads(page_client: PageClient, service: Service) -> None:
    service.configure("kept", {"history_length": 5}).wait()
    (kept,) = enqueue(service, new("kept", payload=ATHENS))
    (job,) = take(service, "kept")
    service.finish([Finish(job.id, job.lease_token)]).wait()
    athens, rome = enqueue(service, new("a", payload=ATHENS), new("b", payload=ROME, delay_ms=60_000))
    page = await page_client.get("/search?q=athens")
    assert set(rows(page)) == {athens, kept}
    assert page.all("a", href="/jobs?text=athens")
    assert rows(await page_client.get('/search?q="city":"rome"')) == [rome]


async def test_a_list_by_a_text_in_the_payload(page_client: PageClient, service: Service) -> None:
    athens, rome = enqueue(service, new("a", payload=ATHENS), new("b", payload=ROME, delay_ms=60_000))
    page = await page_client.get("/jobs?text=ROME")
    assert rows(page) == [rome]
    (field,) = page.all("input", id="f-text")
    assert field["value"] == "ROME"
    assert "any state" in page.text
    assert not page.all("form", **{"class": "all-form"}), "an action cannot select by text"
    assert rows(await page_client.get("/jobs?text=city")) == [athens, rome]
    assert rows(await page_client.get("/jobs?text=city&state=queued")) == [athens]
    assert rows(await page_client.get("/jobs?text=city&queue=b")) == [rome]
    assert "No matching jobs" in (await page_client.get("/jobs?text=nothing")).text


async def test_pages_of_a_text_go_on(page_client: PageClient, service: Service) -> None:
    keys = enqueue(service, *(new(f"q{at % 3}", payload=ATHENS) for at in range(70)))
    page = await page_client.get("/jobs?text=athens")
    (following,) = page.all("a", rel="next")
    second = await page_client.get(following["href"])
    assert (len(rows(page)), sorted(rows(page) + rows(second))) == (50, sorted(keys))


class TestHidden:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, dashboard_hide_payloads=True)

    async def test_no_page_tells_whether_a_payload_has_a_text(self, page_client: PageClient, service: Service) -> None:
        (key,) = enqueue(service, new("mail", payload=ATHENS))
        for text in ("athens", "sparta"):
            page = await page_client.get(f"/jobs?text={text}")
            assert page.status == 403
            assert "dashboard_hide_payloads" in page.text
            page = await page_client.get(f"/search?q={text}")
            assert "Nothing found" in page.text
            assert key not in page.answer.text
        assert not (await page_client.get("/jobs")).all("input", id="f-text")
