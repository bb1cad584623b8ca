"""Messages without a server: headers, targets, the address of the mail server, bodies."""

from __future__ import annotations

from email import message_from_bytes
from email.policy import SMTP
from typing import Any

import msgspec
import pytest

from windlass.background.alerts.bodies import alert_body
from windlass.background.callbacks.smtp_backend import compose_mail
from windlass.core.alerts.incident import AlertState
from windlass.core.alerts.message import AlertMessage, make_message
from windlass.core.alerts.rule import AlertRule
from windlass.core.alerts.smtp_url import parse_smtp_url
from windlass.core.alerts.targets import hide_secret, parse_target
from windlass.core.callbacks.callback import PendingCallback
from windlass.core.errors import BadInput
from windlass.store.commands.admin.alerts import pack_message
from windlass.store.records.record import unpack

SENDER = "windlass@example.com"


def a_message(subjects: tuple[str, ...] = ("q",), **fields: Any) -> AlertMessage:
    rule = AlertRule(**{"name": "r", "kind": "no_worker", **fields})
    return make_message(rule, "alert_opened", AlertState(subjects=subjects), 0, public_url="", namespace="wl")


@pytest.mark.parametrize("text", ["a\r\nBcc: eve@example.com", "a\nb", "a\rb"])
def test_no_address_can_have_more_lines(text: str) -> None:
    for sender, recipient in ((f"{SENDER}{text}", "ops@example.com"), (SENDER, f"ops@example.com{text}")):
        with pytest.raises((ValueError, BadInput)):
            compose_mail(a_message(), "id", sender, recipient)


HEADERS = {
    "Subject", "From", "To", "Date", "Message-ID", "Auto-Submitted", "Content-Type", "Content-Transfer-Encoding",
    "MIME-Version",
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "a\r\nBcc: eve@example.com", "a\nb", "a\rb", "a\u2028Bcc: eve@example.com", "a\u2029b", "a\x85b",
        "a\x0b\x0c\x1cb",
        "=?utf-8?q?a=0D=0ABcc:_eve@example.com?=", "=?utf-8?b?YQ0KQmNjOiBldmVAZXhhbXBsZS5jb20?=",
        "=?=?utf-8?q?a=0D=0A=0D=0AOpen_http:evil?=?=", "ü=?utf-8?q?=0A?=", "=?x?q?=0A?= =?x?q?=0A?=", "😀" * 300,
        "x" * 5000,
    ],
)  # fmt: skip
def test_no_name_ends_a_header(text: str) -> None:
    """A producer chooses names of queues. A mail about them is sent all the same."""
    for message in (a_message(name=text), a_message(subjects=(text,)), a_message(note=text)):
        mail = compose_mail(message, "id", SENDER, "ops@example.com")
        head = mail.as_bytes(policy=mail.policy).partition(b"\r\n\r\n")[0]
        received = message_from_bytes(mail.as_bytes(policy=mail.policy), policy=SMTP)
        assert set(received.keys()) == set(mail.keys()) == HEADERS
        assert (received["From"], received["To"], received["Bcc"]) == (SENDER, "ops@example.com", None)
        assert len(str(received["Subject"]).splitlines()) == 1
        assert b"\n" not in head.replace(b"\r\n", b"")
        assert max(map(len, head.split(b"\r\n"))) <= 998
        assert received.get_content_type() == "text/plain"


@pytest.mark.parametrize(
    "target",
    [
        "mailto:", "mailto:ops", "mailto:a@b,c@d", "mailto:a@b.c\nBcc: d@e.f", "mailto:Ops <a@b.c>", 'mailto:"a b"@c.d',
        "mailto:a@b.c?cc=d@e.f", "slack:mailto:a@b.c", "slack:", "ftp://x", "x", "javascript:alert(1)", "http://a b/",
    ],
)  # fmt: skip
def test_targets_that_are_none(target: str) -> None:
    with pytest.raises(BadInput):
        parse_target(target)


@pytest.mark.parametrize(
    "url",
    ["mail.example.com", "http://a", "smtp://", "smtp://a:0", "smtp://a:x", "smtp://a?x=1", "smtp://a?tls=no",
     "smtp://u:p@a.example.com?tls=none", "smtp://a/path"],
)  # fmt: skip
def test_mail_servers_that_are_none(url: str) -> None:
    with pytest.raises(BadInput):
        parse_smtp_url(url)


def test_mail_servers() -> None:
    assert parse_smtp_url("") is None
    assert parse_smtp_url("smtp://u:p%2F@a.example.com") == ("a.example.com", 587, "starttls", "u", "p/")
    assert parse_smtp_url("smtps://a.example.com") == ("a.example.com", 465, "tls", "", "")
    assert parse_smtp_url("smtp://127.0.0.1:25?tls=none") == ("127.0.0.1", 25, "none", "", "")


def test_bodies_are_the_same_in_each_attempt() -> None:
    first, second = (alert_body(pending(attempt)) for attempt in (1, 2))
    assert first == second


def pending(attempt: int, target: str = "https://a.example.com") -> PendingCallback:
    entry = pack_message(a_message(), target, bytes(16)).entry
    job = unpack(entry)
    assert job.callback is not None
    return PendingCallback(
        id=bytes(22), job=job, callback=job.callback, result=None, is_result_too_big=False, last_attempt=None,
        attempt=attempt, error="",
    )  # fmt: skip


def test_a_message_says_what_to_do() -> None:
    body = msgspec.json.decode(alert_body(pending(1)))
    assert body["advice"] == "Start a worker for the queue, or find out why its workers have stopped."
    assert body["condition"] == "1 waiting job or more without a worker"


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("slack:https://hooks.slack.com/services/T/B/x", "slack:https://hooks.slack.com/…"),
        ("https://a.example.com:8080/?token=x", "https://a.example.com:8080/…"),
        ("https://a.example.com", "https://a.example.com"),
        ("mailto:ops@example.com", "mailto:ops@example.com"),
        ("https://u:p@a.example.com/x", "https://a.example.com/…"),
    ],
)
def test_readers_see_no_secret(target: str, shown: str) -> None:
    assert hide_secret(target) == shown
