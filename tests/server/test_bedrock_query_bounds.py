"""Tests of Bedrock queries against a real `windlass serve`: no query outlives its time limit or the server."""

from __future__ import annotations

import os
import resource
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engine_process import EngineProcess
from tests.support.server_process import ServerProcess, is_alive, store_options, wait_until
from tests.support.stores import make_store
from windlass.dialects.bedrock.query.child import NICENESS
from windlass.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
ENDLESS = b"Query: WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT COUNT(*) FROM c;\n\n"
NICEST = 19  # the kernel's bound
LONG = "3600s"  # a time limit that no test reaches


@pytest.fixture
def store(engine: EngineProcess) -> Iterator[Store]:
    store = make_store(engine)
    store.open_sync()
    yield store
    store.close_sync()


def ask(server: ServerProcess, request: bytes) -> socket.socket:
    connection = socket.create_connection(server.bedrock, timeout=60)
    connection.sendall(request)
    return connection


def answer(connection: socket.socket) -> bytes:
    """Read until the server closes its side."""
    with connection:
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def has_begun(pid: int) -> bool:
    """Whether the process has begun a query: the last thing it does before is to limit the size of its files."""
    soft, _ = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    return soft != resource.getrlimit(resource.RLIMIT_FSIZE)[0]


def niceness_of(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


def start_endless(server: ServerProcess, count: int) -> tuple[list[socket.socket], list[int]]:
    """Send queries that never end, and wait until each has its process."""
    connections = [ask(server, ENDLESS) for _ in range(count)]
    wait_until(lambda: len(children_of(server.pid)) == count)
    pids = children_of(server.pid)
    wait_until(lambda: all(map(has_begun, pids)))
    return connections, pids


@pytest.mark.parametrize("function", ["printf", "format"])
def test_a_query_that_pads_for_ever_is_refused_and_blocks_no_other(store: Store, function: str) -> None:
    query = f"Query: select length({function}('%.*c',2000000000,'x'));\n\n".encode()
    with ServerProcess(store_options(store)) as server:
        bad = [ask(server, query) for _ in range(2)]
        assert answer(ask(server, b"Query: select 1;\n\n")).endswith(b"\r\n\r\n[[1]]")
        for connection in bad:
            head = answer(connection)
            assert head.startswith(b"502 Query aborted\r\n")
            assert b"error: A text or blob of the query has more than 8,388,608 bytes" in head
        server.signal()
        assert server.wait() == 0


def test_queries_that_hang_block_neither_others_nor_the_stop(store: Store) -> None:
    with ServerProcess(store_options(store), bedrock_query_timeout=LONG) as server:
        bad, pids = start_endless(server, 2)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)  # stuck where no progress handler runs
        assert answer(ask(server, b"Query: select 1;\n\n")).endswith(b"\r\n\r\n[[1]]")
        pids = children_of(server.pid)
        server.signal(signal.SIGTERM)
        for connection in bad:
            head = answer(connection)
            assert head.startswith(b"502 Query aborted\r\n")
            assert b"error: The server is stopping" in head
        assert server.wait() == 0
        wait_until(lambda: not any(map(is_alive, pids)))
        assert "Traceback" not in server.errors


def test_a_server_that_is_killed_leaves_no_query_behind(store: Store) -> None:
    with ServerProcess(store_options(store), bedrock_query_timeout=LONG) as server:
        (connection,), pids = start_endless(server, 1)
        with connection:
            server.signal(signal.SIGKILL)
            assert server.wait() == -signal.SIGKILL
        wait_until(lambda: not any(map(is_alive, pids)))


def test_a_process_is_started_by_the_first_query_and_used_again(store: Store) -> None:
    with ServerProcess(store_options(store)) as server:
        answer(ask(server, b"CreateJob\nname: a\n\nPing\n\n"))
        assert children_of(server.pid) == []
        pids = set()
        for _ in range(3):
            assert answer(ask(server, b"Query: select name from jobs;\n\n")).endswith(b'[["a"]]')
            pids |= set(children_of(server.pid))
        (pid,) = pids
        assert niceness_of(pid) == min(NICEST, niceness_of(server.pid) + NICENESS)


def test_a_query_ends_when_its_client_disconnects(store: Store) -> None:
    with ServerProcess(store_options(store), bedrock_query_timeout=LONG) as server:
        (connection,), pids = start_endless(server, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()  # with a reset: a half-closed connection may belong to a client that still reads
        wait_until(lambda: not any(map(is_alive, pids)))
