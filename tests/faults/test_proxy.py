"""The proxy between processes: what it is told to do to connections, it does."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from faults.proxy import Link, Proxy

LIMIT_S = 20.0


def _echo(server: socket.socket) -> None:
    def answer(one: socket.socket) -> None:
        with one, contextlib.suppress(OSError):
            while data := one.recv(1000):
                one.sendall(data)

    while True:
        try:
            one, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=answer, args=(one,), daemon=True).start()


@pytest.fixture
def link() -> Iterator[Link]:
    proxy = Proxy()
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_echo, args=(server,), daemon=True).start()
        yield proxy.link("echo", server.getsockname())
        proxy.close()
        server.shutdown(socket.SHUT_RDWR)


def _open(link: Link) -> socket.socket:
    return socket.create_connection(("127.0.0.1", link.port), timeout=LIMIT_S)


def _answers(one: socket.socket) -> bool:
    one.sendall(b"hello")
    return one.recv(10) == b"hello"


def test_through(link: Link) -> None:
    with _open(link) as one:
        assert _answers(one)


def test_the_reply_to_one_call_is_lost(link: Link) -> None:
    link.lose_reply_to(b"ell")
    with _open(link) as one, pytest.raises(ConnectionResetError):
        _answers(one)
    assert link.has_lost.wait(LIMIT_S)
    with _open(link) as one:
        assert _answers(one)


def test_cut(link: Link) -> None:
    with _open(link) as one:
        assert _answers(one)
        link.cut()
        with pytest.raises(ConnectionResetError):
            one.recv(10)
        with pytest.raises(ConnectionResetError), _open(link) as another:  # or while it connects
            another.recv(10)
        link.mend()
        with _open(link) as another:
            assert _answers(another)


def test_stall(link: Link) -> None:
    with _open(link) as one:
        assert _answers(one)
        link.stall()
        one.sendall(b"hello")
        one.settimeout(0.2)
        with pytest.raises(TimeoutError):
            one.recv(10)
        link.mend()
        one.settimeout(LIMIT_S)
        assert one.recv(10) == b"hello"


def test_slow(link: Link) -> None:
    with _open(link) as one:
        link.slow(0.1)
        began_at_s = time.monotonic()
        assert _answers(one)
        assert time.monotonic() - began_at_s >= 0.2  # there and back
        link.slow(0.0, bytes_per_s=50)
        began_at_s = time.monotonic()
        assert _answers(one)
        assert time.monotonic() - began_at_s >= 0.2


def test_drop(link: Link) -> None:
    with _open(link) as one:
        assert _answers(one)
        link.drop()
        with pytest.raises(ConnectionResetError):
            one.recv(10)
        with _open(link) as another:
            assert _answers(another)


def test_nobody_there() -> None:
    proxy = Proxy()
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # its own, and it does not listen
        link = proxy.link("nowhere", deaf.getsockname())
        with pytest.raises(ConnectionResetError), _open(link) as one:  # the reset may be there before the connection is
            one.recv(10)
        proxy.close()
