"""Pages of flows in a real browser: graphs of every size, keyboard, live updates, resume by the button."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.chromium import DESKTOP, PHONE, Visitor
from tests.browser.page_audit import find_faults
from windlass.core.ids import format_id
from windlass.core.job import Blob, FlowRef, NewJob
from windlass.core.operations import Fail, Finish, Take
from windlass.server import Server
from windlass.service import Service

pytestmark = pytest.mark.anyio

HOUR_MS = 3_600_000
BOXES_MAX = 60  # of a folded graph of these shapes
IS_SCROLLED_TO = """(selector) => {
    const [area, box] = ["#graph", selector].map((found) => document.querySelector(found).getBoundingClientRect());
    return box.left >= area.left && box.left < area.right && box.top >= area.top && box.bottom <= area.bottom + 1;
}"""


async def put_flow(service: Service, steps: dict[str, tuple[str, ...]]) -> str:
    """Enqueue a flow and return its address."""
    flow_id, *ids = service.store.new_ids(["q"] * (len(steps) + 1))
    jobs = dict(zip(steps, ids, strict=True))
    added = await service.enqueue(
        [
            NewJob(
                queue="q",
                name="work",
                id=jobs[step],
                after=tuple(jobs[before] for before in after),
                flow=FlowRef(flow_id, "checkout", step),
                result_ttl_ms=HOUR_MS,
            )
            for step, after in steps.items()
        ],
        whole=True,
    )
    assert not any(isinstance(answer, Exception) for answer in added), added[:3]
    return f"/flows/{format_id(flow_id)}"


async def end(service: Service, count: int = 1, *, fails: bool = False) -> None:
    """Take jobs and finish them, or fail them."""
    taken = (await service.take(Take(queues=("q",), most=count))).jobs
    assert len(taken) == count
    if fails:
        await service.fail([Fail(id=job.id, token=job.lease_token, then="final") for job in taken])
    else:
        await service.finish([Finish(job.id, job.lease_token, Blob(b"1")) for job in taken])
    await notify_all(service)


async def notify_all(service: Service) -> None:
    """Run the steps that notify many dependents, so that the page does not change by itself."""
    step = await service.promote()
    while step.next_at_ms is not None and step.next_at_ms <= step.now_ms:
        step = await service.promote()


def chain(count: int) -> dict[str, tuple[str, ...]]:
    return {f"step {at}": (f"step {at - 1}",) if at else () for at in range(count)}


def layers(count: int, width: int) -> dict[str, tuple[str, ...]]:
    """Steps side by side, each after a step and its neighbour of the layer before."""
    steps: dict[str, tuple[str, ...]] = {}
    for at in range(count):
        layer, place = divmod(at, width)
        before = {(layer - 1) * width + place, (layer - 1) * width + (place + 1) % width}
        steps[f"step {at}"] = tuple(f"step {number}" for number in sorted(before)) if layer else ()
    return steps


@pytest.mark.parametrize(
    ("count", "width"), [(5, 2), (200, 100), (2000, 500)], ids=["5 steps", "200 steps", "2000 steps"]
)
@pytest.mark.parametrize(("dark", "size"), [(False, DESKTOP), (True, PHONE)], ids=["light-desktop", "dark-phone"])
async def test_graphs_of_every_size(
    visitor: Visitor, running: Server, count: int, width: int, dark: bool, size: tuple[int, int]
) -> None:
    service = running.service
    path = await put_flow(service, layers(count, width))
    await end(service, width - 1)
    await end(service, fails=True)
    page = await visitor.open(path, dark=dark, size=size)
    assert await page.evaluate(IS_SCROLLED_TO, ".box-failed.is-cause")
    assert await find_faults(page) == []
    boxes = page.locator(".flow-graph .box")
    shown = await boxes.count()
    assert shown <= BOXES_MAX
    if count > BOXES_MAX:
        await expect(page.locator(".box.is-fold").first).to_contain_text("more")
        await page.get_by_role("link", name="Show all steps", exact=True).click()
        await expect(boxes).to_have_count(count)
        assert await page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
        await page.get_by_role("link", name="Fold", exact=True).click()
        await expect(boxes).to_have_count(shown)
    else:
        assert shown == count


async def test_a_chain_of_two_thousand_steps_is_readable(visitor: Visitor, running: Server) -> None:
    path = await put_flow(running.service, chain(2000))
    for _ in range(8):
        await end(running.service)
    page = await visitor.open(path)
    await expect(page.locator(".box", has_text="step 1999")).to_be_attached()
    assert await page.evaluate(IS_SCROLLED_TO, ".box-queued")
    assert await page.locator(".flow-graph .box").count() < 10


async def test_resume_by_the_button(visitor: Visitor, running: Server) -> None:
    service = running.service
    path = await put_flow(service, chain(5))
    await end(service)
    await end(service, fails=True)
    page = await visitor.open(path)
    await expect(page.locator("#state")).to_have_text("failed")
    await expect(page.locator(".box-consequence")).to_have_count(3)
    await page.get_by_role("button", name="Resume flow", exact=True).click()
    await expect(page.get_by_role("status").filter(has_text="Retried 1 step.")).to_be_visible()
    await expect(page.locator("#state")).to_have_text("running")
    await expect(page.locator(".box-consequence")).to_have_count(0)

    # The open page follows the flow to its end
    for _ in range(4):
        await end(service)
    await expect(page.locator("#state")).to_have_text("finished")
    await expect(page.locator(".box-finished")).to_have_count(5)
    await expect(page.locator("#blockers")).to_be_hidden()
    await expect(page.get_by_role("button", name="Resume flow", exact=True)).to_have_count(0)


async def test_cancel_and_run_again(visitor: Visitor, running: Server) -> None:
    service = running.service
    path = await put_flow(service, chain(3))
    page = await visitor.open(path)
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    await expect(page.locator("#state")).to_have_text("cancelled")
    await page.get_by_role("button", name="Run again").click()
    await expect(page.get_by_role("status").filter(has_text="Enqueued a copy of the flow")).to_be_visible()
    await expect(page.locator("#state")).to_have_text("running")
    assert not page.url.endswith(path)
    await page.get_by_role("link", name="Flows", exact=True).first.click()
    await expect(page.locator("tbody tr")).to_have_count(2)


async def test_keyboard_reaches_the_graph_and_its_steps(visitor: Visitor, running: Server) -> None:
    path = await put_flow(running.service, chain(3))
    page = await visitor.open("/")
    await page.keyboard.press("g")
    await page.keyboard.press("d")
    await expect(page.get_by_role("heading", name="Flows")).to_be_visible()
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(f"{running.url}{path}")
    await page.locator("#graph").focus()
    await page.keyboard.press("Tab")
    first = page.locator(".flow-graph a").first
    await expect(first).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Step step 0 of flow checkout")).to_be_visible()
    await page.get_by_role("link", name="checkout").click()
    await expect(page).to_have_url(f"{running.url}{path}")
