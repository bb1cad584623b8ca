"""Regions that change in place and keep the state of the user; chart tooltips; confirmation of destructive actions."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.chromium import Visitor
from windlass.core.job import NewJob
from windlass.dashboard.assets import ASSETS
from windlass.server import Server

pytestmark = pytest.mark.anyio

BEFORE = """
<details id="d"><summary>more</summary>text</details>
<input id="box" type="checkbox"><input id="field" value="a"><input id="secret" type="hidden" value="1">
<ul><li data-key="a"><button id="button">a</button></li><li data-key="b">b</li><li data-key="c">c</li></ul>
<p class="old">one <b>two</b></p><time>1</time><textarea id="area">x</textarea>
"""
AFTER = """
<details id="d"><summary>less</summary>words</details>
<input id="box" type="checkbox"><input id="field" value="b"><input id="secret" type="hidden" value="2">
<ul><li data-key="n">n</li><li data-key="c">C</li><li data-key="a"><button id="button">A</button></li></ul>
<p class="new">one <i>three</i></p><time>2</time><em>more</em><textarea id="area">y</textarea>
"""
MORPH = """async ([module, before, after]) => {
  const { morph } = await import(module);
  const document_of = (html) => new DOMParser().parseFromString(`<section id="r">${html}</section>`, "text/html");
  const parsed = (html) => document_of(html).body.firstChild;
  const region = document.importNode(parsed(before), true);
  document.querySelector("main").append(region);
  const at = (id) => region.querySelector(id);
  at("#d").open = true;
  at("#box").checked = true;
  at("#field").value = "typed";
  at("#area").value = "written";
  at("#button").focus();
  const kept = [at("#d"), at("#button"), at("[data-key=c]"), at("p")];
  morph(region, parsed(after));
  at("#button").focus();
  return {
    kept: kept.every((element) => element.isConnected),
    keys: [...region.querySelectorAll("li")].map((item) => item.dataset.key + item.textContent).join(),
    open: at("#d").open, box: at("#box").checked, field: at("#field").value, area: at("#area").value,
    secret: at("#secret").value, paragraph: at("p").outerHTML, text: at("#d").textContent,
    rest: at("time").textContent + at("em").textContent,
    focused: document.activeElement.id,
  };
}"""


async def test_an_update_keeps_the_state_of_the_user(visitor: Visitor) -> None:
    page = await visitor.open("/")
    found = await page.evaluate(MORPH, [f"/static/{ASSETS.version}/morph.js", BEFORE, AFTER])
    assert found == {
        "kept": True,
        "keys": "nn,cC,aA",
        "open": True,
        "box": True,
        "field": "typed",
        "area": "written",
        "secret": "2",
        "paragraph": '<p class="new">one <i>three</i></p>',
        "text": "lesswords",
        "rest": "2more",
        "focused": "button",
    }


async def test_selected_text_is_kept(visitor: Visitor, running: Server) -> None:
    await running.service.enqueue([NewJob(queue="mail", name="send")])
    page = await visitor.open("/")
    row = page.get_by_role("row", name="mail")
    totals = page.get_by_label("All queues")
    await expect(row).to_be_visible()
    await page.evaluate("getSelection().selectAllChildren(document.querySelector('#queues tbody th'))")
    await running.service.enqueue([NewJob(queue="mail", name="send")])
    await expect(totals.get_by_role("link", name="Queued 2 now", exact=True)).to_be_visible()
    assert await page.evaluate("getSelection().toString().trim()") == "mail"
    await expect(row.get_by_role("cell").first).to_have_text("1")
    await page.evaluate("getSelection().removeAllRanges()")
    await running.service.enqueue([NewJob(queue="mail", name="send")])
    await expect(row.get_by_role("cell").first).to_have_text("3")


async def test_a_chart_shows_its_numbers(visitor: Visitor, running: Server) -> None:
    await running.service.enqueue([NewJob(queue="mail", name="send")])
    page = await visitor.open("/")
    chart = page.locator("#throughput svg")
    box = await chart.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tooltip = page.locator("#throughput .tooltip")
    await expect(tooltip).to_contain_text("Enqueued")
    await expect(tooltip).to_contain_text("Failed")
    await page.mouse.move(5, 5)
    await expect(tooltip).to_have_count(0)


async def test_a_repair_needs_confirmation_with_and_without_scripts(visitor: Visitor, running: Server) -> None:
    service, store = running.service, running.service.store
    await service.enqueue([NewJob(queue="mail", name="send")])

    def damage() -> None:
        store._sync_connection.call("SREM", f"{store.root(0)}:queues", "mail")

    damage()
    page = await visitor.open("/engine")
    await page.get_by_role("button", name="Run the doctor").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Problems found")
    await page.get_by_role("button", name="Repair").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Go back").click()
    await expect(dialog).to_be_hidden()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Problems found")
    await page.get_by_role("button", name="Repair").click()
    await dialog.get_by_role("button", name="Repair").click()
    await expect(page.get_by_text("It was repaired.")).to_be_visible()
    damage()
    page = await visitor.open("/engine", scripts=False)
    await page.get_by_role("button", name="Run the doctor").click()
    await page.get_by_role("button", name="Repair").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Are you sure?")
    await page.get_by_role("button", name="Confirm").click()
    await expect(page.get_by_text("It was repaired.")).to_be_visible()
