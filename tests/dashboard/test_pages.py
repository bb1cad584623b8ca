"""What holds for every page: well-formed, nothing runs that is not ours, a prefix, roles, refusals, actions, news."""

from __future__ import annotations

import pytest

from tests.dashboard.page_client import Looker, Page
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
    """Whoever cannot see it hears what it is."""
    assert len(page.all("h1")) == 1
    assert page.all("html", lang="en")
    assert page.all("main")
    labelled = {one["for"] for one in page.all("label") if "for" in one}
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
async def test_every_page_is_well_formed_strict_and_labelled(looker: Looker, service: Service, path: str) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    page = await looker.look(path)
    assert page.status == (404 if path == "/nothing-here" else 200)
    _check_strict(page)
    _check_labels(page)


@pytest.mark.parametrize("path", PLAIN_PAGES)
async def test_every_page_is_there_also_when_there_is_nothing(looker: Looker, path: str) -> None:
    assert (await looker.look(path)).status == 200


async def test_names_are_text_whatever_they_hold(looker: Looker, service: Service) -> None:
    service.enqueue([NewJob(queue=HOSTILE, name=HOSTILE)]).wait()
    page = await looker.look("/")
    assert HOSTILE in page.text
    assert all("src" in one for one in page.all("script"))
    assert not page.all("img", src="x")


# Files


async def test_files_are_kept_for_ever_under_their_version(looker: Looker) -> None:
    page = await looker.look("/")
    (style,) = page.all("link", rel="stylesheet")
    answer = await looker.client.get(style["href"])
    assert answer.status_code == 200
    assert "immutable" in answer.headers["cache-control"]
    other = await looker.client.get(style["href"].replace(ASSETS.version, "0123456789ab"))
    assert other.content == answer.content
    assert "immutable" not in other.headers["cache-control"]
    assert (await looker.client.get(f"/static/{ASSETS.version}/passwd")).status_code == 404
    assert (await looker.client.get(f"/static/{ASSETS.version}/..%2f__init__.py")).status_code == 404


# Refusals


async def test_what_is_not_there_is_a_page_for_people_and_a_problem_for_programs(looker: Looker) -> None:
    page = await looker.look("/nothing-here")
    assert "There is no such page" in page.text
    assert page.all("a", href="/")
    problem = await looker.client.get("/nothing-here", headers={"accept": "application/json"})
    assert problem.json()["code"] == "not_found"


