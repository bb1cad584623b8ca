"""A killed engine: the checks find its lost jobs if it answers before it writes, and nothing if it writes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.short_load import LoadRun, run_engine_crash
from tests.support.engine_process import EngineProcess
from tests.support.stores import make_store
from windlass.service import Service

pytestmark = pytest.mark.anyio

WRITES = ("--appendonly", "yes", "--appendfsync", "always")
FORGETS = ("--appendonly", "no")


@pytest.mark.parametrize(("config", "rules"), [(WRITES, set()), (FORGETS, {"lost"})], ids=["writes", "forgets"])
async def test_acknowledged_jobs_that_were_not_written(
    config: tuple[str, ...], rules: set[str], tmp_path: Path
) -> None:
    with EngineProcess("valkey", config=config) as engine:
        service = Service(make_store(engine))
        async with service.store:
            findings = await run_engine_crash(LoadRun(service, tmp_path, seed=1), engine)
    assert {finding.rule for finding in findings} == rules, "\n".join(map(str, findings[:10]))
