"""Output of a probe of an engine: a table of its capabilities, and the rules for a restricted user."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from windlass.core.text.control_characters import printable
from windlass.store.topology.capabilities import Capability, Verdict, is_suitable

from .output import console, is_for_people, print_text

PIPE_WIDTH = 118
SIGNS: dict[Verdict, tuple[str, str]] = {"ok": ("✓", "green"), "limited": ("!", "yellow"), "blocking": ("✗", "red")}


class ProbeResult(NamedTuple):
    """Capabilities of an engine, and the rules for a user of it."""

    engine: str  # its URL without secrets
    namespace: str
    rows: Sequence[Capability]
    minimal_rules: Sequence[str]
    function_rules: Sequence[str]
    took_ms: int


def acl_line(rules: Sequence[str]) -> str:
    return f"ACL SETUSER windlass on >PASSWORD {' '.join(rules)}"


def print_probe(result: ProbeResult) -> None:
    print_text(f"Engine  {result.engine}, namespace {result.namespace!r} ({result.took_ms} ms)")
    click.echo()
    console(None if is_for_people() else PIPE_WIDTH).print(_table(result.rows))
    click.echo()
    print_text("Least permissions for a user of Windlass, which then calls scripts:")
    click.echo(acl_line(result.minimal_rules))
    print_text("Or, on an engine that `windlass engine prepare` has prepared, for the faster functions:")
    click.echo(acl_line(result.function_rules))
    click.echo()
    click.echo(_verdict(result.rows))


def print_probe_json(result: ProbeResult) -> None:
    found = {
        "engine": result.engine,
        "namespace": result.namespace,
        "is_suitable": is_suitable(result.rows),
        "capabilities": [row._asdict() for row in result.rows],
        "acl": {"minimal": acl_line(result.minimal_rules), "functions": acl_line(result.function_rules)},
        "took_ms": result.took_ms,
    }
    click.echo(json.dumps(found, indent=2))


def _table(rows: Sequence[Capability]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("capability", no_wrap=True)
    table.add_column("found", overflow="fold", ratio=2)
    table.add_column("what follows", overflow="fold", ratio=3)
    for row in rows:
        sign, color = SIGNS[row.verdict]
        table.add_row(Text(sign, color), row.name, Text(printable(row.found)), Text(printable(row.effect)))
    return table


def _verdict(rows: Sequence[Capability]) -> str:
    blocking = [row.name for row in rows if row.verdict == "blocking"]
    if blocking:
        return click.style(f"Not suitable for Windlass as it is: {', '.join(blocking)}.", fg="red")
    if any(row.verdict == "limited" for row in rows):
        return "Suitable for Windlass. Rows marked with ! say what is weaker or missing."
    return click.style("Suitable for Windlass, without exception.", fg="green")
