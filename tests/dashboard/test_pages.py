"""Properties of every page: markup, content security policy, base path, roles, errors, actions, live updates."""

from __future__ import annotations

import pytest

from tests.dashboard.page_client import Page, PageClient
from windlass import dashboard
from windlass.core.access.audit import AuditEntry
from windlass.core.access.tokens import NewToken, Role
from windlass.core.job import NewJob
from windlass.dashboard import live
from windlass.dashboard.assets import ASSETS
from windlass.server import Server
from windlass.service import Service
from windlass.settings import Settings
from windlass.web.app.router import Router

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

PLAIN_PAGES = sorted(
    route.path
    for route in Router(dashboard.ROUTES).routes
    if route.is_page and route.method == "GET" and "{" not in route.path and route.path != "/login"
)
ANY = {"accept": "*/*"}
HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'


def _check_strict(page: Page) -> None:
    policy = page.answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert page.answer.headers["x-content-type-options"] == "nosniff"
    assert page.answer.headers["cache-control"] == "no-store"
    for tag, attributes in page.elements:
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        assert tag != "style"
        if tag == "script":
            assert "src" in attributes


def _check_labels(page: Page) -> None:
    """Check the labels for assistive technology."""
    assert len(page.all("h1")) == 1
    assert page.all("html", lang="en")
    assert page.all("main")
    labelled = {label["for"] for label in page.all("label") if "for" in label}
    for field in (*page.all("input"), *page.all("select"), *page.all("textarea")):
        if field.get("type") != "hidden":
            assert field.get("id") in labelled or "aria-label" in field, field
    for picture in page.all("svg"):
        assert picture.get("aria-hidden") == "true" or picture.get("aria-label"), picture
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.elements:
        if "data-live" in attributes:
            assert "id" in attributes, (tag, attributes)


@pytest.mark.parametrize("path", [*PLAIN_PAGES, "/nothing-here"])
async def test_every_page_is_well_formed_strict_and_labelled(
    page_client: PageClient, service: Service, path: str
) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    page = await page_client.get(path)
    assert page.status == (404 if path == "/nothing-here" else 200)
    _check_strict(page)
    _check_labels(page)


@pytest.mark.parametrize("path", PLAIN_PAGES)
async def test_every_page_works_without_data(page_client: PageClient, path: str) -> None:
    assert (await page_client.get(path)).status == 200


async def test_escapes_names(page_client: PageClient, service: Service) -> None:
    service.enqueue([NewJob(queue=HOSTILE, name=HOSTILE)]).wait()
    page = await page_client.get("/")
    assert HOSTILE in page.text
    assert all("src" in script for script in page.all("script"))
    assert not page.all("img", src="x")


# Files


async def test_static_files_are_immutable_under_their_version(page_client: PageClient) -> None:
    page = await page_client.get("/")
    _, style = page.all("link", rel="stylesheet")
    answer = await page_client.http.get(style["href"])
    assert answer.status_code == 200
    assert "immutable" in answer.headers["cache-control"]
    other = await page_client.http.get(style["href"].replace(ASSETS.version, "0123456789ab"))
    assert other.content == answer.content
    assert "immutable" not in other.headers["cache-control"]
    assert (await page_client.http.get(f"/static/{ASSETS.version}/passwd")).status_code == 404
    assert (await page_client.http.get(f"/static/{ASSETS.version}/..%2f__init__.py")).status_code == 404


# Errors


async def test_an_unknown_path_is_a_page_for_browsers_and_a_problem_for_programs(page_client: PageClient) -> None:
    page = await page_client.get("/nothing-here")
    assert "This page does not exist" in page.text
    assert page.all("a", href="/")
    problem = await page_client.http.get("/nothing-here", headers={"accept": "application/json"})
    assert problem.json()["code"] == "not_found"


