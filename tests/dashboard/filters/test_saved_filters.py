"""Saved filters on the pages: save, follow, rename, remove; roles, queues, and the table of pages and fields."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.dashboard.page_client import PageClient
from windlass import dashboard
from windlass.core.access.tokens import NewToken, Role
from windlass.core.filters.saved_filter import PAGES, SavedFilter
from windlass.core.job import NewJob
from windlass.service import Service
from windlass.web.app.router import Router

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
LIST = "/jobs?state=failed&queue=mail"


@pytest.mark.usefixtures("engine")
async def test_the_fields_are_those_of_the_pages() -> None:
    """Each field of PAGES is a parameter of the page, and each parameter is a field or a position."""
    queries = {route.path: route.query for route in Router(dashboard.ROUTES).routes if route.is_page}
    for page, fields in PAGES.items():
        query = queries[f"/{page}"]
        assert query is not None
        assert set(fields) == {field.name for field in msgspec.structs.fields(query)} - {"cursor", "trail"}, page


async def save(client: PageClient, path: str, name: str) -> Any:
    page = await client.get(path)
    return await client.send("/do/save-filter", page.form("save-filter") | {"name": name})


async def test_a_filter_is_saved_followed_renamed_and_removed(page_client: PageClient, service: Service) -> None:
    answer = await save(page_client, LIST + "&cursor=", "late mail & co")
    assert (answer.status_code, answer.headers["location"]) == (303, LIST)
    assert await service.filters() == [
        SavedFilter(name="late mail & co", page="jobs", fields={"state": "failed", "queue": "mail"})
    ]

    other = await page_client.get("/jobs")
    (link,) = [link for link in other.all("a") if link.get("href") == LIST]
    assert "aria-current" not in link
    page = await page_client.get(LIST)
    assert [link["href"] for link in page.all("a", aria_current="page") if link.get("class") == "tag"] == [LIST]
    assert "save-filter" not in " ".join(page.actions)

    answer = await page_client.send("/do/rename-filter", page.form("rename-filter") | {"name": "late"})
    assert answer.status_code == 303
    assert [saved.name for saved in await service.filters()] == ["late"]

    page = await page_client.get(LIST)
    asked = await page_client.send("/do/remove-filter", page.form("remove-filter"))
    assert "for everyone?" in asked.text
    assert len(await service.filters()) == 1
    answer = await page_client.send("/do/remove-filter", page.form("remove-filter") | {"confirmed": "1"})
    assert answer.status_code == 303
    assert await service.filters() == []
    done = [(entry.what, entry.target, entry.outcome) for entry in (await service.audits()).entries]
    assert done == [
        ("remove_filter", "late", "done"),
        ("rename_filter", "late", "done"),
        ("save_filter", "late mail & co", "done"),
    ]


@pytest.mark.parametrize(
    "path",
    ["/flows?state=failed", "/failures?queue=mail", "/signals?signal=approval", "/audit?q=grace", "/jobs?since=6h"],
)
async def test_each_page_saves_its_filters(page_client: PageClient, service: Service, path: str) -> None:
    answer = await save(page_client, path, "mine")
    assert answer.headers["location"] == path
    page = await page_client.get(path)
    assert "mine" in page.text
    assert page.status == 200


async def test_what_cannot_be_saved_says_why_and_changes_nothing(page_client: PageClient, service: Service) -> None:
    await save(page_client, LIST, "late")
    assert "save-filter" not in " ".join((await page_client.get("/jobs")).actions)  # it has no filters
    form = (await page_client.get("/jobs?tag=a")).form("save-filter")
    for changes, part in (
        ({"name": "late"}, "saved already"),
        ({"name": "x", "filters": ""}, "at least one field"),
        ({"name": ""}, "must not be empty"),
        ({"name": "x", "page": "engine"}, "cannot be saved"),
        ({"name": "x", "filters": "cursor=5"}, "no filter"),
    ):
        answer = await page_client.send("/do/save-filter", form | changes)
        assert answer.status_code in (400, 409), changes
        assert part in answer.text, changes
    answer = await page_client.send("/do/save-filter", {"name": "x", "page": "jobs", "filters": "tag=a"})
    assert answer.status_code == 400  # without the CSRF token
    assert [saved.name for saved in await service.filters()] == ["late"]


@pytest.fixture
async def tokens(service: Service) -> dict[str, str]:
    await service.enqueue([NewJob(queue="mail", name="send"), NewJob(queue="payments", name="charge")])
    wanted = {
        "mail": NewToken(name="mail", roles=frozenset({Role.READ, Role.PRODUCE}), queues=("mail",)),
        "reader": NewToken(name="reader", roles=frozenset({Role.READ})),
    }
    return {name: (await service.create_token(new)).text for name, new in wanted.items()}


async def test_a_token_for_some_queues_sees_no_filter_of_others(
    tokens: dict[str, str], page_client: PageClient, service: Service
) -> None:
    await service.save_filter(SavedFilter(name="payments stuck", page="jobs", fields={"queue": "payments"}))
    await service.save_filter(SavedFilter(name="all failed", page="jobs", fields={"state": "failed"}))
    await service.save_filter(SavedFilter(name="who did it", page="audit", fields={"q": "grace"}))
    await page_client.log_in(tokens["mail"])
    page = await page_client.get("/jobs?queue=mail")
    assert "all failed" in page.text
    assert "payments" not in page.text
    form = page.form("save-filter")
    for action, fields in (
        ("save-filter", {"name": "payments stuck"}),  # replaces one that it may not see
        ("save-filter", {"name": "x", "filters": "queue=payments"}),
        ("save-filter", {"name": "x", "page": "audit", "filters": "q=ada"}),
        ("remove-filter", {"name": "payments stuck", "confirmed": "1"}),
    ):
        answer = await page_client.send(f"/do/{action}", form | fields)
        assert answer.status_code == 403, (action, fields)
    answer = await page_client.send("/do/rename-filter", form | {"former": "payments stuck", "name": "x"})
    assert answer.status_code == 404
    assert len(await service.filters()) == 3


async def test_a_reader_sees_filters_and_changes_none(
    tokens: dict[str, str], page_client: PageClient, service: Service
) -> None:
    await service.save_filter(SavedFilter(name="payments stuck", page="jobs", fields={"queue": "payments"}))
    await page_client.log_in(tokens["reader"])
    page = await page_client.get("/jobs?queue=payments")
    assert "payments stuck" in page.text
    assert not [action for action in page.actions if "filter" in action]
    answer = await page_client.send(
        "/do/remove-filter", {"name": "payments stuck", "csrf": page.form("logout")["csrf"]}
    )
    assert answer.status_code == 403
