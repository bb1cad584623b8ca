"""windlass config: every setting with its value and origin, the durability in force and the format of the namespace."""

from __future__ import annotations

import json
import re

import click
import msgspec

from windlass import server
from windlass.cli.connection import EngineOptions, engine_options, run_within
from windlass.cli.output import json_option
from windlass.core.durability import find_weakest
from windlass.core.errors import WindlassError
from windlass.core.text.control_characters import printable
from windlass.sdk.deployment import is_server, make_service, make_store
from windlass.settings import Origin, Settings, load
from windlass.store.topology.health import CONFIG, INFO, read_durability
from windlass.store.topology.namespace_format import read_without_opening
from windlass.store.topology.permissions import explain_refusal
from windlass.store.topology.primaries import query_primaries_once

URLS = {"url", "smtp_url"}
MASKED = {"token", "callback_keys", "callback_kafka", "download_headers"}
TABLES = {"alerts"}  # their values may contain URLs that are secrets
# Not settings: they are read from the engine.
IN_FORCE, FORMAT = FROM_ENGINE = ("durability_in_force", "namespace_format")
ENGINE_LIMIT_S = 3.0


@click.command(short_help="Show every setting and its origin.")
@json_option
@engine_options
def config(as_json: bool, engine: EngineOptions) -> None:
    """Show every setting with its origin, the durability in force, and the format of the namespace.

    The settings are those of this machine. Over a server, the server reports the other two.

    \b
    Example:
      windlass config
    """
    settings, origins = load(engine._asdict(), option_form="--{}")
    shown = [Origin(origin.name, _mask(origin), origin.source) for origin in origins]
    shown += [Origin(name, text, "engine") for name, text in _read_engine_within(settings, ENGINE_LIMIT_S).items()]
    if as_json:
        click.echo(
            json.dumps({origin.name: {"value": origin.value, "from": origin.source} for origin in shown}, indent=2)
        )
        return
    width = max(len(origin.name) for origin in shown)
    for origin in shown:
        value = "(not set)" if origin.value in ("", None) else origin.value
        click.echo(f"{origin.name:<{width}}  {value}  [{origin.source}]")


def _read_engine_within(settings: Settings, limit_s: float) -> dict[str, str]:
    found = run_within(limit_s, lambda: _read_engine(settings, limit_s))
    late = f"Unknown: the engine did not answer within {limit_s:g} s."
    return {name: printable(text) for name, text in (found or dict.fromkeys(FROM_ENGINE, late)).items()}


def _read_engine(settings: Settings, limit_s: float) -> dict[str, str]:
    """Read the durability and the format, without starting an engine or creating a namespace."""
    try:
        if is_server(settings.url):
            return dict(zip(FROM_ENGINE, _read_from_server(settings), strict=True))
        embedded = server.embedded_engine(settings)
        if embedded is not None and not embedded.is_running:
            stopped = "Unknown: the embedded engine is not running."
            return {IN_FORCE: f"{stopped} It starts with appendonly yes, appendfsync always.", FORMAT: stopped}
        requested = settings.durability or "memory"
        store = server.build_store(settings)
        answers = query_primaries_once(store.topology, (INFO, CONFIG), limit_s)
        durability = find_weakest(
            [read_durability(info, config, requested, is_managed=store.is_managed) for _, (info, config) in answers]
        )
        stored = read_without_opening(store.topology, store.namespace, limit_s)
        return {IN_FORCE: str(durability), FORMAT: str(stored or "none: the namespace is not in use")}
    except WindlassError as error:
        return dict.fromkeys(FROM_ENGINE, f"Unknown: {explain_refusal(error)}")


def _read_from_server(settings: Settings) -> tuple[str, str]:
    store = make_store(msgspec.structs.replace(settings, patience_ms=0))
    try:
        found = store.open_sync().format
        durability = find_weakest([node.durability for node in make_service(store).engines().wait()])
        return str(durability), str(found or "Unknown: the server is of an earlier version.")
    finally:
        store.close_sync()


def _mask(origin: Origin) -> object:
    """Hide tokens and keys, and the passwords in a URL: before its host, and of the sentinels among its options."""
    text = str(origin.display_value)
    if origin.name in MASKED and text:
        return "set"
    if origin.name in TABLES and isinstance(origin.value, dict):
        return ", ".join(origin.value) or ""
    if origin.name not in URLS:
        return origin.display_value
    if "@" in text:
        scheme, _, rest = text.partition("://")
        text = f"{scheme}://***@{rest.rpartition('@')[2]}"
    return re.sub(r"(sentinel_password=)[^&]*", r"\1***", text)
