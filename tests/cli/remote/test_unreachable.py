"""An engine or a server that cannot be reached: reported within seconds, with what to check. A command that waits as
long as a program does, 30 s, says something else."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest


def run_unreachable(url: str, *command: str) -> str:
    """Run a command with this URL. Check that it gives up early, with code 75, and return what it reports."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    arguments = [sys.executable, "-m", "windlass", *(command or ("queues", "ls")), "--url", url]
    done = subprocess.run(arguments, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (75, ""), done
    assert "WINDLASS_PATIENCE=30s waits longer" in done.stderr
    return done.stderr


@contextlib.contextmanager
def listener(answer: bytes | None) -> Iterator[str]:
    """Listen on a port, and yield its address. Each connection gets the answer; None: nothing at all."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        connections: list[socket.socket] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connections.append(server.accept()[0])
                    if answer is not None:
                        connections[-1].sendall(answer)
                        connections[-1].close()

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in connections:
            connection.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://127.0.0.1:1/0", "Cannot reach the engine at redis://127.0.0.1:1/0: Connection refused."),
        ("redis+cluster://127.0.0.1:1,127.0.0.1:2", "Cannot reach the engine"),
        ("redis+sentinel://127.0.0.1:1,127.0.0.1:2/main", "Cannot reach the engine"),
        ("http://127.0.0.1:1", "Cannot reach the server at http://127.0.0.1:1: Connection refused."),
    ],
)
def test_it_is_reported_soon_and_says_what_to_check(url: str, words: str) -> None:
    said = run_unreachable(url, "enqueue", "mail", "send")
    assert words in said
    assert "Check the address and the port" in said
    assert ("windlass serve" in said) == url.startswith("http")


def test_a_missing_socket_of_an_engine(tmp_path: Path) -> None:
    said = run_unreachable(f"unix://{tmp_path}/none.sock")
    assert "No such file or directory. Check the path of the socket" in said


def test_a_port_that_accepts_and_never_answers() -> None:
    with listener(None) as place:
        urls = [f"redis://{place}", f"redis+sentinel://{place}/main", f"redis+cluster://{place}", f"http://{place}"]
        with ThreadPoolExecutor() as pool:  # side by side: each waits for seconds
            for url, said in zip(urls, pool.map(run_unreachable, urls), strict=True):
                assert f"{place.partition(':')[2]}" in said, url
                assert "no answer" in said, url


OTHER_PROTOCOLS = [
    ("redis", b"HTTP/1.1 400 Bad Request\r\n\r\n", "what answers there is no Redis or Valkey"),
    ("redis", b"", "an engine with TLS has a URL with rediss://"),
    ("rediss", b"-ERR unknown command\r\n", "no TLS there (an engine without TLS has a URL with redis://)"),
    ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "no TLS there (a server without TLS has a URL with http://)"),
    ("http", b"430 Unrecognized command\r\n", "what answers there is no HTTP server"),
    ("http", b"", "a server with TLS has a URL with https://"),
]


def test_another_protocol_is_named() -> None:
    with contextlib.ExitStack() as listeners, ThreadPoolExecutor() as pool:
        urls = [f"{scheme}://{listeners.enter_context(listener(answer))}" for scheme, answer, _ in OTHER_PROTOCOLS]
        for (scheme, answer, words), said in zip(OTHER_PROTOCOLS, pool.map(run_unreachable, urls), strict=True):
            assert words in said, (scheme, answer)
