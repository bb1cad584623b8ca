"""Tests of `windlass serve` as real processes: access, several processes, stopping."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.engine_process import EngineProcess
from tests.support.http_load import REQUEST, HttpLoad
from tests.support.namespace import send_command
from tests.support.server_process import COMMAND, ServerProcess, environment, is_alive, store_options, wait_until
from tests.support.stores import make_store
from windlass.core.access.tokens import NewToken, Role
from windlass.core.ids import parse_id
from windlass.core.job import NewJob, Timeline
from windlass.server import open_server
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
TOKEN = "correct-horse-battery-staple"  # noqa: S105


@pytest.fixture
def store(engine: EngineProcess) -> Iterator[Store]:
    """Store that is opened before any server, so that its deployment is a test deployment."""
    store = make_store(engine)
    store.open_sync()
    yield store
    store.close_sync()


def start_and_fail(*arguments: str, **settings: str) -> str:
    """Run a server that does not start and return its error message."""
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=60, env=environment(**settings), check=False
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


# Access


def test_a_public_address_without_tokens_is_refused_with_advice(store: Store) -> None:
    message = start_and_fail(*store_options(store), "--host", "0.0.0.0")  # noqa: S104
    for way_out in ("windlass tokens create", "WINDLASS_TOKEN", "127.0.0.1", "--allow-anonymous"):
        assert way_out in message


def test_the_same_with_several_processes(store: Store) -> None:
    message = start_and_fail(*store_options(store), "--workers", "2", host="0.0.0.0")  # noqa: S104
    assert message.count("windlass tokens create") == 1


def test_a_public_address_with_a_static_token(store: Store) -> None:
    with ServerProcess([*store_options(store), "--host", "0.0.0.0"], token=TOKEN) as server:  # noqa: S104
        assert "clients with a token (1 exists)" in server.output
        assert TOKEN not in server.output
        url = f"http://127.0.0.1:{server.address[1]}"
        assert httpx.get(f"{url}/healthz").status_code == 200
        assert httpx.get(f"{url}/api/v1/queues").status_code == 401
        allowed = {"authorization": f"Bearer {TOKEN}"}
        assert httpx.get(f"{url}/api/v1/queues", headers=allowed).status_code == 200
        assert httpx.get(f"{url}/api/v1/queues", headers={"authorization": f"Bearer {TOKEN}x"}).status_code == 401


def test_a_public_address_with_a_token_of_the_engine(store: Store, service: Service) -> None:
    made = service.create_token(NewToken(name="ops", roles=frozenset({Role.ADMIN}))).wait()
    with ServerProcess([*store_options(store), "--host", "0.0.0.0"]) as server:  # noqa: S104
        url = f"http://127.0.0.1:{server.address[1]}/api/v1/queues"
        assert httpx.get(url).status_code == 401
        assert httpx.get(url, headers={"authorization": f"Bearer {made.text}"}).status_code == 200


def test_a_public_address_without_tokens_needs_allow_anonymous(store: Store) -> None:
    with ServerProcess([*store_options(store), "--host", "0.0.0.0", "--allow-anonymous"]) as server:  # noqa: S104
        assert "all clients that can reach it" in server.output
        url = f"http://127.0.0.1:{server.address[1]}/api/v1/queues"
        assert httpx.get(url, headers={"host": "queue.example.org"}).status_code == 200


def test_loopback_admits_this_machine_but_no_web_page(store: Store) -> None:
    with ServerProcess(store_options(store)) as server:
        assert "all users of this machine" in server.output
        assert f"{server.url}/docs" in server.output
        url = f"{server.url}/api/v1/queues"
        assert httpx.get(url).status_code == 200
        assert httpx.get(url, headers={"host": "evil.example.org"}).status_code == 403
        assert httpx.get(url, headers={"origin": "https://evil.example.org"}).status_code == 403


def test_a_port_that_is_in_use_is_one_sentence(store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = start_and_fail(*store_options(store), "--port", str(port))
    assert message == (
        f"windlass: Port {port} of 127.0.0.1 is in use; stop what listens there, or choose another port with --port or "
        "WINDLASS_PORT.\n"
    )


def test_an_address_that_is_not_of_this_machine(store: Store) -> None:
    assert "not an address of this machine" in start_and_fail(*store_options(store), "--host", "192.0.2.1")
    assert "cannot be resolved" in start_and_fail(*store_options(store), "--host", "a name with blanks")


# TLS


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    files = str(tmp_path / "certificate.pem"), str(tmp_path / "key.pem")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"]
    subprocess.run([*made, "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


def test_https_by_certificate_files(store: Store, certificate: tuple[str, str]) -> None:
    options = ["--tls-certificate", certificate[0], "--tls-key", certificate[1]]
    with ServerProcess([*store_options(store), *options, "--workers", "2"]) as server:
        assert server.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=certificate[0])
        with httpx.Client(verify=context, base_url=server.url) as client:
            made = client.post("/api/v1/jobs", json={"queue": "q", "name": "n"})
            assert made.status_code == 201
        with pytest.raises(httpx.HTTPError):
            httpx.get(server.url.replace("https", "http") + "/healthz")
        server.signal()
        assert server.wait() == 0


def test_wrong_certificate_files_are_one_sentence(store: Store, certificate: tuple[str, str]) -> None:
    assert "cannot be read" in start_and_fail(*store_options(store), "--tls-certificate", "/nowhere.pem")
    assert "no certificate" in start_and_fail(*store_options(store), "--tls-key", certificate[1])


# Stopping


@pytest.mark.parametrize("workers", ["1", "2"])
def test_under_load_a_stop_cuts_no_request_and_loses_no_answer(store: Store, service: Service, workers: str) -> None:
    with ServerProcess([*store_options(store), "--workers", workers]) as server:
        load = asyncio.run(_run_load(server))
        assert server.wait() == 0
        assert "Traceback" not in server.errors
    assert (load.cut, load.refused) == (0, [])
    assert len(load.accepted) == len(set(load.accepted))
    (stats,) = service.stats(["q"]).wait()
    assert stats.queued == len(load.accepted) >= 500


async def _run_load(server: ServerProcess) -> HttpLoad:
    load = HttpLoad(server.address)
    running = asyncio.create_task(load.run(16))
    await load.reach(500)
    server.signal()
    await running
    return load


@pytest.mark.anyio
async def test_a_request_on_its_way_to_a_server_that_stops_is_answered(store: Store) -> None:
    """Check that an idle connection is not closed at once: the client may just have sent a request."""
    async with contextlib.AsyncExitStack() as stack:
        running = await stack.enter_async_context(open_server(store, Settings(port=0, bedrock_port=0)))
        reader, writer = await asyncio.open_connection("127.0.0.1", int(running.url.rpartition(":")[2]))
        stopping = asyncio.create_task(stack.aclose())
        await running.state.stopping.wait()
        writer.write(REQUEST)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        await stopping
    assert answer.startswith(b"HTTP/1.1 201 ")
    assert b"Connection: close\r\n" in answer


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_long_polls_and_streams_end_at_once(store: Store, number: int) -> None:
    with ServerProcess(store_options(store)) as server:
        polled, streamed = asyncio.run(_wait_and_stop(store, server, number))
        assert server.wait() == 0
    assert polled.json() == {"jobs": [], "next_due_at_ms": None}
    assert streamed.is_stream_consumed  # a truncated stream raises


async def _wait_and_stop(store: Store, server: ServerProcess, number: int) -> tuple[httpx.Response, httpx.Response]:
    async with httpx.AsyncClient(base_url=server.url, timeout=20) as client:
        polling = asyncio.create_task(client.post("/api/v1/take", json={"queues": ["q"], "wait_ms": 60_000}))
        await asyncio.to_thread(wait_until, lambda: bool(send_command(store, "EXISTS", f"{store.root(0)}:waiters:q")))
        async with client.stream("GET", "/api/v1/events") as streamed:
            server.signal(number)
            async for _ in streamed.aiter_bytes():
                pass
        return await polling, streamed


def test_a_request_in_progress_may_use_the_grace_and_a_second_signal_ends_it(store: Store) -> None:
    with ServerProcess([*store_options(store), "--grace", "10m"]) as server, _open_half_request(server):
        server.signal()
        wait_until(lambda: _is_refused(server))
        assert server.process.poll() is None
        server.signal()
        assert server.wait() == 0


def test_after_the_grace_remaining_requests_are_cut(store: Store) -> None:
    with ServerProcess([*store_options(store), "--grace", "100ms"]) as server, _open_half_request(server):
        server.signal()
        assert server.wait() == 0


def test_a_stream_that_goes_on_while_the_server_stops_is_answered(store: Store, service: Service) -> None:
    with ServerProcess(store_options(store)) as server, _open_half_request(server) as half:
        server.signal()
        wait_until(lambda: _is_refused(server))
        half.sendall(b"0\r\n\r\n")
        answer = _read_rest(half)
        assert b'"accepted":1' in answer
        assert answer.endswith(b"0\r\n\r\n")
        assert server.wait() == 0
    assert service.stats(["q"]).wait()[0].queued == 1


def _open_half_request(server: ServerProcess) -> socket.socket:
    """Send a request with an unfinished body that the server has started to answer."""
    half = socket.create_connection(server.address, timeout=30)
    line = b'{"queue":"q","name":"n"}\n'
    head = b"POST /api/v1/jobs:stream HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    half.sendall(head + b"%x\r\n%b\r\n" % (len(line), line))
    assert half.recv(65536).startswith(b"HTTP/1.1 200 ")
    return half


def _is_kept(half: socket.socket) -> bool:
    """Whether the connection stays open for a moment."""
    half.settimeout(0.5)
    try:
        while half.recv(65536):
            pass
    except TimeoutError:
        half.settimeout(30)
        return True
    return False


def _read_rest(half: socket.socket) -> bytes:
    answer = b""
    while piece := half.recv(65536):
        answer += piece
    return answer


def _is_refused(server: ServerProcess) -> bool:
    try:
        socket.create_connection(server.address, timeout=5).close()
    except OSError:
        return True
    return False


# Several processes


def test_a_killed_process_is_replaced_and_loses_no_answered_job(store: Store, service: Service) -> None:
    with ServerProcess([*store_options(store), "--workers", "2"]) as server:
        assert "processes   2" in server.output
        wait_until(lambda: len(server.children) == 2)
        first, second = server.children
        load = asyncio.run(_kill_under_load(server, first))
        assert server.wait() == 0
        assert f"Server process {first} was ended by SIGKILL; restarting in 0.5 s." in server.errors
        assert is_alive(first) is is_alive(second) is False
    found = [job for start in range(0, len(load.accepted), 500) for job in _jobs(service, load.accepted[start:][:500])]
    assert len(found) == len(load.accepted)
    assert all(isinstance(job, Timeline) for job in found)


def _jobs(service: Service, ids: list[str]) -> list[object]:
    return list(service.job([parse_id(job_id) for job_id in ids]).wait())


async def _kill_under_load(server: ServerProcess, child: int) -> HttpLoad:
    load = HttpLoad(server.address, reconnects=True)
    running = asyncio.create_task(load.run(8))
    await load.reach(200)
    os.kill(child, signal.SIGKILL)
    await asyncio.to_thread(wait_until, lambda: child not in server.children and len(server.children) == 2)
    await load.reach(len(load.accepted) + 200)
    server.signal()
    await running
    return load


def test_children_of_a_killed_parent_stop(store: Store) -> None:
    with ServerProcess([*store_options(store), "--workers", "2"]) as server:
        wait_until(lambda: len(server.children) == 2)
        children = server.children
        server.signal(signal.SIGKILL)
        server.process.wait()
        wait_until(lambda: not any(map(is_alive, children)))
        assert _is_refused(server)
        assert "The parent of this server process is gone" in server.errors


def test_a_second_signal_ends_all_processes_at_once(store: Store) -> None:
    arguments = [*store_options(store), "--workers", "2", "--grace", "10m"]
    with ServerProcess(arguments) as server, _open_half_request(server):
        wait_until(lambda: len(server.children) == 2)
        server.signal()
        wait_until(lambda: len(server.children) == 1)
        server.signal()
        assert server.wait() == 0
        assert "killing it" not in server.errors


def test_signals_to_all_processes_count_as_one_stop(store: Store) -> None:
    """Send signals as a service manager does, in any order."""
    with ServerProcess([*store_options(store), "--workers", "2"]) as server, _open_half_request(server) as half:
        wait_until(lambda: len(server.children) == 2)
        server.signal()
        wait_until(lambda: len(server.children) == 1)
        os.kill(server.children[0], signal.SIGTERM)
        assert _is_kept(half)
        half.sendall(b"0\r\n\r\n")
        assert _read_rest(half).endswith(b"0\r\n\r\n")
        assert server.wait() == 0


# Logs


def test_the_access_log_has_a_line_for_each_request(store: Store, service: Service) -> None:
    service.enqueue([NewJob(queue="q", name="n")]).wait()
    with ServerProcess([*store_options(store), "--access-log"], log_format="json") as server:
        httpx.get(f"{server.url}/api/v1/queues?secret=1")
        httpx.get(f"{server.url}/nothing")
        wait_until(lambda: '"/nothing"' in server.errors)
        lines = [line for line in server.errors.splitlines() if '"method"' in line]
    assert '"path":"/api/v1/queues"' in lines[0].replace(": ", ":")
    assert '"status":404' in lines[1].replace(": ", ":")
    assert "secret" not in server.output + "".join(lines)
