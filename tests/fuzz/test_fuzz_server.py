"""A real server with almost valid bodies, queries, paths and headers on every route: no request causes an error 5xx."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from urllib.parse import quote

import httpx
import pytest

from tests.fuzz.corpus_files import inputs_of
from tests.fuzz.mutation import Mutator
from tests.support.profiles import examples
from windlass.core.job import Blob, NewJob
from windlass.server import open_server
from windlass.server.server import ROUTES
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store
from windlass.web.app.router import Route, Router

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

TOKEN = "a-token-that-opens-everything"  # noqa: S105 (an example)
SEED = "windlass"
ROUTED = Router(ROUTES).routes
EACH = examples(usual=4, deep=100)  # requests of one route
AT_ONCE = 16
HELD_S = 0.5  # a request that may wait is left after this time
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
async def client(store: Store) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings(port=0, bedrock_port=None, roles="api", token=TOKEN)
    async with open_server(store, settings) as server:
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=server.url, timeout=60, headers=headers) as client:
            yield client


def _seeds(parser: str, prefix: str) -> list[bytes]:
    """Return the inputs whose name has the prefix, or all if there are none."""
    found = inputs_of(parser)
    return [data for name, data in found.items() if name.startswith(prefix)] or list(found.values())


class RequestGenerator:
    """Generator of requests to one route."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self._random = random.Random(SEED + route.operation)
        seed = SEED + route.operation
        self._texts = Mutator([b"q", b"nightly", b"a/b", b"01890a5d-ac96-774b-bcce-b302099a8057"], seed)
        self._queries = Mutator(_seeds("query_strings", "") + _seeds("dashboard_filters", ""), seed)
        verb = route.path.rpartition("/")[2]
        bodies = (
            _seeds("dashboard_forms", verb) if route.is_page else [_without_operation(data) for data in self._bodies()]
        )
        self._bodies_made = Mutator(bodies, seed)

    def _bodies(self) -> list[bytes]:
        return _seeds("bodies", self.route.operation)

    def request(self, client: httpx.AsyncClient) -> httpx.Request:
        route = self.route
        names = {name: quote(self._next_input(self._texts)[:200] or b"x", safe="") for name in route.names}
        query = quote(self._next_input(self._queries)[:4000], safe="&=+%") if self._random.random() < 0.5 else ""
        body = self._next_input(self._bodies_made) if route.method in ("POST", "PUT", "PATCH") else None
        headers = {"content-type": self._media(body or b""), "accept": "*/*"}
        if self._random.random() < 0.3:
            key = bytes(byte for byte in self._next_input(self._texts) if byte >= 32 and byte != 127)[:300]
            headers["idempotency-key"] = key.decode("latin-1").strip()
        url = route.path.format(**names) + (f"?{query}" if query else "")
        return client.build_request(
            route.method, url, content=body, headers={name: value.encode("latin-1") for name, value in headers.items()}
        )

    def _media(self, body: bytes) -> str:
        if self.route.is_page:
            return FORM
        return self.route.body_media or ("application/msgpack" if body[:1] > b"\x7f" else "application/json")

    def _next_input(self, mutator: Mutator) -> bytes:
        return next(mutator.inputs(1))


def _without_operation(seed: bytes) -> bytes:
    """Return the body without the operation in its first line."""
    return seed.partition(b"\n")[2]


async def _status(client: httpx.AsyncClient, request: httpx.Request, route: Route) -> int:
    """Return the status, or 0 if the request waits."""
    try:
        async with asyncio.timeout(HELD_S if route.waits or route.streams_body else None):
            answer = await client.send(request, stream=True)
            await answer.aclose()
            return answer.status_code
    except TimeoutError:
        return 0


async def _failures(client: httpx.AsyncClient, routes: Sequence[Route]) -> list[str]:
    turn = asyncio.Semaphore(AT_ONCE)

    async def send_all(generator: RequestGenerator) -> list[str]:
        failed = []
        for _ in range(EACH):
            request = generator.request(client)
            async with turn:
                status = await _status(client, request, generator.route)
            if status >= 500 and status != 503:  # a busy engine may be unavailable for a while
                failed.append(f"{status} {request.method} {request.url} {request.content[:300]!r}")
        return failed

    found = await asyncio.gather(*[send_all(RequestGenerator(route)) for route in routes])
    return [failure for failed in found for failure in failed]


async def test_every_route_answers_almost_valid_requests(
    client: httpx.AsyncClient, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    await service.enqueue([NewJob(queue="q", name="n", payload=Blob(b'{"user":{"id":7}}')) for _ in range(20)])
    same_as_json = ("/lightjq/openapi.yaml", "/lightjq/worker/openapi.yaml", "/downloader/openapi.yaml")
    assert await _failures(client, [route for route in ROUTED if route.path not in ("/readyz", *same_as_json)]) == []
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
    assert (await client.get("/api/v1/info")).status_code == 200
