"""The route of the palette: what a few typed words find, for which role, and what it costs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.dashboard.page_client import PageClient
from tests.support.namespace import send_command
from windlass.core.access.tokens import NewToken, Role
from windlass.core.filters.saved_filter import SavedFilter
from windlass.core.ids import format_id
from windlass.core.job import NewJob
from windlass.core.operations import Fail, Take
from windlass.core.scheduling.schedule import Schedule
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
async def job(service: Service) -> str:
    """A deployment with two queues. The id of a job of the queue mail."""
    await service.enqueue([NewJob(queue="payments", name="charge_card", tags=("vip",))])
    (failed,) = (await service.take(Take(queues=("payments",), most=1))).jobs
    await service.fail([Fail(id=failed.id, token=failed.lease_token, reason="declined")])
    await service.schedule(Schedule(name="nightly bill", job=NewJob(queue="payments", name="bill"), every_ms=3_600_000))
    await service.save_filter(SavedFilter(name="stuck payments", page="jobs", fields={"queue": "payments"}))
    await service.save_filter(SavedFilter(name="all stuck", page="jobs", fields={"state": "failed"}))
    (made,) = await service.enqueue([NewJob(queue="mail", name="send_mail", tags=("shop",), unique="order-7")])
    return format_id(made.id)


async def find(client: PageClient, query: str, **headers: str) -> list[dict[str, Any]]:
    answer = await client.http.get("/palette", params={"q": query}, headers=headers)
    assert answer.status_code == 200, answer.text
    entries: list[dict[str, Any]] = answer.json()["entries"]
    assert len(entries) <= 20
    return entries


async def titles(client: PageClient, query: str, kind: str = "", **headers: str) -> list[str]:
    return [found["title"] for found in await find(client, query, **headers) if kind in ("", found["kind"])]


async def test_it_finds_every_kind_of_thing(page_client: PageClient, job: str) -> None:
    found = {
        (entry["kind"], entry["title"]): entry["href"]
        for query in ("sche", "mail", "nightly", "stuck", "vip", "charge", "order-7")
        for entry in await find(page_client, query)
    }
    assert found["Page", "Schedules"] == "/schedules"
    assert found["Queue", "mail"] == "/queues/mail"
    assert found["Schedule", "nightly bill"] == "/schedules/nightly%20bill"
    assert found["Filter", "all stuck"] == "/jobs?state=failed"
    assert found["Tag", "vip"] == "/jobs?tag=vip"
    assert found["Jobs", "Jobs named charge_card"] == "/jobs?state=failed&name=%3Dcharge_card"
    assert found["Job", "send_mail"] == f"/jobs/{job}"
    assert found["Search", "Search all jobs for mail"] == "/search?q=mail"


async def test_an_id_leads_to_its_job_first_and_once(page_client: PageClient, job: str) -> None:
    for query in (job, "order-7"):
        entries = await find(page_client, query)
        assert (entries[0]["kind"], entries[0]["href"]) == ("Job", f"/jobs/{job}")
        assert [entry["kind"] for entry in entries].count("Job") == 1


async def test_actions_are_forms_and_destructive_ones_ask_first(
    page_client: PageClient, job: str, service: Service
) -> None:
    csrf = (await page_client.get("/queues")).form("pause-queue")["csrf"]
    (retry,) = [entry for entry in await find(page_client, "retry payments") if entry["kind"] == "Action"]
    assert (retry["title"], retry["href"]) == ("Retry 1 failed job of payments", "")
    asked = await page_client.send(retry["action"], retry["fields"] | {"csrf": csrf})
    assert asked.status_code == 200
    assert 'name="confirmed"' in asked.text
    assert (await service.stats(["payments"]))[0].failed == 1

    (pause,) = [entry for entry in await find(page_client, "pause mail") if entry["kind"] == "Action"]
    assert (await page_client.send(pause["action"], pause["fields"])).status_code == 400  # without the CSRF token
    assert (await page_client.send(pause["action"], pause["fields"] | {"csrf": csrf})).status_code == 303
    assert (await service.stats(["mail"]))[0].is_paused
    assert await titles(page_client, "resume mail", "Action") == ["Resume the queue mail"]


async def test_an_empty_text_lists_pages_and_filters(page_client: PageClient, job: str) -> None:
    kinds = {entry["kind"] for entry in await find(page_client, "")}
    assert kinds == {"Page", "Filter"}


async def test_control_characters_are_shown_as_escapes(page_client: PageClient, service: Service) -> None:
    await service.save_filter(SavedFilter(name="x", page="jobs", fields={"name": "\u202eevil"}))
    (found,) = [entry for entry in await find(page_client, "evil") if entry["kind"] == "Filter"]
    assert "\u202e" not in found["note"]
    assert (await page_client.http.get("/palette", params={"q": "a\0b\u202e"})).status_code == 200
    assert (await page_client.http.get("/palette", params={"q": "x" * 201})).status_code == 400


@pytest.mark.parametrize(
    ("roles", "queues", "unseen"),
    [
        ({Role.READ}, ("mail",), ("payments", "charge_card", "nightly", "vip", "Audit")),
        ({Role.READ, Role.PRODUCE}, ("mail",), ("payments", "charge_card", "nightly", "vip", "Audit")),
        ({Role.READ}, (), ("Audit", "Pause", "Retry", "Enqueue")),
    ],
    ids=["reader of a queue", "producer of a queue", "reader"],
)
async def test_a_token_finds_what_it_may_see_and_do(
    page_client: PageClient,
    job: str,
    service: Service,
    roles: set[Role],
    queues: tuple[str, ...],
    unseen: tuple[str, ...],
) -> None:
    (hidden,) = (await service.failures()).groups
    admin = await service.create_token(NewToken(name="root", roles=frozenset({Role.ADMIN})))
    made = await service.create_token(NewToken(name="some", roles=frozenset(roles), queues=queues))
    await titles(page_client, "pay", authorization=f"Bearer {admin.text}")  # fills the snapshot
    headers = {"authorization": f"Bearer {made.text}"}
    for query in ("", "pay", "mail", "a", "e", "retry", "pause", "audit", "stuck", "vip", format_id(hidden.sample)):
        entries = await find(page_client, query, **headers)
        text = " ".join(f"{entry['title']} {entry['note']}" for entry in entries if entry["kind"] != "Search")
        assert [word for word in unseen if word in text] == [], query
    assert ("Enqueue a job" in await titles(page_client, "enqueue", **headers)) is (Role.PRODUCE in roles)
    assert "mail" in await titles(page_client, "mail", "Queue", **headers)


class TestReadOnly:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, roles="api", dashboard_read_only=True)

    async def test_a_read_only_dashboard_has_no_actions(self, page_client: PageClient, job: str) -> None:
        assert await titles(page_client, "mail", "Action") == []


async def test_a_key_stroke_costs_few_calls(
    page_client: PageClient, job: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot is read once, and shared by all viewers."""
    monkeypatch.setattr("windlass.dashboard.palette.snapshot.TTL_S", 600.0)
    await find(page_client, "m")
    for query, calls_max in (("m", 0), ("pay", 4), ("order-7", 4), (job, 4)):
        before = _calls(store)
        await find(page_client, query)
        assert _calls(store) - before <= calls_max + 1, query  # and one read of the tokens


def _calls(store: Store) -> int:
    """Return the number of calls of the function library so far."""
    stats = send_command(store, "INFO", "commandstats").decode()
    return sum(int(number) for number in re.findall(r"cmdstat_fcall(?:_ro)?:calls=(\d+)", stats))
