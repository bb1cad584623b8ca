"""Mail server on a real socket. It accepts mail as the test wants and records it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import email
import email.policy
from collections.abc import AsyncIterator
from email.message import EmailMessage
from typing import NamedTuple


class ReceivedMail(NamedTuple):
    sender: str
    recipients: list[str]
    raw: bytes

    @property
    def message(self) -> EmailMessage:
        return email.message_from_bytes(self.raw, policy=email.policy.default)  # type: ignore[return-value]

    @property
    def text(self) -> str:
        return str(self.message.get_content())


class MailSink:
    """Mail server. `refusals` has the answer to a recipient that is refused; `user` is the login that it wants; a
    silent server never answers a mail."""

    def __init__(self, *, user: tuple[str, str] | None = None, is_silent: bool = False) -> None:
        self.refusals: dict[str, str] = {}
        self.mails: list[ReceivedMail] = []
        self.logins: list[tuple[str, str]] = []
        self.port = 0
        self._user = user
        self._is_silent = is_silent

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[MailSink]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sender, recipients, is_known = "", list[str](), self._user is None
        writer.write(b"220 sink\r\n")
        with contextlib.suppress(ConnectionError):
            while line := (await reader.readline()).decode().rstrip("\r\n"):
                verb = line.split(" ", 1)[0].upper()
                if verb == "EHLO":
                    writer.write(b"250-sink\r\n250-8BITMIME\r\n250 AUTH PLAIN\r\n")
                elif verb == "AUTH":
                    is_known = self._log_in(line.rpartition(" ")[2])
                    writer.write(b"235 welcome\r\n" if is_known else b"535 wrong password\r\n")
                elif verb == "MAIL":
                    sender, recipients = line[10:].split(">")[0].strip("<>"), []
                    writer.write(b"250 ok\r\n" if is_known else b"530 log in first\r\n")
                elif verb == "RCPT":
                    recipient = line[8:].split(">")[0].strip("<>")
                    recipients.append(recipient)
                    writer.write(f"{self.refusals.get(recipient, '250 ok')}\r\n".encode())
                elif verb == "DATA":
                    writer.write(b"354 go on\r\n")
                    raw = await reader.readuntil(b"\r\n.\r\n")
                    if self._is_silent:
                        await reader.read()
                        break
                    self.mails.append(ReceivedMail(sender, recipients, raw.removesuffix(b".\r\n")))
                    writer.write(b"250 queued\r\n")
                else:
                    writer.write(b"221 bye\r\n" if verb == "QUIT" else b"250 ok\r\n")
        writer.close()

    def _log_in(self, encoded: str) -> bool:
        _, name, password = base64.b64decode(encoded).decode().split("\0")
        self.logins.append((name, password))
        return (name, password) == self._user
