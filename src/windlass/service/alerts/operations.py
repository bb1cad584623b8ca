"""Alert operations: set, remove, mute and test rules; read their incidents; store the moves of an evaluation."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from windlass.core.alerts.incident import HISTORY_MAX, AlertEvent, Alerts, AlertStatus, Transition, end_incident
from windlass.core.alerts.message import make_message
from windlass.core.alerts.rule import AlertRule
from windlass.core.alerts.validation import (
    WINDOW_MAX_MS,
    WINDOW_MIN_MS,
    check_alert_name,
    check_alert_rule,
    check_mute,
)
from windlass.core.errors import BadInput, RevisionConflict, UnknownAlert
from windlass.core.ids import make_ids
from windlass.core.text.durations import INSTANT_MAX
from windlass.core.validation.values import check_instance, check_integer, check_list, check_text
from windlass.service.facet import Facet, send, send_or_raise
from windlass.store.commands.admin import alerts as calls
from windlass.store.commands.admin.alerts import HOME, MessageEntry, StoredAlerts, StoredStatus
from windlass.store.commands.command import Flow
from windlass.store.operation import Operation

URL_MAX = 2048


class AlertOperations(Facet):
    def alerts(self, *, past: int = HISTORY_MAX) -> Operation[Alerts]:
        """Return all alert rules with their states, and the last past incidents."""
        check_integer("past", past, 0, HISTORY_MAX)
        return Operation(self.store, lambda: self._alerts_flow(past))

    def _alerts_flow(self, past: int) -> Flow[Alerts]:
        found: StoredAlerts = yield calls.alerts(past)
        return found.alerts

    def set_alert(self, rule: AlertRule) -> Operation[AlertRule]:
        """Set an alert rule, or change the rule of this name; its incident goes on. Rules that the settings of a server
        declare are changed there."""
        check_alert_rule(rule)
        if rule.is_declared:
            raise BadInput("Only the settings of a server declare a rule; leave is_declared out.")
        return Operation(self.store, lambda: self._set_flow(rule))

    def _set_flow(self, rule: AlertRule) -> Flow[AlertRule]:
        found: StoredAlerts = yield calls.alerts(0)
        _check_is_own(found, rule.name)
        yield from send_or_raise(calls.set_alert(rule))
        return rule

    def remove_alert(self, name: str) -> Operation[None]:
        """Remove an alert rule. Its open incident ends without a message."""
        check_alert_name(name)
        return Operation(self.store, lambda: self._remove_flow(name))

    def _remove_flow(self, name: str) -> Flow[None]:
        found: StoredAlerts = yield calls.alerts(0)
        _check_is_own(found, name)
        yield from self._drop(_find(found, name), found.now_ms)

    def _drop(self, one: StoredStatus, now_ms: int) -> Flow[None]:
        rule, state = one.status.rule, one.status.state
        past = end_incident(rule, state, now_ms) if state.phase == "open" else None
        yield from send_or_raise(calls.remove_alert(rule.name, past))

    def mute_alert(self, name: str, *, for_ms: int) -> Operation[AlertStatus]:
        """Send no message about a rule for some time; 0 ends that. Incidents still open and end. An incident that
        outlasts the time is announced then; the end of an announced incident is always sent."""
        check_mute(name, for_ms)
        return Operation(
            self.store, lambda: self._change(name, lambda now_ms: {"muted_until_ms": now_ms + for_ms if for_ms else 0})
        )

    def test_alert(self, name: str, *, public_url: str = "") -> Operation[int]:
        """Send a test message to each target of a rule. Return the number of targets. `public_url`: address of the
        server, for the links in the message."""
        check_alert_name(name)
        check_text("public_url", public_url, URL_MAX, may_be_empty=True)
        return Operation(self.store, lambda: self._test_flow(name, public_url))

    def _test_flow(self, name: str, public_url: str) -> Flow[int]:
        found: StoredAlerts = yield calls.alerts(0)
        targets = _find(found, name).status.rule.targets
        if not targets:
            raise BadInput(f"The rule {name!r} has no target; add one first.")
        yield from self._change(name, lambda _now_ms: {}, "alert_test", public_url)
        return len(targets)

    def _change(
        self, name: str, changes: Callable[[int], dict[str, int]], event: AlertEvent | None = None, public_url: str = ""
    ) -> Flow[AlertStatus]:
        """Change fields of a rule's state, whatever moves it at the same time."""
        wanted = b""
        while True:
            found: StoredAlerts = yield calls.alerts(0)
            one = _find(found, name)
            if wanted and one.stored == wanted:  # the answer to the last attempt was lost
                return one.status
            state = one.status.state
            after = replace(state, revision=state.revision + 1, **changes(found.now_ms))
            wanted = calls.encode_state(after)
            try:
                yield from self._move(one, Transition(state=after, event=event), found.now_ms, public_url)
            except RevisionConflict:
                continue
            return replace(one.status, state=after)

    # Steps of the evaluation

    def claim_alerts(self, *, interval_ms: int) -> Operation[StoredAlerts]:
        """Return the rules to one caller per interval, to others none: any number of servers may ask."""
        check_integer("interval_ms", interval_ms, 1, WINDOW_MAX_MS)
        return Operation(self.store, lambda: send(calls.claim_alerts(interval_ms)))

    def move_alert(
        self, one: StoredStatus, transition: Transition, now_ms: int, *, public_url: str = ""
    ) -> Operation[bool]:
        """Store a move of the evaluation, with its messages. Return False if another server, or a person, was first."""
        check_instance("A rule to move", one, StoredStatus)
        check_instance("transition", transition, Transition)
        check_integer("now_ms", now_ms, 0, INSTANT_MAX)
        check_text("public_url", public_url, URL_MAX, may_be_empty=True)
        return Operation(self.store, lambda: self._move_or_leave(one, transition, now_ms, public_url))

    def _move_or_leave(self, one: StoredStatus, transition: Transition, now_ms: int, public_url: str) -> Flow[bool]:
        try:
            yield from self._move(one, transition, now_ms, public_url)
        except (RevisionConflict, UnknownAlert):
            return False
        return True

    def _move(self, one: StoredStatus, transition: Transition, now_ms: int, public_url: str) -> Flow[None]:
        messages = self._messages(one, transition, now_ms, public_url)
        yield from send_or_raise(calls.move_alert(one.status.rule.name, one.stored, transition, messages))

    def _messages(self, one: StoredStatus, transition: Transition, now_ms: int, public_url: str) -> list[MessageEntry]:
        if transition.event is None:
            return []
        rule = one.status.rule
        # The message that an incident is over describes the incident, so the state before.
        state = one.status.state if transition.event == "alert_over" else transition.state
        message = make_message(
            rule, transition.event, state, now_ms, public_url=public_url, namespace=self.store.namespace
        )
        ids = make_ids(now_ms, HOME, len(rule.targets), os.urandom)
        return [
            calls.pack_message(message, target, message_id)
            for target, message_id in zip(rule.targets, ids, strict=True)
        ]

    def given_up_since(self, *, within_ms: int) -> Operation[int]:
        """Count the callbacks that were given up lately, without messages about alerts. At most 1,000 per partition are
        examined."""
        check_integer("within_ms", within_ms, WINDOW_MIN_MS, WINDOW_MAX_MS)
        return Operation(self.store, lambda: self._given_up_flow(within_ms))

    def _given_up_flow(self, within_ms: int) -> Flow[int]:
        return sum((yield from self._send_to_each(lambda partition: calls.given_up_since(within_ms, partition))))

    def declare_alerts(self, rules: Sequence[AlertRule]) -> Operation[None]:
        """Make these the declared rules: set them, and remove declared rules that are no longer among them. Rules that
        were set by hand stay, unless a declared rule has their name."""
        check_list("rules", rules)
        for rule in rules:
            check_alert_rule(rule)
        return Operation(self.store, lambda: self._declare_flow(rules))

    def _declare_flow(self, rules: Sequence[AlertRule]) -> Flow[None]:
        found: StoredAlerts = yield calls.alerts(0)
        known = {one.status.rule.name: one for one in found.rules}
        for rule in rules:
            declared = replace(rule, is_declared=True)
            if rule.name not in known or known[rule.name].status.rule != declared:
                yield from send_or_raise(calls.set_alert(declared))
        names = {rule.name for rule in rules}
        for name, one in known.items():
            if one.status.rule.is_declared and name not in names:
                yield from self._drop_if_known(one, found.now_ms)

    def _drop_if_known(self, one: StoredStatus, now_ms: int) -> Flow[None]:
        with contextlib.suppress(UnknownAlert):  # another server was first
            yield from self._drop(one, now_ms)


def _find(found: StoredAlerts, name: str) -> StoredStatus:
    for one in found.rules:
        if one.status.rule.name == name:
            return one
    raise UnknownAlert(f"There is no alert rule {name!r}.")


def _check_is_own(found: StoredAlerts, name: str) -> None:
    if any(one.status.rule.name == name and one.status.rule.is_declared for one in found.rules):
        raise BadInput(f"The settings of a server declare the rule {name!r}: change it there (docs/alerts.md).")
