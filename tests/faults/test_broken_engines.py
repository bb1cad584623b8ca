"""The checker's own test: engines with a planted fault are found out by a short load, and the whole one is not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from faults.judging import Finding
from tests.faults.broken import FAULTS, Fault, planted
from tests.faults.short_load import Stage, jobs_are_worked, schedules_fire
from tests.support.engine_process import EngineProcess
from tests.support.stores import discard, make_store
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

ROUNDS = 20  # the load is left to chance: a fault that it did not meet, it meets in the next
OF_SCHEDULES = ("fired twice", "not fired")


@pytest.fixture
def services(engine: EngineProcess) -> Iterator[list[Service]]:
    """Two programs on one deployment."""
    store = make_store(engine)
    twin = store.clone()
    yield [Service(store), Service(twin)]
    twin.close_sync()
    discard(store)


def told(findings: list[Finding]) -> str:
    return "\n".join(map(str, findings[:20]))


async def test_whole_engine_keeps_its_promises(services: list[Service], tmp_path: Path) -> None:
    async with services[0].store, services[1].store:
        findings = await jobs_are_worked(Stage(services[0], tmp_path, seed=1))
        assert not findings, told(findings)


async def test_whole_engine_fires_once(services: list[Service], tmp_path: Path) -> None:
    async with services[0].store, services[1].store:
        findings = await schedules_fire(Stage(services[0], tmp_path, seed=1), services)
        assert not findings, told(findings)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "-"))
async def test_broken_engine_is_found_out(fault: Fault, engine: EngineProcess, tmp_path: Path) -> None:
    for seed in range(ROUNDS):
        (tmp_path / str(seed)).mkdir()
        with ExitStack() as stack:
            stack.enter_context(planted(fault))
            stores = [make_store(engine)]
            stack.callback(discard, stores[0])
            stores.append(stores[0].clone())
            findings = await _judged(fault, list(map(Service, stores)), tmp_path / str(seed), seed)
        if fault.rule in {finding.rule for finding in findings}:
            return
    pytest.fail(f"It was not found: {told(findings)}")


async def _judged(fault: Fault, services: list[Service], directory: Path, seed: int) -> list[Finding]:
    stage = Stage(services[0], directory, seed)
    async with services[0].store, services[1].store:
        if fault.rule in OF_SCHEDULES:
            return await schedules_fire(stage, services)
        return await jobs_are_worked(stage, drain_s=1.0)
