"""A power cut of the engine: nothing acknowledged at `fsync` is lost, and an engine that does not sync loses jobs."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import pytest

from faults.engines import EmbeddedEngineProcess, StandaloneEngine
from faults.loss_windows import Window, measure_loss
from windlass.core.job import Durability
from windlass.store.embedded.engine import EmbeddedEngine

ROUNDS = 2


def _measure(engine: StandaloneEngine | EmbeddedEngineProcess, level: Durability) -> Window:
    rng = random.Random(7)

    def lose_power() -> float:
        print(engine.lose_power(rng))
        lost_at_s = time.monotonic()
        engine.revive()
        return lost_at_s

    return measure_loss(engine, "power loss", lose_power, level, ROUNDS, print, "power")


def _measure_standalone(fsync: str, level: Durability) -> Window:
    engine = StandaloneEngine(fsync)
    engine.start()
    try:
        return _measure(engine, level)
    finally:
        engine.close()


def test_what_was_acknowledged_after_its_sync_survives() -> None:
    window = _measure_standalone("always", "fsync")
    assert window.acknowledged
    assert (window.lost, window.unconfirmed) == (0, 0)


def test_an_engine_that_does_not_sync_loses_acknowledged_jobs() -> None:
    assert _measure_standalone("no", "memory").lost


def test_the_embedded_engine_keeps_what_it_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="wl-") as directory:
        process = EmbeddedEngineProcess(Path(directory))
        for name, value in process.environment.items():
            monkeypatch.setenv(name, value)
        with EmbeddedEngine(Path(directory)):
            window = _measure(process, "memory")
        process.close()
    assert window.acknowledged
    assert window.lost == 0
