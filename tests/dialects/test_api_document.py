"""The document of the API and its page: valid, whole, and true to what is served."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

import httpx
import msgspec
import pytest
import schemathesis

from windlass.core.access.tokens import NewToken, Role
from windlass.dialects.examples import EXAMPLES
from windlass.server.server import ROUTES
from windlass.service import Service
from windlass.web.app.router import Route, Router
from windlass.web.docs.docs_page import DialectDocument, render_docs_pages, slug_of
from windlass.web.docs.openapi import build_document
from windlass.web.docs.operations import anchor

served = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
LISTED = [route for route in Router(ROUTES).routes if route.is_listed]
DOCUMENT = build_document(LISTED, EXAMPLES)
VOID = {"meta", "link", "br", "hr", "img"}


def _operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            yield method, path, operation


def test_it_is_openapi() -> None:
    schemathesis.openapi.from_dict(DOCUMENT).validate()


def test_every_route_is_in_it_once_and_says_what_it_does() -> None:
    found = {operation["operationId"]: (method.upper(), path) for method, path, operation in _operations()}
    assert found == {route.operation: (route.method, route.path) for route in LISTED}
    assert len(found) == len(LISTED)
    for _, _, operation in _operations():
        assert re.fullmatch(r"[A-Z].+[^.]", operation["summary"]), operation["operationId"]


@pytest.mark.parametrize("route", [one for one in LISTED if one.body is not None], ids=lambda route: route.operation)
def test_the_example_of_a_body_is_one(route: Route) -> None:
    content = DOCUMENT["paths"][route.path][route.method.lower()]["requestBody"]["content"]
    example = next(iter(content.values()))["example"]
    msgspec.json.decode(msgspec.json.encode(example), type=route.body)


def test_no_example_is_left_over() -> None:
    assert set(EXAMPLES.bodies) <= {route.operation for route in LISTED if route.body is not None}
    for operation, query in EXAMPLES.queries.items():
        [route] = [one for one in LISTED if one.operation == operation]
        assert route.query is not None
        msgspec.convert(query, route.query)


@pytest.mark.parametrize(
    ("header", "operations"),
    [("Idempotency-Key", {"enqueue", "enqueue_many"}), ("Last-Event-ID", {"events", "job_events", "read_stream"})],
)
def test_headers_that_are_looked_at(header: str, operations: set[str]) -> None:
    found = {
        operation["operationId"]
        for _, _, operation in _operations()
        if any(one["in"] == "header" and one["name"] == header for one in operation["parameters"])
    }
    assert found == operations


# The page


class Checked(HTMLParser):
    """Well-formed, and what it points to."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.scripts: list[str] = []  # addresses; one that is inline has none
        self.feed(page.decode())
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag == "script":
            self.scripts.append(dict(attrs).get("src") or "inline")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


OTHERS = ("/lightjq/openapi.json", "/lightjq/worker/openapi.json", "/downloader/openapi.json")
DIALECTS = [
    DialectDocument(route.path, route.builds_document(Router(ROUTES).routes))
    for route in Router(ROUTES).routes
    if route.builds_document is not None
]
PAGES = {slug: Checked(page) for slug, page in render_docs_pages(DOCUMENT, DIALECTS).items()}
FILES = {"docs.js", "theme.js", "theme.css", "windlass.svg"}


def _targets(slug: str) -> Iterator[tuple[str, str]]:
    """Return the pages below /docs that a page links to, with their anchors. Other addresses are returned whole."""
    address = "/docs/" + slug if slug else "/docs"
    for link in PAGES[slug].links:
        path, _, at = urljoin(address, link).partition("#")
        yield path.removeprefix("/docs").removeprefix("/") if re.match("/docs(/|$)", path) else path, at


