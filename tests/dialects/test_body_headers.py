"""Requests whose body is encoded, or whose answer is expected, in a way that the server does not know."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

from windlass.server import Server
from windlass.web.app.router import Route

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

WAIT_S = 20.0


async def ask_without_body(url: str, method: str, path: str, *fields: str) -> tuple[int, dict[str, str], bytes]:
    """Announce a body of five bytes, send none of it, and read the answer."""
    target = urlsplit(url)
    reader, writer = await asyncio.open_connection(target.hostname, target.port)
    try:
        head = (f"{method} {path} HTTP/1.1", f"Host: {target.netloc}", "Content-Length: 5", *fields)
        writer.write("\r\n".join((*head, "", "")).encode())
        async with asyncio.timeout(WAIT_S):
            lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            found = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
            body = await reader.readexactly(int(found.get("content-length", 0)) if method != "HEAD" else 0)
        return int(lines[0].split()[1]), found, body
    finally:
        writer.close()


def path_of(route: Route) -> str:
    return "/".join("x" if part.startswith("{") else part for part in route.path.split("/"))


@pytest.mark.parametrize("coding", ["gzip", "identity, br", "utf-8"])
async def test_every_route_refuses_an_unknown_content_encoding_before_the_body(running: Server, coding: str) -> None:
    for route in running.state.routes:
        status, headers, _ = await ask_without_body(
            running.url, route.method, path_of(route), f"Content-Encoding: {coding}"
        )
        assert (route.operation, status) == (route.operation, 415)
        assert headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("expected", ["200-maybe", "100-continue, payment"])
async def test_every_route_refuses_an_unknown_expectation_before_the_body(running: Server, expected: str) -> None:
    for route in running.state.routes:
        status, headers, _ = await ask_without_body(running.url, route.method, path_of(route), f"Expect: {expected}")
        assert (route.operation, status) == (route.operation, 417)
        assert headers["connection"] == "close"  # the body may still come, or not


async def test_the_refusal_has_the_form_of_its_dialect(running: Server) -> None:
    async def refused(path: str) -> tuple[str, bytes]:
        status, headers, body = await ask_without_body(running.url, "POST", path, "Content-Encoding: gzip")
        assert status == 415
        return headers["content-type"], body

    kind, body = await refused("/api/v1/jobs")
    assert kind == "application/problem+json"
    problem = msgspec.json.decode(body)
    assert problem["code"] == "unsupported_content_encoding"
    assert "'gzip'" in problem["detail"]
    assert "without Content-Encoding" in problem["detail"]
    kind, body = await refused("/jobber/queue")
    assert kind.startswith("text/plain")
    assert b"'gzip'" in body


@pytest.mark.parametrize("fields", [
    {"content-encoding": "identity"}, {"content-encoding": "Identity, identity"}, {"content-encoding": ""},
    {"expect": "100-continue"}, {"expect": "100-Continue, 100-continue"}, {"expect": ""},
])  # fmt: skip
async def test_fields_that_are_understood(client: httpx.AsyncClient, fields: dict[str, str]) -> None:
    answered = await client.post("/api/v1/jobs", json={"queue": "q", "name": "n"}, headers=fields)
    assert answered.status_code == 201, answered.text
