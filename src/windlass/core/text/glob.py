"""SQLite's GLOB as a regular expression: `*`, `?`, `[a-z]`, `[^…]`, case-sensitive, whole text.

`store/lua/lib/glob.lua` matches the same patterns inside the engine."""

from __future__ import annotations

import re
from collections.abc import Callable

TEXT_MAX = 1024  # characters of a text that a pattern is tried on; a longer text does not match
_NEVER = "(?!)"


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """Return the test of a pattern. It needs at most as many steps as the pattern times the text has characters."""
    fullmatch = re.compile(_translate(pattern), re.DOTALL).fullmatch
    return lambda text: len(text) <= TEXT_MAX and fullmatch(text) is not None


def escape_glob(text: str) -> str:
    """Return the pattern that matches exactly this text."""
    return re.sub(r"[*?\[]", lambda found: f"[{found[0]}]", text)


def _translate(pattern: str) -> str:
    first, *parts = _split_at_stars(pattern)
    if not parts:
        return first
    # Atomic groups: where a part between two stars fits first is also the best place, so there is no way back.
    inner = "".join(f"(?>.*?{part})" for part in parts[:-1] if part)
    return f"{first}{inner}.*{parts[-1]}"


def _split_at_stars(pattern: str) -> list[str]:
    parts, at = [""], 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == "*":
            parts.append("")
        elif character == "?":
            parts[-1] += "."
        elif character == "[":
            translated, at = _translate_class(pattern, at)
            parts[-1] += translated
        else:
            parts[-1] += re.escape(character)
    return parts


def _translate_class(pattern: str, at: int) -> tuple[str, int]:
    """Translate the class that starts behind `[` at `at`. Return it, and the position behind its `]`."""
    is_negated = pattern[at : at + 1] == "^"
    at += is_negated
    translated, previous = "", ""
    if pattern[at : at + 1] == "]":
        translated, at = re.escape("]"), at + 1
    while at < len(pattern) and pattern[at] != "]":
        character, following = pattern[at], pattern[at + 1 : at + 2]
        at += 1
        if character == "-" and previous and following not in ("", "]"):
            if previous <= following:
                translated += f"{re.escape(previous)}-{re.escape(following)}"
            previous, at = "", at + 1
        else:
            translated += re.escape(character)
            previous = character
    if at == len(pattern):
        return _NEVER, at  # no closing bracket
    return f"[{'^' if is_negated else ''}{translated}]", at + 1
