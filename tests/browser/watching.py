"""What goes wrong in a page without anybody seeing it: errors on its console, exceptions of its scripts, what its
content security policy refused, and requests that failed. Each of them fails a test that has not said so before."""

from __future__ import annotations

import asyncio
import re

from playwright.async_api import BrowserContext, ConsoleMessage, Request, Response, WebError

PATIENCE_S = 30
# A page that is left ends its own requests, such as its stream of events.
_ENDED_BY_ITSELF = "net::ERR_ABORTED"
# Reports policy violations as they happen; the browser does not print every violation on the console.
# Browsers differ in when they report an inline handler: some when it is parsed, some when it would first run. So the
# observer reports every inline handler in the document by itself.
_REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", event =>
    console.error(`refused by the policy: ${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));
{
    const report = (element) => {
        for (const { name } of element.attributes)
            if (name.startsWith("on")) console.error(`inline handler: ${element.localName} ${name}`);
    };
    new MutationObserver((records) => {
        for (const { type, target, addedNodes } of records) {
            if (type === "attributes") report(target);
            for (const node of addedNodes)
                if (node instanceof Element) [node, ...node.querySelectorAll("*")].forEach(report);
        }
    }).observe(document, { attributes: true, childList: true, subtree: true });
}"""


class Watch:
    def __init__(self) -> None:
        self._heard: list[str] = []
        self._news = asyncio.Event()
        self._tolerated: list[re.Pattern[str]] = []

    async def over(self, context: BrowserContext) -> None:
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)
        context.on("response", self._on_response)
        context.on("requestfailed", self._on_failed)
        await context.add_init_script(_REPORT_VIOLATIONS)

    def tolerates(self, pattern: str) -> None:
        """The test means this to happen."""
        self._tolerated.append(re.compile(pattern))

    @property
    def complaints(self) -> list[str]:
        return [one for one in self._heard if not any(pattern.search(one) for pattern in self._tolerated)]

    async def hears(self, pattern: str) -> None:
        """Waits for a complaint: they come a little after what they are about."""
        while not any(re.search(pattern, one) for one in self._heard):
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), PATIENCE_S)
            except TimeoutError:
                raise AssertionError(f"nothing was heard like {pattern!r}, only {self._heard}") from None

    def _hear(self, complaint: str) -> None:
        self._heard.append(complaint)
        self._news.set()

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._hear(f"console: {message.text} ({message.location.get('url', '')})")

    def _on_error(self, error: WebError) -> None:
        self._hear(f"exception: {error.error}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self._hear(f"answer: {response.status} {response.request.method} {response.url}")

    def _on_failed(self, request: Request) -> None:
        if request.failure != _ENDED_BY_ITSELF:
            self._hear(f"failed: {request.failure} {request.method} {request.url}")
