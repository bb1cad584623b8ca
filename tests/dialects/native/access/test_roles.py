"""The roles that may call each route: the whole table that docs/access.md describes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
import pytest

from windlass.core.access.tokens import NewToken, Role
from windlass.server.server import ROUTES
from windlass.service import Service
from windlass.web.app.router import Router

on_valkey = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

ID = "01890a5d-ac96-7000-8000-b5c1d0b7a3f2"
ROLES = ("read", "produce", "work", "admin")
# In addition to admin, which may call all routes. `anybody`: also without a token.
TABLE = """
anybody            GET /healthz
anybody            GET /readyz
anybody            GET /openapi.json
anybody            GET /docs
anybody            GET /docs/{file}
anybody            GET /docs.css
read               GET /metrics
anybody            GET /openapi.json
anybody            GET /docs
anybody            GET /docs/{file}
anybody            GET /docs.css
read               GET /metrics
produce            POST /jobber/queue
read produce work  GET /jobber/queue/{id}
produce            DELETE /jobber/queue/{id}
produce            POST /downloader/download
read produce work  GET /downloader/download/{name}
-                  PUT /downloader/aggregations/{name}
produce            POST /downloader/retry/
produce            POST /downloader/retry/{name}
anybody            GET /downloader/hb
read               GET /downloader/stats/{name}
read               GET /downloader/dashboard/aggregations
anybody            GET /downloader/files/{folder}/{name}
anybody            GET /downloader/openapi.json
anybody            GET /downloader/openapi.yaml
anybody            GET /lightjq/openapi.json
anybody            GET /lightjq/openapi.yaml
anybody            GET /lightjq/worker/openapi.json
anybody            GET /lightjq/worker/openapi.yaml
produce            POST /lightjq/job
read produce       GET /lightjq/job/{id}
read produce       GET /lightjq/job/{id}/polling
produce            DELETE /lightjq/job/{id}
work               POST /lightjq/worker
work               DELETE /lightjq/worker
work               POST /lightjq/worker/beat
work               POST /lightjq/done
-                  POST /lightjq/constraint
read               GET /lightjq/constraint
-                  DELETE /lightjq/constraint/{id}
read               GET /lightjq/ui/jobs
read               GET /lightjq/ui/workers
read               GET /lightjq/ui/stats
produce            POST /api/v1/jobs
produce            POST /api/v1/jobs:batch
produce            POST /api/v1/jobs:stream
produce            POST /api/v1/jobs:whole
read               GET /api/v1/jobs
read               GET /api/v1/failures
read               GET /api/v1/flows
read produce work  GET /api/v1/flows/{id}
-                  POST /api/v1/flows/{id}/resume
produce            POST /api/v1/flows/{id}/cancel
produce            POST /api/v1/flows/{id}/rerun
-                  POST /api/v1/actions
read               GET /api/v1/actions
read               GET /api/v1/actions/{id}
-                  POST /api/v1/actions/{id}/cancel
read               GET /api/v1/events
read produce work  GET /api/v1/jobs/{id}
read produce work  POST /api/v1/jobs:get
read produce work  GET /api/v1/jobs/{id}/result
read produce work  GET /api/v1/jobs/{id}/cause
read produce work  GET /api/v1/jobs/{id}/explain
read produce work  GET /api/v1/jobs/{id}/cause
read produce work  GET /api/v1/jobs/{id}/logs
read produce work  GET /api/v1/jobs/{id}/members
read produce work  GET /api/v1/jobs/{id}/callbacks
read produce work  GET /api/v1/jobs/{id}/events
produce            POST /api/v1/jobs/{id}/cancel
produce            POST /api/v1/jobs:cancel
-                  PATCH /api/v1/jobs/{id}
-                  DELETE /api/v1/jobs/{id}
-                  POST /api/v1/jobs/{id}/retry
-                  POST /api/v1/jobs/{id}/requeue
-                  POST /api/v1/jobs/{id}/wake
-                  POST /api/v1/jobs:edit
-                  POST /api/v1/jobs:delete
-                  POST /api/v1/jobs:retry
-                  POST /api/v1/jobs:requeue
-                  POST /api/v1/jobs:wake
work               POST /api/v1/take
work               POST /api/v1/exchange
work               POST /api/v1/jobs/{id}/accept
work               POST /api/v1/jobs/{id}/extend
work               POST /api/v1/jobs/{id}/progress
work               POST /api/v1/jobs/{id}/finish
work               POST /api/v1/jobs/{id}/fail
work               POST /api/v1/jobs/{id}/release
work               POST /api/v1/jobs/{id}/log
work               POST /api/v1/jobs/{id}/emit
work               POST /api/v1/jobs:accept
work               POST /api/v1/jobs:extend
work               POST /api/v1/jobs:progress
work               POST /api/v1/jobs:finish
work               POST /api/v1/jobs:fail
work               POST /api/v1/jobs:release
work               POST /api/v1/jobs:log
work               POST /api/v1/jobs:emit
read produce work  GET /api/v1/jobs/{id}/steps
read produce work  POST /api/v1/jobs:get-steps
read produce work  POST /api/v1/jobs:get-waits
work               POST /api/v1/jobs/{id}/steps
work               POST /api/v1/jobs:steps
work               POST /api/v1/jobs/{id}/suspend
work               POST /api/v1/jobs:suspend
work               POST /api/v1/jobs/{id}/receive-signal
work               POST /api/v1/jobs:receive-signal
read produce work  GET /api/v1/jobs/{id}/stream
work               POST /api/v1/jobs/{id}/stream
work               POST /api/v1/jobs:write-stream
produce            POST /api/v1/jobs/{id}/signals
produce            POST /api/v1/jobs:signals
produce            POST /api/v1/jobs/{id}/signal-url
-                  POST /api/v1/jobs/{id}/rewind
-                  POST /api/v1/jobs:rewind
read               GET /api/v1/queues
read               GET /api/v1/queues/{queue}
read               GET /api/v1/queues/{queue}/configuration
read               GET /api/v1/queues/{queue}/pauses
read               GET /api/v1/queues/{queue}/history
read               GET /api/v1/queues/{queue}/lanes
read               GET /api/v1/queues/{queue}/scale
read               GET /api/v1/limits/{name}/holders
read               GET /api/v1/history
-                  PATCH /api/v1/queues/{queue}/configuration
-                  PUT /api/v1/queues/{queue}/weights
-                  POST /api/v1/queues/{queue}/pause
-                  POST /api/v1/queues/{queue}/resume
-                  POST /api/v1/queues/{queue}/purge
read               GET /api/v1/limits
-                  PUT /api/v1/limits/{name}/cap
-                  PUT /api/v1/limits/{name}
-                  DELETE /api/v1/limits/{name}
read               GET /api/v1/schedules
read               GET /api/v1/schedules/{name}
-                  PUT /api/v1/schedules/{name}
-                  DELETE /api/v1/schedules/{name}
-                  POST /api/v1/schedules/{name}/pause
-                  POST /api/v1/schedules/{name}/resume
-                  POST /api/v1/schedules/{name}/run
read               GET /api/v1/tasks
read               GET /api/v1/tasks/{name}
work               POST /api/v1/workers/{id}/tasks
read               GET /api/v1/queues/{queue}/unknown-names
-                  DELETE /api/v1/queues/{queue}
read               GET /api/v1/workers
work               PUT /api/v1/workers/{id}
work               DELETE /api/v1/workers/{id}
work               POST /api/v1/workers/{id}/beat
work               GET /api/v1/workers/{id}/connection
-                  POST /api/v1/workers/{id}/stop
read               GET /api/v1/alerts
read               GET /api/v1/alerts/{name}
-                  PUT /api/v1/alerts/{name}
-                  DELETE /api/v1/alerts/{name}
-                  POST /api/v1/alerts/{name}/mute
-                  POST /api/v1/alerts/{name}/test
read               GET /api/v1/callbacks
-                  POST /api/v1/callbacks:redeliver
read produce work  GET /api/v1/info
read               GET /api/v1/engine
-                  GET /api/v1/export
-                  POST /api/v1/import
-                  POST /api/v1/import:complete
-                  POST /api/v1/doctor
-                  GET /api/v1/tokens
-                  POST /api/v1/tokens
-                  DELETE /api/v1/tokens/{name}
-                  GET /api/v1/audit
read               GET /api/v1/filters
read               GET /api/v1/filters/{name}
produce            PUT /api/v1/filters/{name}
produce            DELETE /api/v1/filters/{name}
anybody            GET /static/{version}/{file}
anybody            GET /login
anybody            POST /login
anybody            POST /logout
anybody            GET /signals/{link}
anybody            POST /signals/{link}
read               GET /live
read               GET /palette
produce            POST /do/save-filter
produce            POST /do/rename-filter
produce            POST /do/remove-filter
read               GET /
read               GET /engine
-                  GET /audit
-                  POST /do/doctor
-                  POST /do/pause-queue
-                  POST /do/resume-queue
read               GET /queues
read               GET /queues/{queue}
read               GET /tasks
read               GET /tasks/{name}
-                  POST /do/remove-queue
read               GET /workers
read               GET /schedules
read               GET /schedules/{name}
-                  GET /schedules/{name}/edit
-                  GET /new-schedule
-                  GET /schedule-preview
read               GET /limits
read               GET /limits/{name}
read               GET /aggregations
read               GET /callbacks
read               GET /alerts
-                  POST /do/configure-queue
-                  POST /do/set-limit
-                  POST /do/change-limit
-                  POST /do/delete-limit
-                  POST /do/set-cap
-                  POST /do/run-schedule
-                  POST /do/pause-schedule
-                  POST /do/resume-schedule
-                  POST /do/delete-schedule
-                  POST /do/set-schedule
-                  POST /do/redeliver
-                  POST /do/stop-worker
read               GET /jobs
produce            GET /jobs/new
read               GET /jobs/{id}
-                  GET /jobs/{id}/edit
read               GET /jobs/{id}/payload
read               GET /jobs/{id}/result
read               GET /jobs/{id}/step
read               GET /jobs/{id}/stream
read               GET /signals
read               GET /search
read               GET /failures
read               GET /actions
read               GET /actions/{id}
read               GET /flows
read               GET /flows/{id}
-                  POST /do/resume-flow
produce            POST /do/cancel-flow
produce            POST /do/rerun-flow
produce            POST /do/enqueue-job
-                  POST /do/edit-job
-                  POST /do/retry-jobs
produce            POST /do/cancel-jobs
-                  POST /do/delete-jobs
-                  POST /do/requeue-jobs
-                  POST /do/wake-jobs
-                  POST /do/run-jobs-now
produce            POST /do/send-signal
-                  POST /do/rewind-job
-                  POST /do/retry-job-fresh
-                  POST /do/retry-matching
-                  POST /do/cancel-matching
-                  POST /do/delete-matching
-                  POST /do/requeue-matching
-                  POST /do/call-off
-                  POST /do/set-alert
-                  POST /do/mute-alert
-                  POST /do/test-alert
-                  POST /do/delete-alert
"""


def _rows() -> dict[str, set[str]]:
    """Return the allowed roles by route."""
    rows = {}
    for line in TABLE.strip().splitlines():
        *roles, method, path = line.split()
        rows[f"{method} {path}"] = set(roles) - {"-"} | {"admin"}
    return rows


EXPECTED = _rows()


def test_every_route_stands_in_the_table() -> None:
    assert {f"{route.method} {route.path}" for route in Router(ROUTES).routes} == set(EXPECTED)


async def _outcomes(client: httpx.AsyncClient, headers: Mapping[str, str]) -> dict[str, int]:
    """Return the status of each route. Bodies are empty and names unknown, so an admitted request is refused later or
    does no harm. Streams are closed as soon as they begin."""

    async def status_of(route: str) -> int:
        method, path = route.split()
        path = path.format(id=ID, queue="q", name="nobody", version="v", file="windlass.css", folder="nob", link="t")
        async with client.stream(method, path, headers=dict(headers)) as answer:
            return answer.status_code

    statuses = await asyncio.gather(*map(status_of, EXPECTED))
    return dict(zip(EXPECTED, statuses, strict=True))


@pytest.mark.anyio
@on_valkey
@pytest.mark.usefixtures("patient_pages")
@pytest.mark.parametrize("role", ROLES)
async def test_a_role_may_call_its_routes_and_no_other(client: httpx.AsyncClient, service: Service, role: str) -> None:
    token = service.create_token(NewToken(name=role, roles=frozenset({Role(role)}))).wait().text
    found = await _outcomes(client, {"authorization": f"Bearer {token}"})
    allowed = {route for route, status in found.items() if status != 403}
    assert allowed == {route for route, roles in EXPECTED.items() if roles & {role, "anybody"}}
    found.pop("GET /readyz")  # the loops need a moment to tick
    assert [route for route, status in found.items() if status in (401, 429) or status >= 500] == []
    if role != "admin":  # besides the forms of the dashboard
        assert {entry.what for entry in service.audits().wait().entries} <= {
            "enqueue_job",
            "save_filter",
            "rename_filter",
            "remove_filter",
            "rerun_flow",
            "send_signal",
        }


@pytest.mark.anyio
@on_valkey
@pytest.mark.parametrize("shown", ["", "Bearer", "Bearer x", f"Bearer wl_{'a' * 12}_{'b' * 43}", "Basic YTpi"])
async def test_without_a_token_that_is_known_only_health_is_told(
    client: httpx.AsyncClient, service: Service, shown: str
) -> None:
    service.create_token(NewToken(name="somebody", roles=frozenset({Role.READ}))).wait()
    await _wait_for_first_token(client)
    found = await _outcomes(client, {"authorization": shown} if shown else {})
    assert {route for route, status in found.items() if status != 401} == {
        route for route, roles in EXPECTED.items() if "anybody" in roles
    }


async def _wait_for_first_token(client: httpx.AsyncClient) -> None:
    """Wait until the server requires tokens, within a second of the first token."""
    while (await client.get("/api/v1/info")).status_code != 401:
        pass
