"""Number of partitions of a deployment: chosen once, stored in the engine, checked at every later open."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import pytest

from tests.support.engine_process import EngineProcess
from tests.support.namespace import send_command
from windlass.core.errors import EngineFull, EngineUnsuitable
from windlass.core.job import NewJob
from windlass.core.operations import Finish, Take
from windlass.core.partition import hash_tags
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store
from windlass.store.topology import fencing

_namespaces = itertools.count(1)


@pytest.fixture(scope="module", params=["valkey", "redis"])
def some_engine(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    with EngineProcess(request.param) as process:
        yield process


@pytest.fixture
def namespace() -> str:
    return f"p{os.getpid()}-{next(_namespaces)}"


def opened(engine: EngineProcess, namespace: str, **options: Any) -> Store:
    store = Store(parse_url(engine.unix_url), namespace=namespace, patience_s=5.0, **options)
    try:
        store.open_sync()
    finally:
        store.close_sync()
    return store


def test_a_single_engine_has_one_partition_by_default(some_engine: EngineProcess, namespace: str) -> None:
    store = opened(some_engine, namespace)
    assert store.partitions == 1
    assert store.root(0) == f"{namespace}:{{0}}"
    assert opened(some_engine, namespace, partitions=1).partitions == 1


def test_the_number_is_stored_and_every_root_is_marked(some_engine: EngineProcess, namespace: str) -> None:
    store = opened(some_engine, namespace, partitions=5, is_test=True)
    assert [store.root(home) for home in range(5)] == [f"{namespace}:{{{tag}}}" for tag in hash_tags(5)]
    for home in range(5):
        assert send_command(store, "HMGET", store.root(home), "layout", "test") == [b"1", b"1"]
    assert send_command(store, "HGET", store.root(0), "partitions") == b"5"
    assert opened(some_engine, namespace).partitions == 5, "a store without the setting uses the stored number"


def test_a_contradiction_is_refused_and_says_what_to_do(some_engine: EngineProcess, namespace: str) -> None:
    store = opened(some_engine, namespace, partitions=5)
    before = send_command(store, "KEYS", f"{namespace}*")
    with pytest.raises(EngineUnsuitable, match=r"in 5 partitions, but the setting says 4\. .*set partitions to 5"):
        opened(some_engine, namespace, partitions=4)
    assert sorted(send_command(store, "KEYS", f"{namespace}*")) == sorted(before)


def test_a_deployment_from_before_partitions_has_one(some_engine: EngineProcess, namespace: str) -> None:
    store = Store(parse_url(some_engine.unix_url), namespace=namespace)
    send_command(store, "HSET", store.root(0), "layout", "1")
    assert opened(some_engine, namespace).partitions == 1
    with pytest.raises(EngineUnsuitable, match="in 1 partition, "):
        opened(some_engine, namespace, partitions=2)


def test_an_unknown_format_of_any_partition_is_refused(some_engine: EngineProcess, namespace: str) -> None:
    store = opened(some_engine, namespace, partitions=3)
    send_command(store, "HSET", store.root(2), "layout", "99")
    with pytest.raises(EngineUnsuitable, match="has format 99"):
        opened(some_engine, namespace)


def test_concurrent_first_stores_agree(some_engine: EngineProcess, namespace: str) -> None:
    def open_store(number: int) -> int | str:
        try:
            return opened(some_engine, namespace, partitions=number % 2 * 3).partitions
        except EngineUnsuitable as refused:
            return str(refused)

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(open_store, range(16)))
    stored = opened(some_engine, namespace).partitions
    assert stored in (1, 3)
    assert set(answers[::2]) == {stored}, "a store without the setting always opens"
    assert all(answer == 3 or "the setting says 3" in str(answer) for answer in answers[1::2])


@pytest.mark.anyio
async def test_idle_loops_and_takers_over_many_partitions_send_next_to_nothing(
    some_engine: EngineProcess, namespace: str
) -> None:
    from windlass.background import runner

    queues = tuple(f"q{number}" for number in range(20))
    async with Store(parse_url(some_engine.unix_url), namespace=namespace, partitions=8) as store:
        service = Service(store)
        loops = asyncio.create_task(runner.run(service))
        waiting = asyncio.create_task(_take(service, queues))
        while sum(stats.waiting_takers for stats in await service.stats(queues)) < len(queues):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        before = _calls(store)
        await asyncio.sleep(1.0)
        assert _calls(store) - before <= 2, "only our own command is counted"
        loops.cancel()
        waiting.cancel()
        await asyncio.wait({loops, waiting})


async def _take(service: Service, queues: tuple[str, ...]) -> Any:
    return await service.take(Take(queues=queues, wait_ms=30_000))


def _calls(store: Store) -> int:
    found = dict(
        line.split(":", 1) for line in send_command(store, "INFO", "stats").decode().splitlines() if ":" in line
    )
    return int(found["total_commands_processed"])


# Fencing


def test_tokens_leap_when_another_process_serves_the_partition(some_engine: EngineProcess, namespace: str) -> None:
    """As after a failover: the counter may have lost its last steps, so new tokens must exceed all old ones."""
    tokens = []
    for _ in range(2):
        store = Store(parse_url(some_engine.unix_url), namespace=namespace, partitions=2)
        service = Service(store)
        service.enqueue([NewJob(queue="q", name="n")]).wait()
        (job,) = service.take(Take(queues=("q",))).wait().jobs
        tokens.append(job.lease_token)
        home = store.root(store.partition_of_queue("q"))
        send_command(store, "HSET", home, "served_by", "0" * 40)
        send_command(store, "SET", f"{home}:token", "0")  # the engine forgets the token of the last holder
        store.close_sync()
    assert tokens[0] == 1
    assert tokens[1] == fencing.TOKEN_LEAP + 1


def test_a_new_connection_to_the_same_process_skips_no_tokens(some_engine: EngineProcess, namespace: str) -> None:
    tokens = []
    for _ in range(3):
        store = Store(parse_url(some_engine.unix_url), namespace=namespace)
        service = Service(store)
        service.enqueue([NewJob(queue="q", name="n")]).wait()
        tokens += [job.lease_token for job in service.take(Take(queues=("q",))).wait().jobs]
        store.close_sync()
    assert tokens == [1, 2, 3]


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_an_engine_that_comes_back_full_can_be_drained(kind: Literal["valkey", "redis"]) -> None:
    config = ("--appendonly", "yes", "--appendfsync", "always")
    with EngineProcess(kind, config=config) as engine:
        store = Store(parse_url(engine.unix_url))
        service = Service(store)
        service.enqueue([NewJob(queue="q", name="n")]).wait()
        engine.kill()
        engine.start()
        send_command(store, "CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(EngineFull):
            service.enqueue([NewJob(queue="q", name="n")]).wait()
        (job,) = service.take(Take(queues=("q",))).wait().jobs
        assert service.finish([Finish(job.id, job.lease_token)]).wait() == [None]
        store.close_sync()
