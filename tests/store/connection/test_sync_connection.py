"""The sync connection against killed and frozen engines, and across a fork."""

import os
import signal
from typing import Any

import pytest

from tests.support.connections import open_sync_connection
from tests.support.engine_process import EngineProcess
from tests.support.fork import run_in_fork
from tests.support.scripted_engine import scripted_engine
from windlass.core.errors import EngineUnavailable
from windlass.store.connection.connection import ConnectionLost, EngineReplyError
from windlass.store.connection.endpoint import Endpoint, parse_url
from windlass.store.connection.sync_connection import SyncConnection

SOON_S = 0.1


def test_sync_calls_and_pipeline(endpoint: Endpoint) -> None:
    with open_sync_connection(endpoint) as connection:
        assert connection.call("ECHO", "é") == "é".encode()
        with pytest.raises(EngineReplyError) as refused:
            connection.call("EVALSHA", "0" * 40, 0)
        assert refused.value.kind == "NOSCRIPT"
        commands: list[Any] = [("ECHO", number) for number in range(10_000)]
        assert connection.pipeline(commands) == [b"%d" % number for number in range(10_000)]
        first, second = connection.pipeline([("NONSENSE",), ("PING",)])
        assert isinstance(first, EngineReplyError)
        assert second == b"PONG"


def test_large_values_pass_the_sync_connection(endpoint: Endpoint) -> None:
    with open_sync_connection(endpoint) as connection:
        large = os.urandom(3_000_000)
        assert connection.pipeline([("ECHO", large)] * 3) == [large] * 3


def test_sync_connect_to_a_frozen_engine_has_a_limit(engine: EngineProcess) -> None:
    engine.freeze()
    with pytest.raises(EngineUnavailable, match=r"within 0\.1 s"):
        SyncConnection.open(parse_url(engine.url), timeout_s=SOON_S)


def test_sync_read_has_a_limit(engine: EngineProcess) -> None:
    with open_sync_connection(parse_url(engine.url)) as connection:
        engine.freeze()
        with pytest.raises(ConnectionLost, match=r"no reply within 0\.1 s"):
            connection.call("PING", timeout_s=SOON_S)
        engine.thaw()
        with pytest.raises(ConnectionLost):
            connection.call("PING")


def test_sync_connection_notices_a_killed_engine(engine: EngineProcess) -> None:
    with open_sync_connection(parse_url(engine.unix_url)) as connection:
        engine.kill()
        with pytest.raises(ConnectionLost):
            connection.call("PING")
        assert connection.is_closed


def test_interrupted_sync_call_does_not_leave_its_reply_to_the_next(endpoint: Endpoint) -> None:
    def interrupt(*_: object) -> None:
        raise InterruptedByTest

    with open_sync_connection(endpoint) as connection:
        previous = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(InterruptedByTest):
                connection.call("BLPOP", "nothing", 0.05)
        finally:
            signal.signal(signal.SIGALRM, previous)
        with pytest.raises(ConnectionLost):
            connection.call("PING")


class InterruptedByTest(BaseException):
    pass


def test_garbage_ends_the_sync_connection() -> None:
    with (
        scripted_engine(b"garbage\r\n") as endpoint,
        open_sync_connection(endpoint) as connection,
        pytest.raises(ConnectionLost, match="Protocol error"),
    ):
        connection.call("PING")


def test_forked_child_does_not_use_its_parents_connection(endpoint: Endpoint) -> None:
    with open_sync_connection(endpoint) as connection:

        def call() -> str:
            try:
                return repr(connection.call("PING"))
            except ConnectionLost as lost:
                return str(lost)

        assert "before a fork" in run_in_fork(call)
        assert connection.call("ECHO", "parent") == b"parent"
