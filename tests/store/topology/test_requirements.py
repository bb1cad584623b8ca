"""Requirements for an engine: refusals, warnings, and recovery of the function library."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from tests.support.engine_process import EngineProcess
from windlass.core.errors import BadSetting, EngineError, EngineFull, EngineUnsuitable
from windlass.core.job import Blob, NewJob
from windlass.core.log import Log, LogLine
from windlass.core.operations import Finish, Take, Update
from windlass.service import Service
from windlass.store import store as store_module
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.scripts import library
from windlass.store.store import Store
from windlass.store.topology.requirements import Deployment, check_requirements, combine_nodes

GOOD = b"redis_version:7.2.4\r\nvalkey_version:9.1.0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"
ALWAYS = [b"appendfsync", b"always"]


@pytest.fixture(scope="module", params=["valkey", "redis"])
def shared_engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    with EngineProcess(request.param) as engine:
        yield engine


@pytest.fixture
def own_engine(shared_engine: EngineProcess) -> Iterator[EngineProcess]:
    """Engine that is emptied and reset after a test that changed its settings."""
    yield shared_engine
    for command in (
        ("CONFIG", "SET", "maxmemory", "0"),
        ("CONFIG", "SET", "maxmemory-policy", "noeviction"),
        ("FLUSHALL",),
        ("FUNCTION", "FLUSH"),
    ):
        ask(shared_engine, *command)


def ask(engine: EngineProcess, *command: str) -> Any:
    connection = SyncConnection.open(parse_url(engine.unix_url))
    try:
        return connection.call(*command)
    finally:
        connection.close()


def new_store(engine: EngineProcess, **options: Any) -> Store:
    return Store(parse_url(engine.unix_url), **({"namespace": "wl", "patience_s": 5.0} | options))


@pytest.fixture
def store(own_engine: EngineProcess) -> Iterator[Store]:
    store = new_store(own_engine, is_test=True)
    yield store
    store.close_sync()


@pytest.fixture
def service(store: Store) -> Service:
    return Service(store)


def job(**kw: Any) -> NewJob:
    return NewJob(**({"queue": "q", "name": "n"} | kw))


# Replies of an engine


def test_replies_of_a_good_engine() -> None:
    found = check_requirements([GOOD, ALWAYS], allow_eviction=False)
    assert found == Deployment("valkey", "9.1.0", False, True, True, partitions=1)


@pytest.mark.parametrize("version", [b"6.2.14", b"5.0", b"0.0", b"garbage"])
def test_an_engine_that_is_too_old_is_refused(version: bytes) -> None:
    with pytest.raises(EngineUnsuitable, match=r"needs Redis 7\.0 or Valkey 7\.2"):
        check_requirements([b"redis_version:" + version + b"\r\n", ALWAYS], allow_eviction=False)


@pytest.mark.parametrize(
    ("names", "product"),
    [
        (b"redis_version:7.0.15", "redis"),  # it has no WAITAOF
        (b"redis_version:7.4.2", "redis"),  # it answers WAITAOF before the sync, and so does Valkey
        (b"redis_version:7.2.4\r\nvalkey_version:9.1.2", "valkey"),
    ],
)
def test_engines_without_a_true_confirmation_of_a_single_write(names: bytes, product: str) -> None:
    info = names + b"\r\naof_enabled:1\r\n"
    found = check_requirements([info, [b"appendfsync", b"everysec"]], allow_eviction=False)
    assert (found.product, found.confirms_writes, found.is_fsynced) == (product, False, False)
    with pytest.raises(BadSetting, match="appendfsync always"):
        found.command_for("fsync", 100)
    assert check_requirements([info, ALWAYS], allow_eviction=False).command_for("fsync", 100) is None


def test_redis_8_confirms_a_single_write() -> None:
    info = b"redis_version:8.0.0\r\naof_enabled:1\r\n"
    found = check_requirements([info, [b"appendfsync", b"everysec"]], allow_eviction=False)
    assert found.command_for("fsync", 100) == ("WAITAOF", "1", "0", "100")


def test_commands_that_each_durability_needs() -> None:
    lazy = check_requirements([GOOD, [b"appendfsync", b"everysec"]], allow_eviction=False)
    assert lazy.command_for("memory", 100) is None
    assert lazy.command_for("replica", 100) == ("WAIT", "1", "100")
    without = check_requirements([GOOD.replace(b"aof_enabled:1", b"aof_enabled:0"), ALWAYS], allow_eviction=False)
    with pytest.raises(BadSetting, match="append-only file"):
        without.command_for("fsync", 100)


def test_a_provider_that_forbids_config_is_not_trusted_with_fsync() -> None:
    found = check_requirements([GOOD, EngineError("NOPERM")], allow_eviction=False)
    assert (found.is_persistent, found.is_fsynced) == (True, False)


@pytest.mark.parametrize("policy", [b"allkeys-lru", b"allkeys-random", b"something-new"])
def test_an_evicting_engine_is_refused_unless_allowed(policy: bytes) -> None:
    info = GOOD.replace(b"noeviction", policy)
    with pytest.raises(EngineUnsuitable, match=policy.decode()):
        check_requirements([info, ALWAYS], allow_eviction=False)
    assert check_requirements([info, ALWAYS], allow_eviction=True).product == "valkey"


@pytest.mark.parametrize("policy", [b"noeviction", b"volatile-lru", b"volatile-ttl"])
def test_an_engine_that_evicts_no_jobs_is_accepted(policy: bytes) -> None:
    info = GOOD.replace(b"noeviction", policy)
    assert check_requirements([info, ALWAYS], allow_eviction=False).product == "valkey"


def test_a_warning_when_jobs_would_be_lost_with_the_engine(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "windlass.store"):
        good = check_requirements([GOOD, ALWAYS], allow_eviction=False)
        assert combine_nodes([good, good], 16) == good._replace(partitions=16)
        assert caplog.messages == []
        bad = check_requirements([GOOD.replace(b"aof_enabled:1", b"aof_enabled:0"), ALWAYS], allow_eviction=False)
        both = combine_nodes([good, bad], 16)
    assert (both.is_persistent, both.is_fsynced) == (False, False), "a deployment is as safe as its weakest node"
    assert len(caplog.messages) == 1
    assert "appendonly yes" in caplog.messages[0]


# With a real engine


def test_an_evicting_engine_is_refused_before_the_first_write(own_engine: EngineProcess) -> None:
    ask(own_engine, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    refused = new_store(own_engine)
    with pytest.raises(EngineUnsuitable):
        Service(refused).enqueue([job()]).wait()
    refused.close_sync()
    assert ask(own_engine, "DBSIZE") == 0
    allowed = new_store(own_engine, allow_eviction=True)
    assert len(Service(allowed).enqueue([job()]).wait()) == 1
    allowed.close_sync()


def test_an_unknown_format_is_refused(own_engine: EngineProcess) -> None:
    ask(own_engine, "HSET", "wl:{0}", "layout", "99")
    store = new_store(own_engine)
    with pytest.raises(EngineUnsuitable, match=r"has format 99\. This is Windlass .* Upgrade this program"):
        Service(store).enqueue([job()]).wait()
    store.close_sync()
    assert ask(own_engine, "DBSIZE") == 1
    other = new_store(own_engine, namespace="other")
    assert len(Service(other).enqueue([job()]).wait()) == 1
    other.close_sync()


def test_an_impossible_durability_is_refused_on_open(own_engine: EngineProcess) -> None:
    store = new_store(own_engine, durability="fsync")
    with pytest.raises(BadSetting, match="append-only file"):
        store.open_sync()
    store.close_sync()
    assert ask(own_engine, "DBSIZE") == 0


def test_a_confirmation_that_the_engine_cannot_give_is_refused_on_open() -> None:
    with EngineProcess("valkey", config=("--appendonly", "yes", "--appendfsync", "everysec")) as engine:
        store = new_store(engine, durability="fsync")
        with pytest.raises(BadSetting, match="needs `appendfsync always`"):
            store.open_sync()
        store.close_sync()
        assert ask(engine, "DBSIZE") == 0


def test_a_moved_clock_is_accepted_only_by_a_deployment_marked_as_a_test(own_engine: EngineProcess) -> None:
    store = new_store(own_engine)
    service = Service(store)
    service.enqueue([job()]).one().wait()
    store.clock_offset_ms = 60_000
    with pytest.raises(EngineError, match="marked as a test"):
        service.take(Take(queues=("q",))).wait()
    store.clock_offset_ms = 0
    assert len(service.take(Take(queues=("q",))).wait().jobs) == 1
    store.close_sync()


def test_a_flushed_function_library_is_loaded_again(service: Service, own_engine: EngineProcess) -> None:
    service.enqueue([job()]).one().wait()
    ask(own_engine, "FUNCTION", "FLUSH")
    assert len(service.take(Take(queues=("q",))).wait().jobs) == 1


@pytest.mark.anyio
async def test_the_library_is_loaded_again_during_many_calls(
    service: Service, store: Store, own_engine: EngineProcess
) -> None:
    async def produce() -> None:
        for _ in range(20):
            await asyncio.gather(*(service.enqueue([job()]).one() for _ in range(10)))

    async def flush() -> None:
        for _ in range(15):
            await asyncio.to_thread(ask, own_engine, "FUNCTION", "FLUSH")

    await asyncio.gather(produce(), produce(), flush())
    (stats,) = await service.stats(["q"])
    assert stats.queued == 400
    await store.close()


def test_two_versions_of_the_library_side_by_side(service: Service, own_engine: EngineProcess) -> None:
    mine = library()
    newer = mine.rewritten("newer", str)
    other = Service(new_store(own_engine))
    service.enqueue([job(name="old")]).one().wait()
    with mock.patch.object(store_module, "library", return_value=newer):
        other.enqueue([job(name="new")]).one().wait()
        (first,) = other.take(Take(queues=("q",))).wait().jobs
    (second,) = service.take(Take(queues=("q",))).wait().jobs
    assert (first.name, second.name) == ("old", "new")
    assert second.lease_token == first.lease_token + 1
    names = {entry[entry.index(b"library_name") + 1] for entry in ask(own_engine, "FUNCTION", "LIST")}
    assert names == {mine.name.encode(), newer.name.encode()}
    other.store.close_sync()


def test_a_full_engine_refuses_new_jobs_and_lets_others_end(service: Service, own_engine: EngineProcess) -> None:
    service.enqueue([job(payload=Blob(b"x" * 1_000)) for _ in range(20)]).wait()
    service.stats(["q"]).wait()
    ask(own_engine, "CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(EngineFull, match="maxmemory"):
        service.enqueue([job()]).one().wait()
    jobs = service.take(Take(queues=("q",), most=20)).wait().jobs
    assert len(jobs) == 20
    assert service.stats(["q"]).wait()[0].running == 20
    service.update([Update(id=jobs[0].id, token=jobs[0].lease_token, progress=0.5, note="full")]).one().wait()
    with pytest.raises(EngineFull):
        service.log([Log(jobs[0].id, jobs[0].lease_token, [LogLine(1, "info", "x")])]).one().wait()
    service.cancel([jobs[0].id]).one().wait()
    service.finish([Finish(job.id, job.lease_token) for job in jobs]).wait()
    assert service.stats(["q"]).wait()[0].running == 0
    ask(own_engine, "CONFIG", "SET", "maxmemory", "0")
    assert service.enqueue([job()]).one().wait().status == "queued"


def test_clones_share_one_clock(store: Store) -> None:
    clone = store.clone()
    store.clock_offset_ms = 60_000
    moved = Service(clone).promote().wait().now_ms - Service(store).promote().wait().now_ms
    assert (clone.clock_offset_ms, abs(moved) < 60_000) == (60_000, True)
    clone.clock_offset_ms = 0
    assert store.clock_offset_ms == 0
    clone.close_sync()


def test_a_test_deployment_logs_no_warning(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.open_sync()
    assert caplog.records == []
