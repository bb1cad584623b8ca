"""Origins that say when to try again: 429, and Retry-After with 429 and 503."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from email.utils import formatdate
from pathlib import Path

import pytest

from tests.downloads.origin import AtWork, Origin, answer, at_work, in_turn
from windlass.core.states import State
from windlass.service import Service
from windlass.store.store import Store


@pytest.fixture
async def work(service: Service, store: Store, tmp_path: Path) -> AsyncIterator[AtWork]:
    async with store, asyncio.timeout(60), at_work(service, tmp_path, retry_delay_ms=5_000) as work:
        yield work


async def delay_of(work: AtWork, origin: Origin) -> float:
    """The seconds until the second attempt."""
    job_id = await work.put(origin.url(), f"name{len(origin.requests)}")
    read = await work.until(job_id, lambda read: read.job.state == State.SCHEDULED)
    assert len(read.attempts) == 1
    return (read.job.run_at_ms - read.attempts[0].ended_at_ms) / 1000


@pytest.mark.anyio
@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
class TestDelays:
    @pytest.mark.parametrize(
        ("status", "header", "delay_s"),
        [
            ("429 Too Many Requests", "90", 90),
            ("503 Service Unavailable", "90", 90),
            ("429 Too Many Requests", "", 5),
            ("429 Too Many Requests", "never", 5),
            ("429 Too Many Requests", "999999", 3_600),
            ("500 Internal Server Error", "90", 5),
        ],
    )
    async def test_the_origin_sets_the_delay(self, work: AtWork, status: str, header: str, delay_s: int) -> None:
        async with Origin(answer(b"", status, Retry_After=header)).open() as origin:
            assert await delay_of(work, origin) == pytest.approx(delay_s, abs=2)

    async def test_a_date(self, work: AtWork) -> None:
        header = formatdate(time.time() + 600, usegmt=True)
        async with Origin(answer(b"", "429 Slow", Retry_After=header)).open() as origin:
            assert await delay_of(work, origin) == pytest.approx(600, abs=10)

    async def test_it_is_an_attempt_like_any_other(self, work: AtWork) -> None:
        slow_down = answer(b"", "429 Slow", Retry_After="0")
        async with Origin(slow_down).open() as origin:
            end = await work.download(origin.url(), max_retries=1)
            assert (end["attempt"], end["response_code"], len(origin.requests)) == (2, 429, 2)
            assert "Received status code 429 Slow, retriable: true" in end["message"]
            assert work.worker.counters()["download.response.429"] == 2
        async with Origin(in_turn(slow_down, answer(b"x"))).open() as origin:
            assert (await work.download(origin.url(), "other"))["success"]

    async def test_other_refusals_stay_final(self, work: AtWork) -> None:
        async with Origin(answer(b"", "403 No", Retry_After="1")).open() as origin:
            assert (await work.download(origin.url()))["attempt"] == 1
