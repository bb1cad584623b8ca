"""Test of the checks: a short load finds every planted bug of an engine, and nothing in the correct engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from faults.checks import Finding, durable
from tests.faults.planted_bugs import BUGS, PlantedBug, plant
from tests.faults.short_load import LoadRun, run_durable, run_flows, run_jobs, run_schedules
from tests.support.engine_process import EngineProcess
from tests.support.stores import discard, make_store
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

ROUNDS = 20  # the load is random: a bug that one round misses is found in a later one
DURABLE_RULES = (
    durable.RAN_AGAIN, durable.CHANGED, durable.OLD_TOKEN, durable.SIGNAL_LOST, durable.SIGNAL_TWICE, durable.TOO_SHORT,
    durable.STARTED_OVER, durable.STREAM,
)  # fmt: skip
SCHEDULE_RULES = ("fired twice", "not fired")


@pytest.fixture
def services(engine: EngineProcess) -> Iterator[list[Service]]:
    """Two programs on one deployment."""
    store = make_store(engine)
    twin = store.clone()
    yield [Service(store), Service(twin)]
    twin.close_sync()
    discard(store)


def format_findings(findings: list[Finding]) -> str:
    return "\n".join(map(str, findings[:20]))


async def test_the_correct_engine_keeps_its_guarantees(services: list[Service], tmp_path: Path) -> None:
    async with services[0].store, services[1].store:
        findings = await run_jobs(LoadRun(services[0], tmp_path, seed=1))
        assert not findings, format_findings(findings)


async def test_the_correct_engine_fires_once(services: list[Service], tmp_path: Path) -> None:
    async with services[0].store, services[1].store:
        findings = await run_schedules(LoadRun(services[0], tmp_path, seed=1), services)
        assert not findings, format_findings(findings)


async def test_the_correct_engine_finishes_flows(services: list[Service], tmp_path: Path) -> None:
    async with services[0].store, services[1].store:
        findings = await run_flows(LoadRun(services[0], tmp_path, seed=1))
        assert not findings, format_findings(findings)


async def test_the_correct_engine_continues_durable_jobs(services: list[Service], tmp_path: Path) -> None:
    async with services[0].store, services[1].store:
        findings = await run_durable(LoadRun(services[0], tmp_path, seed=1))
        assert not findings, format_findings(findings)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
async def test_a_planted_bug_is_found(bug: PlantedBug, engine: EngineProcess, tmp_path: Path) -> None:
    for seed in range(ROUNDS):
        (tmp_path / str(seed)).mkdir()
        with ExitStack() as stack:
            stack.enter_context(plant(bug))
            stores = [make_store(engine)]
            stack.callback(discard, stores[0])
            stores.append(stores[0].clone())
            findings = await _run_load(bug, list(map(Service, stores)), tmp_path / str(seed), seed)
        if bug.rule in {finding.rule for finding in findings}:
            return
    pytest.fail(f"The bug was not found: {format_findings(findings)}")


async def _run_load(bug: PlantedBug, services: list[Service], directory: Path, seed: int) -> list[Finding]:
    run = LoadRun(services[0], directory, seed)
    async with services[0].store, services[1].store:
        if bug.rule in SCHEDULE_RULES:
            return await run_schedules(run, services)
        if bug.rule in DURABLE_RULES:
            return await run_durable(run, drain_s=3.0)
        if "flow" in bug.rule:
            return await run_flows(run, drain_s=1.0)
        return await run_jobs(run, drain_s=1.0)