async def test_a_refused_action_shows_an_error_page_and_is_audited(page_client: PageClient, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    fields = (await page_client.get("/")).form("/do/pause-queue")
    answer = await page_client.send("/do/pause-queue", fields | {"name": "send"})
    assert answer.status_code == 409
    assert "name_lanes" in answer.text
    (entry,) = service.audits().wait().entries
    assert (entry.what, entry.target, entry.outcome) == ("pause_queue", "mail", "names_need_lanes")


# Actions


async def test_an_action_is_audited_and_its_message_is_shown_once(page_client: PageClient, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    fields = (await page_client.get("/")).form("/do/pause-queue", queue="mail")
    answer = await page_client.send("/do/pause-queue", fields | {"reason": "moving"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    (pause,) = service.pauses("mail").wait()
    assert pause.reason == "moving"
    (entry,) = service.audits().wait().entries
    assert (entry.who, entry.what, entry.target, entry.detail) == ("local", "pause_queue", "mail", "moving")
    live = await page_client.get("/", x_windlass_live="1")
    assert "mail is paused" not in live.text
    assert "mail is paused" in (await page_client.get("/")).text
    assert "mail is paused" not in (await page_client.get("/")).text


async def test_ignores_a_foreign_flash_message(page_client: PageClient) -> None:
    page_client.http.cookies.set("windlass_flash", "bm9uc2Vuc2U")
    assert (await page_client.get("/")).status == 200


# Permissions


@pytest.fixture
def reader(service: Service) -> str:
    return service.create_token(NewToken(name="reader", roles=frozenset({Role.READ}))).wait().text


async def test_actions_beyond_the_role_are_hidden_and_refused(
    reader: str, page_client: PageClient, service: Service
) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    await page_client.log_in(reader)
    page = await page_client.get("/")
    assert not [action for action in page.actions if "/do/" in action]
    fields = page.form("/logout")
    answer = await page_client.send("/do/pause-queue", fields | {"queue": "mail"})
    assert answer.status_code == 403
    assert service.pauses("mail").wait() == []


@pytest.fixture
def mailer(service: Service) -> str:
    new = NewToken(name="mailer", roles=frozenset({Role.READ}), queues=("mail",))
    return service.create_token(new).wait().text


async def test_a_token_for_some_queues_sees_only_them(mailer: str, page_client: PageClient, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send"), NewJob(queue="secret", name="send")]).wait()
    await page_client.log_in(mailer)
    page = await page_client.get("/")
    assert "mail" in page.text
    assert "secret" not in page.text


class TestReadOnly:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, dashboard_read_only=True)

    async def test_nothing_can_be_changed(self, page_client: PageClient, service: Service) -> None:
        service.enqueue([NewJob(queue="mail", name="send")]).wait()
        page = await page_client.get("/")
        assert not [action for action in page.actions if "/do/" in action]
        assert "read only" in page.text
        answer = await page_client.send("/do/pause-queue", {"queue": "mail"})
        assert answer.status_code == 403
        assert service.pauses("mail").wait() == []


class TestOff:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, dashboard=False)

    async def test_no_page_is_served(self, page_client: PageClient) -> None:
        for path in ("/", "/login", "/live", f"/static/{ASSETS.version}/windlass.css"):
            answer = await page_client.http.get(path)
            assert answer.status_code == 404
            assert answer.json()["code"] == "not_found"


class TestPrefix:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, base_path="/ops/jobs")

    @pytest.mark.parametrize("path", PLAIN_PAGES)
    async def test_every_link_is_below_the_base_path(
        self, page_client: PageClient, service: Service, path: str
    ) -> None:
        """For proxies that pass the base path on, and proxies that cut it off."""
        service.enqueue([NewJob(queue="mail", name="send")]).wait()
        for address in (path, f"/ops/jobs{path}"):
            page = await page_client.get(address)
            assert page.status == 200
            linked = [
                attributes[name]
                for _, attributes in page.elements
                for name in ("href", "src", "action")
                if name in attributes and not attributes[name].startswith("#")
            ]
            assert [link for link in linked if not link.startswith("/ops/jobs/")] == []

    async def test_forms_redirect_below_the_base_path(self, page_client: PageClient, service: Service) -> None:
        service.enqueue([NewJob(queue="mail", name="send")]).wait()
        fields = (await page_client.get("/ops/jobs/")).form("/do/pause-queue")
        answer = await page_client.send("/ops/jobs/do/pause-queue", fields)
        assert answer.headers["location"] == "/ops/jobs/"
        assert (await page_client.http.get("/ops/jobs/healthz", headers=ANY)).status_code == 200
        assert (await page_client.http.get("/ops/jobsx/healthz", headers=ANY)).status_code == 404


# Live updates


async def test_streams_changes_of_jobs(page_client: PageClient, running: Server) -> None:
    async with page_client.http.stream("GET", "/live") as stream:
        lines = stream.aiter_lines()
        assert await _next_event(lines) == ("hello", "{}")
        await running.service.enqueue([NewJob(queue="mail", name="send") for _ in range(20)])
        kind, data = await _next_event(lines)
        assert kind == "happened"
        assert '"queues":["mail"]' in data


async def test_streams_only_changes_of_permitted_queues(mailer: str, page_client: PageClient, running: Server) -> None:
    await page_client.log_in(mailer)
    assert (await page_client.http.get("/live?queue=secret")).status_code == 403
    async with page_client.http.stream("GET", "/live") as stream:
        lines = stream.aiter_lines()
        await _next_event(lines)
        await running.service.enqueue([NewJob(queue="secret", name="send")])
        await running.service.enqueue([NewJob(queue="mail", name="send")])
        _, data = await _next_event(lines)
        assert "secret" not in data


async def _next_event(lines: object) -> tuple[str, str]:
    kind = ""
    async for line in lines:  # type: ignore[attr-defined]
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            return kind, line.removeprefix("data: ")
    raise AssertionError("the stream has ended")


async def test_streams_configuration_changes_and_heartbeats(
    page_client: PageClient, running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "CHECK_INTERVAL_S", 1.1)
    async with page_client.http.stream("GET", "/live") as stream:
        lines = stream.aiter_lines()
        assert await _next_event(lines) == ("hello", "{}")
        assert await _next_event(lines) == ("alive", "{}")
        await running.service.audit([AuditEntry(who="me", what="pause_queue")])
        assert "changed" in [(await _next_event(lines))[0] for _ in range(2)]


async def test_streams_the_loss_of_the_engine(
    page_client: PageClient, running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_state: object) -> live.EngineCheck:
        return live.EngineCheck(is_away=True)

    async with page_client.http.stream("GET", "/live") as stream:
        lines = stream.aiter_lines()
        await _next_event(lines)
        monkeypatch.setattr(live, "CHECK_INTERVAL_S", 0.1)
        monkeypatch.setattr(live, "_check_engine", away)
        await running.service.enqueue([NewJob(queue="mail", name="send")])
        while (await _next_event(lines))[0] != "away":
            pass
