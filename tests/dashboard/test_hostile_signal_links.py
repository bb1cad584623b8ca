"""Signed links in hostile hands: changed, repeated, followed by scanners, framed, and looked for in logs."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.core.access.test_signal_links import changed_links
from tests.dashboard.page_client import Page
from tests.support.server_process import ServerProcess, store_options, wait_until
from windlass.core.durable import SIGNAL_VALUE_MAX, Suspend, Wait
from windlass.core.job import Job, NewJob
from windlass.core.operations import Take
from windlass.server import Server
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

ONCE = 20  # answers at the same time
MARKUP = '"><img src=x onerror=alert(1)>'


@pytest.fixture
async def client(running: Server) -> Any:
    async with httpx.AsyncClient(base_url=running.url, timeout=30) as client:
        yield client


async def suspended(service: Service, signal: str = "approval", name: str = "fulfil") -> Job:
    await service.enqueue([NewJob(queue="q", name=name)])
    [job] = (await service.take(Take(queues=("q",)))).jobs
    waits = (Wait(name="wait", kind="signal", signal=signal),)
    await service.suspend([Suspend(id=job.id, token=job.lease_token, waits=waits)]).one()
    return job


async def link_to(service: Service, job: Job, signal: str = "approval") -> str:
    return (await service.signal_link(job.id, signal)).token


async def answers_of(service: Service, job: Job) -> list[bytes]:
    steps = (await service.durable_states([job.id]).one()).steps
    return [step.value.data for step in steps if step.value is not None and step.schema is None]


async def test_forged_links_are_all_refused_alike(client: httpx.AsyncClient, service: Service) -> None:
    """A refusal does not tell which part of a link was wrong."""
    job, other = await suspended(service), await suspended(service)
    token, foreign = await link_to(service, job), await link_to(service, other)
    forged = [*changed_links(token)[:: len(token) // 12], foreign[:32] + token[32:], token[:32] + foreign[32:]]
    pages = set()
    for text in forged:
        for answer in (
            await client.get(f"/signals/{text}"),
            await client.post(f"/signals/{text}", data={"kind": "yes"}),
        ):
            pages.add((answer.status_code, Page(answer).text))
    assert [status for status, _ in pages] == [404]
    assert await answers_of(service, job) == []


async def test_another_encoding_of_a_link_is_the_same_link(client: httpx.AsyncClient, service: Service) -> None:
    """Padding and percent-encoding may be added on the way. They give no second answer."""
    job = await suspended(service)
    token = await link_to(service, job)
    other = "".join(f"%{ord(character):02X}" for character in token)
    padded = token + "=" * (-len(token) % 4)
    sent = [
        await client.post(f"/signals/{text}", data={"kind": "yes"}) for text in (other, token, padded, f"{token}?x=1")
    ]
    assert sent[0].status_code == 200
    assert {answer.status_code for answer in sent[1:]} <= {404, 409}
    assert await answers_of(service, job) == [b"true"]


async def test_scanners_change_nothing(client: httpx.AsyncClient, service: Service) -> None:
    job = await suspended(service)
    path = f"/signals/{await link_to(service, job)}"
    for method in ("GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"):
        await client.request(method, path, params={"kind": "yes", "value": "true"})
    for headers in ({"purpose": "prefetch"}, {"x-http-method-override": "POST"}, {"x-method-override": "POST"}):
        assert (await client.get(path, headers=headers)).status_code == 200
    assert await answers_of(service, job) == []
    assert (await client.post(path, data={"kind": "yes"})).status_code == 200


async def test_one_of_many_answers_at_once_counts(client: httpx.AsyncClient, service: Service) -> None:
    job = await suspended(service)
    path = f"/signals/{await link_to(service, job)}"
    sent = await asyncio.gather(*(client.post(path, data={"kind": "number", "value": str(n)}) for n in range(ONCE)))
    assert sorted(answer.status_code for answer in sent) == [200] + [409] * (ONCE - 1)
    assert len(await answers_of(service, job)) == 1
    assert (await service.durable_states([job.id]).one()).signals == ()


@pytest.mark.parametrize(
    "path", ["/signals/{}/", "//signals/{}", "/signals//{}", "/./signals/{}", "/x/../signals/{}", "/signals/{}%00",
             "/signals/{}%0d%0aSet-Cookie:%20a=b", "/signals/..%2f{}", "/SIGNALS/{}"],
)  # fmt: skip
async def test_path_tricks_lead_nowhere(running: Server, service: Service, path: str) -> None:
    """The path is sent as it is: a client library would normalize it."""
    job = await suspended(service)
    target = path.format(await link_to(service, job))
    body = b"kind=yes"
    head = f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    answer = await asyncio.to_thread(_send, running.url, f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    status, headers = answer.split(b" ", 2)[1], answer.partition(b"\r\n\r\n")[0].lower()
    assert status in (b"404", b"400", b"405"), answer[:200]
    assert b"a=b" not in headers
    assert await answers_of(service, job) == []


def _send(url: str, request: bytes) -> bytes:
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as sock:
        sock.sendall(request)
        sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(65_536), b""))


async def test_a_page_of_a_link_cannot_be_framed_kept_or_leak_its_url(
    client: httpx.AsyncClient, service: Service
) -> None:
    job = await suspended(service)
    path = f"/signals/{await link_to(service, job)}"
    answers = [
        await client.get(path),
        await client.get("/signals/forged"),
        await client.post(path, data={"kind": "json"}),
    ]
    answers.append(await client.post(path, data={"kind": "yes"}))
    assert [answer.status_code for answer in answers] == [200, 404, 400, 200]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
        assert answer.headers["referrer-policy"] in ("same-origin", "no-referrer")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        sources = [element.get("src") or element.get("href") or "" for _, element in Page(answer).elements]
        assert not [source for source in sources if source.startswith(("http:", "https:", "//"))]


async def test_names_of_a_job_are_text_on_the_page(client: httpx.AsyncClient, service: Service) -> None:
    job = await suspended(service, signal=f"ok{MARKUP}", name=f"job{MARKUP}")
    page = await client.get(f"/signals/{await link_to(service, job, f'ok{MARKUP}')}")
    assert page.status_code == 200
    assert "<img src=x" not in page.text
    again = await client.post(page.url.path, data={"kind": "number", "value": MARKUP, "schema": MARKUP})
    assert again.status_code in (400, 200)
    assert "<img src=x" not in again.text


async def test_bodies_of_any_size_and_form_change_nothing(client: httpx.AsyncClient, service: Service) -> None:
    job = await suspended(service)
    path = f"/signals/{await link_to(service, job)}"
    form = {"content-type": "application/x-www-form-urlencoded"}
    bodies = (
        b"kind=json&value=" + b"[" * 30_000,
        b"&".join(b"a%d=1" % number for number in range(5000)),
        b"kind=yes&kind=no",
        b"=" * 60_000,
        b"kind=json&value=%FF%FE",
        b"\0" * 100,
        b"schema=%7B&input=1",
        b"x" * 5 * SIGNAL_VALUE_MAX,
    )
    for body in bodies:
        answer = await client.post(path, content=body, headers=form)
        assert answer.status_code in (400, 413), (body[:20], answer.status_code)
    assert await answers_of(service, job) == []


def test_a_link_is_in_no_log(service: Service, store: Store) -> None:
    service.enqueue([NewJob(queue="q", name="fulfil")]).wait()
    [job] = service.take(Take(queues=("q",))).wait().jobs
    waits = (Wait(name="wait", kind="signal", signal="approval"),)
    service.suspend([Suspend(id=job.id, token=job.lease_token, waits=waits)]).one().wait()
    token = service.signal_link(job.id, "approval").wait().token
    with ServerProcess(store_options(store), access_log="1", base_path="/ops") as server:
        with httpx.Client(base_url=server.url, timeout=30) as client:
            for path in (f"/ops/signals/{token}", f"/signals/{token}", f"/ops/signals/{token}/x"):
                client.get(path)
                client.post(path, data={"kind": "number", "value": "x"})
            assert client.post(f"/ops/signals/{token}", data={"kind": "yes"}).status_code == 200
            client.get("/ops/healthz")
        wait_until(lambda: "healthz" in server.errors)
        server.signal()
        assert server.wait() == 0
        output = server.errors + server.output
    assert output.count("/signals/…") >= 7 or output.count("/signals/\\u2026") >= 7
    assert token[:20] not in output
    assert token[-20:] not in output
