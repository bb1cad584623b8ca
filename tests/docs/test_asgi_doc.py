"""The programs of docs/asgi.md run as written."""

from __future__ import annotations

import re
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from tests.support.engine_process import EngineProcess
from windlass.core.access.tokens import NewToken, Role
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio
on_valkey = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
FOLDER = Path(__file__).parents[2]
DOCUMENT = (FOLDER / "docs" / "asgi.md").read_text()
MOUNTING, ROLES, TWICE, DJANGO = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.fixture
def names(engine: EngineProcess, store: Store, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Names of the first program, on the deployment of the test."""
    monkeypatch.setenv("WINDLASS_URL", engine.unix_url)
    monkeypatch.setenv("WINDLASS_NAMESPACE", store.namespace)
    names: dict[str, Any] = {}
    exec(MOUNTING, names)  # noqa: S102
    return names


def client_of(program: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(program), base_url="http://host")


@on_valkey
async def test_the_first_program_needs_a_token(names: dict[str, Any], service: Service) -> None:
    token = service.create_token(NewToken(name="me", roles=frozenset({Role.ADMIN}))).wait().text
    api = names["api"]
    async with api.router.lifespan_context(api), client_of(api) as client:
        assert (await client.get("/jobs/api/v1/queues")).status_code == 401
        headers = {"authorization": f"Bearer {token}"}
        assert (await client.get("/jobs/api/v1/queues", headers=headers)).status_code == 200


@on_valkey
async def test_people_and_programs_have_a_mount_each(names: dict[str, Any], service: Service) -> None:
    token = service.create_token(NewToken(name="me", roles=frozenset({Role.PRODUCE}))).wait().text
    exec(ROLES, names)  # noqa: S102
    exec(TWICE, names | {"api": (mounts := Mounts())})  # noqa: S102

    async def login(request: Request) -> PlainTextResponse:
        request.session["user"] = request.query_params["user"]
        return PlainTextResponse("")

    routes = [Route("/login", login), *(Mount(path, application) for path, application in mounts.all)]
    program = Starlette(routes=routes, middleware=[Middleware(SessionMiddleware, secret_key=token_hex())])
    async with client_of(program) as client:
        answer = await client.get("/jobs/", headers={"accept": "text/html"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fjobs%2F")
        for user, status in (("ada", 403), ("grace", 200)):
            await client.get("/login", params={"user": user})
            assert (await client.get("/jobs/")).status_code == 200
            assert (await client.get("/jobs/audit")).status_code == status
        headers = {"authorization": f"Bearer {token}"}
        job = {"queue": "mail", "name": "send"}
        assert (await client.post("/jobs/machines/api/v1/jobs", json=job, headers=headers)).status_code == 201
        for _, application in mounts.all:
            await application.__aexit__()


class Mounts:
    def __init__(self) -> None:
        self.all: list[tuple[str, Any]] = []

    def mount(self, path: str, application: Any) -> None:
        self.all.append((path, application))


def test_the_program_for_django_is_the_tested_one() -> None:
    """tests/server/mounted/test_frameworks.py runs it."""
    tested = (FOLDER / "tests" / "server" / "mounted" / "apps" / "django_host.py").read_text()
    for line in ("user = await user_of(scope)", "if not (user.is_active and user.is_staff):", "return Access(role="):
        (wanted,) = [text.strip() for text in DJANGO.splitlines() if line in text]
        assert wanted in tested
    assert 'login_url="/admin/login/")' in tested
    compile(DJANGO, "asgi.py", "exec")
