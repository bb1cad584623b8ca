"""Reconnecting connections against killed, frozen and demoted engines: which calls are repeated."""

import asyncio
import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.connections import open_connection, open_reconnecting, open_sync_connection, open_sync_reconnecting
from tests.support.engine_process import EngineProcess
from tests.support.fork import run_in_fork
from tests.support.scripted_engine import scripted_engine
from windlass.core.errors import EngineUnavailable
from windlass.store.connection.connection import CommandArgs, ConnectionLost, EngineReplyError
from windlass.store.connection.endpoint import Endpoint, parse_url
from windlass.store.connection.reconnect import SyncReconnectingConnection

SOON_S = 0.1
LATE_S = 5.0


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.mark.anyio
async def test_connection_recovers_after_a_kill_and_repeats_its_calls(engine: EngineProcess) -> None:
    async with open_reconnecting(parse_url(engine.url)) as connection:
        await connection.call("SET", "kept", "yes")
        waiting = [asyncio.create_task(connection.call("BLPOP", "list", 0)) for _ in range(2)]
        await asyncio.sleep(0)
        engine.kill()
        late = asyncio.create_task(connection.call("GET", "kept"))
        await asyncio.sleep(0.02)
        assert not late.done()
        engine.start()
        async with open_connection(parse_url(engine.url)) as other:
            await other.call("RPUSH", "list", "a", "b")
        assert sorted([(await task)[1] for task in waiting]) == [b"a", b"b"]
        assert await late == b"yes"


def test_sync_connection_recovers_after_a_kill(engine: EngineProcess) -> None:
    with (
        contextlib.closing(SyncReconnectingConnection(parse_url(engine.url))) as connection,
        ThreadPoolExecutor(4) as threads,
    ):
        connection.call("SET", "kept", "yes")
        engine.kill()
        late = [threads.submit(connection.call, "GET", "kept") for _ in range(4)]
        time.sleep(0.02)
        assert not any(call.done() for call in late)
        engine.start()
        assert [call.result(LATE_S) for call in late] == [b"yes"] * 4


@pytest.mark.anyio
async def test_before_connect_restarts_the_engine_and_callers_share_the_connection(
    engine: EngineProcess,
) -> None:
    engine.kill()
    starts = 0

    async def restart() -> None:
        nonlocal starts
        starts += 1
        engine.start()

    async with open_reconnecting(parse_url(engine.unix_url), before_connect=restart) as connection:
        assert await asyncio.gather(*(connection.call("PING") for _ in range(50))) == [b"PONG"] * 50
        ids = {await connection.call("CLIENT", "ID") for _ in range(3)}
        assert (starts, len(ids)) == (1, 1)


def test_sync_before_connect_restarts_the_engine(engine: EngineProcess) -> None:
    engine.kill()
    endpoint = parse_url(engine.unix_url)
    starts = 0

    def restart() -> None:
        nonlocal starts
        starts += 1
        engine.start()

    connection = SyncReconnectingConnection(endpoint, before_connect=restart)
    with contextlib.closing(connection), ThreadPoolExecutor(8) as threads:
        assert list(threads.map(connection.call, ["PING"] * 50)) == [b"PONG"] * 50
        assert starts == 1


@pytest.mark.anyio
async def test_connection_survives_a_frozen_engine(engine: EngineProcess) -> None:
    connects = 0

    async def thaw_at_the_second_connect() -> None:
        nonlocal connects
        connects += 1
        if connects == 2:
            engine.thaw()

    endpoint = parse_url(engine.url)
    async with open_reconnecting(
        endpoint, before_connect=thaw_at_the_second_connect, reply_limit_s=SOON_S
    ) as connection:
        await connection.call("PING")
        assert await connection.call("BLPOP", "nothing", 0.15, timeout_s=LATE_S) is None
        engine.freeze()
        assert await connection.call("ECHO", "back") == b"back"
        assert connects == 2


