"""Flash message: the result of an action, shown once on the next page. A cookie carries it."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import msgspec

COOKIE = "windlass_flash"
LIFETIME_S = 60
TEXT_MAX = 500


class Flash(msgspec.Struct, frozen=True):
    text: str
    kind: str = "good"  # or "bad"


def write(flash: Flash) -> str:
    shortened = msgspec.structs.replace(flash, text=flash.text[:TEXT_MAX])
    return base64.urlsafe_b64encode(msgspec.json.encode(shortened)).decode().rstrip("=")


def read(cookies: Mapping[str, str]) -> Flash | None:
    """Decode the message. Return None for a cookie that this module did not write."""
    text = cookies.get(COOKIE, "")
    try:
        return (
            msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=Flash) if text else None
        )
    except (ValueError, msgspec.DecodeError, RecursionError):
        return None
