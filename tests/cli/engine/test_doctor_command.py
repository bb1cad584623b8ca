"""windlass doctor: its output and exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from tests.support.engine_process import EngineProcess
from windlass.cli.main import windlass
from windlass.core.job import NewJob
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

SAFE = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def engine() -> Iterator[EngineProcess]:
    with EngineProcess("valkey", config=SAFE) as process:
        yield process


@pytest.fixture
def service(engine: EngineProcess) -> Iterator[Service]:
    store = Store(parse_url(engine.unix_url))
    yield Service(store)
    store.close_sync()


def run(engine: EngineProcess, *options: str) -> Result:
    return CliRunner().invoke(windlass, ["doctor", "--url", engine.unix_url, *options])


def break_it(service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send") for _ in range(5)]).wait()
    service.store._sync_connection.call("DEL", f"{service.store.root(0)}:ready:mail")


def test_a_healthy_deployment(engine: EngineProcess, service: Service) -> None:
    service.enqueue([NewJob(queue="mail", name="send")]).wait()
    result = run(engine)
    assert result.exit_code == 0
    assert "Checked  1 job in 1 queue" in result.output
    verdict = "No problems found: records, indexes and engine settings are consistent."
    assert result.output.strip().endswith(verdict)


def test_reports_and_repairs_errors(engine: EngineProcess, service: Service) -> None:
    break_it(service)
    found = run(engine)
    assert found.exit_code == 1
    assert "job_not_in_index (5 ×)" in found.output
    assert "windlass doctor --repair" in found.output
    assert "… and 2 more" in found.output
    repaired = run(engine, "--repair")
    assert repaired.exit_code == 0
    assert "It was repaired." in repaired.output
    assert "All findings were repaired." in repaired.output
    assert "No problems found" in run(engine).output


def test_json(engine: EngineProcess, service: Service) -> None:
    break_it(service)
    result = run(engine, "--json")
    assert result.exit_code == 1
    answer = json.loads(result.output)
    (finding,) = answer["findings"]
    assert (finding["code"], finding["severity"], finding["count"]) == ("job_not_in_index", "error", 5)
    assert len(finding["examples"]) == 5
    assert (answer["jobs"], answer["queues"], answer["is_healthy"]) == (5, 1, False)


def test_checks_an_engine_that_evicts_keys(engine: EngineProcess, service: Service) -> None:
    service.store.open_sync()
    service.store._sync_connection.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    result = run(engine)
    assert result.exit_code == 1
    assert "eviction" in result.output
    assert "noeviction" in result.output


@pytest.mark.parametrize("url", ["http://x", "redis://127.0.0.1:1/0"])
def test_exits_with_2_if_the_check_is_not_possible(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_PATIENCE", "1s")
    result = CliRunner().invoke(windlass, ["doctor", "--url", url])
    assert result.exit_code == 2
    assert "the check was not possible" in result.output
