"""Operations of operators over HTTP: export, import, tokens, the doctor and the state of the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.service.export.example_deployment import comparable, export_lines, fill
from tests.service.helpers import counts, new, put
from tests.support.threaded_server import threaded_server
from windlass.core.access.tokens import NewToken, Role
from windlass.core.errors import BadInput, LastAdminToken
from windlass.core.export.import_report import ImportReport
from windlass.sdk.deployment import make_service, make_store
from windlass.sdk.remote.admin import transfer
from windlass.sdk.remote.request import ApiRequest, NoAnswer
from windlass.sdk.remote.sync_session import SyncHttpSession
from windlass.service import Service
from windlass.settings import Settings


@pytest.fixture
def there(served: str) -> Iterator[Service]:
    """Return the deployment over its server."""
    store = make_store(Settings(url=served))
    yield make_service(store)
    store.close_sync()


@pytest.fixture
def target_there(target: Service) -> Iterator[Service]:
    target.store.open_sync()
    with threaded_server(target.store.clone(), Settings(port=0, bedrock_port=None, roles="api")) as url:
        store = make_store(Settings(url=url))
        yield make_service(store)
        store.close_sync()


def test_everything_is_exported_and_imported(
    service: Service, there: Service, target: Service, target_there: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "PART_LINES", 3)
    fill(service)
    lines = list(there.export())
    assert comparable(lines) == comparable(export_lines(service))
    report = target_there.import_jobs(lines).wait()
    assert (report.lines, report.refused) == (len(lines), {})
    assert comparable(export_lines(target)) == comparable(lines)
    again = target_there.import_jobs(lines).wait()
    assert sum(again.added.values()) == 0
    assert again.existing == report.added


@pytest.mark.anyio
async def test_everything_is_exported_and_imported_in_an_event_loop(service: Service, there: Service) -> None:
    put(service, new(), new())
    lines = [line async for line in there.export()]
    assert [line[:15] for line in lines][-1] == b'{"kind":"end","'

    async def read() -> AsyncIterator[bytes]:
        for line in lines:
            yield line

    report = await there.import_jobs(read())
    assert report.existing == {"queue": 1, "job": 2} or report.existing == {"job": 2}
    await there.remote.close()  # type: ignore[attr-defined]


def test_a_part_whose_answer_was_lost_is_sent_again(
    service: Service, target: Service, target_there: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(service, *(new() for _ in range(5)))
    send, lost = SyncHttpSession.send, []

    def lose_the_first(session: SyncHttpSession, request: ApiRequest) -> object:
        answer = send(session, request)
        if request.path == "/import" and not lost:
            lost.append(request)
            raise NoAnswer("lost")
        return answer

    monkeypatch.setattr(SyncHttpSession, "send", lose_the_first)
    report = target_there.import_jobs(export_lines(service)).wait()
    assert len(lost) == 1
    assert (report.added["job"], report.existing["job"]) == (0, 5)
    assert counts(target) == {"queued": 5}


def test_refusals_and_errors_name_the_line_of_the_file(
    service: Service, target: Service, target_there: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "PART_LINES", 1)
    put(service, new(), new(unique="u"))
    put(target, new(unique="u"))
    lines = export_lines(service)
    report: ImportReport = target_there.import_jobs(lines).wait()
    [refusal] = report.reasons
    assert b'"unique":"u"' in lines[refusal.line - 1]
    with pytest.raises(BadInput, match=f"Line {len(lines)}"):
        target_there.import_jobs([*lines[:-1], b'{"kind":"job","job":{}}', lines[-1]]).wait()
    with pytest.raises(BadInput, match="truncated"):
        target_there.import_jobs(lines[:-1]).wait()
    with pytest.raises(BadInput, match="not the header"):
        target_there.import_jobs(lines[1:]).wait()


def test_the_doctor_and_the_state_of_the_engine(service: Service, there: Service) -> None:
    put(service, new())
    found, expected = there.doctor().wait(), service.doctor().wait()
    assert (found.jobs, found.queues, found.findings) == (expected.jobs, expected.queues, expected.findings)
    [here], [node] = service.engines().wait(), there.engines().wait()
    assert (node.product, node.version, node.durability) == (here.product, here.version, here.durability)
    assert [finding.code for finding in node.findings] == [finding.code for finding in here.findings]


def test_tokens(service: Service, served: str, there: Service) -> None:
    with pytest.raises(LastAdminToken):
        there.create_token(NewToken(name="shop", roles=frozenset({Role.READ})), needs_admin=True).wait()
    root = there.create_token(NewToken(name="root", roles=frozenset({Role.ADMIN}))).wait()
    store = make_store(Settings(url=served, token=root.text))
    admin = make_service(store)
    assert [token.name for token in admin.tokens().wait().tokens] == ["root"]
    with pytest.raises(LastAdminToken):
        admin.revoke_token("root", needs_admin=True).wait()
    assert [entry.what for entry in admin.audits().wait().entries][:1] == ["revoke_token"]
    admin.revoke_token("root").wait()
    assert service.tokens().wait().tokens == []
    store.close_sync()


def test_weights_of_other_lanes_stay(service: Service, there: Service) -> None:
    assert there.set_weights("q", {"gold": 3, "silver": 2}).wait() == {"gold": 3, "silver": 2}
    assert there.set_weights("q", {"silver": 5}).wait() == {"gold": 3, "silver": 5}
    assert there.set_weights("q", {"gold": 1}).wait() == {"silver": 5} == service.set_weights("q", {}).wait()
