"""Tests of listening, TLS and stopping: no request is cut within the grace period."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.web.http_client import Application, connect, request, run_application, until
from windlass.core.errors import BadSetting
from windlass.web.listener.listener import HttpListener
from windlass.web.listener.tls import tls_context

pytestmark = pytest.mark.anyio


async def test_stop_answers_received_requests() -> None:
    async with run_application() as application, connect(application) as client, connect(application) as idle:
        await idle.round_trip(request("/echo"))
        await client.send(request("/slow") + request("/echo"))
        await application.entered.wait()
        stopping = asyncio.create_task(application.listener.stop(grace_s=20))
        assert await idle.is_closed()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*client.writer.get_extra_info("peername"))
        application.release.set()
        answer = await client.answer()
        assert (answer.body, answer.headers["connection"]) == (b"slow", "close")
        assert await client.is_closed()
        await stopping
        assert application.notes == ["slow False"]


async def test_stop_reads_a_request_that_has_started_to_arrive() -> None:
    async with run_application() as application, connect(application) as client:
        whole = request("/echo", b"12345")
        await client.send(whole[:10])
        await until(lambda: application.listener.open == 1)
        await asyncio.sleep(0.05)
        stopping = asyncio.create_task(application.listener.stop(grace_s=20))
        await application.listener.stopping.wait()
        await client.send(whole[10:])
        answer = await client.answer()
        assert (answer.body, answer.headers["connection"]) == (b"POST /echo  12345", "close")
        await stopping


async def test_stop_ends_waiting_handlers() -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(request("/poll"))
        await application.entered.wait()
        await application.listener.stop(grace_s=20)
        assert (await client.answer()).body == b"stopped"
        assert application.notes == []


async def test_stop_does_not_wait_longer_than_the_grace() -> None:
    async with run_application() as application, connect(application) as client, connect(application) as lost:
        await lost.send(request("/slow"))
        await application.entered.wait()
        lost.reset()
        await until(lambda: application.listener.open == 1)
        await client.send(request("/feed"))
        await client.reader.readuntil(b"first\r\n")
        await application.listener.stop(grace_s=0.1)
        assert sorted(application.notes) == ["feed closed", "slow cancelled"]
        assert application.listener.handlers_running == 0
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.reader.readexactly(1)


async def test_stop_waits_for_a_handler_whose_client_has_gone() -> None:
    async with run_application() as application, connect(application) as client:
        await client.send(request("/slow"))
        await application.entered.wait()
        client.reset()
        await until(lambda: application.listener.open == 0)
        stopping = asyncio.create_task(application.listener.stop(grace_s=20))
        await application.listener.stopping.wait()
        application.release.set()
        await stopping
        assert application.notes == ["slow True"]


async def test_stop_without_connections() -> None:
    listener = HttpListener(Application())
    await listener.start("127.0.0.1", 0)
    await listener.stop(grace_s=0)
    await listener.stop(grace_s=0)


async def test_several_addresses() -> None:
    async with run_application() as application:
        listener = application.listener
        await listener.start(["127.0.0.2", "127.0.0.3"], 0)
        assert [host for host, _ in listener.addresses] == ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
        assert listener.address == listener.addresses[0]
        for address in listener.addresses:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(request("/echo"))
            assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"
            writer.close()
            await writer.wait_closed()


async def test_an_address_that_is_taken() -> None:
    async with run_application() as application:
        with pytest.raises(OSError, match="in use"):
            await application.listener.start(["127.0.0.1", "127.0.0.2"], application.listener.address[1])
        assert len(application.listener.addresses) == 1


CHILD = """
import asyncio, os, socket, sys
from tests.web.http_client import Application
from windlass.web.listener.listener import HttpListener

async def main():
    application = Application()
    application.listener = listener = HttpListener(application)
    async def pid(request):
        from windlass.web.listener.messages import Response
        return Response(200, str(os.getpid()).encode())
    application.pid = pid
    await listener.start(sock=socket.socket(fileno=int(sys.argv[1])))
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await listener.stop(5)

