"""Escaping on every page: a text that breaks out of every kind of markup, in every field that a page shows.
tests/browser does the same in a real browser."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import quote

import httpx
import pytest

from tests.browser.demo_deployment import DemoDeployment
from tests.browser.job_history import JobHistory
from tests.browser.sample_texts import cut
from tests.dashboard.page_client import PageClient
from windlass import dashboard
from windlass.dashboard.rendering import HEADERS
from windlass.server import Server
from windlass.service import Service
from windlass.store.store import Store
from windlass.web.app.router import Router

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

MARK = "xyzzy"
BREAKING = f"""'"`><svg {MARK}=1 onload=a()></title></textarea></script></style>-->{{{{'ab'*3}}}}"""
ADDRESSES = ("href", "src", "action", "formaction", "data", "poster", "xlink:href")
JOBS = (
    "queued", "held back", "failed", "held", "scheduled", "after", "durable", "tried again", "step failed",
)  # fmt: skip
# Addresses of the pages about a single item, by the path of their route.
ABOUT = {
    "/queues/{queue}": [
        f"/queues/{quote(f'{queue} {BREAKING}', safe='')}" for queue in ("mail", "feeds", "newsletters")
    ],
    "/tasks/{name}": [f"/tasks/{quote(f'charge_card {BREAKING}', safe='')}"],
    "/jobs/{id}": [f"/jobs/{{{word}}}" for word in JOBS],
    "/flows/{id}": ["/flows/{flow}", "/flows/{flow running}", "/flows/{flow finished}"],
    "/limits/{name}": [f"/limits/{quote(f'one charge per customer {BREAKING}', safe='')}"],
    "/jobs/{id}/edit": ["/jobs/{queued}/edit"],
    "/schedules/{name}": [f"/schedules/{quote(f'warm the cache {BREAKING}', safe='')}"],
    "/schedules/{name}/edit": [f"/schedules/{quote(f'nightly report {BREAKING}', safe='')}/edit"],
    "/actions/{id}": ["/actions/{action}"],
    "/jobs/{id}/payload": [],  # files
    "/jobs/{id}/result": [],
    "/jobs/{id}/step": [],
    "/jobs/{id}/stream": ["/jobs/{durable}/stream"],
    "/signals/{link}": ["/signals/{signal link}"],
}
# Links with hostile parts that another site may offer.
LINKS = [
    "/tasks/{}", "/tasks?search={}&after={}",
    "/jobs/{}", "/queues/{}", "/limits/{}", "/actions/{}", "/jobs/{}/edit", "/nowhere/{}", "/static/{}/x.js",
    "/search?q={}",
    "/jobs?state={}", "/jobs?name={}&queue={}&tag={}&error={}&since={}&cursor={}&trail={}", "/failures?queue={}",
    "/login?next={}", "/audit?q={}&cursor={}", "/jobs/new?queue={}&copy={}", "/callbacks?cursor={}", "/?{}={}",
    "/workers?cursor={}", "/limits?q={}", "/aggregations?limit={}&cursor={}", "/schedules?q={}",
    "/schedules/{}", "/schedules/{}/edit",
    "/schedule-preview?rule=cron&cron={}&timezone={}", "/schedule-preview?rule=repeat&repeat={}&starts={}",
    "/signals?queue={}&signal={}&cursor={}", "/signals/{}", "/jobs/{}/stream?after={}", "/jobs/{}/step?name={}",
    "/flows/{}", "/flows/{}?steps={}", "/flows?name={}&cursor={}", "/flows?state={}",
]  # fmt: skip
GETS = [route.path for route in Router(dashboard.ROUTES).routes if route.is_page and route.method == "GET"]


class Markup(HTMLParser):
    """Parser that records markup faults."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.faults: list[str] = []
        self._within = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag
        for name, value in attrs:
            if name.startswith("on") or name == MARK or name == "style":
                self.faults.append(f"<{tag} {name}>")
            if name in ADDRESSES and not (value or "").startswith(("/", "#", "?", "http://", "https://")):
                self.faults.append(f"<{tag} {name}={value!r}>")
        if tag in ("style", "iframe", "object", "embed", "base") or (tag == "script" and "src" not in dict(attrs)):
            self.faults.append(f"<{tag}>")

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "script" and data.strip():
            self.faults.append(f"script: {data[:80]}")
        if "ababab" in data:
            self.faults.append("a template within the text was rendered")


def _wrong(path: str, answer: httpx.Response) -> list[str]:
    found = [f"{path}: {fault}" for fault in Markup(answer.text).faults]
    if answer.headers.get("content-type", "").startswith("text/html"):
        missing = [name for name, value in HEADERS if answer.headers.get(name) != value]
        found += [f"{path}: without {name}" for name in missing]
    return found


async def _populated(store: Store) -> dict[str, str]:
    service = Service(store)

    def make_text(text: str, most: int = 120) -> str:
        return cut(f"{text} {BREAKING}", most)

    await JobHistory(service, make_text).create([3])
    present = DemoDeployment(service, make_text)
    await present.create()
    return present.ids


async def test_every_page_escapes_texts(page_client: PageClient, store: Store, running: Server) -> None:
    async with store.clone() as another:
        ids = await _populated(another)
    plain = [path for path in GETS if "{" not in path and path != "/login"]
    paths = [*plain, *(address.format(**ids) for path in GETS if "{" in path for address in ABOUT[path])]
    wrong, without = [], []
    for path in [
        *paths,
        "/jobs?state=failed",
        "/jobs?state=history",
        "/jobs?state=suspended",
        "/search?q=mail",
        "/jobs/new?copy=" + ids["queued"],
    ]:
        for live in ({}, {"x-windlass-live": "1"}):
            answer = await page_client.http.get(path, headers=live)
            wrong += _wrong(path, answer) + ([f"{path}: {answer.status_code}"] if answer.status_code != 200 else [])
        without += [path] if MARK not in answer.text else []
    assert wrong == []
    assert set(without) <= {"/engine", "/jobs/new", "/live", "/search"}  # which show no texts of users


async def test_every_page_escapes_parts_of_its_address(page_client: PageClient) -> None:
    wrong = []
    for pattern in LINKS:
        for hostile in (BREAKING, "javascript:a()", "//evil.example/", "\x00\x1b[31m"):
            path = pattern.replace("{}", quote(hostile, safe=""))
            answer = await page_client.http.get(path, headers={"accept": "text/html"})
            assert answer.status_code < 500, path
            wrong += _wrong(path, answer)
            wrong += [path] if "evil.example" in answer.headers.get("location", "") else []
    assert wrong == []
