"""Alert commands: rules, their states and moves, messages about incidents, and the count of given-up callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.core.alerts.incident import HISTORY_MAX, Alerts, AlertState, AlertStatus, PastIncident, Transition
from windlass.core.alerts.message import ALERT_QUEUE, AlertMessage
from windlass.core.alerts.rule import AlertRule
from windlass.core.alerts.targets import parse_target
from windlass.core.alerts.validation import ALERTS_MAX
from windlass.core.callbacks.callback import GIVEN_UP_KEPT_MS, destination_digest
from windlass.core.errors import Refusal, TooLarge
from windlass.core.job import Blob, Callback, NewJob
from windlass.core.states import State
from windlass.store.commands.command import Argument, Command, parse_reply, reply_parser
from windlass.store.records.record import FINGERPRINT_BYTES, FIRST_REVISION, pack
from windlass.store.records.snapshot import Snapshot, pack_snapshot

HOME = 0  # the partition that holds the rules
GIVEN_UP_EXAMINED = 1_000  # per partition
_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode_rule = msgspec.msgpack.Decoder(AlertRule).decode
_decode_state = msgspec.msgpack.Decoder(AlertState).decode
_decode_past = msgspec.msgpack.Decoder(PastIncident).decode


class StoredStatus(NamedTuple):
    """A rule with its state, as decoded and as stored: a move names the stored state that it replaces."""

    status: AlertStatus
    stored: bytes


class StoredAlerts(NamedTuple):
    now_ms: int
    rules: list[StoredStatus]  # by name
    past: list[PastIncident]

    @property
    def alerts(self) -> Alerts:
        return Alerts(now_ms=self.now_ms, rules=[found.status for found in self.rules], past=self.past)


def alerts(past: int) -> Command[StoredAlerts]:
    def read(reply: Any) -> StoredAlerts:
        now_ms, rules, states, incidents = reply
        return StoredAlerts(now_ms, _read_rules(rules, states), _read_past(incidents))

    return Command("alerts", [past], read, partition=HOME)


def claim_alerts(interval_ms: int) -> Command[StoredAlerts]:
    """Read the rules if this caller is to evaluate them now; else none."""

    def read(reply: Any) -> StoredAlerts:
        now_ms, rules, states = reply
        return StoredAlerts(now_ms, _read_rules(rules, states), [])

    return Command("claim_alerts", [interval_ms], read, partition=HOME)


def set_alert(rule: AlertRule) -> Command[int | Refusal]:
    def read(reply: Any) -> int | Refusal:
        if reply == TooLarge.code.encode():
            return TooLarge(f"There are {ALERTS_MAX} alert rules already; remove unused rules.")
        return parse_reply(reply, int)

    return Command("set_alert", [rule.name, _encode(rule), ALERTS_MAX], read, partition=HOME)


def remove_alert(name: str, past: PastIncident | None) -> Command[int | Refusal]:
    return Command("remove_alert", [name, _encode_past(past), HISTORY_MAX], reply_parser(int), partition=HOME)


class MessageEntry(NamedTuple):
    """Message as a pending callback: its id, its id + record, and the digest of its destination."""

    id: bytes
    entry: bytes
    destination: str


def move_alert(
    name: str, before: bytes, transition: Transition, messages: Sequence[MessageEntry]
) -> Command[int | Refusal]:
    args: list[Argument] = [name, before, encode_state(transition.state), _encode_past(transition.past), HISTORY_MAX]
    args += [part for message in messages for part in message]
    return Command("move_alert", args, reply_parser(int), partition=HOME)


def encode_state(state: AlertState) -> bytes:
    return _encode(state)


def pack_message(message: AlertMessage, target: str, message_id: bytes) -> MessageEntry:
    """Pack a message as the record of a job that has finished: deliverers, pages and exports then treat it as one."""
    to = parse_target(target)
    callback = Callback(type=to.type, destination=to.destination, events=("finished",))
    job = NewJob(
        queue=ALERT_QUEUE,
        name=message.alert,
        id=message_id,
        payload=Blob(msgspec.json.encode(message)),
        callback=callback,
    )
    ended = Snapshot(
        fingerprint=bytes(FINGERPRINT_BYTES),
        state=int(State.FINISHED),
        flags=0,
        sequence=0,
        created_at_ms=message.at_ms,
        run_at_ms=message.at_ms,
        started_at_ms=message.at_ms,
        ended_at_ms=message.at_ms,
        attempt=1,
        revision=FIRST_REVISION,
        progress=0,
    )
    record = pack_snapshot(pack(job, message_id, message.at_ms, 0), ended)
    return MessageEntry(message_id, message_id + record, destination_digest(callback))


def given_up_since(within_ms: int, partition: int) -> Command[int]:
    args: list[Argument] = [within_ms, GIVEN_UP_KEPT_MS, GIVEN_UP_EXAMINED]
    return Command("given_up_since", args, lambda reply: int(reply[1]), partition=partition)


def _encode_past(past: PastIncident | None) -> bytes:
    return b"" if past is None else _encode(past)


def _read_rules(rules: list[bytes], states: list[bytes]) -> list[StoredStatus]:
    stored = dict(zip(states[::2], states[1::2], strict=True))
    found = []
    for name, definition in zip(rules[::2], rules[1::2], strict=True):
        rule, state = _try(_decode_rule, definition), stored.get(name, b"")
        if rule is not None:
            known = _try(_decode_state, state) if state else None
            found.append(StoredStatus(AlertStatus(rule=rule, state=known or AlertState()), state))
    return sorted(found, key=lambda one: one.status.rule.name)


def _read_past(entries: list[bytes]) -> list[PastIncident]:
    found = (_try(_decode_past, entry) for entry in entries)
    return [past for past in found if past is not None]


def _try(decode: Any, stored: bytes) -> Any:
    """Decode a stored value. None: a later version wrote it, and this one cannot use it."""
    try:
        return decode(stored)
    except msgspec.MsgspecError:
        return None
