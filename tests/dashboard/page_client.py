"""HTTP client that reads pages, follows links and sends forms like a browser without scripts."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import httpx

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Page(HTMLParser):
    """Parsed page: its text, elements, and forms with their hidden fields. Wrongly nested markup fails the test."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        self.answer = answer
        self.status = answer.status_code
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.forms: list[tuple[str, dict[str, str]]] = []
        self._texts: list[str] = []
        self._open: list[str] = []
        self.feed(answer.text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        if tag == "option" and self._open[-1:] == ["option"]:
            self._open.pop()
        if tag not in VOID:
            self._open.append(tag)
        if tag == "form":
            self.forms.append((given.get("action", ""), {}))
        elif tag == "input" and self.forms and given.get("type") == "hidden":
            self.forms[-1][1][given["name"]] = given["value"]

    def handle_endtag(self, tag: str) -> None:
        if tag != "option" and self._open[-1:] == ["option"]:
            self._open.pop()  # its end tag is optional
        assert self._open, f"</{tag}> without a start tag"
        opened = self._open.pop()
        assert opened == tag, f"<{opened}> ends with </{tag}>"

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("script", "style"):
            self._texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._texts).split())

    def all(self, tag: str, **wanted: str) -> list[dict[str, str]]:
        return [
            attributes
            for name, attributes in self.elements
            if name == tag and all(attributes.get(key.replace("_", "-")) == value for key, value in wanted.items())
        ]

    def form(self, action: str, **fields: str) -> dict[str, str]:
        """Return the hidden fields of the first form that has this action and these fields."""
        return next(
            found
            for path, found in self.forms
            if path.endswith(action) and all(found.get(name) == value for name, value in fields.items())
        )

    @property
    def actions(self) -> set[str]:
        return {path for path, _ in self.forms}


class PageClient:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def get(self, path: str, **headers: str) -> Page:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Page(await self.http.get(path, headers=named))

    async def send(self, action: str, fields: dict[str, Any], **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.post(action, data=fields, headers=named)

    async def log_in(self, token: str, *, base: str = "") -> httpx.Response:
        page = await self.get(f"{base}/login")
        return await self.send(f"{base}/login", page.form("/login") | {"token": token})
