"""windlass doctor: do records, indexes and the engine's settings agree, and what to do where they do not."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence

import click
import msgspec

from windlass import server
from windlass.cli.connection import Engine, engine_options
from windlass.cli.output import json_option, printable
from windlass.core.diagnosis import Diagnosis, Finding, Progress, Severity
from windlass.core.errors import WindlassError
from windlass.service import Service

SICK, BLIND = 1, 2
WIDTH = 100
SHOWN_EXAMPLES = 3  # the rest is in the JSON
SHOWN = {
    Severity.ERROR: ("Errors", "red", "✗"),
    Severity.WARNING: ("Warnings", "yellow", "!"),
    Severity.NOTE: ("Notes", "cyan", "·"),
}


@click.command(short_help="Look for disagreement and risks.")
@click.option("--repair", is_flag=True, help="Put right what needs no decision; jobs may flow meanwhile.")
@json_option
@engine_options
def doctor(repair: bool, as_json: bool, engine: Engine) -> None:
    """Look for disagreement between records and indexes, and for risks in the engine's settings.

    Exit code: 0 all is well (or was put right), 1 errors remain, 2 it could not look.

    \b
    Example:
      windlass doctor --repair
    """
    try:
        diagnosis, name = _look(repair, engine)
    except WindlassError as error:
        click.echo(f"windlass: could not look: {error}", err=True)
        sys.exit(BLIND)
    if as_json:
        click.echo(json.dumps(_plain(diagnosis), indent=2))
    else:
        _show(diagnosis, name)
    sys.exit(0 if diagnosis.is_healthy else SICK)


def _look(repair: bool, engine: Engine) -> tuple[Diagnosis, str]:
    # An engine that evicts is refused elsewhere; here it is what people want to be told about.
    store = server.build_store(engine.settings(allow_eviction=True))
    try:
        diagnosis = Service(store).doctor(repair, on_progress=_progress if sys.stderr.isatty() else None).wait()
        _clear()
        found = store.deployment
        name = f"{found.product} {found.version}, " if found else ""
        return diagnosis, f"{name}{store.endpoint}"
    finally:
        store.close_sync()


def _progress(now: Progress) -> None:
    click.echo(f"\r  {now.keys:,} keys, {now.jobs:,} jobs, {now.findings:,} findings …", nl=False, err=True)


def _clear() -> None:
    if sys.stderr.isatty():
        click.echo("\r\033[K", nl=False, err=True)


def _plain(diagnosis: Diagnosis) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(diagnosis)
    plain["findings"] = [msgspec.to_builtins(one) | {"severity": one.severity.label} for one in diagnosis.findings]
    return plain | {"is_healthy": diagnosis.is_healthy}


def _show(diagnosis: Diagnosis, engine: str) -> None:
    click.echo(f"Engine    {engine}")
    seen = (_counted(diagnosis.jobs, "job"), _counted(diagnosis.queues, "queue"), _counted(diagnosis.keys, "key"))
    click.echo("Looked at {} in {} ({}).".format(*seen))
    if diagnosis.uncounted:
        click.echo(f"Bytes could not be added up (they changed, or miss jobs): {_names(diagnosis.uncounted)}.")
    for severity, (title, color, _) in SHOWN.items():
        found = [one for one in diagnosis.findings if one.severity is severity]
        if found:
            click.echo()
            click.secho(title, bold=True, fg=color)
        for one in found:
            _show_finding(one)
    click.echo()
    click.echo(_verdict(diagnosis))


def _show_finding(one: Finding) -> None:
    _, color, sign = SHOWN[one.severity]
    mark = click.style(sign, fg=color) if one.is_open else click.style("✓", fg="green")
    count = f" ({one.count:,} ×)" if one.count > 1 else ""
    click.echo(f"  {mark} {click.style(one.code, bold=True)}{count}")
    click.echo(_wrapped(f"{one.what} {one.risk}" if one.is_open else one.what))
    click.echo(_wrapped(f"→ {one.remedy}"))
    shown = one.examples[:SHOWN_EXAMPLES]
    for example in shown:
        click.echo(click.style(f"      {printable(example)}", dim=True))
    if shown and one.count > len(shown):
        click.echo(click.style(f"      … and {one.count - len(shown):,} more", dim=True))


def _names(found: Sequence[str]) -> str:
    return printable(", ".join(found[:10]))


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _wrapped(text: str) -> str:
    return textwrap.fill(printable(text), WIDTH, initial_indent="    ", subsequent_indent="    ")


def _verdict(diagnosis: Diagnosis) -> str:
    if not diagnosis.findings:
        return click.style("All is well: records, indexes and the engine agree.", fg="green")
    if not diagnosis.is_healthy:
        return click.style("Errors remain; see what to do above.", fg="red")
    if any(one.is_open for one in diagnosis.findings):
        return "No errors remain; see the advice above."
    return click.style("Everything that was found was put right.", fg="green")
