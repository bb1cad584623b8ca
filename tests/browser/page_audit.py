"""Checks of a page in the browser: accessible names, focus, contrast, width; and layout shifts while the page
changes."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Page

_AUDIT = Path(__file__).with_name("page_audit.js").read_text()
# The browser's own measure of elements that moved without user input. It sometimes reports a text that is where it was.
_WATCH_SHIFTS = """() => {
    window.shifts = [];
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries())
            for (const { node, previousRect, currentRect } of entry.sources) {
                const [from, to] = [JSON.stringify(previousRect), JSON.stringify(currentRect)];
                const shown = node?.outerHTML ?? node?.textContent;
                if (from !== to) shifts.push(`${shown?.slice(0, 100)} from ${from} to ${to}`);
            }
    }).observe({ type: "layout-shift" });
}"""


async def find_faults(page: Page) -> list[str]:
    """Return the faults of the page, one sentence each."""
    found: list[str] = await page.evaluate(_AUDIT)
    return found


async def watch_shifts(page: Page) -> None:
    await page.evaluate(_WATCH_SHIFTS)


async def read_shifts(page: Page) -> list[str]:
    """Return the elements that moved since `watch_shifts`, after the current changes are painted."""
    await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    found: list[str] = await page.evaluate("shifts")
    return found
