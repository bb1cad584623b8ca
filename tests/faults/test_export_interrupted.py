"""A restart of the engine ends an export, because its cursor means nothing to the new process."""

from __future__ import annotations

import pytest

from tests.service.helpers import new, put
from tests.support.engine_process import EngineProcess
from windlass.core.errors import EngineUnavailable
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store


def test_an_export_does_not_continue_after_a_restart_of_the_engine() -> None:
    with EngineProcess("valkey", config=("--appendonly", "yes", "--appendfsync", "always")) as engine:
        service = Service(Store(parse_url(engine.unix_url), is_test=True, patience_s=20.0))
        put(service, *(new() for _ in range(3_000)))
        lines = iter(service.export())
        for _ in range(10):
            next(lines)
        engine.kill()
        engine.start()
        with pytest.raises(EngineUnavailable, match="start the export again"):
            list(lines)
        assert len(list(service.export())) == 3_003
        service.store.close_sync()
