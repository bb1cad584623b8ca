"""The engine's page and the doctor, the audit log's page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dashboard.page_client import Looker
from tests.support.acl_user import restricted
from tests.support.engine_process import EngineProcess
from windlass.core.access.audit import AuditEntry
from windlass.core.access.tokens import NewToken, Role
from windlass.core.job import NewJob
from windlass.dashboard.actions import doctor
from windlass.server import Server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store
from windlass.store.topology.preparation import prepare

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


async def test_the_engine_says_how_it_does(looker: Looker, running: Server) -> None:
    (state,) = await running.service.engines()
    page = await looker.look("/engine")
    assert f"{state.product.capitalize()} {state.version}" in page.text
    for words in ("Round trip", "Memory", "Append-only file", "Partitions 1", "Durability"):
        assert words in page.text
    assert {one.what for one in state.findings}  # a test's engine keeps nothing
    for one in state.findings:
        assert one.what in page.text


async def test_an_engine_that_keeps_nothing_says_so(looker: Looker) -> None:
    page = await looker.look("/engine")
    assert "Memory only: no append-only file and no snapshots. A restart of the engine loses every job." in page.text
    assert "setting: memory" in page.text


class TestDurabilityInForce:
    """On an engine of its own, whose settings are not those of the others."""

    @pytest.fixture(params=["", "-config|get"])
    def rule(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def store(self, engine: EngineProcess, rule: str) -> Iterator[Store]:
        with EngineProcess("valkey", config=("--appendonly", "yes", "--appendfsync", "everysec")) as own:
            prepare(Store(parse_url(own.unix_url)).topology, 5.0)
            yield Store(parse_url(restricted(own, *filter(None, [rule]))), durability="fsync")

    async def test_it_is_read_from_the_engine(self, looker: Looker, rule: str) -> None:
        text = (await looker.look("/engine")).text
        assert "setting: fsync" in text
        if rule:
            assert "how often it is flushed to disk is unknown: the engine's user may not call CONFIG GET." in text
        else:
            assert "Append-only file, flushed once a second (appendfsync everysec)." in text
        assert "Enqueues wait for their own flush (durability fsync)." in text


async def test_the_doctor_is_asked_from_the_page(looker: Looker, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    fields = (await looker.look("/engine")).form("/do/doctor")
    answer = await looker.send("/do/doctor", fields)
    assert answer.status_code == 200
    assert "All is well" in answer.text
    (entry,) = service.audits().wait().entries
    assert (entry.what, entry.detail, entry.outcome) == ("doctor", "look", "done")


async def test_a_repair_is_asked_for_twice_and_done(looker: Looker, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    store = service.store
    store._sync_connection.call("SREM", f"{store.root(0)}:queues", "mail")
    fields = (await looker.look("/engine")).form("/do/doctor")
    found = await looker.send("/do/doctor", fields)
    assert "Something is wrong" in found.text
    asked = await looker.send("/do/doctor", fields | {"repair": "1"})
    assert "Are you sure?" in asked.text
    assert [one.code for one in service.doctor().wait().findings if one.code == "queue_not_listed"]
    done = await looker.send("/do/doctor", fields | {"repair": "1", "confirmed": "1"})
    assert "repaired" in done.text
    assert not [one.code for one in service.doctor().wait().findings if one.code == "queue_not_listed"]


async def test_a_doctor_that_does_not_come_to_an_end_says_how_far_it_came(
    looker: Looker, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LIMIT_S", 0)
    fields = (await looker.look("/engine")).form("/do/doctor")
    answer = await looker.send("/do/doctor", fields)
    assert "Not to its end" in answer.text
    assert "windlass doctor" in answer.text


@pytest.fixture
def reader(service: Service) -> str:
    return service.create_token(NewToken(name="reader", roles=frozenset({Role.READ}))).wait().text


async def test_whoever_may_only_read_sees_the_engine_but_no_doctor_and_no_audit_log(
    reader: str, looker: Looker
) -> None:
    await looker.log_in(reader)
    page = await looker.look("/engine")
    assert page.status == 200
    assert not [action for action in page.actions if "doctor" in action]
    assert not page.all("a", href="/audit")
    assert (await looker.look("/audit")).status == 403


# The audit log


def _entry(number: int, **more: str) -> AuditEntry:
    return AuditEntry(who="me", what="pause_queue", target=f"queue-{number}", **more)


async def test_the_audit_log_is_shown_newest_first_and_paged(looker: Looker, service: Service) -> None:
    service.audit([_entry(number) for number in range(70)]).wait()
    page = await looker.look("/audit")
    assert page.text.index("queue-69") < page.text.index("queue-21")
    assert "queue-19" not in page.text
    (more,) = page.all("a", rel="next")
    page = await looker.look(more["href"])
    assert "queue-19" in page.text
    assert not page.all("a", rel="next")
    assert page.all("a", href="/audit")


async def test_entries_are_found_by_their_words(looker: Looker, service: Service) -> None:
    service.audit([_entry(1, detail="<b>provider</b> is down", outcome="names_need_lanes"), _entry(2)]).wait()
    page = await looker.look("/audit?q=PROVIDER+queue-1")
    assert "<b>provider</b> is down" in page.text
    assert "names need lanes" in page.text
    assert "queue-2" not in page.text
    assert "Nothing found" in (await looker.look("/audit?q=nowhere")).text
    assert (await looker.look("/audit?cursor=nonsense")).status == 400


async def test_what_is_sought_far_back_is_found_page_by_page(looker: Looker, service: Service) -> None:
    service.audit([_entry(0, detail="needle")]).wait()
    for _ in range(5):
        service.audit([_entry(number) for number in range(1, 500)]).wait()
    page = await looker.look("/audit?q=needle")
    assert "queue-0" not in page.text
    (more,) = page.all("a", rel="next")
    assert "queue-0" in (await looker.look(more["href"])).text


class TestReadOnlyEngine:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, dashboard_read_only=True)

    async def test_the_audit_log_is_there_but_no_doctor(self, looker: Looker) -> None:
        assert (await looker.look("/audit")).status == 200
        page = await looker.look("/engine")
        assert not [action for action in page.actions if "doctor" in action]
        assert page.all("a", href="/audit")
