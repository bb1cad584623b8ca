"""Services that make writes durable by themselves: `engine_durability managed` needs no confirmation and no warning."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Literal

import pytest

from tests.support.acl_user import send_command
from tests.support.engine_process import EngineProcess
from windlass.core.job import Durability, NewJob
from windlass.deployment import build_store
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store
from windlass.store.topology.requirements import check_requirements

WITHOUT_FILE = b"redis_version:7.0.15\r\naof_enabled:0\r\n"
JOB = NewJob("mail", "send")


@pytest.fixture(params=["valkey", "redis"])
def engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    with EngineProcess(request.param, config=("--appendonly", "no")) as process:
        yield process


def managed_store(engine: EngineProcess, durability: Durability) -> Store:
    return Store(parse_url(engine.unix_url), durability=durability, is_managed=True, patience_s=5.0)


def test_no_durability_needs_a_confirmation() -> None:
    found = check_requirements([WITHOUT_FILE, None], allow_eviction=False, is_managed=True)
    assert [found.command_for(wanted, 100) for wanted in ("memory", "fsync", "replica")] == [None, None, None]


@pytest.mark.parametrize("durability", ["fsync", "replica"])
def test_enqueues_are_confirmed_by_their_answer(
    engine: EngineProcess, durability: Literal["fsync", "replica"], caplog: pytest.LogCaptureFixture
) -> None:
    store = managed_store(engine, durability)
    with caplog.at_level(logging.WARNING, "windlass.store"):
        assert Service(store).enqueue([JOB]).one().wait().is_durable
    clone = store.clone()
    assert Service(clone).enqueue([JOB], durability=durability).one().wait().is_durable
    stats = send_command(engine, "INFO", "commandstats").decode()
    assert "cmdstat_hsetnx" in stats
    assert "cmdstat_wait" not in stats, "neither WAIT nor WAITAOF is sent"
    assert caplog.messages == [], "no warning that there is no append-only file"
    clone.close_sync()
    store.close_sync()


def test_the_doctor_and_the_engine_page_say_so(engine: EngineProcess) -> None:
    store = managed_store(engine, "replica")
    service = Service(store)
    found = {finding.code: finding for finding in service.doctor().wait().findings}
    assert set(found) == {"managed_durability"}
    assert "The engine itself reports: Memory only" in found["managed_durability"].risk
    (node,) = service.engines().wait()
    assert (node.durability.level, node.durability.is_weak) == ("managed", False)
    store.close_sync()


def test_the_setting_is_for_services_only(tmp_path: pytest.TempPathFactory) -> None:
    assert build_store(Settings(url="redis://127.0.0.1:1/0", engine_durability="managed")).is_managed
    assert not build_store(Settings(url="redis://127.0.0.1:1/0")).is_managed
    assert not build_store(Settings(data_dir=str(tmp_path), engine_durability="managed")).is_managed
