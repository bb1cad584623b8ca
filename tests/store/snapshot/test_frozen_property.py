"""Frozen copies of random namespaces: a copy exports the same lines, and they are a valid backup."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.service.export.example_deployment import comparable, export_lines
from tests.service.export.test_export_property import Step, World, steps
from tests.support.engine_process import EngineProcess
from tests.support.profiles import examples
from tests.support.stores import make_store
from windlass.core.export.backup import seal, verify
from windlass.core.export.backup_point import BackupPoint
from windlass.core.export.lines import decode_header
from windlass.service import Service
from windlass.store.snapshot.frozen_copy import frozen_copy


@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
@settings(
    max_examples=examples(usual=2, deep=60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.generate],
)
@given(done=steps)
def test_any_namespace_is_copied_and_sealed(engine: EngineProcess, done: list[Step]) -> None:
    service = Service(make_store(engine))
    try:
        world = World(service)
        for step in done:
            world.do(step)
        with frozen_copy(service.store) as copy:
            copy.store.clock_offset_ms = service.store.clock_offset_ms
            lines = list(Service(copy.store).export())
            assert comparable(lines) == comparable(export_lines(service))
        point = BackupPoint(at_ms=copy.taken_at_ms, engine="valkey")
        found = verify(seal(decode_header(lines[0]), lines[1:], point))
        assert (found.lines, found.point) == (len(lines), point)
    finally:
        service.store.close_sync()
