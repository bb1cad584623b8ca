"""Invisible control characters that change how text is displayed.

These are the C1 range, which terminals interpret, and Unicode's bidirectional controls, which change the direction of
text. New names must not contain them. In other texts they are displayed as escapes, and so is DEL, which names may
contain. A terminal also interprets C0: `printable` escapes all of them.
"""

from __future__ import annotations

import re
import unicodedata

_REFUSED = "\x80-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_find_refused = re.compile(f"[{_REFUSED}]").search
_CONTROL = re.compile(f"[\x7f{_REFUSED}]")


def has_control(text: str) -> bool:
    """Return whether a text contains characters that a new name must not contain."""
    return not text.isprintable() and _find_refused(text) is not None


def escape_control(text: str) -> str:
    """Replace each control character by an escape, as \\x9b or \\u202e."""
    return text if text.isprintable() else _CONTROL.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def escape_control_in_json(text: str) -> str:
    """Replace each control character in a JSON document by its JSON escape.

    The document keeps its meaning: outside of strings JSON has no such characters.
    """
    return text if text.isprintable() else _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def printable(text: str, *, keeps_lines: bool = False) -> str:
    """Replace each character that a terminal might interpret by an escape. Texts of users, servers and engines are not
    trusted."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape_char(char, keeps_lines) for char in text)


def _escape_char(char: str, keeps_lines: bool) -> str:
    if keeps_lines and char in "\n\t":
        return char
    if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp"):
        return char.encode("unicode_escape").decode()
    return escape_control(char)
