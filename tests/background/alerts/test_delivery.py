"""Messages about alerts on their way: webhook with its signature, Slack, mail; refused addresses and headers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.background.alerts.mail_sink import MailSink
from tests.background.receiver import Receiver
from windlass.background.alerts.bodies import alert_body
from windlass.background.callbacks.backend import Backend
from windlass.background.callbacks.http_backend import HttpBackend
from windlass.background.callbacks.notifier import Notifier
from windlass.background.callbacks.smtp_backend import SmtpBackend
from windlass.core.alerts.message import ALERT_QUEUE
from windlass.core.alerts.rule import AlertRule
from windlass.core.alerts.smtp_url import parse_smtp_url
from windlass.core.alerts.targets import MAIL, SLACK, WEBHOOK
from windlass.core.callbacks.signing import verify_signature
from windlass.core.errors import BadInput
from windlass.core.job import Callback, NewJob
from windlass.outbound import Outbound, parse_policy
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]
KEY = "k" * 32
SENDER = "windlass@example.com"


@pytest.fixture
async def opened(service: Service, store: Store) -> AsyncIterator[Service]:
    async with store, asyncio.timeout(60):
        yield service


async def deliver(
    service: Service, *targets: str, policy: str = "yes", sink: MailSink | None = None, **more: Any
) -> None:
    """Send a test message of a rule to these targets, once."""
    await service.set_alert(AlertRule(name="mail & more", kind="no_worker", targets=targets, note="<@all> see wiki"))
    await service.test_alert("mail & more", public_url="https://jobs.example.com/")
    async with Outbound(parse_policy(policy, is_local=False)) as outbound, backends(outbound, sink, **more) as found:
        await Notifier(found, bodies={ALERT_QUEUE: alert_body}).deliver_once(service)


@contextlib.asynccontextmanager
async def backends(
    outbound: Outbound, sink: MailSink | None, *, user: str = "", **more: Any
) -> AsyncIterator[dict[str, Backend]]:
    server = parse_smtp_url(f"smtp://{user}127.0.0.1:{sink.port}?tls=none") if sink else None
    mail = SmtpBackend(server, SENDER, **more)
    try:
        yield {WEBHOOK: HttpBackend(outbound, (KEY,)), SLACK: HttpBackend(outbound), MAIL: mail}
    finally:
        await mail.close()


async def errors_of(service: Service, *, given_up: bool = False) -> list[str]:
    return [pending.error for pending in (await service.callbacks(given_up=given_up)).callbacks]


async def test_a_webhook_gets_signed_json(opened: Service) -> None:
    async with Receiver().open() as receiver:
        await deliver(opened, receiver.url)
    [received] = receiver.all
    assert verify_signature((KEY,), received.headers["windlass-signature"], received.id, received.body)
    body = received.decoded
    assert (body["id"], body["event"], body["alert"]) == (received.id, "alert_test", "mail & more")
    assert (body["deployment"], body["alerts_url"]) == ("https://jobs.example.com", "https://jobs.example.com/alerts")
    assert await errors_of(opened) == []


async def test_slack_gets_text_and_a_block_without_mentions(opened: Service) -> None:
    async with Receiver().open() as receiver:
        await deliver(opened, f"slack:{receiver.url}")
    [received] = receiver.all
    assert "windlass-signature" not in received.headers
    body = received.decoded
    assert body.keys() == {"text", "blocks"}
    assert body["text"] == "TEST mail &amp; more: this is a test message; nothing is wrong."
    [block] = body["blocks"]
    assert (block["type"], block["text"]["type"]) == ("section", "mrkdwn")
    assert "&lt;@all&gt; see wiki" in block["text"]["text"]
    assert "<" not in block["text"]["text"]


@pytest.mark.parametrize("prefix", ["", "slack:"])
async def test_private_addresses_are_refused(opened: Service, prefix: str) -> None:
    async with Receiver().open() as receiver:
        await deliver(opened, f"{prefix}{receiver.url}", policy="no")
    assert receiver.all == []
    [error] = await errors_of(opened)
    assert "not a public address" in error


async def test_mail_is_plain_text_with_its_id(opened: Service) -> None:
    sink = MailSink(user=("ann", "p@ss"))
    async with sink.open():
        await deliver(opened, "mailto:ops@example.com", sink=sink, user="ann:p%40ss@")
    [mail] = sink.mails
    assert (mail.sender, mail.recipients, sink.logins) == (SENDER, ["ops@example.com"], [("ann", "p@ss")])
    message = mail.message
    assert message["Subject"] == "[Windlass] TEST mail & more: this is a test message; nothing is wrong."
    assert (message["From"], message["To"], message.get_content_type()) == (SENDER, "ops@example.com", "text/plain")
    assert message["Message-ID"].endswith("@example.com>")
    assert message.get_content_charset() == "utf-8"
    assert "https://jobs.example.com/alerts" in mail.text
    assert "Note: <@all> see wiki" in mail.text
    assert await errors_of(opened) == []


async def test_a_refused_recipient_is_given_up_and_a_busy_server_tried_again(opened: Service) -> None:
    sink = MailSink()
    sink.refusals = {"gone@example.com": "550 no such user", "later@example.com": "451 try again"}
    async with sink.open():
        await deliver(opened, "mailto:gone@example.com", "mailto:later@example.com", sink=sink)
    assert await errors_of(opened, given_up=True) == ["The mail server refuses the recipient: 550 no such user"]
    assert await errors_of(opened) == ["The mail server refuses the recipient: 451 try again"]


async def test_a_wrong_password_is_reported_without_it(opened: Service) -> None:
    sink = MailSink(user=("ann", "right"))
    async with sink.open():
        await deliver(opened, "mailto:ops@example.com", sink=sink, user="ann:guessed@")
    assert await errors_of(opened) == ["The mail server refuses: 535 wrong password"]


async def test_a_silent_mail_server_is_left(opened: Service) -> None:
    sink = MailSink(is_silent=True)
    async with sink.open():
        await deliver(opened, "mailto:ops@example.com", sink=sink, timeout_s=0.3)
    assert await errors_of(opened) == ["The mail server has not answered within 0.3 s."]


async def test_a_password_is_not_sent_without_tls(opened: Service) -> None:
    """The server offers no STARTTLS."""
    sink = MailSink()
    async with sink.open():
        server = parse_smtp_url(f"smtp://ann:secret@127.0.0.1:{sink.port}")
        await opened.set_alert(AlertRule(name="r", kind="no_worker", targets=("mailto:ops@example.com",)))
        await opened.test_alert("r")
        notifier = Notifier({MAIL: SmtpBackend(server, SENDER)}, bodies={ALERT_QUEUE: alert_body})
        await notifier.deliver_once(opened)
    assert (sink.mails, sink.logins) == ([], [])
    [error] = await errors_of(opened)
    assert "STARTTLS" in error


async def test_a_server_without_mail_settings_says_so(opened: Service) -> None:
    await deliver(opened, "mailto:ops@example.com")
    assert await errors_of(opened) == ["This server sends no mail: set WINDLASS_SMTP_URL and WINDLASS_MAIL_FROM."]


async def test_a_producer_cannot_send_mail(opened: Service) -> None:
    for kind in (MAIL, SLACK, WEBHOOK):
        job = NewJob(queue=ALERT_QUEUE, name="n", callback=Callback(type=kind, destination="victim@example.com"))
        with pytest.raises(BadInput, match="must not begin"):
            await opened.enqueue([job])
