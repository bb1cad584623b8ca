"""Engine page, doctor and audit log page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dashboard.page_client import PageClient
from tests.support.acl_user import create_restricted_user
from tests.support.engine_process import EngineProcess
from tests.support.stores import discard, make_store
from windlass.core.access.audit import AuditEntry
from windlass.core.access.tokens import NewToken, Role
from windlass.core.job import NewJob
from windlass.core.namespace.format import FIRST, KNOWN, SINCE
from windlass.dashboard.actions import doctor
from windlass.server import Server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store
from windlass.store.topology.namespace_format import raise_format
from windlass.store.topology.preparation import prepare

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


async def test_shows_the_state_of_the_engine(page_client: PageClient, running: Server) -> None:
    (state,) = await running.service.engines()
    page = await page_client.get("/engine")
    assert f"{state.product.capitalize()} {state.version}" in page.text
    for words in ("Round trip", "Memory", "Append-only file", "Partitions 1", "Durability"):
        assert words in page.text
    assert state.findings  # the engine of the tests has no persistence
    for finding in state.findings:
        assert finding.what in page.text


async def test_shows_the_format_of_the_namespace(page_client: PageClient, store: Store) -> None:
    assert f"{FIRST}; this version reads formats up to {KNOWN}" in (await page_client.get("/engine")).text
    await store.run(raise_format([0], KNOWN))
    assert f"{KNOWN}, for Windlass {SINCE[KNOWN]} or newer; this version" in (await page_client.get("/engine")).text


async def test_warns_about_an_engine_without_persistence(page_client: PageClient) -> None:
    page = await page_client.get("/engine")
    assert "Memory only: no append-only file and no snapshots. A restart of the engine loses every job." in page.text
    assert "setting: memory" in page.text


class TestDurabilityInForce:
    """Uses its own engine, because it needs other settings."""

    @pytest.fixture(params=["", "-config|get"])
    def rule(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def store(self, engine: EngineProcess, rule: str) -> Iterator[Store]:
        with EngineProcess("valkey", config=("--appendonly", "yes", "--appendfsync", "everysec")) as own:
            prepare(Store(parse_url(own.unix_url)).topology, 5.0)
            yield Store(parse_url(create_restricted_user(own, *filter(None, [rule]))), durability="replica")

    async def test_it_is_read_from_the_engine(self, page_client: PageClient, rule: str) -> None:
        text = (await page_client.get("/engine")).text
        assert "setting: replica" in text
        if rule:
            assert "how often it is flushed to disk is unknown: the engine's user may not call CONFIG GET." in text
        else:
            assert "Append-only file, flushed once a second (appendfsync everysec)." in text
        assert "none is connected: enqueues are reported as not confirmed." in text


class TestManagedDurability:
    """Uses a store that declares it."""

    @pytest.fixture
    def store(self, engine: EngineProcess) -> Iterator[Store]:
        store = make_store(engine, durability="replica", is_managed=True)
        yield store
        discard(store)

    async def test_it_replaces_the_warnings(self, page_client: PageClient) -> None:
        text = (await page_client.get("/engine")).text
        assert "Managed: the service makes each write durable before it answers." in text
        assert "Durability is declared as the service's (WINDLASS_ENGINE_DURABILITY=managed)." in text
        assert "The engine keeps no append-only file." not in text
        assert "no replica is connected" not in text


async def test_runs_the_doctor(page_client: PageClient, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    fields = (await page_client.get("/engine")).form("/do/doctor")
    answer = await page_client.send("/do/doctor", fields)
    assert answer.status_code == 200
    assert "No problems found" in answer.text
    (entry,) = service.audits().wait().entries
    assert (entry.what, entry.detail, entry.outcome) == ("doctor", "look", "done")


async def test_repairs_after_confirmation(page_client: PageClient, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    store = service.store
    store._sync_connection.call("SREM", f"{store.root(0)}:queues", "mail")
    fields = (await page_client.get("/engine")).form("/do/doctor")
    found = await page_client.send("/do/doctor", fields)
    assert "Problems found" in found.text
    question = await page_client.send("/do/doctor", fields | {"repair": "1"})
    assert "Are you sure?" in question.text
    assert "queue_not_listed" in {finding.code for finding in service.doctor().wait().findings}
    done = await page_client.send("/do/doctor", fields | {"repair": "1", "confirmed": "1"})
    assert "repaired" in done.text
    assert "queue_not_listed" not in {finding.code for finding in service.doctor().wait().findings}


async def test_shows_how_far_the_doctor_came_within_its_time_limit(
    page_client: PageClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LIMIT_S", 0)
    fields = (await page_client.get("/engine")).form("/do/doctor")
    answer = await page_client.send("/do/doctor", fields)
    assert "Check not finished" in answer.text
    assert "windlass doctor" in answer.text


@pytest.fixture
def reader(service: Service) -> str:
    return service.create_token(NewToken(name="reader", roles=frozenset({Role.READ}))).wait().text


async def test_the_role_read_allows_neither_doctor_nor_audit_log(reader: str, page_client: PageClient) -> None:
    await page_client.log_in(reader)
    page = await page_client.get("/engine")
    assert page.status == 200
    assert not [action for action in page.actions if "doctor" in action]
    assert not page.all("a", href="/audit")
    assert (await page_client.get("/audit")).status == 403


# Audit log


def _entry(number: int, **more: str) -> AuditEntry:
    return AuditEntry(who="me", what="pause_queue", target=f"queue-{number}", **more)


async def test_shows_the_audit_log_newest_first_in_pages(page_client: PageClient, service: Service) -> None:
    service.audit([_entry(number) for number in range(70)]).wait()
    page = await page_client.get("/audit")
    assert page.text.index("queue-69") < page.text.index("queue-21")
    assert "queue-19" not in page.text
    (more,) = page.all("a", rel="next")
    page = await page_client.get(more["href"])
    assert "queue-19" in page.text
    assert not page.all("a", rel="next")
    assert page.all("a", href="/audit")


async def test_searches_the_audit_log(page_client: PageClient, service: Service) -> None:
    service.audit([_entry(1, detail="<b>provider</b> is down", outcome="names_need_lanes"), _entry(2)]).wait()
    page = await page_client.get("/audit?q=PROVIDER+queue-1")
    assert "<b>provider</b> is down" in page.text
    assert "names need lanes" in page.text
    assert "queue-2" not in page.text
    assert "Nothing found" in (await page_client.get("/audit?q=nowhere")).text
    assert (await page_client.get("/audit?cursor=nonsense")).status == 400


async def test_searches_old_entries_page_by_page(page_client: PageClient, service: Service) -> None:
    service.audit([_entry(0, detail="needle")]).wait()
    for _ in range(5):
        service.audit([_entry(number) for number in range(1, 500)]).wait()
    page = await page_client.get("/audit?q=needle")
    assert "queue-0" not in page.text
    (more,) = page.all("a", rel="next")
    assert "queue-0" in (await page_client.get(more["href"])).text


class TestReadOnlyEngine:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, dashboard_read_only=True)

    async def test_shows_the_audit_log_but_no_doctor(self, page_client: PageClient) -> None:
        assert (await page_client.get("/audit")).status == 200
        page = await page_client.get("/engine")
        assert not [action for action in page.actions if "doctor" in action]
        assert page.all("a", href="/audit")
