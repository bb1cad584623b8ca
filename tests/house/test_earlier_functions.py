"""Functions of version 0.1.0, from its own data directory, on data of this version: a rolling deploy with real code.

The directory contains the function library that version 0.1.0 had loaded. Its programs call these functions."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.durable.builders import sleep, start, store, suspend, take_with_steps
from tests.service.helpers import new, put, read, take
from tests.support.embedded_process import new_data_dir
from tests.support.namespace import send_command
from windlass.core.diagnosis import Severity
from windlass.core.operations import LeaseRef
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.embedded.engine import EmbeddedEngine
from windlass.store.store import Store

ARCHIVE = Path(__file__).with_name("upgrade") / "0.1.0.tar.gz"
LIBRARY = "17246bd021bb"  # hash of the functions of version 0.1.0
HOUR_MS = 3_600_000


@pytest.fixture
def service() -> Iterator[Service]:
    """The present version, in a namespace of its own on the engine of the earlier one."""
    with new_data_dir() as directory:
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(directory, filter="data")
        assert json.loads((directory / "contents.json").read_text())["version"] == "0.1.0"
        engine = EmbeddedEngine(directory)
        store = Store(parse_url(engine.url), engine=engine, namespace="present", is_test=True)
        yield Service(store)
        store.close_sync()


def call_earlier(service: Service, operation: str, *arguments: str | int) -> Any:
    """Call an operation as version 0.1.0 does."""
    store, function = service.store, f"{operation}_{LIBRARY}"
    return send_command(store, "FCALL", function, 1, store.root(0), store.clock_offset_ms, *arguments)


def take_earlier(service: Service, queue: str = "q") -> list[bytes]:
    """Take without a filter. Return the ids of the jobs."""
    words = ("", 100, "a worker (0.1.0)", HOUR_MS, 0, "", 0, "", 0, queue)
    _, _, _, entries, *_ = call_earlier(service, "take", *words)
    return [entry[:16] for entry in entries]


def run_earlier_loops(service: Service, ms: int) -> None:
    service.store.clock_offset_ms += ms
    for operation in ("promote", "recover", "clean"):
        call_earlier(service, operation, 50, 200)


def assert_no_errors(service: Service) -> None:
    assert [found for found in service.doctor().wait().findings if found.severity is Severity.ERROR] == []


def test_its_take_gets_no_job_with_steps(service: Service) -> None:
    durable = start(service)
    store(service, durable)
    service.release([LeaseRef(durable.id, durable.lease_token)]).one().wait()
    (plain,) = put(service, new())
    assert take_earlier(service) == [plain.id]
    assert [job.id for job in take_with_steps(service)] == [durable.id]
    assert_no_errors(service)


def test_its_loops_leave_suspended_jobs_to_the_present_ones(service: Service) -> None:
    durable = start(service)
    store(service, durable)
    suspend(service, durable, sleep(HOUR_MS))
    run_earlier_loops(service, 2 * HOUR_MS)
    assert read(service, durable.id).state.label == "suspended"
    service.sweep().wait()  # the earlier loops reset the timer of the queue, and the janitor sets it again
    service.promote().wait()
    assert take_earlier(service) == []
    assert [job.id for job in take_with_steps(service)] == [durable.id]
    assert_no_errors(service)


def test_indexed_jobs_are_promoted_and_recovered_by_its_loops(service: Service) -> None:
    later, now = put(service, new(delay_ms=HOUR_MS, index=("n",)), new(index=("n",)))
    assert take_earlier(service) == [now.id]
    run_earlier_loops(service, 3 * HOUR_MS)
    assert {job.id for job in take(service, most=5)} == {later.id, now.id}
    assert_no_errors(service)
