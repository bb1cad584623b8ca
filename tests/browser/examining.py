"""Is a page as it should be for everybody: named, reachable, legible, no wider than the window? And does what is there
stay where it is while the page changes?"""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Page

_EXAMINE = Path(__file__).with_name("examining.js").read_text()
# The browser's own measure of what has moved though nobody touched anything.
_WATCH_SHIFTS = """() => {
    window.shifts = [];
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries())
            for (const source of entry.sources)
                shifts.push(`${source.node?.outerHTML?.slice(0, 100)} from ${JSON.stringify(source.previousRect)} `
                    + `to ${JSON.stringify(source.currentRect)}`);
    }).observe({ type: "layout-shift" });
}"""


async def faults(page: Page) -> list[str]:
    """What is wrong with it, one sentence each."""
    found: list[str] = await page.evaluate(_EXAMINE)
    return found


async def watch_shifts(page: Page) -> None:
    await page.evaluate(_WATCH_SHIFTS)


async def shifts(page: Page) -> list[str]:
    """What has moved since, once what is under way is painted."""
    await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    found: list[str] = await page.evaluate("shifts")
    return found
