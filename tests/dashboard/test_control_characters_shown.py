"""Control characters of the C1 range and bidirectional controls on every page: shown as escapes wherever people read
them, kept in the values of forms, so that what is stored under such a name can be acted on."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from tests.browser.past import Past
from tests.browser.present import Present
from tests.browser.sentences import cut
from tests.dashboard.page_client import Looker
from tests.support.former_names import former_names
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
ABOUT = {
    "/queues/{queue}": [f"/queues/{quote(f'mail {EVIL}', safe='')}"],
    "/jobs/{id}": [f"/jobs/{{{word}}}" for word in ("queued", "held back", "failed", "held", "scheduled", "after")],
    "/limits/{name}": [f"/limits/{quote(f'one charge per customer {EVIL}', safe='')}"],
    "/jobs/{id}/edit": ["/jobs/{queued}/edit"],
    "/actions/{id}": ["/actions/{action}"],
    "/jobs/{id}/payload": [],  # files
    "/jobs/{id}/result": [],
}
GETS = [route.path for route in Router(dashboard.ROUTES).routes if route.is_page and route.method == "GET"]
# Values that a browser sends back, or asks the server for.
EXACT = re.compile(r' (?:value|data-live-queue)="[^"]*"|<textarea[^>]*>.*?</textarea>', re.DOTALL)


async def _populated(store: Store) -> dict[str, str]:
    def say(text: str, most: int = 120) -> str:
        return cut(f"{text} {EVIL}", most)

    service = Service(store)
    with former_names():
        await Past(service, say).happen([3])
        present = Present(service, say)
        await present.arrange()
    return present.ids


async def test_no_page_shows_one_raw(looker: Looker, store: Store, running: Server) -> None:
    async with store.clone() as another:
        ids = await _populated(another)
    plain = [path for path in GETS if "{" not in path and path not in ("/login", "/live")]
    paths = [*plain, *(one.format(**ids) for path in GETS if "{" in path for one in ABOUT[path])]
    raw, escaped = [], 0
    for path in [
        *paths,
        "/jobs?state=failed",
        "/jobs?state=history",
        "/search?q=mail",
        f"/jobs/new?copy={ids['queued']}",
    ]:
        answer = await looker.client.get(path)
        assert answer.status_code == 200, path
        read = EXACT.sub("", answer.text)
        raw += [f"{path}: {read[max(0, at - 60) : at + 20]!r}" for at, char in enumerate(read) if has_control(char)]
        escaped += SHOWN in read
    assert raw == []
    assert escaped > 10


async def test_a_queue_of_such_a_name_can_be_acted_on(looker: Looker, service: Service, running: Server) -> None:
    with former_names():
        await service.enqueue([NewJob(queue=EVIL, name=EVIL)])
        await service.pause(EVIL)
    page = await looker.look(f"/queues/{quote(EVIL, safe='')}")
    assert SHOWN in page.text
    form = page.form("/resume-queue", queue=EVIL)
    assert (await looker.send("/do/resume-queue", form)).status_code == 303
    assert await service.pauses(EVIL) == []


async def test_a_payload_is_edited_as_it_is(looker: Looker, service: Service, running: Server) -> None:
    payload = f'"{EVIL}"'.encode()
    made = await service.enqueue([NewJob(queue="q", name="n", payload=Blob(payload))]).one()
    [key] = [job.key for job in [(await service.job([made.id]).one()).job]]
    shown = await looker.look(f"/jobs/{key}")
    assert SHOWN in shown.text
    assert f'"{EVIL}"</textarea>' in (await looker.look(f"/jobs/{key}/edit")).answer.text.replace("&#34;", '"')
    assert parse_id(key) == made.id
