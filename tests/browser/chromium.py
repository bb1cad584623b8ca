"""Debian's Chromium, driven by Playwright: one browser per test process, and visitors with their own pages. Errors of
pages are recorded by error_monitor.py."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator, Sequence
from typing import Any

from playwright.async_api import Browser, BrowserContext, Locator, Page, async_playwright, expect

from tests.browser.error_monitor import ErrorMonitor

TIMEOUT_MS = 60_000  # long, so that a busy machine does not fail a test
# Adds computedName and computedRole to elements: their name and role for assistive technology.
COMPUTED = "--enable-blink-features=ComputedAccessibilityInfo"
# Keeps the tree of names and roles. Otherwise the browser builds it again for each name that a test reads: 85 ms each
# on a page of 3000 elements, instead of 0.05 ms.
KEPT = "--force-renderer-accessibility=complete"
DESKTOP, PHONE = (1280, 900), (360, 740)

expect.set_options(timeout=TIMEOUT_MS)


def _act_when_loaded(actions: Sequence[str]) -> None:
    """Make these actions wait until the page and its scripts are loaded: tests act faster than users."""
    for name in actions:
        act = getattr(Locator, name)

        async def act_when_loaded(self: Locator, *given: Any, _act: Any = act, **more: Any) -> Any:
            await self.page.wait_for_load_state()
            return await _act(self, *given, **more)

        setattr(Locator, name, act_when_loaded)


_act_when_loaded(("check", "click", "fill", "press", "select_option"))


@contextlib.asynccontextmanager
async def launch_browser() -> AsyncIterator[Browser]:
    """Start a Chromium process. Nothing is downloaded."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "chromium is not installed; `make test` installs it"
    async with async_playwright() as playwright:
        # Without a sandbox: it does not work for root, and the browser opens only our pages.
        browser = await playwright.chromium.launch(
            executable_path=path, chromium_sandbox=False, args=[COMPUTED, KEPT], timeout=120_000
        )
        try:
            yield browser
        finally:
            await browser.close()


class Visitor:
    """Opens pages, each in its own context, without shared cookies."""

    def __init__(self, browser: Browser, base_url: str) -> None:
        self.monitor = ErrorMonitor()
        self.base_url = base_url
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    async def open(self, path: str = "/", **options: Any) -> Page:
        """Open a page at `path`."""
        page = await (await self.context(**options)).new_page()
        await page.goto(path)
        return page

    async def context(
        self, *, dark: bool = False, size: tuple[int, int] = DESKTOP, scripts: bool = True, **options: Any
    ) -> BrowserContext:
        context = await self._browser.new_context(
            **{
                "base_url": self.base_url,
                "color_scheme": "dark" if dark else "light",
                "viewport": {"width": size[0], "height": size[1]},
                "java_script_enabled": scripts,
                "reduced_motion": "reduce",
                "locale": "en-GB",
                "timezone_id": "UTC",
                **options,
            }
        )
        context.set_default_timeout(TIMEOUT_MS)
        self._contexts.append(context)
        await self.monitor.attach(context)
        return context

    async def leave(self) -> None:
        for context in self._contexts:
            await context.close()
        self._contexts.clear()


@contextlib.asynccontextmanager
async def open_visitor(browser: Browser, url: str) -> AsyncIterator[Visitor]:
    """Open a visitor for the block. Raise at its end if any of its pages had an error."""
    visitor = Visitor(browser, url)
    try:
        yield visitor
    finally:
        await visitor.leave()
    if visitor.monitor.errors:
        raise AssertionError("\n".join(visitor.monitor.errors))