def test_there_is_a_page_for_every_subject_and_every_document() -> None:
    slugs = {slug_of(tag["name"]) for tag in DOCUMENT["tags"]}
    assert len(slugs) == len(DOCUMENT["tags"])
    dialects = {"lightjq", "lightjq-worker", "downloader"}
    assert {dialect.path for dialect in DIALECTS} == set(OTHERS)
    assert set(PAGES) == {"", "shapes", *slugs, *dialects}
    assert slugs.isdisjoint({"shapes", *dialects})


def test_every_operation_has_its_section_and_the_anchor_of_the_former_single_page() -> None:
    anchors = {f"op-{route.operation}" for route in LISTED}
    assert anchors <= set(PAGES[""].ids)
    for route in LISTED:
        assert f"op-{route.operation}" in PAGES[slug_of(route.tag)].ids, route.operation
    shapes = {anchor("shape", name) for name in DOCUMENT["components"]["schemas"]}
    assert shapes <= set(PAGES[""].ids) & set(PAGES["shapes"].ids)


@pytest.mark.parametrize("slug", PAGES)
def test_a_page_has_no_link_that_leads_nowhere(slug: str) -> None:
    assert len(set(PAGES[slug].ids)) == len(PAGES[slug].ids)
    outside = {"/", "/docs.css", "/openapi.json", *OTHERS}
    for page, at in _targets(slug):
        if page in PAGES:
            assert not at or at in PAGES[page].ids, (page, at)
        else:
            assert page in FILES | outside, page


@pytest.mark.parametrize("slug", PAGES)
def test_a_page_runs_own_scripts_only_and_asks_nobody_else(slug: str) -> None:
    page = PAGES[slug]
    assert page.tags.isdisjoint({"style", "iframe", "object", "form"})
    assert not any(name == "style" or name.startswith("on") for name in page.attributes)
    assert page.scripts == ["docs/theme.js" if not slug else "theme.js", "docs/docs.js" if not slug else "docs.js"]
    assert not any("//" in link for link in page.links)


def test_the_pages_name_codes_fields_and_paths() -> None:
    text = " ".join(text for page in PAGES.values() for text in page.texts)
    for word in ("id_conflict", "queue_full", "payload_base64", "Idempotency-Key", "/api/v1/jobs:batch", "lease_ms"):
        assert word in text


def test_operations_of_push_workers_cannot_be_tried_here() -> None:
    assert "data-document" in PAGES["lightjq"].attributes
    assert "data-document" not in PAGES["lightjq-worker"].attributes


def test_without_a_dashboard_nothing_links_to_it() -> None:
    pages = render_docs_pages(DOCUMENT, DIALECTS, has_dashboard=False)
    for slug, page in pages.items():
        address = "/docs/" + slug if slug else "/docs"
        assert "/" not in {urljoin(address, link) for link in Checked(page).links}


def test_texts_of_the_document_stay_texts() -> None:
    """Whatever a description or a name holds, none of it becomes a tag."""
    hostile = "<script>alert(1)</script>\"'&`<b>`"
    written = msgspec.json.decode(msgspec.json.encode(DOCUMENT))
    written["info"] |= {"title": hostile, "version": hostile, "description": hostile}
    written["tags"].append({"name": hostile})
    schema = {
        "type": "object",
        "description": hostile,
        "properties": {hostile: {"enum": [hostile], "default": hostile}},
    }
    written["components"]["schemas"][hostile] = schema
    body = {"content": {hostile: {"schema": {"$ref": f"#/components/schemas/{hostile}".replace("/script", "script")}}}}
    written["components"]["schemas"][hostile.replace("/script", "script")] = schema
    written["paths"][f"/{hostile}"] = {
        "post": {
            "operationId": hostile, "tags": [hostile], "summary": hostile, "description": hostile,
            "parameters": [
                {"name": hostile, "in": hostile, "required": True, "schema": {"type": hostile}, "description": hostile}
            ],
            "requestBody": body,
            "responses": {"200": {"description": hostile}, "400": {"description": f"{hostile}: {hostile}"}},
        }
    }  # fmt: skip
    known = [dialect for dialect in DIALECTS if dialect.root == "/lightjq"]
    tags = {tag for page in PAGES.values() for tag in page.tags}
    attributes = {name for page in PAGES.values() for name in page.attributes}
    dialect = DialectDocument(f"/{hostile}/openapi.json", {**written, "servers": [{"url": hostile}]})
    for rendered in render_docs_pages(written, [*known, dialect]).values():
        page = Checked(rendered)
        assert page.tags <= tags
        assert page.attributes <= attributes


