"""Host programs of several frameworks, on uvicorn: mounts, mounts in mounts, root paths, and the login of the host."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.dashboard.page_client import Page
from tests.server.mounted.host_server import hosted
from tests.support.engine_process import EngineProcess
from windlass import Windlass, asgi
from windlass.contrib.django import mount
from windlass.core.job import NewJob
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.anyio

DJANGO = Path(__file__).parent / "apps" / "django_host.py"
JOB = {"queue": "a/b", "name": "send"}


def fastapi_host(jobs: Any) -> FastAPI:
    api = FastAPI()
    api.mount("/jobs", jobs)
    return api


def below_proxy(program: Any) -> Any:
    """Set a root path with which the path does not begin, as FastAPI(root_path=…) and older servers do."""

    async def call(scope: Any, receive: Any, send: Any) -> None:
        await program({**scope, "root_path": "/app"}, receive, send)

    return call


async def not_here(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body"})


# A program, options of uvicorn, the path that a client uses, and the path before it in links, which a proxy takes off.
HOSTS = {
    "fastapi": (fastapi_host, {}, "/jobs", ""),
    "a root path that the path lacks": (lambda jobs: below_proxy(fastapi_host(jobs)), {}, "/jobs", "/app"),
    "uvicorn with a root path": (fastapi_host, {"root_path": "/app"}, "/jobs", "/app"),
    "starlette": (lambda jobs: Starlette(routes=[Mount("/jobs", jobs)]), {}, "/jobs", ""),
    "a mount in a mount": (lambda jobs: Starlette(routes=[Mount("/a", fastapi_host(jobs))]), {}, "/a/jobs", ""),
    "a mount with a parameter": (lambda jobs: Starlette(routes=[Mount("/{who}/jobs", jobs)]), {}, "/x y/jobs", ""),
    "beside django": (lambda jobs: mount(not_here, "jobs/", jobs), {}, "/jobs", ""),
    "beside django, with a root path": (
        lambda jobs: mount(not_here, "/jobs", jobs), {"root_path": "/app"}, "/jobs", "/app",
    ),
    "alone": (lambda jobs: jobs, {}, "", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTS)
async def test_links_follow_the_mount(app: Windlass, service: Service, name: str) -> None:
    make, options, path, before = HOSTS[name]
    base = f"{before}{path}".replace(" ", "%20")
    application = asgi(app, role=lambda _: "admin")
    async with hosted(make(application), **options) as host:
        made = await host.client.post(f"{path}/api/v1/jobs", json=JOB)
        assert made.headers["location"] == f"{base}/api/v1/jobs/{made.json()['id']}"
        page = Page(await host.client.get(f"{path}/queues/a%2Fb", headers={"accept": "text/html"}))
        assert (page.status, "a/b" in page.text) == (200, True)
        (cookie,) = page.answer.headers.get_list("set-cookie")
        assert f"Path={base or '/'};" in cookie
        links = [link["href"] for link in (*page.all("a"), *page.all("link")) if not link["href"].startswith("#")]
        links += [script["src"] for script in page.all("script")]
        links += [action for action in page.actions if action]
        assert [link for link in links if not link.startswith(f"{base}/")] == []
        for link in sorted({link for link in links if not link.endswith("/docs") and "/do/" not in link}):
            answer = await host.client.get(httpx.URL(host.url).copy_with(raw_path=link.removeprefix(before).encode()))
            assert answer.status_code == 200, link
        order = f"{path}/api/v1/jobs/{made.json()['id']}/signal-url"
        url = (await host.client.post(order, json={"signal": "go"})).json()["url"]
        assert url.startswith(f"{host.url}{base}/signals/")
        await application.__aexit__()


async def test_documents_name_the_mount(app: Windlass) -> None:
    application = asgi(app, parts=["native", "lightjq"])
    async with hosted(fastapi_host(application)) as host:
        for path, server in (("/openapi.json", "/jobs"), ("/lightjq/openapi.json", "/jobs/lightjq")):
            document = (await host.client.get(f"/jobs{path}")).json()
            assert document["servers"] == [{"url": server}]
        page = Page(await host.client.get("/jobs/docs"))
        links = {link["href"] for link in (*page.all("a"), *page.all("link")) if not link["href"].startswith("#")}
        assert "lightjq/openapi.json" in links
        for link in links:  # relative to the page
            assert (await host.client.get(f"/jobs/{link}")).status_code == 200, link
        await application.__aexit__()


async def test_other_paths_belong_to_django(app: Windlass) -> None:
    async with hosted(mount(not_here, "/jobs", asgi(app))) as host:
        for path in ("/", "/jobsite", "/admin/jobs/"):
            assert (await host.client.get(path)).status_code == 418


# Django


@pytest.fixture
async def django(engine: EngineProcess, store: Store, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Client of a Django project on the deployment of the test."""
    with running_django(engine, store, tmp_path) as url:
        async with httpx.AsyncClient(base_url=url, timeout=30, headers={"accept": "text/html"}) as client:
            yield client


@contextlib.contextmanager
def running_django(engine: EngineProcess, store: Store, tmp_path: Path) -> Iterator[str]:
    environment = {**os.environ, "WINDLASS_URL": engine.unix_url, "WINDLASS_NAMESPACE": store.namespace}
    command = [sys.executable, str(DJANGO), str(tmp_path / "users.sqlite")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM)


async def log_in(client: httpx.AsyncClient, name: str) -> httpx.Response:
    """Log in on Django's own page."""
    client.cookies.clear()
    page = await client.get("/admin/login/", params={"next": "/jobs/"})
    (secret,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    form = {"username": name, "password": name, "next": "/jobs/", "csrfmiddlewaretoken": secret}
    return await client.post("/admin/login/", data=form)


async def test_users_of_django_have_their_roles(django: httpx.AsyncClient, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    refused = await django.get("/jobs/queues")
    assert (refused.status_code, refused.headers["location"]) == (303, "/admin/login/?next=%2Fjobs%2Fqueues")

    answer = await log_in(django, "grace")
    assert (answer.status_code, answer.headers["location"]) == (302, "/jobs/")
    page = Page(await django.get("/jobs/"))
    assert page.status == 200
    paused = await django.post("/jobs/do/pause-queue", data=page.form("/do/pause-queue", queue="mail"))
    assert (paused.status_code, paused.headers["location"]) == (303, "/jobs/")
    (entry,) = service.audits().wait().entries
    assert (entry.who, entry.what) == ("grace", "pause_queue")

    await log_in(django, "ada")
    page = Page(await django.get("/jobs/"))
    assert (page.status, [action for action in page.actions if "/do/" in action]) == (200, [])
    assert (await django.post("/jobs/api/v1/jobs", json=JOB)).status_code == 403

    await log_in(django, "joan")
    assert (await django.get("/jobs/api/v1/queues")).status_code == 401
    django.cookies.clear()
    django.cookies.set("sessionid", "0" * 32)
    assert (await django.get("/jobs/api/v1/queues")).status_code == 401
