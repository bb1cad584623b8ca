"""Mail backend of messages about alerts: one mail each, over SMTP, in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import smtplib
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

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
    """Return the mail of a message. Its id is the same in every attempt, so that a repetition can be recognised. The
    library encodes headers and refuses line breaks in them."""
    mail = EmailMessage(policy=_POLICY)
    mail["Subject"] = mail_subject(message)
    mail["From"], mail["To"] = check_address(sender), check_address(recipient)
    mail["Date"] = format_datetime(datetime.fromtimestamp(message.at_ms / 1000, UTC))
    mail["Message-ID"] = f"<{message_id}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(mail_text(message))
    return mail


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
                f"The mail server refuses the recipient: {code} {_text(reason)}", is_final=code >= 500
            ) from error
        except smtplib.SMTPResponseException as error:
            raise Undeliverable(f"The mail server refuses: {error.smtp_code} {_text(error.smtp_error)}") from error
        except (OSError, smtplib.SMTPException) as error:
            raise Undeliverable(f"The mail server cannot be used: {error}", is_silent=True) from error

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
            return smtplib.SMTP_SSL(host, port, timeout=STEP_S, context=ssl.create_default_context())
        return smtplib.SMTP(host, port, timeout=STEP_S)

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


def _text(reason: bytes | str) -> str:
    text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:200]
