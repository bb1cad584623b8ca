"""Connections that threads share: one while calls come one by one, further ones while they come at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.support.fork import run_in_fork
from windlass.store.connection.endpoint import Endpoint
from windlass.store.connection.reconnect import SyncReconnectingConnection
from windlass.store.connection.thread_connections import CONNECTIONS_MAX, ThreadConnections


@pytest.fixture
def connections(endpoint: Endpoint) -> Iterator[ThreadConnections]:
    made = ThreadConnections(lambda: SyncReconnectingConnection(endpoint))
    yield made
    made.close()


def test_one_call_after_another_uses_the_first_connection(connections: ThreadConnections) -> None:
    for _ in range(3):
        with connections.lend() as connection:
            assert connection is connections.first
            assert connection.call("ECHO", "a") == b"a"


def test_calls_at_once_do_not_wait_for_each_other(connections: ThreadConnections) -> None:
    with contextlib.ExitStack() as stack:
        lent = [stack.enter_context(connections.lend()) for _ in range(CONNECTIONS_MAX)]
        assert [connection.call("ECHO", at) for at, connection in enumerate(lent)] == [
            b"%d" % at for at in range(CONNECTIONS_MAX)
        ]
        assert len(set(lent)) == CONNECTIONS_MAX
        further = [stack.enter_context(connections.lend()) for _ in range(2)]
        assert set(further) < set(lent)
        assert further[0] is not further[1]
    with connections.lend() as connection:
        assert connection in lent


def test_a_connection_comes_back_after_an_error(connections: ThreadConnections) -> None:
    with pytest.raises(ZeroDivisionError), connections.lend():
        raise ZeroDivisionError
    with connections.lend() as connection:
        assert connection is connections.first


def test_a_fork_during_calls_can_still_call(connections: ThreadConnections) -> None:
    def call() -> str:
        with connections.lend() as connection:
            return str(connection.call("ECHO", "child"), "utf-8")

    with contextlib.ExitStack() as stack:
        for _ in range(CONNECTIONS_MAX):
            stack.enter_context(connections.lend())
        assert run_in_fork(call) == "child"
