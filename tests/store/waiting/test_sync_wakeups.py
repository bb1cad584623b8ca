"""Blocking callers: they reuse connections, and read only their own wakeups."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.service.helpers import new, put, take
from tests.support.engine_process import EngineProcess
from windlass.core.job import Blob, Ending
from windlass.core.operations import Finish
from windlass.core.states import State
from windlass.service import Service
from windlass.store.connection import idle_connections, thread_connections
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.store import Store
from windlass.store.waiting.wakeups import Listener

LIMIT_S = 20.0


@pytest.fixture
def control(engine: EngineProcess) -> Iterator[SyncConnection]:
    connection = SyncConnection.open(parse_url(engine.unix_url))
    yield connection
    connection.close()


def opened(control: SyncConnection) -> int:
    """Return how many connections the engine has accepted so far."""
    (line,) = (line for line in control.call("INFO", "stats").splitlines() if line.startswith(b"total_connections_rec"))
    return int(line.partition(b":")[2])


def clients(control: SyncConnection, command: bytes = b"") -> int:
    """Return how many connections are open; with a command, those whose last command it was."""
    return sum(b"cmd=" + command in line for line in control.call("CLIENT", "LIST").splitlines())


def until(condition: Callable[[], Any]) -> None:
    give_up_at_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < give_up_at_s
        time.sleep(0.002)


def blocked(control: SyncConnection) -> int:
    (line,) = (line for line in control.call("INFO", "clients").splitlines() if line.startswith(b"blocked_clients"))
    return int(line.partition(b":")[2])


@contextlib.contextmanager
def awaited_results(service: Service, control: SyncConnection, count: int = 1) -> Iterator[None]:
    """Await the ends of jobs in threads, as `.result()` does; finish the jobs once all threads are blocked."""
    jobs = put(service, *(new(result_ttl_ms=60_000) for _ in range(count)))
    endings: list[Ending | None] = []
    threads = [
        threading.Thread(
            target=lambda job_id=job.id: endings.append(service.result(job_id, wait_ms=60_000).wait()), daemon=True
        )
        for job in jobs
    ]
    for thread in threads:
        thread.start()
    until(lambda: blocked(control) == count)
    yield
    for job in take(service, most=count):
        service.finish([Finish(job.id, job.lease_token, Blob(b"1"))]).one().wait()
    for thread in threads:
        thread.join(LIMIT_S)
    assert endings == [Ending(state=State.FINISHED, result=Blob(b"1"))] * count


@pytest.fixture(autouse=True)
def one_connection_for_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests count connections, and calls of several threads may open further ones."""
    monkeypatch.setattr(thread_connections, "CONNECTIONS_MAX", 1)


def test_two_results_use_one_connection(service: Service, control: SyncConnection) -> None:
    with awaited_results(service, control):
        pass
    before = opened(control)
    for _ in range(3):
        with awaited_results(service, control):
            pass
    assert opened(control) == before


def test_a_take_and_a_result_use_one_connection(service: Service, control: SyncConnection) -> None:
    with awaited_results(service, control):
        pass
    before = opened(control)
    assert take(service, wait_ms=20) == []
    with awaited_results(service, control):
        pass
    assert opened(control) == before


def test_callers_at_the_same_time_have_a_connection_each(service: Service, control: SyncConnection) -> None:
    for _ in range(2):
        with awaited_results(service, control, 3):
            before = opened(control)
    with awaited_results(service, control, 3):
        pass
    assert opened(control) == before


def test_only_some_idle_connections_are_kept(
    service: Service, control: SyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_connections, "KEPT_MAX", 1)
    with awaited_results(service, control):
        pass
    before = clients(control)
    with awaited_results(service, control, 4):
        assert clients(control) == before + 3
    until(lambda: clients(control) == before)


def test_a_connection_that_was_long_idle_is_not_used_again(
    service: Service, control: SyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle_connections, "IDLE_MAX_S", -1.0)
    with awaited_results(service, control):
        pass
    before = opened(control)
    with awaited_results(service, control):
        pass
    assert opened(control) == before + 1
    until(lambda: clients(control, b"blpop") == 0)


def test_closing_the_store_closes_them(service: Service, store: Store, control: SyncConnection) -> None:
    store.open_sync()
    before = clients(control)
    with awaited_results(service, control, 2):
        pass
    assert clients(control, b"blpop") == 2
    store.close_sync()
    until(lambda: clients(control) <= before)


def test_a_caller_that_outlives_the_store_leaves_no_connection(
    service: Service, store: Store, control: SyncConnection
) -> None:
    store.open_sync()
    lent = store._pool.blocking_connection(0)
    with lent as connection:
        connection.call("PING")
        store.close_sync()
        assert clients(control) == 2
    until(lambda: clients(control) == 1)


class Interrupted(BaseException):
    """Like KeyboardInterrupt, which would end the test run."""


def test_an_interrupted_wait_gives_up_its_connection(service: Service, store: Store, control: SyncConnection) -> None:
    """The reply to its blocking read would be taken for the reply to the next one."""

    def interrupt(*_signal: object) -> None:
        if blocked(control) == 0:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            return
        raise Interrupted

    with awaited_results(service, control):
        pass
    before = opened(control)
    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(Interrupted):
            take(service, wait_ms=60_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    until(lambda: clients(control, b"blpop") == 0)
    assert store._pool._idle.take(0) is None
    with awaited_results(service, control):
        assert opened(control) == before + 1


def test_a_killed_idle_connection_is_replaced(service: Service, control: SyncConnection) -> None:
    assert take(service, wait_ms=20) == []
    control.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    with awaited_results(service, control):
        pass


def test_a_message_for_an_earlier_caller_wakes_no_later_one(store: Store, control: SyncConnection) -> None:
    store.open_sync()
    earlier, later = store.wakeups.new_sync(0), store.wakeups.new_sync(0)
    listener = Listener()
    assert not earlier.wait(listener, 0.001)
    control.call("RPUSH", f"{store.root(0)}:bell:{earlier.name}", "Qq\1")
    assert not later.wait(listener, 0.02)
    assert earlier.wait(listener, 0.02)
    assert listener.woken_place == ("q", "")
