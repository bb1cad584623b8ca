"""Two ways in, one application: the listener of the server and a mounted application answer every request alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import httpx
import pytest

from tests.server.mounted.host_server import MOUNT, bearer, hosted, mounted
from windlass import Windlass, asgi
from windlass.core.access.tokens import Role
from windlass.core.job import NewJob
from windlass.server import open_server
from windlass.server.application import PARTS, routes_of
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = pytest.mark.anyio

SETTINGS = Settings(port=0, bedrock_port=None, roles="api", base_path=MOUNT)
# Set by the server around the application, or different in each answer.
OWN_HEADERS = {"date", "server", "connection", "transfer-encoding", "set-cookie", "content-length", "etag"}
VARYING = re.compile(rb'name="csrf" value="[0-9a-f]+"|-?\d+')  # ages, times and differences, too
STREAMS = {"/live", "/metrics", "/api/v1/events"}
VALUES = {"id": "01890a5d-ac96-774b-bcce-b302099a8057", "version": "x", "file": "windlass.css", "queue": "mail"}


def requests(is_page: bool) -> list[tuple[str, str]]:
    """Return one request per route of pages, or per other route, with values for the placeholders."""
    found = []
    for route in (route for table in routes_of(PARTS) for route in table.all):
        if route.is_page is is_page and route.path not in STREAMS and "stream" not in route.path:
            path = re.sub(r"\{(\w+)\}", lambda name: VALUES.get(name[1], "mail"), route.path)
            found.append((route.method, path))
    return found


def shape(answer: httpx.Response) -> tuple[int, dict[str, str], bytes]:
    headers = {name: value for name, value in answer.headers.items() if name not in OWN_HEADERS}
    return answer.status_code, headers, VARYING.sub(b"", answer.content)


@pytest.mark.parametrize("is_page", [False, True], ids=["api", "pages"])
async def test_every_route_answers_as_in_the_server(
    app: Windlass, store: Store, service: Service, token_of: Callable[[Role], str], is_page: bool
) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    reader, admin = token_of(Role.READ), token_of(Role.ADMIN)
    application = asgi(app, parts=PARTS, roles="api")
    async with (
        open_server(store.clone(), SETTINGS) as server,
        httpx.AsyncClient(base_url=server.url, timeout=30) as direct,
        hosted(mounted(application)) as host,
    ):
        for token in ("", reader, admin):
            headers = {
                "accept": "text/html,*/*;q=0.8" if is_page else "application/json",
                **(bearer(token) if token else {}),
            }
            for method, path in requests(is_page):
                if token == admin and method != "GET":
                    continue  # it would change the other's answer
                await compare((direct, host.client), method, f"{MOUNT}{path}", headers)
    assert len(requests(is_page)) > 50


async def compare(clients: Sequence[httpx.AsyncClient], method: str, path: str, headers: dict[str, str]) -> None:
    """Send a request to both, again if the answers differ: an age on a page may reach its next step between the two."""
    content = None if method == "GET" else b"{}"
    for _ in range(4):
        answers = [await client.request(method, path, headers=headers, content=content) for client in clients]
        direct, mounted_answer = (shape(answer) for answer in answers)
        if direct == mounted_answer:
            return
    assert direct == mounted_answer, (method, path, headers)
