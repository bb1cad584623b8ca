"""The faults of the proxy between processes."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from faults.proxy import Proxy, ProxyLink

LIMIT_S = 20.0


def _run_echo_server(server: socket.socket) -> None:
    def echo(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            while data := client.recv(1000):
                client.sendall(data)

    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=echo, args=(client,), daemon=True).start()


@pytest.fixture
def link() -> Iterator[ProxyLink]:
    proxy = Proxy()
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_run_echo_server, args=(server,), daemon=True).start()
        yield proxy.add_link("echo", server.getsockname())
        proxy.close()
        server.shutdown(socket.SHUT_RDWR)


def _connect(link: ProxyLink) -> socket.socket:
    return socket.create_connection(("127.0.0.1", link.port), timeout=LIMIT_S)


def _is_echoed(connection: socket.socket) -> bool:
    connection.sendall(b"hello")
    return connection.recv(10) == b"hello"


def test_through(link: ProxyLink) -> None:
    with _connect(link) as connection:
        assert _is_echoed(connection)


def test_the_reply_to_one_call_is_lost(link: ProxyLink) -> None:
    link.lose_reply_to(b"ell")
    with _connect(link) as connection, pytest.raises(ConnectionResetError):
        _is_echoed(connection)
    assert link.has_lost.wait(LIMIT_S)
    with _connect(link) as connection:
        assert _is_echoed(connection)


def test_cut(link: ProxyLink) -> None:
    with _connect(link) as connection:
        assert _is_echoed(connection)
        link.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(10)
        with pytest.raises(ConnectionResetError), _connect(link) as another:  # or while it connects
            another.recv(10)
        link.restore()
        with _connect(link) as another:
            assert _is_echoed(another)


def test_stall(link: ProxyLink) -> None:
    with _connect(link) as connection:
        assert _is_echoed(connection)
        link.stall()
        connection.sendall(b"hello")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(10)
        link.restore()
        connection.settimeout(LIMIT_S)
        assert connection.recv(10) == b"hello"


def test_slow(link: ProxyLink) -> None:
    with _connect(link) as connection:
        link.slow(0.1)
        began_at_s = time.monotonic()
        assert _is_echoed(connection)
        assert time.monotonic() - began_at_s >= 0.2  # there and back
        link.slow(0.0, bytes_per_s=50)
        began_at_s = time.monotonic()
        assert _is_echoed(connection)
        assert time.monotonic() - began_at_s >= 0.2


def test_drop(link: ProxyLink) -> None:
    with _connect(link) as connection:
        assert _is_echoed(connection)
        link.drop()
        with pytest.raises(ConnectionResetError):
            connection.recv(10)
        with _connect(link) as another:
            assert _is_echoed(another)


def test_a_link_to_a_closed_port() -> None:
    proxy = Proxy()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # it does not listen
        link = proxy.add_link("nowhere", silent.getsockname())
        with pytest.raises(ConnectionResetError), _connect(link) as connection:  # the reset may come while it connects
            connection.recv(10)
        proxy.close()
