"""windlass doctor: inconsistent records and indexes, risky engine settings, and their remedies."""

from __future__ import annotations

import contextlib
import json
import sys
import textwrap
import time

import click
import msgspec

from windlass import server
from windlass.cli.bulk import accepted_yes_option
from windlass.cli.connection import (
    EngineOptions,
    engine_options,
    make_audited_service,
    open_or_report,
    run_within,
)
from windlass.cli.engine_page import ProbeResult, print_probe, print_probe_json
from windlass.cli.output import format_count, json_option, print_note
from windlass.core.diagnosis import Diagnosis, Finding, Progress, Severity
from windlass.core.errors import (
    BadSetting,
    EngineNotPermitted,
    EngineUnsuitable,
    Forbidden,
    Unauthorized,
    WindlassError,
)
from windlass.core.namespace.format import NamespaceFormat
from windlass.core.text.control_characters import printable
from windlass.sdk.deployment import make_store
from windlass.settings import Settings
from windlass.store.topology.capabilities import ProbeOptions, find_capabilities, is_suitable
from windlass.store.topology.cluster import Cluster
from windlass.store.topology.permissions import acl_rules, explain_refusal
from windlass.store.topology.probe import probe_nodes
from windlass.store.topology.sentinel import Sentinel

UNHEALTHY, CHECK_FAILED = 1, 2
PROBE_LIMIT_S = 5.0
WIDTH = 100
EXAMPLES_SHOWN = 3  # --json prints more
SEVERITIES = {
    Severity.ERROR: ("Errors", "red", "✗"),
    Severity.WARNING: ("Warnings", "yellow", "!"),
    Severity.NOTE: ("Notes", "cyan", "·"),
}


@click.command(short_help="Check for inconsistencies and risks.")
@click.option("--repair", is_flag=True, help="Repair findings that need no decision. Jobs can keep running.")
@click.option(
    "--engine",
    "probed_url",
    metavar="URL",
    help="Instead: show what this engine can and cannot do for Windlass. Takes 5 s at most and leaves nothing behind.",
)
@json_option
@accepted_yes_option
@engine_options
def doctor(repair: bool, probed_url: str | None, as_json: bool, engine: EngineOptions) -> None:
    """Check for inconsistent records and indexes, and for risky engine settings.

    Exit code: 0 healthy (or repaired), 1 errors remain, 2 the check was not possible. With --engine: 0 suitable, 1 not
    suitable, 2 the probe was not possible.

    \b
    Example:
      windlass doctor --repair
      windlass doctor --engine redis://db.example.org:6379/0
    """
    if probed_url is not None:
        if repair or engine.url or engine.data_dir:
            raise click.UsageError("--engine takes only --namespace and --json beside it: it checks no jobs.")
        sys.exit(_probe(engine._replace(url=probed_url).settings(), as_json))
    try:
        diagnosis, name, found = _diagnose(repair, engine)
    except (Unauthorized, Forbidden):
        raise
    except WindlassError as error:
        print_note(f"windlass: the check was not possible: {error}")
        sys.exit(CHECK_FAILED)
    if as_json:
        click.echo(json.dumps(_to_builtins(diagnosis, found), indent=2))
    else:
        _show(diagnosis, name, found)
    sys.exit(0 if diagnosis.is_healthy else UNHEALTHY)


def _probe(settings: Settings, as_json: bool) -> int:
    """Probe an engine, print the result and return the exit code."""
    try:
        result = run_within(PROBE_LIMIT_S, lambda: _probe_engine(settings))
    except WindlassError as error:
        return _report_refusal(explain_refusal(error))
    if result is None:
        click.echo(f"windlass: the probe was not possible: no answer within {PROBE_LIMIT_S:g} s.", err=True)
        return CHECK_FAILED
    (print_probe_json if as_json else print_probe)(result)
    return 0 if is_suitable(result.rows) else UNHEALTHY


def _report_refusal(error: WindlassError) -> int:
    """Print why there are no rows: the engine refuses to be used in this way, or it cannot be reached."""
    is_refusal = isinstance(error, (EngineNotPermitted, EngineUnsuitable))
    print_note(f"windlass: {'not suitable as it is' if is_refusal else 'the probe was not possible'}: {error}")
    return UNHEALTHY if is_refusal else CHECK_FAILED


