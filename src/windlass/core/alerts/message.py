"""Messages about incidents. A message is made once, when the incident moves, so each attempt sends the same bytes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec

from windlass.core.errors import BadInput
from windlass.core.text.control_characters import printable

from .incident import AlertEvent, AlertState
from .rule import IN_MS, AlertKind, AlertRule, describe_figure, describe_threshold, format_figure

SUBJECT_MAX = 150  # characters of the subject of a mail
ALERT_QUEUE = "windlass.alerts"  # the queue that messages name; no job lies in it
_ADVICE: dict[AlertKind, str] = {
    "failures": "Look at the errors of the failed jobs; correct the cause and retry them.",
    "oldest_age": "Add workers, or find out why the oldest job does not run (windlass jobs explain).",
    "no_worker": "Start a worker for the queue, or find out why its workers have stopped.",
    "schedule_missed": "See whether a server runs, and whether the queue of the schedule is full.",
    "callback_given_up": "See why the receivers refuse them, then deliver them again (windlass callbacks redeliver).",
    "engine_risk": "Run windlass doctor: it names each risk and its remedy.",
}
_PAGES: dict[AlertKind, str] = {
    "failures": "failures",
    "oldest_age": "queues",
    "no_worker": "workers",
    "schedule_missed": "schedules",
    "callback_given_up": "callbacks",
    "engine_risk": "engine",
}


class AlertMessage(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a message, as it is stored and as a webhook receives it (with its id)."""

    event: AlertEvent
    alert: str
    kind: AlertKind
    pattern: str
    summary: str  # one line
    figure: float
    peak: float
    threshold: float
    unit: str
    condition: str  # the rule in words
    subjects: tuple[str, ...]
    since_ms: int
    at_ms: int  # when the message was made
    suppressed: int  # incidents within the cool-down that were not announced
    advice: str
    note: str
    deployment: str  # address of the server, or the namespace
    url: str  # page that shows what is wrong; empty: the address of the server is not known
    alerts_url: str


_decode = msgspec.json.Decoder(AlertMessage).decode


def decode_message(stored: bytes) -> AlertMessage:
    """Return a message as it was stored. Raise BadInput if it is none."""
    try:
        return _decode(stored)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise BadInput(f"this is not a message about an alert: {error}.") from error


def make_message(
    rule: AlertRule, event: AlertEvent, state: AlertState, now_ms: int, *, public_url: str, namespace: str
) -> AlertMessage:
    """Return the message about a move. `state` is the state in the incident, also for the message that it is over."""
    base = public_url.rstrip("/")
    return AlertMessage(
        event=event,
        alert=rule.name,
        kind=rule.kind,
        pattern=rule.pattern,
        summary=_summary(rule, event, state, now_ms),
        figure=state.value,
        peak=state.peak,
        threshold=rule.threshold,
        unit="ms" if rule.kind in IN_MS else "per_minute" if rule.kind == "failures" else "count",
        condition=describe_threshold(rule),
        subjects=state.subjects,
        since_ms=state.since_ms,
        at_ms=now_ms,
        suppressed=state.suppressed,
        advice="" if event == "alert_over" else _ADVICE[rule.kind],
        note=rule.note,
        deployment=base or namespace,
        url=f"{base}{page_path(rule.kind, state.subjects)}" if base else "",
        alerts_url=f"{base}/alerts" if base else "",
    )


def page_path(kind: AlertKind, subjects: tuple[str, ...]) -> str:
    """Return the path of the page that shows what is wrong."""
    if kind in ("oldest_age", "no_worker") and len(subjects) == 1:
        return f"/queues/{quote(subjects[0], safe='')}"
    if kind == "failures" and len(subjects) == 1:
        return f"/failures?queue={quote(subjects[0], safe='')}"
    return f"/{_PAGES[kind]}"


def _summary(rule: AlertRule, event: AlertEvent, state: AlertState, now_ms: int) -> str:
    if event == "alert_test":
        return f"{rule.name}: this is a test message; nothing is wrong."
    if event == "alert_over":
        took = format_figure("oldest_age", now_ms - state.since_ms)
        return f"{rule.name} is over after {took}; at worst {format_figure(rule.kind, state.peak)}."
    named = f" ({', '.join(state.subjects)})" if state.subjects else ""
    return f"{rule.name}: {describe_figure(rule.kind, state.value)}{named}."


def webhook_body(message: AlertMessage, message_id: str) -> bytes:
    fields: dict[str, Any] = {"id": message_id, **msgspec.structs.asdict(message)}
    return msgspec.json.encode(fields)


def slack_body(message: AlertMessage) -> bytes:
    """Return the body for an incoming webhook of Slack. `text` is what notifications show."""
    lines = [f"*{_escape(_title(message))}*", *(_escape(line) for line in _details(message))]
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "\n".join(lines)[:3000]}}
    return msgspec.json.encode({"text": _escape(_title(message)), "blocks": [section]})


def mail_subject(message: AlertMessage) -> str:
    """Return the subject of a mail. Nothing in it can end the header, not even in an encoded word, which the library
    would decode: a producer chooses names of queues."""
    title = printable(_title(message)).replace("=?", "= ?")
    return f"[Windlass] {title if len(title) <= SUBJECT_MAX else f'{title[:SUBJECT_MAX]}…'}"


def mail_text(message: AlertMessage) -> str:
    return "\n".join([_title(message), "", *_details(message)]) + "\n"


def _title(message: AlertMessage) -> str:
    mark = {"alert_opened": "OPEN", "alert_over": "OVER", "alert_test": "TEST"}[message.event]
    return f"{mark} {message.summary}"


def _details(message: AlertMessage) -> list[str]:
    lines = [f"Rule: {message.alert} ({message.condition})", f"Deployment: {message.deployment}"]
    if message.event != "alert_test":
        lines.append(f"Since: {_utc(message.since_ms)}")
    if message.event == "alert_opened" and message.suppressed:
        lines.append(f"It came back {_times(message.suppressed)} within the cool-down, without a message.")
    lines += [f"What to do: {text}" for text in (message.advice,) if text]
    lines += [f"Note: {text}" for text in (message.note,) if text]
    lines += [url for url in (message.url, message.alerts_url) if url]
    return lines


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _utc(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _escape(text: str) -> str:
    """Escape the three characters that Slack gives a meaning: a queue's name must not become a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
