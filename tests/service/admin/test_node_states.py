"""engines: the state of each node, once, however many partitions it serves."""

from __future__ import annotations

from tests.support.engine_process import EngineProcess
from windlass.service import Service


def test_a_node_says_how_it_does(service: Service, engine: EngineProcess) -> None:
    (state,) = service.engines().wait()
    found = service.store.deployment
    assert found is not None
    assert (state.product, state.version) == (found.product, found.version)
    assert state.partitions == tuple(range(service.store.partitions))
    assert state.memory > 0
    assert state.memory_peak >= 0
    assert state.connections >= 1
    assert state.has_log is found.is_persistent
    assert abs(state.clock_off_ms) < 3_600_000
    assert "no_persistence" in {one.code for one in state.findings}