@pytest.mark.anyio
async def test_connection_gives_up_when_its_patience_ends(engine: EngineProcess) -> None:
    engine.kill()
    endpoint = parse_url(engine.url)
    async with open_reconnecting(endpoint, patience_s=SOON_S) as connection:
        with pytest.raises(EngineUnavailable, match=r"for 0\.1 s.*Check that it runs") as refused:
            await connection.call("PING")
    sync_connection = SyncReconnectingConnection(endpoint, patience_s=SOON_S)
    with contextlib.closing(sync_connection), pytest.raises(EngineUnavailable, match="Check that it runs"):
        sync_connection.call("PING")
    assert str(endpoint) in str(refused.value)


def test_threads_share_a_failed_connect(engine: EngineProcess) -> None:
    attempts = 0

    def fail_slowly() -> None:
        nonlocal attempts
        attempts += 1
        time.sleep(0.05)  # the other threads wait for the lock
        raise EngineUnavailable("no engine today")

    connection = SyncReconnectingConnection(parse_url(engine.url), before_connect=fail_slowly, patience_s=0)
    with ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(connection.call, "PING") for _ in range(8)]
        assert all("no engine today" in str(call.exception(LATE_S)) for call in calls)
    assert attempts == 1


@pytest.mark.anyio
async def test_readonly_is_repeated_on_a_fresh_connection(engine: EngineProcess) -> None:
    async with (
        open_reconnecting(parse_url(engine.url)) as connection,
        open_connection(parse_url(engine.unix_url)) as operator,
    ):
        old_id = await connection.call("CLIENT", "ID")
        await operator.call("REPLICAOF", "127.0.0.1", 1)
        write = asyncio.create_task(connection.call("SET", "k", "v"))
        await asyncio.sleep(0.02)
        assert not write.done()
        await operator.call("REPLICAOF", "NO", "ONE")
        assert await write == b"OK"
        assert await connection.call("CLIENT", "ID") != old_id


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["LOADING", "READONLY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "UNBLOCKED"])
async def test_transient_errors_are_repeated(kind: str) -> None:
    refusal = f"-{kind} not now\r\n".encode()
    with scripted_engine(refusal, refusal, b"+async\r\n", refusal, b"+sync\r\n") as endpoint:
        async with open_reconnecting(endpoint) as connection:
            assert await connection.call("PING") == b"async"
        with contextlib.closing(SyncReconnectingConnection(endpoint)) as sync_connection:
            assert sync_connection.call("PING") == b"sync"


@pytest.mark.anyio
async def test_other_error_replies_are_not_repeated(endpoint: Endpoint) -> None:
    async with open_reconnecting(endpoint) as connection:
        with pytest.raises(EngineReplyError, match="unknown command"):
            await connection.call("NONSENSE")
    sync_connection = SyncReconnectingConnection(endpoint)
    with contextlib.closing(sync_connection), pytest.raises(EngineReplyError, match="unknown command"):
        sync_connection.call("NONSENSE")


@pytest.mark.anyio
async def test_closed_connection_ends_its_calls_and_accepts_no_more(engine: EngineProcess) -> None:
    endpoint = parse_url(engine.url)
    async with open_reconnecting(endpoint) as connection:
        await connection.call("PING")
        waiting = asyncio.create_task(connection.call("BLPOP", "nothing", 0))
        await asyncio.sleep(0)
        connection.close()
        with pytest.raises(ConnectionLost):
            await waiting
        with pytest.raises(ConnectionLost, match="connection to the engine is closed"):
            await connection.call("PING")
    engine.freeze()
    async with open_reconnecting(endpoint) as connecting:
        waiting = asyncio.create_task(connecting.call("PING"))
        await asyncio.sleep(0.01)
        connecting.close()
        with pytest.raises(ConnectionLost, match="while it connected"):
            await waiting
    sync_connection = SyncReconnectingConnection(endpoint)
    sync_connection.close()
    with pytest.raises(ConnectionLost):
        sync_connection.call("PING")


@pytest.mark.anyio
async def test_cancelled_caller_does_not_end_the_connect_of_others(engine: EngineProcess) -> None:
    gate = asyncio.Event()

    async def wait_at_the_gate() -> None:
        await gate.wait()

    async with open_reconnecting(parse_url(engine.url), before_connect=wait_at_the_gate) as connection:
        first, second = (asyncio.create_task(connection.call("PING")) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        gate.set()
        assert await second == b"PONG"
        assert first.cancelled()


def test_sync_connection_opens_its_own_connection_after_a_fork(endpoint: Endpoint) -> None:
    with contextlib.closing(SyncReconnectingConnection(endpoint)) as connection:
        parents_id = connection.call("CLIENT", "ID")
        with connection._lock:  # as if another thread of the parent were in a call
            childs_id = run_in_fork(lambda: str(connection.call("CLIENT", "ID")))
        assert int(childs_id) > parents_id
        assert connection.call("CLIENT", "ID") == parents_id


# Groups of commands


@pytest.mark.anyio
async def test_commands_together_are_answered_in_order_by_one_connection(endpoint: Endpoint) -> None:
    commands: list[CommandArgs] = [("CLIENT", "ID"), ("ECHO", "x"), ("CLIENT", "ID")]
    async with open_reconnecting(endpoint) as connection:
        first, echo, last = await connection.call_together(commands)
        assert (echo, first) == (b"x", last)
        assert await connection.call_together([("ECHO", "alone")]) == [b"alone"]
        assert await connection.call_together([]) == []
    with open_sync_reconnecting(endpoint) as sync_connection:
        first, echo, last = sync_connection.call_together(commands)
        assert (echo, first) == (b"x", last)
        assert sync_connection.call_together([("ECHO", "alone")]) == [b"alone"]
        assert sync_connection.call_together([]) == []


@pytest.mark.anyio
async def test_groups_of_many_tasks_and_threads_do_not_mix(endpoint: Endpoint) -> None:
    groups: list[list[CommandArgs]] = [[("ECHO", f"{n} a"), ("ECHO", f"{n} b")] for n in range(200)]
    expected = [[b"%d a" % n, b"%d b" % n] for n in range(200)]
    async with open_reconnecting(endpoint) as connection:
        assert await asyncio.gather(*(connection.call_together(group) for group in groups)) == expected
    with open_sync_reconnecting(endpoint) as sync_connection, ThreadPoolExecutor(8) as threads:
        assert list(threads.map(sync_connection.call_together, groups)) == expected


@pytest.mark.anyio
@pytest.mark.parametrize(
    "commands",
    [
        [("NONSENSE",), ("ECHO", "x")],
        [("ECHO", "x"), ("NONSENSE",)],
        [("NONSENSE",), ("EVALSHA", "0" * 40, 0)],
    ],
    ids=["first", "later", "both"],
)
async def test_the_first_error_of_a_group_is_raised_and_the_connection_stays_usable(
    endpoint: Endpoint, commands: list[CommandArgs]
) -> None:
    async with open_reconnecting(endpoint) as connection:
        with pytest.raises(EngineReplyError, match="unknown command"):
            await connection.call_together(commands)
        assert await connection.call("ECHO", "next") == b"next"
    with open_sync_reconnecting(endpoint) as sync_connection:
        with pytest.raises(EngineReplyError, match="unknown command"):
            sync_connection.call_together(commands)
        assert sync_connection.call("ECHO", "next") == b"next"


@pytest.mark.anyio
async def test_killed_engine_repeats_the_group(engine: EngineProcess) -> None:
    """The engine is killed after it answered the first command, while the second one waits in it."""
    endpoint = parse_url(engine.url)
    async with open_reconnecting(endpoint) as connection, asyncio.timeout(LATE_S):
        group = asyncio.create_task(connection.call_together([("INCR", "runs"), ("BLPOP", "list", 0)]))
        async with open_connection(endpoint) as other:
            while await other.call("GET", "runs") != b"1":
                assert not group.done()
        engine.kill()
        engine.start()
        async with open_connection(endpoint) as other:
            await other.call("RPUSH", "list", "a")
        assert await group == [2, [b"list", b"a"]]


def test_killed_engine_repeats_the_group_of_a_thread(engine: EngineProcess) -> None:
    endpoint = parse_url(engine.url)
    with open_sync_reconnecting(endpoint) as connection, ThreadPoolExecutor(1) as threads:
        group = threads.submit(connection.call_together, [("INCR", "runs"), ("BLPOP", "list", 0)])
        with open_sync_connection(endpoint) as other:
            while other.call("GET", "runs") != b"1":
                assert not group.done()
        engine.kill()
        engine.start()
        with open_sync_connection(endpoint) as other:
            other.call("RPUSH", "list", "a")
        assert group.result(LATE_S) == [2, [b"list", b"a"]]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["LOADING", "READONLY"])
async def test_transient_error_of_the_first_command_repeats_the_group(kind: str) -> None:
    refusal = f"-{kind} not now\r\n+dropped\r\n".encode()
    commands: list[CommandArgs] = [("PING",), ("PING",)]
    with scripted_engine(refusal, b"+1\r\n+2\r\n", refusal, b"+3\r\n+4\r\n") as endpoint:
        async with open_reconnecting(endpoint) as connection:
            assert await connection.call_together(commands) == [b"1", b"2"]
        with open_sync_reconnecting(endpoint) as sync_connection:
            assert sync_connection.call_together(commands) == [b"3", b"4"]


@pytest.mark.anyio
async def test_transient_error_of_a_later_command_is_raised() -> None:
    answer = b"+done\r\n-UNBLOCKED not now\r\n"
    commands: list[CommandArgs] = [("PING",), ("PING",)]
    with scripted_engine(answer, answer) as endpoint:
        async with open_reconnecting(endpoint) as connection:
            with pytest.raises(EngineReplyError, match="UNBLOCKED"):
                await connection.call_together(commands)
        with open_sync_reconnecting(endpoint) as sync_connection, pytest.raises(EngineReplyError, match="UNBLOCKED"):
            sync_connection.call_together(commands)


@pytest.mark.anyio
async def test_group_to_a_frozen_engine_is_repeated(engine: EngineProcess) -> None:
    commands: list[CommandArgs] = [("ECHO", "a"), ("ECHO", "b")]

    async def thaw() -> None:
        engine.thaw()

    endpoint = parse_url(engine.url)
    async with open_reconnecting(endpoint, before_connect=thaw) as connection:
        old_id = await connection.call("CLIENT", "ID")
        engine.freeze()
        assert await connection.call_together(commands, SOON_S) == [b"a", b"b"]
        assert await connection.call("CLIENT", "ID") != old_id
    with open_sync_reconnecting(endpoint, before_connect=engine.thaw) as sync_connection:
        old_id = sync_connection.call("CLIENT", "ID")
        engine.freeze()
        assert sync_connection.call_together(commands, SOON_S) == [b"a", b"b"]
        assert sync_connection.call("CLIENT", "ID") != old_id


@pytest.mark.anyio
async def test_waitaof_confirms_the_write_before_it(engine: EngineProcess) -> None:
    commands: list[CommandArgs] = [("SET", "k", "v"), ("WAITAOF", 1, 0, 5_000)]
    async with open_reconnecting(parse_url(engine.unix_url)) as connection:
        assert await connection.call_together(commands) == [b"OK", [1, 0]]
    with open_sync_reconnecting(parse_url(engine.unix_url)) as sync_connection:
        assert sync_connection.call_together(commands) == [b"OK", [1, 0]]
