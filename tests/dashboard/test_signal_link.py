"""Page of a signed link: anybody who has the link answers a job, once."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from tests.dashboard.page_client import Page
from windlass.core.access.tokens import NewToken, Role
from windlass.core.durable import SIGNAL_VALUE_MAX, Suspend, Wait
from windlass.core.ids import format_id
from windlass.core.job import Job, NewJob
from windlass.core.operations import Finish, Take
from windlass.sdk.durable.schemas import signal_schema
from windlass.server import Server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
def server_settings(service: Service) -> Settings:
    """The server requires tokens, and its pages change nothing: both are no matter to a link."""
    service.create_token(NewToken(name="other", roles=frozenset({Role.ADMIN}))).wait()
    return Settings(port=0, bedrock_port=None, roles="api", dashboard_read_only=True)


class Approval(msgspec.Struct):
    by: str
    is_granted: bool
    amount: int | None = None


async def suspended(service: Service, kind: Any = Any, **more: Any) -> Job:
    await service.enqueue([NewJob(queue="q", name="fulfil", **more)])
    [job] = (await service.take(Take(queues=("q",)))).jobs
    waits = (Wait(name="wait", kind="signal", signal="approval", schema=signal_schema(kind)),)
    await service.suspend([Suspend(id=job.id, token=job.lease_token, waits=waits)]).one()
    return job


async def link_to(service: Service, job: Job, **more: Any) -> str:
    return f"/signals/{(await service.signal_link(job.id, 'approval', **more)).token}"


async def answers_of(service: Service, job: Job) -> list[bytes]:
    steps = (await service.durable_states([job.id]).one()).steps
    return [step.value.data for step in steps if step.value is not None and step.schema is None]


@pytest.fixture
async def client(running: Server) -> Any:
    async with httpx.AsyncClient(base_url=running.url, timeout=30) as client:
        yield client


async def send(client: httpx.AsyncClient, path: str, **form: str | list[str]) -> Page:
    return Page(await client.post(path, data=form))


def forms_of(page: Page) -> list[str]:
    """Actions of the forms, without those of dialogs."""
    return [action for action, _ in page.forms if action]


async def test_reading_the_page_changes_nothing(client: httpx.AsyncClient, service: Service) -> None:
    job = await suspended(service)
    path = await link_to(service, job)
    for _ in range(2):
        page = Page(await client.get(path))
        assert (page.status, "approval" in page.text, "fulfil" in page.text) == (200, True, True)
    assert (await client.head(path)).status_code == 200
    assert forms_of(page) == [path, path]
    assert "script-src 'self'" in page.answer.headers["content-security-policy"]
    assert page.answer.headers["cache-control"] == "no-store"
    assert (await answers_of(service, job), (await service.job([job.id]).one()).job.state.label) == ([], "suspended")


@pytest.mark.parametrize(
    ("form", "stored"),
    [
        ({"kind": "yes"}, b"true"),
        ({"kind": "no"}, b"false"),
        ({"kind": "text", "value": 'it is "fine"'}, b'"it is \\"fine\\""'),
        ({"kind": "number", "value": " 7.5 "}, b"7.5"),
        ({"kind": "json", "value": '{"approved": true}'}, b'{"approved":true}'),
        ({"value": "[1]"}, b"[1]"),
    ],
)
async def test_an_answer_is_received(
    client: httpx.AsyncClient, service: Service, form: dict[str, str], stored: bytes
) -> None:
    job = await suspended(service)
    page = await send(client, await link_to(service, job), **form)
    assert (page.status, "The job continues" in page.text) == (200, True)
    assert await answers_of(service, job) == [stored]
    [entry] = (await service.audits()).entries
    assert (entry.who, entry.what, entry.target, entry.outcome) == ("anybody", "signal", format_id(job.id), "done")


async def test_a_link_works_once(client: httpx.AsyncClient, service: Service) -> None:
    job = await suspended(service)
    path = await link_to(service, job)
    await send(client, path, kind="yes")
    page = await send(client, path, kind="no")
    assert (page.status, "already used" in page.text) == (409, True)
    assert await answers_of(service, job) == [b"true"]
    assert (await service.durable_states([job.id]).one()).signals == ()


async def test_two_links_to_one_signal_each_work_once(client: httpx.AsyncClient, service: Service) -> None:
    job = await suspended(service)
    first, second = await link_to(service, job), await link_to(service, job)
    assert (await send(client, first, kind="yes")).status == 200
    page = await send(client, second, kind="no")
    assert (page.status, "when it asks for it" in page.text) == (200, True)
    [kept] = (await service.durable_states([job.id]).one()).signals
    assert kept.value.data == b"false"


@pytest.mark.parametrize(
    "form",
    [
        {"kind": "number", "value": "seven"},
        {"kind": "number", "value": "true"},
        {"kind": "json", "value": "{"},
        {"kind": "json", "value": ""},
        {"kind": "<script>", "value": "1"},
        {},
    ],
)
async def test_a_bad_answer_shows_the_form_again(
    client: httpx.AsyncClient, service: Service, form: dict[str, str]
) -> None:
    job = await suspended(service)
    path = await link_to(service, job)
    page = await send(client, path, **form)
    assert (page.status, forms_of(page), "<script>" in page.answer.text) == (400, [path, path], False)
    assert (await send(client, path, kind="yes")).status == 200


async def test_the_form_is_made_from_the_type(client: httpx.AsyncClient, service: Service) -> None:
    job = await suspended(service, Approval)
    path = await link_to(service, job)
    page = Page(await client.get(path))
    assert "By Is granted Choose Yes No Amount" in page.text
    assert (forms_of(page), page.all("button", name="kind")) == ([path, path], [])
    schema = page.form(path)["schema"]
    page = await send(client, path, schema=schema, input=["<ada>", "", "many"])
    assert (page.status, "A value is required." in page.text, "Enter a whole number" in page.text) == (400, True, True)
    assert [found["value"] for found in page.all("input", name="input")] == ["<ada>", "many"]
    assert await answers_of(service, job) == []
    page = await send(client, path, schema=schema, input=["ada", "false", ""])
    assert (page.status, "The job continues" in page.text) == (200, True)
    assert await answers_of(service, job) == [b'{"by":"ada","is_granted":false}']
    page = await send(client, path, schema=schema, input=["ada", "true", ""])
    assert (page.status, "already used" in page.text) == (409, True)


async def test_json_can_be_sent_instead_of_the_form(client: httpx.AsyncClient, service: Service) -> None:
    job = await suspended(service, Approval)
    path = await link_to(service, job)
    page = await send(client, path, kind="json", value="{")
    assert (page.status, "open" in page.all("details", **{"class": "raw-answer"})[0]) == (400, True)
    assert (await send(client, path, kind="json", value='{"by":"ada"}')).status == 200
    assert await answers_of(service, job) == [b'{"by":"ada"}']


@pytest.mark.parametrize(("kind", "inputs"), [(bool, ["true"]), (str, ["true"]), (list[int], [])])
async def test_a_plain_type_has_its_own_form(
    client: httpx.AsyncClient, service: Service, kind: Any, inputs: list[str]
) -> None:
    job = await suspended(service, kind)
    path = await link_to(service, job)
    page = Page(await client.get(path))
    form = {"schema": page.form(path)["schema"], "input": inputs} if inputs else {"kind": "json", "value": "[1]"}
    assert (await send(client, path, **form)).status == 200
    assert await answers_of(service, job) == [{bool: b"true", str: b'"true"'}.get(kind, b"[1]")]


@pytest.mark.parametrize("schema", ["{", "[]", '{"type":"array"}', '{"type":"string"}', "<script>"])
async def test_a_changed_schema_does_no_harm(client: httpx.AsyncClient, service: Service, schema: str) -> None:
    job = await suspended(service, Approval)
    path = await link_to(service, job)
    page = await send(client, path, schema=schema, input=["x"] * 3)
    assert (page.status, "<script>" in page.answer.text) == (400, False)
    assert (await client.post(path, data={"schema": schema, "input": ["x"] * 50})).status_code == 400
    assert await answers_of(service, job) == []


async def test_an_answer_that_is_too_large_is_refused(client: httpx.AsyncClient, service: Service) -> None:
    job = await suspended(service)
    path = await link_to(service, job)
    assert (await send(client, path, kind="text", value="x" * SIGNAL_VALUE_MAX)).status == 413
    assert (await client.post(path, content=b"x" * 5 * SIGNAL_VALUE_MAX)).status_code in (413, 415)
    assert await answers_of(service, job) == []


async def test_an_expired_link_is_refused(client: httpx.AsyncClient, service: Service, store: Store) -> None:
    job = await suspended(service)
    path = await link_to(service, job, expires_in_ms=60_000)
    store.clock_offset_ms += 60_000
    pages = [Page(await client.get(path)), await send(client, path, kind="yes")]
    assert [(page.status, "has expired" in page.text, forms_of(page)) for page in pages] == [(410, True, [])] * 2
    assert await answers_of(service, job) == []


async def test_texts_that_are_no_links_are_refused(client: httpx.AsyncClient, service: Service) -> None:
    good = await link_to(service, await suspended(service))
    changed = good[:40] + ("A" if good[40] != "A" else "B") + good[41:]
    for path in (changed, good[:-4], "/signals/x", "/signals/%00", "/signals/%F0%9F%92%A9", f"/signals/{'a' * 3000}"):
        pages = [Page(await client.get(path)), await send(client, path, kind="yes")]
        assert [(page.status, forms_of(page)) for page in pages] == [(404, [])] * 2, path


async def test_an_ended_job_needs_no_answer(client: httpx.AsyncClient, service: Service) -> None:
    job = await suspended(service)
    path = await link_to(service, job)
    await service.cancel([job.id]).one()
    pages = [Page(await client.get(path)), await send(client, path, kind="yes")]
    assert [(page.status, "has ended" in page.text) for page in pages] == [(410, True)] * 2
    await service.delete([job.id]).one()
    assert (await client.get(path)).status_code == 410


async def test_a_link_is_for_one_occurrence(client: httpx.AsyncClient, service: Service, store: Store) -> None:
    await service.enqueue([NewJob(queue="q", name="fulfil", repeat="STARTED, +1 DAY")])
    [job] = (await service.take(Take(queues=("q",)))).jobs
    path = await link_to(service, job)
    await service.finish([Finish(job.id, job.lease_token)]).one()
    pages = [Page(await client.get(path)), await send(client, path, kind="yes")]
    assert {page.status for page in pages} == {410}
    assert not (await service.job([job.id]).one()).job.is_durable
