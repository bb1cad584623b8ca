"""Messages without a server: headers, targets, the address of the mail server, bodies."""

from __future__ import annotations

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


def a_message(**fields: Any) -> AlertMessage:
    rule = AlertRule(**{"name": "r", "kind": "no_worker", **fields})
    return make_message(rule, "alert_opened", AlertState(subjects=("q",)), 0, public_url="", namespace="wl")


@pytest.mark.parametrize("text", ["a\r\nBcc: eve@example.com", "a\nb", "a\rb"])
def test_no_header_can_be_added(text: str) -> None:
    for message, sender, recipient in (
        (a_message(name=text), SENDER, "ops@example.com"),
        (a_message(), f"{SENDER}{text}", "ops@example.com"),
        (a_message(), SENDER, f"ops@example.com{text}"),
    ):
        with pytest.raises((ValueError, BadInput)):
            compose_mail(message, "id", sender, recipient)


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


def pending(attempt: int) -> PendingCallback:
    entry = pack_message(a_message(), "https://a.example.com", bytes(16)).entry
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
