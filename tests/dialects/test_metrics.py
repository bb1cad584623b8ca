"""GET /metrics as Prometheus reads it: with its own parser, over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from windlass.core.access.tokens import NewToken, Role
from windlass.core.job import NewJob
from windlass.core.operations import Finish, Take
from windlass.server import Server
from windlass.service import Service
from windlass.store.cache import history
from windlass.store.store import Store
from windlass.web.metrics import scrape
from windlass.web.metrics.meter import BOUNDS_S

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
HOSTILE = 'a"b\\c d{e="f"} ü'


class Figures:
    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._samples = [one for family in self.families.values() for one in family.samples]

    def value(self, name: str, **labels: str) -> float | None:
        found = [one.value for one in self._samples if one.name == name and labels.items() <= one.labels.items()]
        assert len(found) < 2
        return found[0] if found else None

    def by(self, label: str, name: str, **labels: str) -> Mapping[str, float]:
        return {
            one.labels[label]: one.value
            for one in self._samples
            if one.name == name and labels.items() <= one.labels.items()
        }


async def _scraped(client: httpx.AsyncClient, **headers: str) -> Figures:
    answer = await client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return Figures(answer.text)


async def test_queues_as_they_are(client: httpx.AsyncClient, service: Service) -> None:
    await service.enqueue([NewJob(queue=HOSTILE, name="n"), NewJob(queue="q", name="n", delay_ms=60_000)])
    await service.enqueue([NewJob(queue="q", name="n")] * 3)
    [job] = (await service.take(Take(queues=("q",)))).jobs
    await service.pause(HOSTILE)
    figures = await _scraped(client)
    assert figures.by("state", "windlass_queue_jobs", queue="q") == {
        "queued": 2, "scheduled": 1, "waiting": 0, "suspended": 0, "running": 1, "failed": 0,
    }  # fmt: skip
    assert figures.value("windlass_queue_jobs", queue=HOSTILE, state="queued") == 1
    assert figures.value("windlass_queue_paused", queue=HOSTILE) == 1
    assert figures.value("windlass_queue_paused", queue="q") == 0
    assert figures.value("windlass_queue_waiting_takers", queue="q") == 0
    assert figures.value("windlass_engine_up") == 1
    assert (figures.value("windlass_engine_round_trip_seconds") or 0) > 0
    assert job.queue == "q"


async def test_the_age_of_the_oldest(client: httpx.AsyncClient, service: Service, store: Store) -> None:
    await service.enqueue([NewJob(queue="q", name="n")])
    store.clock_offset_ms += 90_000
    assert (await _scraped(client)).value("windlass_queue_oldest_age_seconds", queue="q") == pytest.approx(90, abs=30)


async def test_the_last_full_minute(client: httpx.AsyncClient, service: Service, store: Store) -> None:
    """What happens now is told when its minute is over, and only then."""
    now_ms = await service.now()
    store.clock_offset_ms += 60_000 - now_ms % 60_000 + 1_000  # early in a minute
    await service.enqueue([NewJob(queue="q", name="n")] * 3)
    store.clock_offset_ms += 2_000
    taken = (await service.take(Take(queues=("q",), most=2))).jobs
    store.clock_offset_ms += 4_000
    await service.finish([Finish(job.id, job.lease_token) for job in taken])
    assert (await _scraped(client)).value("windlass_queue_minute_jobs", queue="q", what="enqueued") == 0
    store.clock_offset_ms += 60_000
    figures = await _scraped(client)
    assert figures.by("what", "windlass_queue_minute_jobs", queue="q") == {
        "enqueued": 3, "taken": 2, "finished": 2, "failed": 0, "retried": 0, "recovered": 0,
    }  # fmt: skip
    assert figures.value("windlass_queue_minute_wait_seconds", queue="q") == pytest.approx(2, abs=1.5)
    assert figures.value("windlass_queue_minute_run_seconds", queue="q") == pytest.approx(4, abs=3)
    store.clock_offset_ms += 60_000
    figures = await _scraped(client)
    assert figures.value("windlass_queue_minute_jobs", queue="q", what="enqueued") == 0
    assert figures.value("windlass_queue_minute_run_seconds", queue="q") is None


async def test_answers_by_route_and_status(client: httpx.AsyncClient) -> None:
    job = {"queue": "q", "name": "n"}
    for _ in range(3):
        assert (await client.post("/api/v1/jobs", json=job)).status_code == 201
    await client.post("/api/v1/jobs", json={"queue": "q"})
    for number in range(5):
        await client.get(f"/nothing/{number}")
    figures = await _scraped(client)
    route = {"method": "POST", "route": "/api/v1/jobs"}
    assert figures.by("status", "windlass_server_answers_total", **route) == {"201": 3, "400": 1}
    assert figures.by("status", "windlass_server_answers_total", route="") == {"404": 5}
    counts = figures.by("le", "windlass_server_answer_seconds_bucket", **route)
    assert list(counts) == [*map(str, BOUNDS_S), "+Inf"]
    assert list(counts.values()) == sorted(counts.values())
    assert counts["+Inf"] == figures.value("windlass_server_answer_seconds_count", **route) == 4
    assert (figures.value("windlass_server_answer_seconds_sum", **route) or 0) > 0
    assert figures.value("windlass_server_connections") == 1
    assert figures.value("windlass_server_requests_under_way") == 1


async def test_process_and_loops(client: httpx.AsyncClient, running: Server) -> None:
    figures = await _scraped(client)
    assert (figures.value("process_resident_memory_bytes") or 0) > 1_000_000
    assert (figures.value("process_cpu_seconds_total") or 0) > 0
    assert (figures.value("process_start_time_seconds") or 0) > 1_600_000_000
    assert figures.value("windlass_server_late_loops") in (0, 1)


async def test_tasks_that_are_not_done(client: httpx.AsyncClient, running: Server) -> None:
    before = (await _scraped(client)).value("windlass_server_tasks") or 0
    is_over = asyncio.Event()
    forgotten = [asyncio.create_task(is_over.wait()) for _ in range(200)]
    during = (await _scraped(client)).value("windlass_server_tasks") or 0
    is_over.set()
    await asyncio.gather(*forgotten)
    assert during > before + 100
    assert before > 0


async def test_a_scrape_is_bounded(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await service.enqueue([NewJob(queue=f"q{number:02}", name="n") for number in range(12)])
    monkeypatch.setattr(scrape, "QUEUES_MAX", 5)
    figures = await _scraped(client)
    assert list(figures.by("queue", "windlass_queue_paused")) == ["q00", "q01", "q02", "q03", "q04"]
    assert "# 7 queues are left out: a scrape lists at most 5." in figures.text


async def test_every_queue_is_told_once_however_many_are_asked_for_together(
    client: httpx.AsyncClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "QUEUES_PER_CALL", 5)
    monkeypatch.setattr(history, "HASHES_PER_CALL", 5)
    await service.enqueue([NewJob(queue=f"q{number:02}", name="n") for number in range(12)])
    figures = await _scraped(client)
    assert len(figures.by("queue", "windlass_queue_minute_jobs", what="taken")) == 12


async def test_who_may_see_what(client: httpx.AsyncClient, service: Service) -> None:
    await service.enqueue([NewJob(queue="mail", name="n"), NewJob(queue="other", name="n")])
    reader = await service.create_token(NewToken(name="r", roles=frozenset({Role.READ}), queues=("mail*",)))
    worker = await service.create_token(NewToken(name="w", roles=frozenset({Role.WORK})))
    assert (await client.get("/metrics", headers={"authorization": "Bearer nonsense"})).status_code == 401
    assert (await client.get("/metrics", headers={"authorization": f"Bearer {worker.text}"})).status_code == 403
    figures = await _scraped(client, authorization=f"Bearer {reader.text}")
    assert list(figures.by("queue", "windlass_queue_paused")) == ["mail"]


async def test_callbacks_of_all_queues_are_not_counted_for_some(
    client: httpx.AsyncClient, service: Service, running: Server
) -> None:
    numbers = {"successfulCallbacks": 5, "failedCallbacks": 0, "undefinedBackendWithCallback": 0,
               "unknownTopicOrPartition": 0}  # fmt: skip
    running.state.callback_counters = lambda: numbers
    for queues, expected in (((), 5), (("mail*",), None)):
        made = await service.create_token(NewToken(name=f"{queues}", roles=frozenset({Role.READ}), queues=queues))
        figures = await _scraped(client, authorization=f"Bearer {made.text}")
        assert figures.value("windlass_callback_attempts_total", outcome="delivered") == expected


async def test_without_the_engine_a_server_tells_what_it_knows(
    client: httpx.AsyncClient, running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.get("/healthz")
    monkeypatch.setattr(scrape, "ENGINE_TIMEOUT_S", 0.0)  # nothing answers within no time
    figures = await _scraped(client)
    assert figures.value("windlass_engine_up") == 0
    assert "windlass_queue_jobs" not in figures.families
    assert figures.value("windlass_server_answers_total", route="/healthz", status="200") == 1