asyncio.run(main())
"""


def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, **options)


async def test_processes_may_share_a_socket() -> None:
    """Check that each process answers while the others do not, and that stopping one keeps the socket open."""
    with socket.create_server(("127.0.0.1", 0)) as shared:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", CHILD, str(shared.fileno())]
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment}
        children = [start(command, pass_fds=[shared.fileno()], **options) for _ in range(2)]
        try:
            for child in children:
                assert await asyncio.to_thread(child.stdout.readline) == b"ready\n"
            address = shared.getsockname()
            for child in children:
                reader, writer = await asyncio.open_connection(*address)
                writer.write(request("/pid", Connection="close"))
                answered_by = int((await reader.read()).split(b"\r\n\r\n")[1])
                writer.close()
                await writer.wait_closed()
                [answering] = [child for child in children if child.pid == answered_by and child.poll() is None]
                answering.stdin.close()
                assert await asyncio.to_thread(answering.wait, 20) == 0
        finally:
            for child in children:
                child.kill()
                child.wait()
                child.stdout.close()
                child.stdin.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def make_certificate(directory: Path) -> tuple[Path, Path]:
    files = directory / "certificate.pem", directory / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    where = ["-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run([*command.split(), *names, *where], check=True, capture_output=True)
    return files


async def test_tls(certificate: tuple[Path, Path]) -> None:
    trust = ssl.create_default_context(cafile=certificate[0])
    async with run_application(tls_context(*certificate)) as application:
        async with connect(application, ssl=trust) as client:
            assert (await client.round_trip(request("/echo", b"secret"))).body == b"POST /echo  secret"
            assert len((await client.round_trip(request("/sized?3000000"))).body) == 3_000_000
            client.writer.write(request("/count", b"x" * 3_000_000))
            assert (await client.answer()).body == b"3000000"
            assert (await client.round_trip(request("/echo", b"x" * 1001))).status == 413
            answer = await client.round_trip(request("/echo", Connection="close"))
            assert answer.headers["connection"] == "close"
            assert await client.is_closed()
        async with connect(application, ssl=trust) as client:
            assert (await client.round_trip(b"nonsense\r\n\r\n")).status == 400
        async with connect(application) as plain:
            await plain.send(request("/echo"))
            assert b"HTTP/1.1 200" not in await plain.reader.read()


async def test_over_tls_a_waiting_handler_is_cancelled_when_the_client_disconnects(
    certificate: tuple[Path, Path],
) -> None:
    trust = ssl.create_default_context(cafile=certificate[0])
    async with run_application(tls_context(*certificate)) as application:
        async with connect(application, ssl=trust) as client:
            await client.send(request("/poll"))
            await application.entered.wait()
        await asyncio.wait_for(application.ended.wait(), 20)
        assert application.notes == ["poll cancelled True"]


def test_certificates_that_cannot_be_used(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    other = make_certificate(tmp_path)
    encrypted = tmp_path / "encrypted.pem"
    command = ["openssl", "pkcs8", "-topk8", "-in", str(certificate[1]), "-out", str(encrypted), "-passout", "pass:x"]
    subprocess.run(command, check=True, capture_output=True)
    empty = tmp_path / "empty.pem"
    empty.touch()
    for files, words in [
        ((tmp_path / "missing.pem", certificate[1]), "missing.pem cannot be read: No such file"),
        ((certificate[0], tmp_path / "missing.pem"), "missing.pem cannot be read"),
        ((certificate[0], tmp_path), "cannot be read: Is a directory"),
        ((certificate[0], other[1]), "does not belong to the certificate"),
        ((certificate[0], encrypted), "is encrypted"),
        ((empty, certificate[1]), "No certificate with its key"),
        ((certificate[0], None), "No certificate with its key"),
    ]:
        with pytest.raises(BadSetting, match=words):
            tls_context(*files)


def test_certificate_and_key_in_one_file(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    both.write_bytes(certificate[0].read_bytes() + certificate[1].read_bytes())
    assert tls_context(both).minimum_version == ssl.TLSVersion.TLSv1_2


async def test_stop_does_not_wait_for_a_connection_that_only_discarded_a_body() -> None:
    async with run_application() as application, connect(application) as client:
        whole = request("/forbidden", b"x" * 100)
        await client.send(whole[:-50])
        assert (await client.answer()).status == 401
        stopping = asyncio.create_task(application.listener.stop(grace_s=60))
        await application.listener.stopping.wait()
        await client.send(whole[-50:])
        assert await client.is_closed()
        await asyncio.wait_for(stopping, 20)
