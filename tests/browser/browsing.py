"""Debian's Chromium, driven by Playwright: the browser of a test process, and visitors with pages of their own. What a
page complains of is gathered in watching.py."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator, Sequence
from typing import Any

from playwright.async_api import Browser, BrowserContext, Locator, Page, async_playwright, expect

from tests.browser.watching import Watch

PATIENCE_MS = 60_000  # a busy machine is not a broken page
# Elements tell the names and roles that they have for assistive technology.
COMPUTED = "--enable-blink-features=ComputedAccessibilityInfo"
DESK, PHONE = (1280, 900), (360, 740)

expect.set_options(timeout=PATIENCE_MS)


def _act_when_loaded(actions: Sequence[str]) -> None:
    """A test is quicker than people are: it must not act on a page whose scripts are still on their way."""
    for name in actions:
        act = getattr(Locator, name)

        async def act_when_loaded(self: Locator, *given: Any, _act: Any = act, **more: Any) -> Any:
            await self.page.wait_for_load_state()
            return await _act(self, *given, **more)

        setattr(Locator, name, act_when_loaded)


_act_when_loaded(("check", "click", "fill", "press", "select_option"))


@contextlib.asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    """One Chromium process; nothing is downloaded."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "chromium is not installed; `make test` installs it"
    async with async_playwright() as playwright:
        # Without its sandbox: root cannot have it, and it visits nobody but us.
        browser = await playwright.chromium.launch(
            executable_path=path, chromium_sandbox=False, args=[COMPUTED], timeout=120_000
        )
        try:
            yield browser
        finally:
            await browser.close()


class Visitor:
    """Opens pages, each in a context of its own: no cookie goes from one to the next."""

    def __init__(self, browser: Browser, base_url: str) -> None:
        self.watch = Watch()
        self.base_url = base_url
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    async def open(self, path: str = "/", **options: Any) -> Page:
        """A page that shows `path`."""
        page = await (await self.context(**options)).new_page()
        await page.goto(path)
        return page

    async def context(
        self, *, dark: bool = False, size: tuple[int, int] = DESK, scripts: bool = True, **options: Any
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
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        await self.watch.over(context)
        return context

    async def leave(self) -> None:
        for context in self._contexts:
            await context.close()
        self._contexts.clear()


@contextlib.asynccontextmanager
async def visiting(browser: Browser, url: str) -> AsyncIterator[Visitor]:
    """Until the block ends; then nothing may have gone wrong in any of the visitor's pages."""
    visitor = Visitor(browser, url)
    try:
        yield visitor
    finally:
        await visitor.leave()
    if visitor.watch.complaints:
        raise AssertionError("\n".join(visitor.watch.complaints))
