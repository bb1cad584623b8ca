"""Parameters of one job in CreateJobs, from its JSON object."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.dialects.bedrock.parameters import Parameters
from windlass.dialects.bedrock.queues import MALFORMED_QUEUE
from windlass.dialects.bedrock.refusals import CommandRefused

_JSON_TEXT = ("{", "[")  # a text that begins so is JSON inside a JSON string, as some clients send it


def read_object(fields: Mapping[str, msgspec.Raw]) -> Parameters:
    """Return the parameters. `timeout` is another name of `jobTimeout`: only a command has a timeout of its own."""
    for key, value in fields.items():
        if key.lower() == "queue" and bytes(value)[:1] not in (b'"', b"n"):
            raise CommandRefused(*MALFORMED_QUEUE)
    values = {key.lower(): _data(value) if key.lower() == "data" else _text(value) for key, value in fields.items()}
    if timeout := values.pop("timeout", ""):
        values.setdefault("jobtimeout", timeout)
    return Parameters(values)


def _data(value: msgspec.Raw) -> str:
    """Return the data as JSON. A string is data itself, unless it is the JSON text of an object or array."""
    text = _text(value)
    is_string = bytes(value)[:1] == b'"'
    return bytes(value).decode() if is_string and text and not text.lstrip().startswith(_JSON_TEXT) else text


def _text(value: msgspec.Raw) -> str:
    """Return a string as it is, null as an empty string, and any other value as JSON."""
    encoded = bytes(value).decode()
    if encoded[:1] == '"':
        return str(msgspec.json.decode(encoded))
    return "" if encoded == "null" else encoded
