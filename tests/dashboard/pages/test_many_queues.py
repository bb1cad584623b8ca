"""Pages of a deployment with very many queues: each reads a bounded number of them, whatever their number is.

The test counts what the engine does, because times depend on the machine; `python -m bench.load` measures times."""

from __future__ import annotations

import re

import pytest

from tests.dashboard.page_client import PageClient
from tests.support.namespace import send_command
from windlass import dashboard
from windlass.core.access.tokens import NewToken, Role
from windlass.core.job import NewJob
from windlass.core.operations import Fail, Take
from windlass.dashboard.response_cache import clear_cache
from windlass.dashboard.views.formats import count
from windlass.server import Server
from windlass.service import Service
from windlass.store.cache.queue_survey import SURVEYED_AT_ONCE
from windlass.store.store import Store
from windlass.web.app.router import Router

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

QUEUES = 3 * SURVEYED_AT_ONCE
PER_QUEUE = 12  # sizes of sorted sets that the statistics of a queue need
BOUND = 1.3 * SURVEYED_AT_ONCE * PER_QUEUE  # all queues would need three times as many
PAGES = sorted(
    route.path
    for route in Router(dashboard.ROUTES).routes
    if route.method == "GET" and route.is_page and "{" not in route.path and route.path != "/login"
)
LISTS = ("/jobs?state=failed", "/jobs?state=queued", "/jobs?text=x", "/palette?q=tenant", "/metrics")
API = ("/queues", "/jobs?state=failed", "/jobs?state=all", "/failures", "/tasks", "/history")


def _name(number: int) -> str:
    return f"tenant-{number:05}"


def _spaced(number: int) -> str:
    """Return a number as the text of a page has it: the separators of its digits are spaces there."""
    return " ".join(count(number).split())


@pytest.fixture
async def crowded(page_client: PageClient, service: Service) -> PageClient:
    """Return the client of a server with 6,000 queues. The last has three jobs, of which one runs; the job of the queue
    before it has failed."""
    for start in range(0, QUEUES, 1_000):
        await service.enqueue([NewJob(queue=_name(at), name="sync") for at in range(start, start + 1_000)])
    taken = await service.take(Take(queues=(_name(QUEUES - 2),)))
    await service.fail([Fail(id=job.id, token=job.lease_token) for job in taken.jobs])
    await service.enqueue([NewJob(queue=_name(QUEUES - 1), name="sync") for _ in range(2)])
    await service.take(Take(queues=(_name(QUEUES - 1),)))
    return page_client


def _sizes_read(store: Store) -> int:
    found = re.search(rb"cmdstat_zcard:calls=(\d+)", send_command(store, "INFO", "commandstats"))
    return int(found[1]) if found else 0


async def test_every_page_reads_a_bounded_number_of_queues(crowded: PageClient, store: Store) -> None:
    excessive = {}
    crowded.http.headers["accept"] = "*/*"
    for path in (*PAGES, *LISTS, *(f"/api/v1{path}" for path in API)):
        store.clock_offset_ms += 6_000  # nothing is answered from a cache
        before = _sizes_read(store)
        answer = await crowded.http.get(path)
        assert answer.status_code == 200, path
        if (read := _sizes_read(store) - before) > BOUND:
            excessive[path] = read
    assert not excessive


async def test_the_overview_says_how_many_queues_it_covers(crowded: PageClient, store: Store, running: Server) -> None:
    page = await crowded.get("/")
    assert f"of {_spaced(QUEUES)} queues" in page.text
    assert _name(QUEUES - 1) in page.text  # it runs a job, so it is read first
    assert "Running 1 now" in page.text
    for _ in range(5):
        store.clock_offset_ms += 1_000
        clear_cache(running.state)
        page = await crowded.get("/")
    assert "are read in turns" in page.text
    assert f"Queued {_spaced(QUEUES)} now" in page.text
    assert "Failed 1 now" in page.text


async def test_lists_of_jobs_say_that_they_do_not_cover_all_queues(crowded: PageClient) -> None:
    page = await crowded.get("/jobs?state=queued")
    assert "too many queues" in page.text
    assert "too many queues" not in (await crowded.get(f"/jobs?state=queued&queue={_name(5)}")).text


async def test_queues_are_found_by_page_and_by_search(crowded: PageClient) -> None:
    first = await crowded.get("/queues")
    assert f"Queues {_spaced(QUEUES)}" in first.text
    (following,) = (link["href"] for link in first.all("a", rel="next"))
    assert _name(100) in (await crowded.get(following)).text
    assert _name(4321) in (await crowded.get("/queues?search=-04321")).text
    entries = (await crowded.http.get("/palette?q=queue -04321")).json()["entries"]
    assert _name(4321) in [entry["title"] for entry in entries]


async def test_a_token_for_some_queues_gets_their_exact_figures(
    crowded: PageClient, service: Service, store: Store
) -> None:
    made = await service.create_token(
        NewToken(name="t", roles=frozenset({Role.READ}), queues=(_name(5432)[:-1] + "*",))
    )
    page = await crowded.get("/", authorization=f"Bearer {made.text}")
    assert "Queued 10 now" in page.text
    assert "in turns" not in page.text
