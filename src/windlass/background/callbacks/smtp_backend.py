"""Mail backend of messages about alerts: one mail each, over SMTP, in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import smtplib
import socket
import ssl
import threading
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any

import msgspec

from windlass.core.alerts.message import AlertMessage, mail_subject, mail_text
from windlass.core.alerts.smtp_url import MailServer
from windlass.core.alerts.targets import check_address
from windlass.core.callbacks.callback import PendingCallback
from windlass.core.errors import Refusal

from .backend import Undeliverable

STEP_S = 10.0  # for one answer of the mail server
TIMEOUT_S = 30.0  # for a mail; the lease of the callback is longer
MAILS_AT_ONCE = 4
ANSWERS_BYTES_MAX = 256 * 1024  # of all answers about one mail; the library would keep one without end
_POLICY = SMTP.clone(max_line_length=998)  # the limit of the standard: a shorter one folds most subjects
_decode = msgspec.json.Decoder(AlertMessage).decode


class SmtpBackend:
    """Mail backend. The mail server is the operator's setting, so the policy for addresses does not apply to it."""

    def __init__(self, server: MailServer | None, sender: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self._server = server
        self._sender = sender
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(MAILS_AT_ONCE, thread_name_prefix="windlass-mail")

    async def deliver(self, pending: PendingCallback, body: bytes) -> None:
        if self._server is None or not self._sender:
            raise Undeliverable("This server sends no mail: set WINDLASS_SMTP_URL and WINDLASS_MAIL_FROM.")
        try:
            mail = compose_mail(_decode(body), pending.key, self._sender, pending.callback.destination)
        except (Refusal, ValueError) as error:
            raise Undeliverable(str(error), is_final=True) from error
        sending = _Sending(self._server, mail)
        running = asyncio.get_running_loop().run_in_executor(self._threads, sending.run)
        running.add_done_callback(_retrieve)
        try:
            done, _ = await asyncio.wait({running}, timeout=self._timeout_s)
        finally:
            sending.end()
        if not done:
            raise Undeliverable(f"The mail server has not answered within {self._timeout_s:g} s.", is_silent=True)
        running.result()

    async def close(self) -> None:
        """Let go of the threads. Their connections have ended, or end after STEP_S."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _retrieve(done: asyncio.Future[None]) -> None:
    """Take note of the error of a thread whose caller has left, so that it is not logged as lost."""
    if not done.cancelled():
        done.exception()


def compose_mail(message: AlertMessage, message_id: str, sender: str, recipient: str) -> EmailMessage:
    """Return the mail of a message. Its id is the same in every attempt, so that a repetition can be recognised."""
    mail = EmailMessage(policy=_POLICY)
    mail["Subject"] = mail_subject(message)
    mail["From"], mail["To"] = check_address(sender), check_address(recipient)
    mail["Date"] = format_datetime(datetime.fromtimestamp(message.at_ms / 1000, UTC))
    mail["Message-ID"] = f"<{message_id}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(mail_text(message))
    return mail


class _BoundedFile:
    """Answers of a mail server, up to ANSWERS_BYTES_MAX."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._left = ANSWERS_BYTES_MAX

    def readline(self, most: int) -> bytes:
        line: bytes = self._file.readline(most)
        self._left -= len(line)
        if self._left < 0:
            raise smtplib.SMTPServerDisconnected("its answer has no end")
        return line

    def close(self) -> None:
        self._file.close()


class _Bounded:
    """Client that reads a bounded answer. It is mixed into both clients of the library."""

    file: Any
    sock: Any

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None:
            self.file = _BoundedFile(self.sock.makefile("rb"))
        return super().getreply()  # type: ignore[misc, no-any-return]


class _PlainClient(_Bounded, smtplib.SMTP):
    """Client of a connection without TLS, or with TLS after STARTTLS."""


class _TlsClient(_Bounded, smtplib.SMTP_SSL):
    """Client of a connection with TLS from its start."""


class _Sending:
    """Sending of one mail in a thread. `end` closes its connection, which ends the thread's wait."""

    def __init__(self, server: MailServer, mail: EmailMessage) -> None:
        self._server = server
        self._mail = mail
        self._lock = threading.Lock()
        self._client: smtplib.SMTP | None = None
        self._is_over = False

    def run(self) -> None:
        try:
            self._send()
        except smtplib.SMTPRecipientsRefused as error:
            [(code, reason)] = error.recipients.values()
            raise Undeliverable(
                f"The mail server refuses the recipient: {code} {self._text(reason)}", is_final=code >= 500
            ) from error
        except smtplib.SMTPResponseException as error:
            raise Undeliverable(f"The mail server refuses: {error.smtp_code} {self._text(error.smtp_error)}") from error
        except (OSError, smtplib.SMTPException) as error:
            raise Undeliverable(f"The mail server cannot be used: {self._text(str(error))}", is_silent=True) from error
        except ValueError as error:  # a challenge that is not base64, for example
            raise Undeliverable(f"The mail server does not speak SMTP: {self._text(str(error))}") from error

    def _send(self) -> None:
        with self._connect() as client:
            self._hold(client)
            if self._server.tls == "starttls":
                client.starttls(context=ssl.create_default_context())
            if self._server.user:
                client.login(self._server.user, self._server.password)
            client.send_message(self._mail)

    def _connect(self) -> smtplib.SMTP:
        host, port = self._server.host, self._server.port
        if self._server.tls == "tls":
            return _TlsClient(host, port, timeout=STEP_S, context=ssl.create_default_context())
        return _PlainClient(host, port, timeout=STEP_S)

    def _hold(self, client: smtplib.SMTP) -> None:
        with self._lock:
            self._client = client
            if self._is_over:
                client.close()

    def end(self) -> None:
        with self._lock:
            self._is_over = True
            if self._client is not None:
                with contextlib.suppress(OSError):
                    if self._client.sock is not None:  # closing alone does not end a read of another thread
                        self._client.sock.shutdown(socket.SHUT_RDWR)
                    self._client.close()

    def _text(self, reason: bytes | str) -> str:
        """Return an answer of the server in one line. Some servers repeat the command, and so the password."""
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        for secret in _written_forms(self._server):
            text = text.replace(secret, "…")
        return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:200]


def _written_forms(server: MailServer) -> list[str]:
    """Return the password as commands of SMTP contain it."""
    if not server.password:
        return []
    user, password = server.user.encode(), server.password.encode()
    encoded = (b64encode(text).decode() for text in (b"\0%s\0%s" % (user, password), password))
    return [*encoded, server.password]
