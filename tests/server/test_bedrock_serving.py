"""Tests of the Bedrock port of a real `windlass serve`."""

from __future__ import annotations

import resource
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.engine_process import EngineProcess
from tests.support.server_process import COMMAND, ServerProcess, environment, store_options, wait_until
from tests.support.stores import make_store
from windlass.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
PONG = b"200 OK\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def store(engine: EngineProcess) -> Iterator[Store]:
    """Store that is opened before any server, so that its deployment is a test deployment."""
    store = make_store(engine)
    store.open_sync()
    yield store
    store.close_sync()


def send_bedrock(server: ServerProcess, data: bytes) -> bytes:
    """Send data, half-close the connection and return the whole answer."""
    with socket.create_connection(server.bedrock, timeout=20) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_bedrock_is_served_beside_http_and_stops_with_it(store: Store) -> None:
    with ServerProcess(store_options(store)) as server:
        assert send_bedrock(server, b"Ping\n\nPing\r\n\r\n") == PONG * 2
        assert httpx.get(f"{server.url}/healthz").status_code == 200
        with socket.create_connection(server.bedrock, timeout=20) as idle:
            server.signal(signal.SIGTERM)
            assert idle.recv(10) == b""
        assert server.wait() == 0
        assert "Traceback" not in server.errors


def test_several_processes_share_the_port(store: Store) -> None:
    with ServerProcess([*store_options(store), "--workers", "2"]) as server:
        wait_until(lambda: len(server.children) == 2)
        assert [send_bedrock(server, b"Ping\n\n") for _ in range(20)] == [PONG] * 20
        server.signal()
        assert server.wait() == 0


def test_commands_without_a_token_are_refused_if_tokens_exist(store: Store) -> None:
    token = "correct-horse-battery-staple"  # noqa: S105
    with ServerProcess([*store_options(store), "--host", "0.0.0.0"], token=token) as server:  # noqa: S104
        assert send_bedrock(server, b"Status\n\n").startswith(b"401 Unauthorized\r\n")
        assert send_bedrock(server, b"Status\nAuthorization: Bearer %b\n\n" % token.encode()).startswith(b"200 OK\r\n")


def test_it_can_be_switched_off(store: Store) -> None:
    with ServerProcess(store_options(store), bedrock_port="off") as server:
        assert "bedrock     off\n" in server.output
        assert httpx.get(f"{server.url}/healthz").status_code == 200


def test_a_port_that_is_in_use_is_one_sentence(store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [*COMMAND, *store_options(store), "--bedrock-port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment(), check=False)
    assert done.returncode == 2
    assert done.stderr == (
        f"windlass: Port {port} of 127.0.0.1 is in use; stop what listens there, or choose another port with "
        "--bedrock-port or WINDLASS_BEDROCK_PORT (`off` for none).\n"
    )


def test_with_a_certificate_bedrock_uses_tls(store: Store, tmp_path: Path) -> None:
    file = str(tmp_path / "both.pem")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"]
    subprocess.run([*made, "-out", file, "-keyout", str(tmp_path / "key.pem")], check=True, capture_output=True)
    options = ["--tls-certificate", file, "--tls-key", str(tmp_path / "key.pem")]
    context = ssl.create_default_context(cafile=file)
    with (
        ServerProcess([*store_options(store), *options]) as server,
        socket.create_connection(server.bedrock, timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall(b"Ping\nConnection: close\n\n")
        assert b"".join(iter(lambda: connection.recv(65536), b"")).startswith(b"200 OK\r\n")


def test_connections_are_limited_only_by_the_system(store: Store) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1000), hard))
    try:
        with ServerProcess(store_options(store)) as server:
            (line,) = [
                line for line in Path(f"/proc/{server.pid}/limits").read_text().splitlines() if "open files" in line
            ]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert line.split()[3:5] == [str(hard), str(hard)]
