"""Control characters of the C1 range and bidirectional controls on every page: shown as escapes in text, kept unchanged
in the values of forms, so that actions on such names work."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from tests.browser.demo_deployment import DemoDeployment
from tests.browser.job_history import JobHistory
from tests.browser.sample_texts import cut
from tests.dashboard.page_client import PageClient
from tests.support.legacy_names import allow_legacy_names
from windlass import dashboard
from windlass.core.ids import parse_id
from windlass.core.job import Blob, NewJob
from windlass.core.text.control_characters import has_control
from windlass.server import Server
from windlass.service import Service
from windlass.store.store import Store
from windlass.web.app.router import Router

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

EVIL = "\x9b31m\u202eturned\u2066"
SHOWN = "\\x9b31m\\u202eturned\\u2066"
JOBS = (
    "queued", "held back", "failed", "held", "scheduled", "after", "durable", "tried again", "step failed",
)  # fmt: skip
ABOUT = {
    "/queues/{queue}": [f"/queues/{quote(f'mail {EVIL}', safe='')}"],
    "/tasks/{name}": [f"/tasks/{quote(f'charge_card {EVIL}', safe='')}"],
    "/jobs/{id}": [f"/jobs/{{{word}}}" for word in JOBS],
    "/flows/{id}": ["/flows/{flow}", "/flows/{flow running}", "/flows/{flow finished}"],
    "/limits/{name}": [f"/limits/{quote(f'one charge per customer {EVIL}', safe='')}"],
    "/jobs/{id}/edit": ["/jobs/{queued}/edit"],
    "/schedules/{name}": [f"/schedules/{quote(f'warm the cache {EVIL}', safe='')}"],
    "/schedules/{name}/edit": [f"/schedules/{quote(f'nightly report {EVIL}', safe='')}/edit"],
    "/actions/{id}": ["/actions/{action}"],
    "/jobs/{id}/payload": [],  # files
    "/jobs/{id}/result": [],
    "/jobs/{id}/step": [],
    "/jobs/{id}/stream": ["/jobs/{durable}/stream"],
    "/signals/{link}": ["/signals/{signal link}"],
}
GETS = [route.path for route in Router(dashboard.ROUTES).routes if route.is_page and route.method == "GET"]
# Values that a browser sends back to the server.
EXACT = re.compile(r' (?:value|data-live-queue)="[^"]*"|<textarea[^>]*>.*?</textarea>', re.DOTALL)


async def _populated(store: Store) -> dict[str, str]:
    def make_text(text: str, most: int = 120) -> str:
        return cut(f"{text} {EVIL}", most)

    service = Service(store)
    with allow_legacy_names():
        await JobHistory(service, make_text).create([3])
        present = DemoDeployment(service, make_text)
        await present.create()
    return present.ids


async def test_no_page_shows_one_raw(page_client: PageClient, store: Store, running: Server) -> None:
    async with store.clone() as another:
        ids = await _populated(another)
    plain = [path for path in GETS if "{" not in path and path not in ("/login", "/live")]
    paths = [*plain, *(address.format(**ids) for path in GETS if "{" in path for address in ABOUT[path])]
    raw, escaped = [], 0
    for path in [
        *paths,
        "/jobs?state=failed",
        "/jobs?state=history",
        "/jobs?state=suspended",
        "/search?q=mail",
        f"/jobs/new?copy={ids['queued']}",
    ]:
        answer = await page_client.http.get(path)
        assert answer.status_code == 200, path
        read = EXACT.sub("", answer.text)
        raw += [f"{path}: {read[max(0, at - 60) : at + 20]!r}" for at, char in enumerate(read) if has_control(char)]
        escaped += SHOWN in read
    assert raw == []
    assert escaped > 10


async def test_a_queue_of_such_a_name_can_be_acted_on(
    page_client: PageClient, service: Service, running: Server
) -> None:
    with allow_legacy_names():
        await service.enqueue([NewJob(queue=EVIL, name=EVIL)])
        await service.pause(EVIL)
    page = await page_client.get(f"/queues/{quote(EVIL, safe='')}")
    assert SHOWN in page.text
    form = page.form("/resume-queue", queue=EVIL)
    assert (await page_client.send("/do/resume-queue", form)).status_code == 303
    assert await service.pauses(EVIL) == []


async def test_a_payload_is_edited_as_it_is(page_client: PageClient, service: Service, running: Server) -> None:
    payload = f'"{EVIL}"'.encode()
    made = await service.enqueue([NewJob(queue="q", name="n", payload=Blob(payload))]).one()
    [key] = [job.key for job in [(await service.job([made.id]).one()).job]]
    shown = await page_client.get(f"/jobs/{key}")
    assert SHOWN in shown.text
    assert f'"{EVIL}"</textarea>' in (await page_client.get(f"/jobs/{key}/edit")).answer.text.replace("&#34;", '"')
    assert parse_id(key) == made.id
