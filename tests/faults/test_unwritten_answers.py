"""An engine that answers before it has written, and is killed: the checker finds what is gone. One that writes first is
not accused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.short_load import Stage, engine_dies
from tests.support.engine_process import EngineProcess
from tests.support.stores import make_store
from windlass.service import Service

pytestmark = pytest.mark.anyio

WRITES = ("--appendonly", "yes", "--appendfsync", "always")
FORGETS = ("--appendonly", "no")


@pytest.mark.parametrize(("config", "rules"), [(WRITES, set()), (FORGETS, {"lost"})], ids=["writes", "forgets"])
async def test_what_was_acknowledged_and_not_written(config: tuple[str, ...], rules: set[str], tmp_path: Path) -> None:
    with EngineProcess("valkey", config=config) as engine:
        service = Service(make_store(engine))
        async with service.store:
            findings = await engine_dies(Stage(service, tmp_path, seed=1), engine)
    assert {finding.rule for finding in findings} == rules, "\n".join(map(str, findings[:10]))
