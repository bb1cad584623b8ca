"""Native routes of the atomic enqueue, and of reading several jobs in one request."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_client import Api
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import format_id
from windlass.core.job import NewJob
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

NO_ID = "01890a5d-ac96-7000-8000-b5c1d0b7a3f2"


def flow(store: Store, count: int = 2) -> list[dict[str, Any]]:
    """Return `count` jobs, and a job that waits for them."""
    ids = [format_id(item) for item in store.new_ids(["q"] * (count + 1))]
    jobs: list[dict[str, Any]] = [{"id": item, "queue": "q", "name": "n"} for item in ids]
    jobs[-1]["after"] = ids[:-1]
    return jobs


async def test_a_flow_is_accepted_whole(api: Api, service: Service, store: Store) -> None:
    jobs = flow(store)
    for status in (["queued", "queued", "waiting"], ["existing"] * 3):  # the second time the jobs exist already
        answer = await api.post("/api/v1/jobs:whole", {"items": jobs})
        assert answer.status == 200, answer.body
        assert [item["id"] for item in answer.body["jobs"]] == [job["id"] for job in jobs]
        assert [item["status"] for item in answer.body["jobs"]] == status


async def test_more_jobs_than_in_a_batch(json_api: Api, store: Store) -> None:
    jobs = flow(store, 1000)
    assert (await json_api.post("/api/v1/jobs:batch", {"items": jobs})).status == 400
    assert (await json_api.post("/api/v1/jobs:whole", {"items": jobs})).status == 200


async def test_none_is_accepted_when_one_is_refused(api: Api, service: Service, store: Store) -> None:
    jobs = flow(store)
    jobs[-1]["after"] = [NO_ID]
    answer = await api.post("/api/v1/jobs:whole", {"items": jobs})
    assert (answer.status, answer.body["code"]) == (409, "unknown_member")
    unique = await api.post("/api/v1/jobs:whole", {"items": [{"queue": "q", "name": "n", "unique": "x"}]})
    assert (unique.status, unique.body["code"]) == (400, "bad_input")
    assert (await api.post("/api/v1/jobs:whole", {"items": []})).status == 400
    assert [item.queued for item in await service.stats(["q"])] == [0]


async def test_several_are_looked_at(api: Api, service: Service) -> None:
    made = await service.enqueue([NewJob(queue="q", name="n")]).one()
    known = format_id(made.id)
    answer = await api.post("/api/v1/jobs:get", {"items": [{"id": known}, {"id": NO_ID}]})
    assert answer.status == 200, answer.body
    found, missing = answer.body["results"]
    assert (found["ok"]["job"]["id"], found["ok"]["job"]["state"], found["ok"]["attempts"]) == (known, "queued", [])
    assert missing["error"]["code"] == "unknown_job"
    assert (await api.post("/api/v1/jobs:get", {"items": [{"id": "x"}]})).body["code"] == "bad_input"


async def test_tokens_for_some_queues(json_api: Api, service: Service, store: Store) -> None:
    made = await service.enqueue([NewJob(queue="q", name="n")]).one()
    token = await service.create_token(NewToken(name="x", roles=frozenset({Role.PRODUCE}), queues=("other",)))
    bearer = {"authorization": f"Bearer {token.text}"}
    for path, items in (("get", [{"id": format_id(made.id)}]), ("whole", flow(store))):
        answer = await json_api.post(f"/api/v1/jobs:{path}", {"items": items}, **bearer)
        assert (answer.status, answer.body["code"]) == (403, "forbidden")