async def test_a_refused_action_is_a_page_and_stands_in_the_audit_log(looker: Looker, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    fields = (await looker.look("/")).form("/do/pause-queue")
    answer = await looker.send("/do/pause-queue", fields | {"name": "send"})
    assert answer.status_code == 409
    assert "name_lanes" in answer.text
    (entry,) = service.audits().wait().entries
    assert (entry.what, entry.target, entry.outcome) == ("pause_queue", "mail", "names_need_lanes")


# Actions


async def test_an_action_is_done_audited_and_told_once(looker: Looker, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    fields = (await looker.look("/")).form("/do/pause-queue", queue="mail")
    answer = await looker.send("/do/pause-queue", fields | {"reason": "moving"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    (pause,) = service.pauses("mail").wait()
    assert pause.reason == "moving"
    (entry,) = service.audits().wait().entries
    assert (entry.who, entry.what, entry.target, entry.detail) == ("local", "pause_queue", "mail", "moving")
    live = await looker.look("/", x_windlass_live="1")
    assert "mail is paused" not in live.text
    assert "mail is paused" in (await looker.look("/")).text
    assert "mail is paused" not in (await looker.look("/")).text


async def test_a_message_that_is_not_ours_is_not_shown(looker: Looker) -> None:
    looker.client.cookies.set("windlass_flash", "bm9uc2Vuc2U")
    assert (await looker.look("/")).status == 200


# Who may


@pytest.fixture
def reader(service: Service) -> str:
    return service.create_token(NewToken(name="reader", roles=frozenset({Role.READ}))).wait().text


async def test_what_a_role_may_not_do_is_not_shown_and_refused(reader: str, looker: Looker, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    await looker.log_in(reader)
    page = await looker.look("/")
    assert not [action for action in page.actions if "/do/" in action]
    fields = page.form("/logout")
    answer = await looker.send("/do/pause-queue", fields | {"queue": "mail"})
    assert answer.status_code == 403
    assert service.pauses("mail").wait() == []


@pytest.fixture
def mailer(service: Service) -> str:
    new = NewToken(name="mailer", roles=frozenset({Role.READ}), queues=("mail",))
    return service.create_token(new).wait().text


async def test_a_token_for_some_queues_sees_only_these(mailer: str, looker: Looker, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send"), NewJob(queue="secret", name="send")]).wait()
    await looker.log_in(mailer)
    page = await looker.look("/")
    assert "mail" in page.text
    assert "secret" not in page.text


class TestReadOnly:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, dashboard_read_only=True)

    async def test_nothing_can_be_changed(self, looker: Looker, service: Service) -> None:
        service.enqueue([NewJob(queue="mail", name="send")]).wait()
        page = await looker.look("/")
        assert not [action for action in page.actions if "/do/" in action]
        assert "read only" in page.text
        answer = await looker.send("/do/pause-queue", {"queue": "mail"})
        assert answer.status_code == 403
        assert service.pauses("mail").wait() == []


class TestOff:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, dashboard=False)

    async def test_no_page_is_served(self, looker: Looker) -> None:
        for path in ("/", "/login", "/live", f"/static/{ASSETS.version}/windlass.css"):
            answer = await looker.client.get(path)
            assert answer.status_code == 404
            assert answer.json()["code"] == "not_found"


class TestPrefix:
    @pytest.fixture
    def server_settings(self) -> Settings:
        return Settings(port=0, bedrock_port=None, base_path="/ops/jobs")

    @pytest.mark.parametrize("path", PLAIN_PAGES)
    async def test_every_link_is_below_it(self, looker: Looker, service: Service, path: str) -> None:
        """Whether the proxy cuts it off or not."""
        service.enqueue([NewJob(queue="mail", name="send")]).wait()
        for asked in (path, f"/ops/jobs{path}"):
            page = await looker.look(asked)
            assert page.status == 200
            linked = [
                attributes[name]
                for _, attributes in page.elements
                for name in ("href", "src", "action")
                if name in attributes and not attributes[name].startswith("#")
            ]
            assert [link for link in linked if not link.startswith("/ops/jobs/")] == []

    async def test_forms_lead_back_below_it(self, looker: Looker, service: Service) -> None:
        service.enqueue([NewJob(queue="mail", name="send")]).wait()
        fields = (await looker.look("/ops/jobs/")).form("/do/pause-queue")
        answer = await looker.send("/ops/jobs/do/pause-queue", fields)
        assert answer.headers["location"] == "/ops/jobs/"
        assert (await looker.client.get("/ops/jobs/healthz", headers=ANY)).status_code == 200
        assert (await looker.client.get("/ops/jobsx/healthz", headers=ANY)).status_code == 404


# Live


async def test_what_happens_is_told(looker: Looker, running: Server) -> None:
    async with looker.client.stream("GET", "/live") as stream:
        lines = stream.aiter_lines()
        assert await _next_event(lines) == ("hello", "{}")
        await running.service.enqueue([NewJob(queue="mail", name="send") for _ in range(20)])
        kind, data = await _next_event(lines)
        assert kind == "happened"
        assert '"queues":["mail"]' in data


async def test_what_happens_in_other_queues_is_not_told_to_who_may_not_see_them(
    mailer: str, looker: Looker, running: Server
) -> None:
    await looker.log_in(mailer)
    assert (await looker.client.get("/live?queue=secret")).status_code == 403
    async with looker.client.stream("GET", "/live") as stream:
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


async def test_what_somebody_changes_is_told_and_that_the_engine_is_there(
    looker: Looker, running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "CHECK_INTERVAL_S", 1.1)
    async with looker.client.stream("GET", "/live") as stream:
        lines = stream.aiter_lines()
        assert await _next_event(lines) == ("hello", "{}")
        assert await _next_event(lines) == ("alive", "{}")
        await running.service.audit([AuditEntry(who="me", what="pause_queue")])
        assert "changed" in [(await _next_event(lines))[0] for _ in range(2)]


async def test_an_engine_that_is_away_is_told(looker: Looker, running: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_state: object) -> live.EngineCheck:
        return live.EngineCheck(is_away=True)

    async with looker.client.stream("GET", "/live") as stream:
        lines = stream.aiter_lines()
        await _next_event(lines)
        monkeypatch.setattr(live, "CHECK_INTERVAL_S", 0.1)
        monkeypatch.setattr(live, "_check_engine", away)
        await running.service.enqueue([NewJob(queue="mail", name="send")])
        while (await _next_event(lines))[0] != "away":
            pass
