"""Engines that evict keys: `volatile-*` keeps every job under memory pressure, and `allkeys-*` does not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.acl_user import send_command
from tests.support.engine_process import EngineProcess
from windlass.core.errors import EngineFull
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Finish, Take
from windlass.service import Service
from windlass.store import scripts
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

MEMORY = "12mb"
BATCH = 200
PAYLOAD = Blob(b'"' + b"x" * 1_000 + b'"')
DOCUMENT = Path(__file__).parents[3] / "docs/engines.md"
CHECKUP = Path(scripts.__file__).parent / "lua/lib/doctor/checkup.lua"


def documented_kinds() -> set[str]:
    """Return the kinds of keys in the table of keys with a time to live."""
    section = DOCUMENT.read_text().partition("### Keys with a time to live\n")[2].partition("\n#")[0]
    return set(re.findall(r"^\| `(\w+)", section, re.MULTILINE))


def evicted(engine: EngineProcess) -> int:
    (line,) = re.findall(rb"evicted_keys:(\d+)", send_command(engine, "INFO", "stats"))
    return int(line)


def new_jobs(number: int) -> list[NewJob]:
    """Return jobs of several kinds. A fourth of them leaves a key with a time to live."""
    jobs = []
    for index in range(number * BATCH, (number + 1) * BATCH, 4):
        jobs += [
            NewJob("mail", "send", PAYLOAD, result_ttl_ms=3_600_000),
            NewJob("mail", "send", PAYLOAD, lane=f"customer-{index % 40}", tags=("night",)),
            NewJob("mail", "send", PAYLOAD, unique=str(index), unique_check="refuse"),
            NewJob("mail", "send", PAYLOAD, unique=str(index + 1), throttle_ms=3_600_000),
        ]
    return jobs


def fill(service: Service) -> set[bytes]:
    """Enqueue and finish some jobs, then enqueue until the engine refuses. Return the ids of the accepted jobs."""
    drain(service, {answer.id for answer in service.enqueue(new_jobs(0)).wait()})
    accepted: set[bytes] = set()
    for number in range(1, 1_000):
        try:
            accepted |= {answer.id for answer in service.enqueue(new_jobs(number)).wait()}
        except EngineFull:
            return accepted
    raise AssertionError("the engine accepts jobs without end")


def drain(service: Service, accepted: set[bytes]) -> int:
    """Take and finish all jobs, each with a kept result. Return how many of the accepted jobs came back."""
    ended = 0
    while jobs := service.take(Take(queues=("mail",), most=BATCH)).wait().jobs:
        assert {job.id for job in jobs} <= accepted, "each job was accepted once and is taken once"
        service.finish([Finish(job.id, job.lease_token, Blob(b"1")) for job in jobs]).wait()
        accepted -= {job.id for job in jobs}
        ended += len(jobs)
    return ended


@pytest.fixture(params=["valkey", "redis"])
def small_engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    with EngineProcess(request.param, config=("--maxmemory", MEMORY)) as engine:
        yield engine


def open_service(engine: EngineProcess, **options: Any) -> Service:
    return Service(Store(parse_url(engine.unix_url), patience_s=5.0, is_test=True, **options))


@pytest.mark.parametrize("policy", ["volatile-lru", "volatile-ttl"])
def test_no_job_is_lost_under_memory_pressure(small_engine: EngineProcess, policy: str) -> None:
    send_command(small_engine, "CONFIG", "SET", "maxmemory-policy", policy)
    service = open_service(small_engine)
    accepted = fill(service)
    assert len(accepted) > 1_000
    assert evicted(small_engine) > 100, "the engine was short of memory, and evicted keys with a time to live"
    assert drain(service, set(accepted)) == len(accepted)
    codes = {finding.code for finding in service.doctor().wait().findings}
    assert codes == {"eviction_of_temporary_keys", "no_persistence", "memory_nearly_full"} & codes
    assert "eviction_of_temporary_keys" in codes
    service.store.close_sync()


def test_the_same_load_loses_jobs_with_allkeys_lru(small_engine: EngineProcess) -> None:
    """The control: the test above would notice a lost job."""
    send_command(small_engine, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    service = open_service(small_engine, allow_eviction=True)
    accepted = set()
    for number in range(60):
        accepted |= {answer.id for answer in service.enqueue(new_jobs(number)).wait()}
    assert len(send_command(small_engine, "KEYS", "wl:{0}:j:*")) < len(accepted)
    service.store.close_sync()


def test_the_document_lists_every_kind_of_key_with_a_time_to_live() -> None:
    """The doctor reports a key whose time to live its table does not expect, and the property tests run the doctor."""
    expected = set(re.findall(r"^  (\w+) = temporary\(", CHECKUP.read_text(), re.MULTILINE))
    assert len(expected) > 10
    assert documented_kinds() == expected


def test_only_documented_kinds_of_keys_have_a_time_to_live(small_engine: EngineProcess) -> None:
    service = open_service(small_engine)
    accepted = {answer.id for answer in service.enqueue(new_jobs(0)).wait()}
    jobs = service.take(Take(queues=("mail",), most=BATCH // 2)).wait().jobs
    service.finish([Finish(job.id, job.lease_token, Blob(b"1")) for job in jobs]).wait()
    names: Sequence[bytes] = send_command(small_engine, "KEYS", "*")
    mortal = {name for name in names if int(send_command(small_engine, "PTTL", name.decode("latin-1"))) >= 0}
    found = {name.split(b":")[2].decode() for name in mortal}
    assert {"throttle", "ended", "m"} <= found <= documented_kinds()
    assert len(accepted) == BATCH
    service.store.close_sync()