def _probe_engine(settings: Settings) -> ProbeResult:
    if settings.url.startswith(("http://", "https://")):
        raise BadSetting("--engine takes the URL of an engine, such as redis://localhost:6379/0, not of a server.")
    started_s = time.perf_counter()
    with server.embedded_engine(settings) or contextlib.nullcontext():
        store = server.build_store(settings)
        nodes = probe_nodes(store.topology, settings.namespace, PROBE_LIMIT_S)
    is_cluster, is_sentinel = isinstance(store.topology, Cluster), isinstance(store.topology, Sentinel)
    kind = f"cluster, {format_count(len(nodes), 'node')} with partitions" if is_cluster else "one node"
    options = ProbeOptions(
        durability=settings.durability or "memory",
        is_managed=store.is_managed,
        allow_eviction=settings.allow_eviction,
        is_cluster=is_cluster,
        topology=f"the primary of the sentinels, {nodes[0].node}" if is_sentinel else kind,
    )
    minimal, functions = (
        acl_rules(settings.namespace, is_cluster=is_cluster, is_sentinel=is_sentinel, calls_by=way)
        for way in ("scripts", "functions")
    )
    took_ms = round((time.perf_counter() - started_s) * 1000)
    rows = find_capabilities(nodes, options)
    return ProbeResult(str(store.topology), settings.namespace, rows, minimal, functions, took_ms)


def _diagnose(repair: bool, engine: EngineOptions) -> tuple[Diagnosis, str, NamespaceFormat | None]:
    # Other commands refuse an engine that evicts keys; here it must become a finding.
    store = make_store(engine.settings(allow_eviction=True))
    try:
        open_or_report(store)
        service = make_audited_service(store)
        diagnosis = service.doctor(repair, on_progress=_progress if sys.stderr.isatty() else None).wait()
        _clear()
        found = store.deployment
        name = f"{found.product} {found.version}, " if found else ""
        return diagnosis, f"{name}{store.endpoint}", found.format if found else None
    finally:
        store.close_sync()


def _progress(now: Progress) -> None:
    click.echo(f"\r  {now.keys:,} keys, {now.jobs:,} jobs, {now.findings:,} findings …", nl=False, err=True)


def _clear() -> None:
    if sys.stderr.isatty():
        click.echo("\r\033[K", nl=False, err=True)


def _to_builtins(diagnosis: Diagnosis, found: NamespaceFormat | None) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(diagnosis)
    plain["findings"] = [
        msgspec.to_builtins(finding) | {"severity": finding.severity.label} for finding in diagnosis.findings
    ]
    return plain | {"is_healthy": diagnosis.is_healthy, "namespace_format": msgspec.to_builtins(found)}


def _show(diagnosis: Diagnosis, engine: str, stored: NamespaceFormat | None) -> None:
    jobs, queues = format_count(diagnosis.jobs, "job"), format_count(diagnosis.queues, "queue")
    click.echo(f"Engine   {printable(engine)}")
    if stored is not None:
        click.echo(f"Format   {printable(str(stored))}")
    click.echo(f"Checked  {jobs} in {queues} ({format_count(diagnosis.keys, 'key')}).")
    if diagnosis.uncounted:
        names = printable(", ".join(diagnosis.uncounted[:10]))
        click.echo(f"The bytes of these queues could not be summed (they changed, or jobs are missing): {names}.")
    for severity, (title, color, _) in SEVERITIES.items():
        found = [finding for finding in diagnosis.findings if finding.severity is severity]
        if found:
            click.echo()
            click.secho(title, bold=True, fg=color)
        for finding in found:
            _show_finding(finding)
    click.echo()
    click.echo(_verdict(diagnosis))


def _show_finding(finding: Finding) -> None:
    _, color, sign = SEVERITIES[finding.severity]
    mark = click.style(sign, fg=color) if finding.is_open else click.style("✓", fg="green")
    count = f" ({finding.count:,} ×)" if finding.count > 1 else ""
    click.echo(f"  {mark} {click.style(printable(finding.code), bold=True)}{count}")
    click.echo(_wrap(f"{finding.what} {finding.risk}" if finding.is_open else finding.what))
    click.echo(_wrap(f"→ {finding.remedy}"))
    shown = finding.examples[:EXAMPLES_SHOWN]
    for example in shown:
        click.echo(click.style(f"      {printable(example)}", dim=True))
    if shown and finding.count > len(shown):
        click.echo(click.style(f"      … and {finding.count - len(shown):,} more", dim=True))


def _wrap(text: str) -> str:
    return textwrap.fill(printable(text), WIDTH, initial_indent="    ", subsequent_indent="    ")


def _verdict(diagnosis: Diagnosis) -> str:
    if not diagnosis.findings:
        return click.style("No problems found: records, indexes and engine settings are consistent.", fg="green")
    if not diagnosis.is_healthy:
        return click.style("Errors remain; see the remedies above.", fg="red")
    if any(finding.is_open for finding in diagnosis.findings):
        return "No errors remain; see the advice above."
    return click.style("All findings were repaired.", fg="green")
