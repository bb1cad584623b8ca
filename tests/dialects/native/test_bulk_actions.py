"""Bulk actions through a server that runs them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.sample_jobs import ABSENT, bearer, failed, wait_for_end
from tests.support.api_client import Api
from windlass.core.bulk_action import Action
from windlass.core.ids import format_id
from windlass.core.operations import Listing
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


async def test_the_server_carries_out_what_is_asked_for_and_it_is_audited(api: Api, service: Service) -> None:
    for _ in range(3):
        await failed(service)
    body = {"verb": "retry", "matches": {"queue": "q", "state": "failed"}}
    asked = await api.post("/api/v1/actions", body)
    assert asked.status == 200, asked.body
    assert (asked.body["verb"], asked.body["total"], asked.body["asked_by"]) == ("retry", 3, "local")
    found = await wait_for_end(api, asked.body["id"])
    assert (found["state"], found["done"], found["refused"], found["matches"]["queue"]) == ("finished", 3, 0, "q")
    listed = (await api.get("/api/v1/actions")).body["actions"]
    assert [item["id"] for item in listed] == [asked.body["id"]]
    entry = (await service.audits()).entries[0]
    assert (entry.target, "retry" in entry.detail) == ("q", True)
    again = await api.post(f"/api/v1/actions/{asked.body['id']}/cancel", None)
    assert again.status == 409, again.body


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"verb": "retry"},
        {"verb": "wake", "matches": {"state": "failed"}},
        {"verb": "retry", "matches": {"state": "queued"}},
        {"verb": "retry", "matches": {"state": "failed", "cursor": "x"}},
        {"verb": "cancel", "matches": {"tag": "x" * 129}},
        {"verb": "cancel", "matches": {"where": ["not_indexed=1"]}},
        {"verb": "cancel", "matches": {"tag": "x"}, "reason": ""},
    ],
)
async def test_actions_that_cannot_be(api: Api, service: Service, body: Any) -> None:
    answer = await api.post("/api/v1/actions", body)
    assert (answer.status, answer.body["code"]) == (400, "bad_input")
    assert await service.actions() == []
    assert (await api.get(f"/api/v1/actions/{ABSENT}")).status == 404


async def test_a_token_for_some_queues_sees_the_actions_on_these(api: Api, service: Service) -> None:
    token = await bearer(service, "read", queues=("mail*",))
    mine = await service.act(Action(verb="retry", listing=Listing(queue="mail", state="failed")))
    other = await service.act(Action(verb="retry", listing=Listing(state="failed")))
    listed = (await api.get("/api/v1/actions", **token)).body["actions"]
    assert [item["id"] for item in listed] == [format_id(mine.id)]
    assert (await api.get(f"/api/v1/actions/{format_id(mine.id)}", **token)).status == 200
    assert (await api.get(f"/api/v1/actions/{format_id(other.id)}", **token)).status == 403
