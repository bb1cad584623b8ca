"""Frozen copies: what a deployment was at one instant, while it goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.service.export.example_deployment import comparable, export_lines, fill
from tests.service.helpers import new, put
from tests.support.engine_process import EngineKind, EngineProcess
from windlass.core.errors import EngineUnsuitable, WindlassError
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.embedded import memory_bound, private_engine
from windlass.store.snapshot.frozen_copy import frozen_copy
from windlass.store.store import Store


def open_service(engine: EngineProcess, db: int = 0) -> Service:
    url = engine.unix_url.replace("db=0", f"db={db}")
    return Service(Store(parse_url(url), is_test=True, patience_s=10.0))


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_a_copy_is_equal_and_stays_as_it_was(kind: EngineKind) -> None:
    with EngineProcess(kind) as engine:
        service = open_service(engine, db=11)
        fill(service)
        before = comparable(export_lines(service))
        with frozen_copy(service.store) as copy:
            put(service, *(new("late") for _ in range(10)))
            assert comparable(list(Service(copy.store).export())) == before
            assert copy.taken_at_ms == copy.until_ms
        service.store.close_sync()


def test_too_little_memory_is_reported_before_anything_is_copied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    information = tmp_path / "meminfo"
    information.write_text("MemTotal: 9 kB\nMemAvailable: 1 kB\n")
    monkeypatch.setattr(memory_bound, "MEMORY_INFO", information)
    with EngineProcess("valkey") as engine:
        service = open_service(engine)
        with pytest.raises(WindlassError, match=r"needs 0\.00 GiB.*--live"), frozen_copy(service.store):
            pass
        service.store.close_sync()


def test_data_that_the_private_engine_cannot_load_are_refused() -> None:
    with private_engine.private_engine() as copy:
        copy.data_file.write_bytes(b"REDIS0011\xff" + b"no data" * 10)
        with pytest.raises(EngineUnsuitable, match="--live"):
            copy.load()


@pytest.mark.parametrize("place", ["tempfile.tempdir", "windlass.store.embedded.private_engine.SHORT_PLACE"])
def test_copies_of_killed_processes_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str) -> None:
    monkeypatch.setattr(place, str(tmp_path))
    dead, young, foreign = (tmp_path / f"{private_engine.PREFIX}{name}" for name in ("dead", "young", "f"))
    for directory in (dead, young):
        directory.mkdir()
        (directory / private_engine.DATA_FILE).write_bytes(b"payloads")
    os.utime(dead, (1, 1))
    foreign.symlink_to(dead)  # not a directory of ours
    with private_engine.private_engine() as used:
        os.utime(used.data_file.parent, (1, 1))
        with private_engine.private_engine():
            assert used.data_file.parent.exists()
    assert not dead.exists()
    assert young.exists()
