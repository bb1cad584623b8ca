"""Control characters that change how a text looks without being seen: the C1 range, which terminals obey, and Unicode's
bidirectional controls, which turn the direction of writing. Names have none; in other texts they are shown as escapes,
and so is DEL, which names may have."""

from __future__ import annotations

import re

_REFUSED = "\x80-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_find_refused = re.compile(f"[{_REFUSED}]").search
_CONTROL = re.compile(f"[\x7f{_REFUSED}]")


def has_control(text: str) -> bool:
    """Tell whether a text cannot be a name."""
    return not text.isprintable() and _find_refused(text) is not None


def escape_control(text: str) -> str:
    """Write each of them as an escape, as \\x9b or \\u202e."""
    return text if text.isprintable() else _CONTROL.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def escape_control_in_json(written: str) -> str:
    """Write each of them as JSON's own escape. The document stays the same: outside of strings there are none."""
    return written if written.isprintable() else _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", written)
