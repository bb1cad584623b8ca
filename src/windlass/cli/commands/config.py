"""windlass config: every setting, its value, and where it came from; the durability that the engine really gives."""

from __future__ import annotations

import json
import re
import threading

import click

from windlass import server
from windlass.cli.output import json_option, printable
from windlass.core.durability import find_weakest
from windlass.core.errors import WindlassError
from windlass.settings import Origin, Settings, load
from windlass.store.topology.health import CONFIG, INFO, read_durability
from windlass.store.topology.permissions import explain_refusal
from windlass.store.topology.primaries import query_primaries_once

SECRET = {"url"}
HIDDEN = {"token", "callback_keys", "callback_kafka", "download_headers"}
IN_FORCE = "durability_in_force"  # no setting: it is read from the engine
ENGINE_LIMIT_S = 3.0


@click.command(short_help="Show every setting and where it came from.")
@json_option
def config(as_json: bool) -> None:
    """Show every setting and where it came from, and the durability that the engine gives.

    \b
    Example:
      windlass config
    """
    settings, origins = load()
    shown = [Origin(one.name, _hidden(one), one.source) for one in origins]
    shown.append(Origin(IN_FORCE, _durability_within(settings, ENGINE_LIMIT_S), "engine"))
    if as_json:
        click.echo(json.dumps({one.name: {"value": one.value, "from": one.source} for one in shown}, indent=2))
        return
    width = max(len(one.name) for one in shown)
    for one in shown:
        value = "(not set)" if one.value in ("", None) else one.value
        click.echo(f"{one.name:<{width}}  {value}  [{one.source}]")


def _durability_within(settings: Settings, limit_s: float) -> str:
    """The settings must be shown soon, also when the name of the engine's host cannot be resolved."""
    found = [f"Unknown: the engine gave no answer within {limit_s:g} s."]

    def ask() -> None:
        found[:] = [_durability(settings, limit_s)]

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(limit_s)
    return printable(found[0])


def _durability(settings: Settings, limit_s: float) -> str:
    """Asks for nothing but settings: no engine is started and no namespace is begun for it."""
    if settings.url.startswith(("http://", "https://")):
        return "Unknown: the URL names a server; ask where the server runs."
    try:
        embedded = server.embedded_engine(settings)
        if embedded is not None and not embedded.is_running:
            return "Unknown: the embedded engine does not run now. It starts with appendonly yes, appendfsync always."
        asked = settings.durability or "memory"
        answers = query_primaries_once(server.build_store(settings).topology, (INFO, CONFIG), limit_s)
        return str(find_weakest([read_durability(info, config, asked) for _, (info, config) in answers]))
    except WindlassError as error:
        return f"Unknown: {explain_refusal(error)}"


def _hidden(origin: Origin) -> object:
    """Tokens and keys are secrets. A URL may hold passwords: one before its host, the sentinels' among its options."""
    text = str(origin.display_value)
    if origin.name in HIDDEN and text:
        return "set"
    if origin.name not in SECRET:
        return origin.display_value
    if "@" in text:
        scheme, _, rest = text.partition("://")
        text = f"{scheme}://***@{rest.rpartition('@')[2]}"
    return re.sub(r"(sentinel_password=)[^&]*", r"\1***", text)
