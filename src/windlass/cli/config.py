"""windlass config: every setting, its value, and where it came from."""

from __future__ import annotations

import json
import re

import click

from ..settings import Origin, load
from .output import json_option

SECRET = {"url"}
HIDDEN = {"token", "callback_keys", "callback_kafka", "download_headers"}


@click.command()
@json_option
def config(as_json: bool) -> None:
    """Show every setting and where it came from.

    \b
    Example:
      windlass config
    """
    _, origins = load()
    shown = [Origin(one.name, _hidden(one), one.source) for one in origins]
    if as_json:
        click.echo(json.dumps({one.name: {"value": one.value, "from": one.source} for one in shown}, indent=2))
        return
    width = max(len(one.name) for one in shown)
    for one in shown:
        value = "(not set)" if one.value in ("", None) else one.value
        click.echo(f"{one.name:<{width}}  {value}  [{one.source}]")


def _hidden(origin: Origin) -> object:
    """Tokens and keys are secrets. A URL may hold passwords: one before its host, the sentinels' among its options."""
    text = str(origin.written)
    if origin.name in HIDDEN and text:
        return "set"
    if origin.name not in SECRET:
        return origin.written
    if "@" in text:
        scheme, _, rest = text.partition("://")
        text = f"{scheme}://***@{rest.rpartition('@')[2]}"
    return re.sub(r"(sentinel_password=)[^&]*", r"\1***", text)
