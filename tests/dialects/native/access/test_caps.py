"""Caps of new jobs: they arrive on every route that enqueues, from clients that may also change the caps of keys."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.dialects.native.access.test_scoped_relations import MINE, ROUTES, enqueue_by_route
from tests.dialects.sample_jobs import bearer
from windlass.core.limits.limit import Limit, Matcher
from windlass.service import Service

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("engine", ["valkey"], indirect=True),
    pytest.mark.parametrize("route", ROUTES),
]

SHOPS = Limit(name="per shop", matches=Matcher(queue="mine"), running=4, key="shop", own_caps=True)
CAP = {"limit": "per shop", "running": 2, "note": "http://proxy:3128"}


def capped(**cap: Any) -> dict[str, Any]:
    return MINE | {"payload": {"shop": "acme"}, "cap": CAP | cap}


async def test_a_cap_arrives(client: httpx.AsyncClient, service: Service, route: str) -> None:
    await service.limit(SHOPS)
    assert (await enqueue_by_route(client, route, capped()))[0] == 201
    found = await service.aggregation("per shop", "acme")
    assert (found.queued, found.cap, found.note) == (1, 2, "http://proxy:3128")
    assert (await enqueue_by_route(client, route, capped(running=3)))[0] == 201
    assert (await service.aggregation("per shop", "acme")).cap == 2  # that of the first job


@pytest.mark.parametrize("queues", [(), ("mine",)])
async def test_a_cap_needs_the_role_admin(
    client: httpx.AsyncClient, service: Service, route: str, queues: tuple[str, ...]
) -> None:
    await service.limit(SHOPS)
    await bearer(service, "admin")
    client.headers.update(await bearer(service, "produce", "work", "read", queues=queues))
    status, problem = await enqueue_by_route(client, route, capped())
    assert (status, problem["code"]) == (403, "forbidden")
    assert "This needs the role admin;" in problem["detail"]
    assert (await service.aggregations("per shop")).aggregations == []
    assert (await enqueue_by_route(client, route, MINE))[0] == 201


@pytest.mark.parametrize(
    ("cap", "status", "code"),
    [
        ({"limit": "none"}, 404, "unknown_limit"),
        ({"limit": ""}, 400, "bad_input"),
        ({"limit": "\x01"}, 400, "bad_input"),
        ({"running": 0}, 400, "bad_input"),
        ({"running": 2**32}, 400, "bad_input"),
        ({"note": None}, 400, "bad_input"),
        ({"key": "acme"}, 400, "bad_input"),
    ],
)
async def test_a_wrong_cap(
    client: httpx.AsyncClient, service: Service, route: str, cap: dict[str, Any], status: int, code: str
) -> None:
    await service.limit(SHOPS)
    found, problem = await enqueue_by_route(client, route, capped(**cap))
    assert (found, problem["code"]) == (status, code)
    assert (await service.aggregation("per shop", "acme")).queued == 0
