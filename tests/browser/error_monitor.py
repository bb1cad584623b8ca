"""Records errors of pages: console errors, exceptions of scripts, violations of the content security policy, and failed
requests. Each of them fails a test that does not tolerate it."""

from __future__ import annotations

import asyncio
import re

from playwright.async_api import BrowserContext, ConsoleMessage, Request, Response, WebError

TIMEOUT_S = 30
# A page aborts its own requests, such as its stream of events, when the browser leaves it.
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


class ErrorMonitor:
    def __init__(self) -> None:
        self._recorded: list[str] = []
        self._changed = asyncio.Event()
        self._tolerated: list[re.Pattern[str]] = []

    async def attach(self, context: BrowserContext) -> None:
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)
        context.on("response", self._on_response)
        context.on("requestfailed", self._on_failed)
        await context.add_init_script(_REPORT_VIOLATIONS)

    def tolerate(self, pattern: str) -> None:
        """Ignore errors that match: the test causes them."""
        self._tolerated.append(re.compile(pattern))

    @property
    def errors(self) -> list[str]:
        return [error for error in self._recorded if not any(pattern.search(error) for pattern in self._tolerated)]

    async def wait_for(self, pattern: str) -> None:
        """Wait for an error: errors are reported shortly after their cause."""
        while not any(re.search(pattern, error) for error in self._recorded):
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), TIMEOUT_S)
            except TimeoutError:
                raise AssertionError(f"no error matches {pattern!r}, only {self._recorded}") from None

    def _record(self, error: str) -> None:
        self._recorded.append(error)
        self._changed.set()

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._record(f"console: {message.text} ({message.location.get('url', '')})")

    def _on_error(self, error: WebError) -> None:
        self._record(f"exception: {error.error}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self._record(f"answer: {response.status} {response.request.method} {response.url}")

    def _on_failed(self, request: Request) -> None:
        if request.failure != _ENDED_BY_ITSELF:
            self._record(f"failed: {request.failure} {request.method} {request.url}")
