"""Write the pictures of the main pages to docs/images, light and dark. They show the deployment that the browser tests
use, with plain names."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from tests.browser.chromium import Visitor, launch_browser, open_visitor  # noqa: E402
from tests.browser.demo_deployment import populated  # noqa: E402
from tests.browser.sample_texts import plain_text  # noqa: E402
from tests.browser.small_png import small_png  # noqa: E402
from tests.support.engine_process import EngineProcess  # noqa: E402
from tests.support.stores import make_store  # noqa: E402
from windlass.server import open_server  # noqa: E402
from windlass.settings import Settings  # noqa: E402

IMAGES = ROOT / "docs" / "images"
SIZE = (1280, 800)
BYTES_MAX = 150_000
DAY_MINUTES = 24 * 60
# Name of the picture -> path, with placeholders for the job ids of tests/browser/demo_deployment.py.
PAGES = {
    "overview": "/",
    "queue": "/queues/mail",
    "jobs": "/jobs?state=running",
    "job": "/jobs/{failed}",
    "job-running": "/jobs/{running}",
    "job-durable": "/jobs/{durable}",
    "flow": "/flows/{flow}",
    "failures": "/failures",
    "workers": "/workers",
    "schedules": "/schedules",
    "schedule": "/schedules/warm%20the%20cache",
    "schedule-new": "/new-schedule",
    "limits": "/limits",
    "task": "/tasks/charge_card",
    "alerts": "/alerts",
    "palette": "/queues",
    "reference": "/docs/producing",
}
KEYS = {"palette": "Control+k"}  # pressed before the picture is taken


async def main() -> int:
    socket.gethostname = lambda: "app-1.example"  # keep the name of this machine out of the pictures
    ago_minutes = [*range(DAY_MINUTES, 60, -5), *range(60, 0, -1)]
    with EngineProcess("valkey", config=("--save", "", "--appendonly", "no")) as engine:
        async with (
            make_store(engine) as store,
            populated(store, plain_text, ago_minutes) as ids,
            open_server(store.clone(), Settings(port=0, bedrock_port=None, roles="api")) as running,
            launch_browser() as browser,
            open_visitor(browser, running.url) as visitor,
        ):
            sizes = [
                await picture(visitor, name, path.format(**ids), dark)
                for name, path in PAGES.items()
                for dark in (False, True)
            ]
    return int(max(sizes) > BYTES_MAX)


async def picture(visitor: Visitor, name: str, path: str, dark: bool) -> int:
    page = await visitor.open(path, dark=dark, size=SIZE)
    if name in KEYS:
        await page.keyboard.press(KEYS[name])
        await page.get_by_role("dialog").get_by_role("option").first.wait_for()
    taken = await page.screenshot(type="png", animations="disabled", caret="hide")
    await page.goto("about:blank")
    data = await small_png(page, taken)
    await page.close()
    IMAGES.mkdir(exist_ok=True)
    file = IMAGES / f"{name}-{'dark' if dark else 'light'}.png"
    file.write_bytes(data)
    print(f"{file.relative_to(ROOT)}: {len(data):,} bytes{' (too big)' * (len(data) > BYTES_MAX)}")
    return len(data)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