class TestServed:
    pytestmark = served

    async def test_the_document_is_served_to_anybody_and_known_again(
        self, client: httpx.AsyncClient, service: Service
    ) -> None:
        await service.create_token(NewToken(name="one", roles=frozenset({Role.READ})))
        answer = await client.get("/openapi.json")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == DOCUMENT
        for known in (answer.headers["etag"], f'"x", W/{answer.headers["etag"]}', "*"):
            again = await client.get("/openapi.json", headers={"if-none-match": known})
            assert (again.status_code, again.content) == (304, b"")
        other = await client.get("/openapi.json", headers={"if-none-match": '"x"'})
        assert other.content == answer.content

    @pytest.mark.parametrize(
        ("path", "media"),
        [
            ("/docs", "text/html"),
            ("/docs/working", "text/html"),
            ("/docs/lightjq", "text/html"),
            ("/docs.css", "text/css"),
            ("/docs/theme.css", "text/css"),
            ("/docs/docs.js", "text/javascript"),
        ],
    )
    async def test_the_page_is_served_under_a_strict_policy(
        self, client: httpx.AsyncClient, path: str, media: str
    ) -> None:
        answer = await client.get(path, headers={"accept": "text/html,*/*;q=0.8", "sec-fetch-site": "cross-site"})
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(media)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        head = await client.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == str(len(answer.content))
        again = await client.get(path, headers={"if-none-match": answer.headers["etag"]})
        assert again.status_code == 304

    async def test_the_page_leads_to_the_documents_of_dialects(self, client: httpx.AsyncClient) -> None:
        links = Checked((await client.get("/docs")).content).links
        assert {path.removeprefix("/") for path in OTHERS} <= set(links)  # relative, for a server below a path
        for path in OTHERS:
            [server] = (await client.get(path)).json()["servers"]
            assert server["url"] == ("{worker}" if "worker" in path else path.removesuffix("/openapi.json"))

    async def test_every_line_of_the_page_that_calls_curl_is_understood(self, client: httpx.AsyncClient) -> None:
        """Nothing it names exists here; but path, method and body are right."""
        subjects = [PAGES[slug] for slug in ("", *(slug_of(tag["name"]) for tag in DOCUMENT["tags"]))]
        lines = [text for page in subjects for text in page.texts if text.startswith("curl ")]
        assert len(lines) == len(LISTED) + 1
        for line in lines:
            method, path, headers, body = _read(line)
            if path.endswith("/events"):
                continue  # endless
            headers["idempotency-key"] = line[:200]
            path, body = path.replace("wait_ms=20000", "wait_ms=0"), body.replace('"wait_ms":20000', '"wait_ms":0')
            answer = await client.request(method, path, headers=headers, content=body.encode())
            code = answer.json()["code"] if "problem" in answer.headers.get("content-type", "") else ""
            assert answer.status_code < 500 or code in ("not_ready",), (line, answer.text)
            assert code not in ("bad_input", "not_found", "method_not_allowed", "unsupported_media_type"), (
                line,
                answer.text,
            )


def _read(line: str) -> tuple[str, str, dict[str, str], str]:
    words = iter(shlex.split(line)[1:])
    method, path, body = "", "", ""
    headers: dict[str, str] = {}
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name.lower()] = value
        elif word == "-d":
            body = next(words)
        else:
            path = word.removeprefix("localhost:8080")
    return method or ("POST" if body else "GET"), path, headers, body
