"""The FastAPI example: a request enqueues a job, a worker runs it, and the result is polled and streamed."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import msgspec
import pytest

pytestmark = pytest.mark.anyio
UNKNOWN = "01890a5d-ac96-7000-8000-b5c1d0b7a3f2"


async def test_reports_are_written_and_streamed(worker: Any) -> None:
    from fastapi_app import api

    transport = httpx.ASGITransport(api)
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://api") as client,
    ):
        response = await client.post("/reports", params={"pages": 3})
        assert response.status_code == 202
        report = f"/reports/{response.json()['id']}"
        assert (await client.get(report)).json() == {"state": "queued", "progress": 0, "result": None}
        following = asyncio.create_task(client.get(f"{report}/stream"))
        with worker("fastapi_app:app"):
            events = await asyncio.wait_for(following, 60)
        assert events.headers["content-type"].startswith("text/event-stream")
        pages = [("message", {"page": page}) for page in (1, 2, 3)]
        assert _messages(events.text) == [*pages, ("end", {"state": "finished"})]
        assert (await client.get(report)).json() == {"state": "finished", "progress": 1, "result": {"pages": 3}}
        late = (await client.get(f"{report}/stream")).text  # a reader that comes after the end loses nothing
        assert _messages(late) == [*pages, ("end", {"state": "finished"})]


async def test_wrong_requests_are_refused(deployment: None) -> None:
    from fastapi_app import api

    transport = httpx.ASGITransport(api)
    async with (
        api.router.lifespan_context(api),
        httpx.AsyncClient(transport=transport, base_url="http://api") as client,
    ):
        assert (await client.post("/reports", params={"pages": "many"})).status_code == 422
        for path in ("nonsense", UNKNOWN):
            answer = await client.get(f"/reports/{path}")
            assert answer.status_code == 404
            assert "id" in answer.json()["detail"]
        assert (await client.get(f"/reports/{UNKNOWN}/stream")).status_code == 404


def _messages(text: str) -> list[tuple[str, Any]]:
    found = []
    for part in text.strip().split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in part.splitlines())
        if "data" in fields:
            found.append((fields["event"], msgspec.json.decode(fields["data"])))
    return found
