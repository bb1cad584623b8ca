"""A mail server that answers anything: a delivery ends in time with a sentence, and the password is in none."""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping

import msgspec
import pytest

from tests.background.alerts.test_messages import SENDER, a_message, pending
from windlass.background.callbacks.backend import Undeliverable
from windlass.background.callbacks.smtp_backend import SmtpBackend
from windlass.core.alerts.smtp_url import MailServer, Tls

pytestmark = pytest.mark.anyio

PASSWORD = "p4ss-of-the-operator"  # noqa: S105
PLAIN = b64encode(f"\0ann\0{PASSWORD}".encode())
TIMEOUT_S = 20.0
ENDLESS_BYTES = 64 * 2**20
Script = Mapping[str, bytes]  # verb -> answer; "" is the greeting; an answer that begins with * is repeated
POLITE: Script = {
    "": b"220 sink\r\n", "EHLO": b"250-sink\r\n250 AUTH PLAIN LOGIN\r\n", "AUTH": b"235 ok\r\n",
    "DATA": b"354 go on\r\n", "QUIT": b"221 bye\r\n",
}  # fmt: skip


@contextlib.asynccontextmanager
async def mail_server(script: Script) -> AsyncIterator[int]:
    answers = {**POLITE, **script}
    connections: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    async def answer(writer: asyncio.StreamWriter, verb: str) -> None:
        text = answers.get(verb, b"250 ok\r\n")
        sent = 0
        while text.startswith(b"*") and sent < ENDLESS_BYTES:
            writer.write(text[1:])
            sent += len(text)
            await writer.drain()
        writer.write(text)
        await writer.drain()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections[writer] = asyncio.current_task()
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await answer(writer, "")
            while line := (await reader.readline()).decode(errors="replace").rstrip("\r\n"):
                verb = line.split(" ", 1)[0].upper()
                await answer(writer, verb)
                if verb == "DATA" and answers["DATA"].startswith(b"354"):
                    await reader.readuntil(b"\r\n.\r\n")
                    await answer(writer, ".")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        for writer in connections:
            writer.transport.abort()
        await asyncio.gather(*filter(None, connections.values()), return_exceptions=True)


async def deliver(port: int, *, tls: Tls = "none") -> None:
    backend = SmtpBackend(MailServer("127.0.0.1", port, tls, "ann", PASSWORD), SENDER, timeout_s=TIMEOUT_S)
    try:
        await backend.deliver(pending(1, "mailto:ops@example.com"), msgspec.json.encode(a_message()))
    finally:
        await backend.close()


async def test_a_polite_server_gets_the_mail() -> None:
    async with mail_server({}) as port:
        await deliver(port)


@pytest.mark.parametrize(
    "script",
    [
        {"": b"hello\r\n"},
        {"": b"\xff\xfe\x00\r\n"},
        {"": b"554 go away\r\n"},
        {"": b"220 " + b"a" * 100_000 + b"\r\n"},
        {"": b"*" + b"220-more\r\n" * 1000},
        {"": b"*" + b"a" * 5000},
        {"EHLO": b"250-\x1b]0;x\x07\r\n250 AUTH CRAM-MD5\r\n", "AUTH": b"334 !!!\r\n"},
        {"EHLO": b"250-x\r\n250 AUTH CRAM-MD5\r\n", "AUTH": b"334 //79\r\n"},
        {"EHLO": b"250 AUTH\r\n"},
        {"AUTH": b"334 \r\n"},
        {"AUTH": b"500 unrecognized command AUTH PLAIN " + PLAIN + b"\r\n"},
        {"AUTH": b"535 wrong password " + PASSWORD.encode() + b" of ann\r\n"},
        {"MAIL": b"250\r\n250\r\nx", "RCPT": b"999 what\r\n"},
        {"RCPT": b"550 \x1b[31m\x9bno\r\n"},
        {"RCPT": b"abc\r\n"},
        {"DATA": b"200 ?\r\n"},
        {".": b"xyz\r\n"},
        {".": b"*" + b"450-later\r\n" * 1000},
    ],
    ids=range(18),
)
async def test_any_answer_is_a_failed_delivery(script: Script) -> None:
    async with asyncio.timeout(30), mail_server(script) as port:
        with pytest.raises(Undeliverable) as failed:
            await deliver(port)
    said = str(failed.value)
    assert "has not answered within" not in said
    assert said.isprintable()
    assert len(said) < 400
    for secret in (PASSWORD, PLAIN.decode(), b64encode(PASSWORD.encode()).decode()):
        assert secret not in said


@pytest.mark.parametrize(
    "script",
    [
        {"EHLO": b"250-x\r\n250 STARTTLS\r\n", "STARTTLS": b"220 go\r\nnot TLS at all\r\n"},
        {"EHLO": b"250-x\r\n250 STARTTLS\r\n", "STARTTLS": b"454 not now\r\n"},
        {"EHLO": b"250-x\r\n250 AUTH PLAIN\r\n"},
        {"EHLO": b"250-x\r\n250 STARTTLS\r\n", "STARTTLS": b"220 go\r\n250-x\r\n250 AUTH PLAIN\r\n235 welcome\r\n"},
    ],
    ids=["no TLS", "refused", "not offered", "answers before TLS"],
)
async def test_nothing_is_sent_without_tls(script: Script) -> None:
    heard: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            writer.write(POLITE[""])
            while line := await reader.readline():
                heard.append(line.decode(errors="replace"))
                writer.write(script.get(heard[-1].split()[0].upper() if heard[-1].split() else "", b"250 ok\r\n"))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with asyncio.timeout(30), server:
        with pytest.raises(Undeliverable):
            await deliver(server.sockets[0].getsockname()[1], tls="starttls")
    assert not [line for line in heard if line.upper().startswith(("AUTH", "MAIL", "RCPT"))]
