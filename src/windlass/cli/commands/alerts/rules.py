"""windlass alerts: rules, their incidents, and test messages (docs/alerts.md)."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from windlass.cli.bulk import accepted_yes_option
from windlass.cli.connection import with_service
from windlass.cli.output import (
    Column,
    InstantCell,
    format_count,
    json_option,
    print_json_line,
    print_note,
    print_table,
    print_text,
)
from windlass.cli.parameters import DURATION
from windlass.cli.records import to_record
from windlass.core.alerts.declared import parse_table
from windlass.core.alerts.incident import AlertStatus, PastIncident
from windlass.core.alerts.rule import IN_MS, KINDS, AlertRule, describe_figure, describe_threshold, format_figure
from windlass.core.errors import BadInput
from windlass.service import Service
from windlass.settings import load

COLUMNS = (
    Column("rule", shrinks=12),
    Column("state"),
    Column("figure", shrinks=10),
    Column("since", rank=1),
    Column("of", rank=2, shrinks=12),
    Column("condition", rank=3, shrinks=20),
    Column("targets", rank=4, shrinks=16),
)
PAST_COLUMNS = (
    Column("rule", shrinks=12),
    Column("opened"),
    Column("over"),
    Column("at worst", shrinks=10),
    Column("of", rank=2, shrinks=12),
    Column("message", rank=1),
)
rule_argument = click.argument("rule_name", metavar="RULE")


@click.group()
def alerts() -> None:
    """Set alert rules; see and mute their incidents."""


@alerts.command("ls")
@click.option("--past", "past", is_flag=True, help="Incidents that are over, newest first.")
@json_option
@with_service
def ls(service: Service, past: bool, as_json: bool) -> None:
    """List alert rules with their open incidents.

    With --json, one object per line.

    \b
    Example:
      windlass alerts ls
      windlass alerts ls --past
    """
    found = service.alerts().wait()
    if as_json:
        for entry in found.past if past else found.rules:
            print_json_line(_record(entry))
    elif past:
        print_table(PAST_COLUMNS, (_past_row(one, found.now_ms) for one in found.past), empty="No past incidents.")
    else:
        print_table(COLUMNS, (_row(one, found.now_ms) for one in found.rules), empty="No alert rules.")


def _record(entry: AlertStatus | PastIncident) -> dict[str, Any]:
    if isinstance(entry, PastIncident):
        return msgspec.structs.asdict(entry)
    rule: dict[str, Any] = to_record(entry.rule)
    state = to_record(entry.state)
    hidden = ("revision", "counter", "grew_at_ms")
    return rule | {name: value for name, value in state.items() if name not in hidden}


def _row(one: AlertStatus, now_ms: int) -> tuple[object, ...]:
    rule, state = one.rule, one.state
    label: str = state.phase if rule.is_enabled else "disabled"
    label += ", muted" if state.is_muted(now_ms) else ""
    figure = describe_figure(rule.kind, state.value) if state.phase != "ok" else ""
    since = InstantCell(state.since_ms or None, now_ms)
    named = ", ".join(state.subjects)
    return rule.name, label, figure, since, named, describe_threshold(rule), ", ".join(rule.targets)


def _past_row(past: PastIncident, now_ms: int) -> tuple[object, ...]:
    opened, over = InstantCell(past.opened_at_ms, now_ms), InstantCell(past.over_at_ms, now_ms)
    peak, named = format_figure(past.kind, past.peak), ", ".join(past.subjects)
    return past.name, opened, over, peak, named, "sent" if past.is_announced else "held back"


@alerts.command("set")
@rule_argument
@click.option("--kind", type=click.Choice(KINDS), required=True, help="What is watched.")
@click.option("--queue", default="", metavar="PATTERN", help="Queues, e.g. mail or 'video-*'. Default: all.")
@click.option("--schedule", default="", metavar="PATTERN", help="Schedules, for schedule_missed. Default: all.")
@click.option("--threshold", default="", metavar="FIGURE", help="A number; for ages and lateness a duration, e.g. 10m.")
@click.option("--window", default="", metavar="DURATION", help="Time over which failures count. Default: 10m.")
@click.option("--for", "hold", default="", metavar="DURATION", help="Time that the condition must last. Default: 0s.")
@click.option("--cool-down", default="", metavar="DURATION", help="A return within it sends nothing. Default: 30m.")
@click.option(
    "--to", "targets", multiple=True, metavar="TARGET",
    help="https://…, slack:https://… or mailto:ops@example.com; repeatable.",
)  # fmt: skip
@click.option("--note", default="", help="Added to messages: what to do, or where it is written.")
@click.option("--disabled", is_flag=True, help="Keep the rule, and evaluate it no more.")
@accepted_yes_option
@with_service
def set_rule(
    service: Service,
    rule_name: str,
    kind: str,
    queue: str,
    schedule: str,
    threshold: str,
    window: str,
    hold: str,
    cool_down: str,
    targets: tuple[str, ...],
    note: str,
    disabled: bool,
) -> None:
    """Set or change the alert rule named RULE. Options that are not given get their defaults.

    \b
    Example:
      windlass alerts set mail-failures --kind failures --queue 'mail-*' --threshold 5 --to mailto:ops@example.com
      windlass alerts set stuck --kind oldest_age --threshold 10m --for 2m --to slack:https://hooks.slack.com/services/…
    """
    given = {
        "queue": queue, "schedule": schedule, "window": window, "for": hold, "cool_down": cool_down, "note": note,
    }  # fmt: skip
    table: dict[str, Any] = {"kind": kind, "to": targets, "enabled": not disabled}
    table |= {name: value for name, value in given.items() if value}
    if threshold:
        table["threshold"] = threshold if kind in IN_MS else _number(threshold)
    service.set_alert(_parse(rule_name, table)).wait()
    print_text(f"Alert rule {rule_name} is set.")


def _parse(name: str, table: dict[str, Any]) -> AlertRule:
    try:
        return parse_table(name, table)
    except BadInput as error:
        raise click.UsageError(str(error)) from error


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise click.UsageError(f"--threshold must be a number, not {text!r}.") from error


@alerts.command()
@rule_argument
@accepted_yes_option
@with_service
def rm(service: Service, rule_name: str) -> None:
    """Remove an alert rule. Its open incident ends without a message.

    \b
    Example:
      windlass alerts rm mail-failures
    """
    service.remove_alert(rule_name).wait()
    print_text(f"Alert rule {rule_name} is removed.")


@alerts.command()
@rule_argument
@click.option("--for", "time", type=DURATION, required=True, help="Time without messages, e.g. 2h; 0s: unmute.")
@accepted_yes_option
@with_service
def mute(service: Service, rule_name: str, time: int) -> None:
    """Send no message about a rule for some time.

    An incident that outlasts it is announced then. The end of an announced incident is always sent.

    \b
    Example:
      windlass alerts mute mail-failures --for 2h
    """
    service.mute_alert(rule_name, for_ms=time).wait()
    print_text(f"Alert rule {rule_name} is muted." if time else f"Alert rule {rule_name} notifies again.")


@alerts.command()
@rule_argument
@accepted_yes_option
@with_service
def test(service: Service, rule_name: str) -> None:
    """Send a test message to each target of a rule.

    \b
    Example:
      windlass alerts test mail-failures
    """
    count = service.test_alert(rule_name, public_url=load({})[0].public_url).wait()
    print_text(f"A test message is on its way to {format_count(count, 'target')}.")
    print_note("`windlass callbacks ls` shows messages that could not be delivered yet.")
