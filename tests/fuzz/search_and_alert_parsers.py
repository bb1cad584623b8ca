"""Parsers of what people and servers write about searches, saved filters, alerts and event streams."""

from __future__ import annotations

import json
from collections.abc import Sequence
from email import message_from_bytes
from typing import Any

import msgspec

from windlass.background.callbacks.smtp_backend import compose_mail
from windlass.core.alerts.declared import parse_tables
from windlass.core.alerts.incident import AlertState
from windlass.core.alerts.message import make_message, slack_body, webhook_body
from windlass.core.alerts.rule import AlertRule
from windlass.core.alerts.smtp_url import parse_smtp_url
from windlass.core.alerts.targets import MAIL, hide_secret, parse_target
from windlass.core.errors import BadInput, WindlassError
from windlass.core.filters.saved_filter import SavedFilter, check_saved_filter
from windlass.core.job import Blob, Codec
from windlass.core.limits.payload_index import INDEX_PATH_MAX, parse_condition, path_of, read_entries
from windlass.core.text.control_characters import printable
from windlass.core.text.payload_text import contains_text
from windlass.sdk.remote.events import EventStreamState
from windlass.sdk.remote.request import SHAPE_ERRORS

SENDER, RECIPIENT = "windlass@example.com", "ops@example.com"


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def alert_rules(data: bytes) -> Any:
    """Read tables of rules, as a settings file has them."""
    return repr(parse_tables(_json(data)))


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadInput(str(error)) from error


def alert_targets(data: bytes) -> Any:
    """Read a target in the first line, and the URL of a mail server in the rest."""
    text, _, server = _text(data).partition("\n")
    target = _call(lambda: parse_target(text))
    if target is not None:
        hide_secret(text)
    if target is not None and target.type == MAIL:
        assert not set(target.destination) & set("\r\n ,<>")
    return target, _call(lambda: parse_smtp_url(server))


def _call(way: Any) -> Any:
    try:
        return way()
    except BadInput:
        return None


def alert_mails(data: bytes) -> Any:
    """Compose a mail about a queue with any name. The name adds no header."""
    name, _, subject = _text(data).replace("\ud800", "").partition("\n")
    rule = AlertRule(name=name or "r", kind="no_worker", note=subject[:200])
    state = AlertState(subjects=(subject or "q",))
    message = make_message(rule, "alert_opened", state, 0, public_url="https://jobs.example.com", namespace="wl")
    mail = compose_mail(message, "id", SENDER, RECIPIENT)
    raw = mail.as_bytes(policy=mail.policy)
    read = message_from_bytes(raw)
    assert sorted(read.keys()) == sorted(mail.keys())
    assert (read["From"], read["To"]) == (SENDER, RECIPIENT)
    assert len(mail.keys()) == 9
    slack = msgspec.json.decode(slack_body(message))
    assert "<" not in slack["text"]
    webhook_body(message, "id")
    return raw


def saved_filters(data: bytes) -> Any:
    """Read a page in the first line, and a field with its value in each other line."""
    page, *lines = _text(data).split("\n")
    pairs = [line.partition("=") for line in lines]
    check_saved_filter(SavedFilter(name="a filter", page=page, fields={name: value for name, _, value in pairs}))
    return page


def payload_searches(data: bytes) -> Any:
    """Search a payload: a condition in the first line, a path in the second, a text in the third."""
    condition, path, text, payload = (data.split(b"\n", 3) + [b""] * 3)[:4]
    entry = _call(lambda: parse_condition(_text(condition)))
    if entry is not None:
        path_of(entry)
    found = []
    for codec in Codec:
        blob = Blob(payload, codec)
        found.append((read_entries([_text(path)[:INDEX_PATH_MAX]], blob), contains_text(blob, _text(text)[:255])))
    return entry, found


def event_streams(pieces: Sequence[bytes]) -> Any:
    """Read the events of a server, as a client does."""
    state = EventStreamState("", "q", b"")
    try:
        for piece in pieces:
            state.feed(piece)
        state.set_ended()
    except (*SHAPE_ERRORS, WindlassError) as error:
        return type(error), len(state.ready)
    # The instant of an end that no event reported is that of the reader's clock.
    return [(event.kind, event.job, event.position, event.value) for event in state.ready], state.position


def terminal_texts(data: bytes) -> str:
    """Escape a text for a terminal. Nothing is left that one would interpret, and lines stay lines."""
    text = _text(data)
    shown = printable(text)
    assert not [char for char in shown if char < " " or "\x7f" <= char <= "\x9f"]
    assert printable(shown) == shown
    assert printable(text, keeps_lines=True).count("\n") == text.count("\n")
    return shown
