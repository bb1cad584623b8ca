"""Engine code as a library and as scripts: every operation loads as a script of its own, and a job can be enqueued,
taken, awaited and finished by scripts alone, on the fast path and on the general path."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.engine_process import EngineProcess
from tests.support.stores import discard
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Finish, Take
from windlass.core.states import State
from windlass.service import Service
from windlass.store import scripts
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.reconnect import SyncReconnectingConnection
from windlass.store.store import Store

both_engines = pytest.mark.parametrize("engine", ["valkey", "redis"], indirect=True)
_namespaces = itertools.count(1)


class ScriptStore(Store):
    """Store that sends each operation as a script, as an engine without functions needs it."""

    def command_prefix(self, operation: str, partition: int) -> tuple[Any, ...]:
        return "EVAL", scripts.library().script(operation).source, 1, self.root(partition), self.clock_offset_ms


@pytest.fixture
def service(engine: EngineProcess) -> Iterator[Service]:
    store = ScriptStore(parse_url(engine.unix_url), namespace=f"s{os.getpid()}-{next(_namespaces)}", is_test=True)
    yield Service(store)
    discard(store)


@both_engines
def test_every_operation_loads_as_a_script(engine: EngineProcess) -> None:
    connection = SyncReconnectingConnection(parse_url(engine.unix_url))
    loaded = [
        connection.call("SCRIPT", "LOAD", scripts.library().script(operation).source)
        for operation in scripts.operations()
    ]
    connection.close()
    assert len(set(loaded)) == len(scripts.operations())


def test_a_script_contains_only_the_modules_that_it_requires() -> None:
    source = scripts.library().script("queues").source
    assert "modules['keys']" in source
    assert "modules['leases.lease']" not in source


@both_engines
@pytest.mark.parametrize(
    "job",
    [NewJob(queue="mail", name="send"), NewJob(queue="mail", name="send", lane="a", tags=("t",), unique="u")],
    ids=["fast", "general"],
)
def test_a_job_travels_by_scripts_alone(service: Service, job: NewJob) -> None:
    [queued] = service.enqueue([job]).wait()
    [taken] = service.take(Take(queues=("mail",), most=5)).wait().jobs
    assert taken.id == queued.id  # type: ignore[union-attr]
    assert service.finish([Finish(taken.id, taken.lease_token)]).wait() == [None]
    assert service.take(Take(queues=("mail",), most=5)).wait().jobs == []


@both_engines
def test_a_kept_result_is_read_by_scripts_alone(service: Service) -> None:
    [queued] = service.enqueue([NewJob(queue="mail", name="send", result_ttl_ms=60_000)]).wait()
    [taken] = service.take(Take(queues=("mail",))).wait().jobs
    service.finish([Finish(taken.id, taken.lease_token, result=Blob(b"7"))]).wait()
    ending = service.result(queued.id).wait()  # type: ignore[union-attr]
    assert ending is not None
    assert (ending.state, ending.result) == (State.FINISHED, Blob(b"7"))
