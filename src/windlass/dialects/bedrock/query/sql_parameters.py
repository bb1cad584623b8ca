"""Parameters of a query in headers: `sql-param-NAME: VALUE`.

NAME is the name of a placeholder (`:id`, `@id`, `$id`). The characters `:@$#` are encoded as `#` and two hexadecimal
digits, because the name of a header cannot contain a colon. VALUE is a letter for the type, then the value: `N` (NULL),
`I` (integer), `D` (float), `T` and `B` (text and blob, in Base64).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

from windlass.dialects.bedrock.refusals import CommandRefused

from .sql_functions import Value

PREFIX = "sql-param-"
_ENCODED = re.compile(r"#([0-9a-f]{2})", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|nan)", re.ASCII | re.IGNORECASE)
_INT64 = range(-(2**63), 2**63)


def read_parameters(headers: Mapping[str, str]) -> dict[str, Value]:
    """Return values by the lower-case name of their placeholder, without its first character."""
    parameters: dict[str, Value] = {}
    for header, value in headers.items():
        if not header.startswith(PREFIX):
            continue
        name = _ENCODED.sub(lambda code: chr(int(code[1], 16)), header.removeprefix(PREFIX)).lstrip(":@$").lower()
        if not name or name in parameters:
            raise _malformed(header)
        try:
            parameters[name] = _parse_value(value)
        except (ValueError, binascii.Error):
            raise _malformed(header) from None
    return parameters


def _malformed(header: str) -> CommandRefused:
    types = "N, I (integer), D (float), T or B (text or blob in Base64), and one header for each name"
    return CommandRefused(402, f"Malformed {header[:80]}", f"The value of a parameter is {types}.")


def _parse_value(encoded: str) -> Value:
    kind, value = encoded[:1], encoded[1:]
    if kind == "" or (kind == "N" and not value):
        return None
    if kind == "I" and _WHOLE.fullmatch(value) and int(value) in _INT64:
        return int(value)
    if kind == "D" and _FLOAT.fullmatch(value):
        return float(value)
    if kind in ("T", "B"):
        content = base64.b64decode(value, validate=True)
        return content if kind == "B" else content.decode()
    raise ValueError(encoded)
