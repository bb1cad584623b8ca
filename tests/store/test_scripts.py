"""Engine code as scripts: on engines without functions, and for users that may not call them, jobs take the same way.

The engine `scripts` is a Valkey whose user may not call FUNCTION, FCALL, CONFIG and KEYS."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.acl_user import create_restricted_user, flush_engine, send_command
from tests.support.connections import open_sync_connection
from tests.support.engine_process import EngineProcess
from tests.support.stores import discard
from windlass.core.errors import EngineFull, EngineNotPermitted
from windlass.core.job import Blob, Job, NewJob
from windlass.core.job_template import JobTemplate, PreparedJob
from windlass.core.operations import Finish, Take
from windlass.core.states import State
from windlass.service import Service
from windlass.store import scripts
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store
from windlass.store.topology.permissions import acl_rules

SIMPLE = NewJob(queue="mail", name="send")
RICH = NewJob(queue="mail", name="send", lane="a", tags=("t",), unique="u")
APPEND = ("--appendonly", "yes", "--appendfsync", "everysec")
_namespaces = itertools.count(1)
pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def restricted() -> Iterator[EngineProcess]:
    with EngineProcess("scripts", config=APPEND) as engine:
        yield engine


@pytest.fixture(scope="module")
def without_functions() -> Iterator[EngineProcess]:
    """An engine that does not know the commands, as some compatible engines."""
    hidden = ("--rename-command", "FCALL", "", "--rename-command", "FUNCTION", "")
    with EngineProcess("valkey", config=("--appendonly", "no", *hidden)) as engine:
        yield engine


@pytest.fixture(params=["restricted", "without_functions"])
def engine_by_scripts(request: pytest.FixtureRequest) -> EngineProcess:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@pytest.fixture
def service(engine_by_scripts: EngineProcess) -> Iterator[Service]:
    store = new_store(engine_by_scripts.unix_url)
    yield Service(store)
    discard(store)


@pytest.fixture(scope="module")
def shared_open_engine() -> Iterator[EngineProcess]:
    with EngineProcess("valkey", config=APPEND) as engine:
        yield engine


@pytest.fixture
def open_engine(shared_open_engine: EngineProcess) -> Iterator[EngineProcess]:
    yield shared_open_engine
    flush_engine(shared_open_engine)


def new_store(url: str, **options: Any) -> Store:
    namespace = options.pop("namespace", f"s{os.getpid()}-{next(_namespaces)}")
    return Store(parse_url(url), **({"namespace": namespace, "is_test": True, "patience_s": 10.0} | options))


def forget_scripts(engine: EngineProcess) -> None:
    send_command(engine, "SCRIPT", "FLUSH", "SYNC")


def run_one(service: Service) -> Job:
    [taken] = service.take(Take(queues=("mail",))).wait().jobs
    assert service.finish([Finish(taken.id, taken.lease_token)]).wait() == [None]
    return taken


# The code


@pytest.mark.parametrize("engine", ["valkey", "redis"], indirect=True)
def test_every_operation_loads_as_a_script(engine: EngineProcess) -> None:
    made = [scripts.library().script(operation) for operation in scripts.operations()]
    with open_sync_connection(parse_url(engine.unix_url)) as connection:
        loaded = [connection.call("SCRIPT", "LOAD", script.source).decode() for script in made]
    assert loaded == [script.sha for script in made]
    assert len(set(loaded)) == len(scripts.operations())


def test_a_script_contains_only_the_modules_that_it_requires() -> None:
    source = scripts.library().script("queues").source
    assert "modules['keys']" in source
    assert "modules['leases.lease']" not in source


def test_a_script_contains_the_companions_of_its_modules() -> None:
    """`finish` leaves steps for dependents, and never calls the module that takes them."""
    assert "dependencies.propagation" not in scripts.requires(scripts.operation_source("finish"))
    assert "modules['dependencies.propagation']" in scripts.library().script("finish").source


# The way is found on opening


@pytest.mark.parametrize("job", [SIMPLE, RICH], ids=["fast", "general"])
def test_a_job_travels_by_scripts_alone(service: Service, job: NewJob) -> None:
    [queued] = service.enqueue([job]).wait()
    assert run_one(service).id == queued.id  # type: ignore[union-attr]
    assert service.take(Take(queues=("mail",), most=5)).wait().jobs == []
    assert service.store.calls_by == "scripts"  # type: ignore[attr-defined]


def test_a_kept_result_is_read_by_scripts_alone(service: Service) -> None:
    [queued] = service.enqueue([NewJob(queue="mail", name="send", result_ttl_ms=60_000)]).wait()
    [taken] = service.take(Take(queues=("mail",))).wait().jobs
    service.finish([Finish(taken.id, taken.lease_token, result=Blob(b"7"))]).wait()
    ending = service.result(queued.id).wait()  # type: ignore[union-attr]
    assert ending is not None
    assert (ending.state, ending.result) == (State.FINISHED, Blob(b"7"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("restricted", "the engine's user may not call FCALL"), ("without_functions", "the engine has no FCALL")],
)
def test_the_log_says_so_and_why(
    name: str, reason: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "windlass.store")
    store = new_store(request.getfixturevalue(name).unix_url)
    found = store.open_sync()
    discard(store)
    assert (found.calls_by, found.scripts_because) == ("scripts", reason)
    assert f"calls its operations by scripts (EVALSHA), because {reason}." in caplog.text


def test_the_doctor_says_so(service: Service) -> None:
    codes = {finding.code for finding in service.doctor().wait().findings}
    assert "calls_by_scripts" in codes


def test_an_open_engine_is_called_by_functions(open_engine: EngineProcess) -> None:
    store = new_store(open_engine.unix_url)
    assert store.open_sync().calls_by == store.calls_by == "functions"
    assert "calls_by_scripts" not in {finding.code for finding in Service(store).doctor().wait().findings}
    discard(store)


def test_the_minimal_rules_are_enough(open_engine: EngineProcess) -> None:
    rules = acl_rules("wl", calls_by="scripts")
    assert not {"+fcall", "+config|get", "+function|list", "+keys"} & set(rules)
    send_command(open_engine, "ACL", "SETUSER", "least", "reset", "on", ">pass", *rules)
    store = new_store(f"unix://least:pass@{open_engine.socket_path}?db=0", namespace="wl")
    service = Service(store)
    service.enqueue([RICH]).wait()
    run_one(service)
    assert service.doctor(repair=True).wait().is_healthy
    store.close_sync()


# Scripts that the engine forgets


def test_forgotten_scripts_are_loaded_again(service: Service, engine_by_scripts: EngineProcess) -> None:
    prepared = PreparedJob(JobTemplate(SIMPLE), Blob(b"{}"))
    service.enqueue_one(prepared).wait()
    for _ in range(2):
        forget_scripts(engine_by_scripts)
        assert service.enqueue_one(prepared).wait().status == "queued"  # the fast path
        forget_scripts(engine_by_scripts)
        assert len(service.enqueue([SIMPLE]).start_sync()()) == 1  # sent ahead
        forget_scripts(engine_by_scripts)
        run_one(service)
    (stats,) = service.stats(["mail"]).wait()
    assert stats.queued == 3


async def test_scripts_are_forgotten_during_many_calls(
    restricted: EngineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.store.store.DURABLE_WAIT_MS", 20)  # there is no replica
    async with new_store(restricted.unix_url) as store:
        service = Service(store)

        async def produce(**options: Any) -> None:
            for _ in range(10):
                await asyncio.gather(*(service.enqueue([SIMPLE], **options).one() for _ in range(10)))

        async def forget() -> None:
            for _ in range(15):
                await asyncio.to_thread(forget_scripts, restricted)

        # The second confirms each call in a pipeline: its first command may be refused, and is then sent again.
        await asyncio.gather(produce(), produce(durability="replica"), forget())
        (stats,) = await service.stats(["mail"])
        assert stats.queued == 200


def test_a_restarted_engine_receives_the_scripts_again(restricted: EngineProcess) -> None:
    store = new_store(restricted.unix_url)
    service = Service(store)
    service.enqueue([SIMPLE]).wait()
    restricted.kill()
    restricted.start()
    run_one(service)
    discard(store)


def test_a_full_engine_refuses_new_jobs_and_lets_others_end(restricted: EngineProcess) -> None:
    store = new_store(restricted.unix_url)
    service = Service(store)
    service.enqueue([SIMPLE]).wait()
    forget_scripts(restricted)
    send_command(restricted, "CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(EngineFull):
            service.enqueue([SIMPLE]).one().wait()
        run_one(service)
    finally:
        send_command(restricted, "CONFIG", "SET", "maxmemory", "0")
        discard(store)


# The way changes later


def user_without_load(engine: EngineProcess) -> str:
    return create_restricted_user(engine, "+evalsha", namespace="wl")


def test_a_user_that_may_not_load_functions_uses_scripts(open_engine: EngineProcess) -> None:
    store = new_store(user_without_load(open_engine), namespace="wl")
    reason = store.open_sync().scripts_because
    assert reason == "the engine's user may not call FUNCTION LOAD, and the functions are not loaded"
    Service(store).enqueue([SIMPLE]).wait()
    run_one(Service(store))
    store.close_sync()


async def test_lost_functions_that_cannot_be_loaded_are_replaced_by_scripts(
    open_engine: EngineProcess, caplog: pytest.LogCaptureFixture
) -> None:
    admin = new_store(open_engine.unix_url, namespace="wl")
    Service(admin).enqueue([SIMPLE]).wait()  # loads the functions
    async with new_store(user_without_load(open_engine), namespace="wl") as store:
        assert store.calls_by == "functions"
        send_command(open_engine, "FUNCTION", "FLUSH")
        assert len((await Service(store).take(Take(queues=("mail",)))).jobs) == 1
        assert store.calls_by == "scripts"
        assert len(Service(store).enqueue([SIMPLE]).wait()) == 1
    assert caplog.text.count("calls its operations by scripts") == 1
    admin.close_sync()


def test_a_refused_load_changes_the_way(open_engine: EngineProcess) -> None:
    """The user loses its permission between the check and the first call."""
    send_command(open_engine, "ACL", "SETUSER", "late", "reset", "on", ">pass", "~*", "&*", "+@all")
    store = new_store(f"unix://late:pass@{open_engine.socket_path}?db=0", namespace="wl")
    store.open_sync()
    send_command(open_engine, "ACL", "SETUSER", "late", "-function")
    prepared = PreparedJob(JobTemplate(SIMPLE), Blob(b"{}"))
    for _ in range(3):
        assert Service(store).enqueue_one(prepared).wait().status == "queued"
    assert store.calls_by == "scripts"
    store.close_sync()


async def test_a_load_that_is_refused_to_several_callers_at_once(open_engine: EngineProcess) -> None:
    send_command(open_engine, "ACL", "SETUSER", "late", "reset", "on", ">pass", "~*", "&*", "+@all")
    async with new_store(f"unix://late:pass@{open_engine.socket_path}?db=0", namespace="wl") as store:
        send_command(open_engine, "ACL", "SETUSER", "late", "-function")
        service = Service(store)
        calls = (service.enqueue([SIMPLE]), service.stats(["mail"]), service.take(Take(queues=("other",))))
        assert len(await asyncio.gather(*calls)) == 3
        assert store.calls_by == "scripts"


def test_without_functions_and_scripts_the_error_names_both_remedies(open_engine: EngineProcess) -> None:
    store = new_store(create_restricted_user(open_engine, namespace="wl"), namespace="wl")
    with pytest.raises(EngineNotPermitted) as refused:
        store.open_sync()
    assert "windlass engine prepare" in str(refused.value)
    assert "+evalsha" in str(refused.value)
