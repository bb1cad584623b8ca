"""Patterns for MIME types: separated by commas, `!` negates, `*` and `?` do not cross `/`. The matcher does not
backtrack exponentially."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from windlass.core.errors import BadInput

_STAR = None


class _CharacterClass(NamedTuple):
    """Pattern of one character: within one of the ranges, or outside all of them. It matches `/` only literally."""

    ranges: tuple[tuple[str, str], ...]
    is_negated: bool = False

    def fits(self, character: str) -> bool:
        is_within = any(low <= character <= high for low, high in self.ranges)
        return is_within if not self.is_negated else not is_within and character != "/"


_ANY = _CharacterClass((), is_negated=True)


class Globs(msgspec.Struct, frozen=True):
    positive: tuple[str, ...] = ()
    negated: tuple[str, ...] = ()

    def mismatch(self, mime_type: str) -> str:
        """Return why a type does not match; empty if it matches."""
        for pattern in self.negated:
            if _matches(_parse_pattern(pattern), mime_type):
                return f"Expected mime-type not to be ({pattern}) found - ({mime_type})"
        if self.positive and not any(_matches(_parse_pattern(pattern), mime_type) for pattern in self.positive):
            return f"Expected mime-type to be ({','.join(self.positive)}), found ({mime_type})"
        return ""


def parse_globs(text: str) -> Globs:
    """Parse patterns. Raise BadInput if a pattern is invalid."""
    parts = [part for part in (pattern.strip() for pattern in text.split(",")) if part]
    positive = tuple(part for part in parts if not part.startswith("!"))
    negated = tuple(part[1:] for part in parts if part.startswith("!"))
    for pattern in (*positive, *negated):
        _parse_pattern(pattern)
    return Globs(positive, negated)


def _parse_pattern(pattern: str) -> list[_CharacterClass | None]:
    tokens: list[_CharacterClass | None] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "*":
            tokens.append(_STAR)
        elif character == "?":
            tokens.append(_ANY)
        elif character == "[":
            token, at = _parse_class(pattern, at + 1)
            tokens.append(token)
        else:
            character, at = _parse_character(pattern, at)
            tokens.append(_CharacterClass(((character, character),)))
        at += 1
    return tokens


def _parse_class(pattern: str, at: int) -> tuple[_CharacterClass, int]:
    """Parse a class after its opening bracket. Return it and the position of the closing bracket."""
    is_negated = pattern[at : at + 1] == "^"
    at += is_negated
    ranges: list[tuple[str, str]] = []
    while pattern[at : at + 1] != "]" or not ranges:
        if pattern[at : at + 1] in ("", "-", "]"):
            raise BadInput(f"{pattern!r} is not a pattern: a bracket of it is empty, open or has a stray sign.")
        low, at = _parse_character(pattern, at)
        high = low
        if pattern[at + 1 : at + 2] == "-":
            if pattern[at + 2 : at + 3] in ("", "-", "]"):
                raise BadInput(f"{pattern!r} is not a pattern: a range of it has no end.")
            high, at = _parse_character(pattern, at + 2)
        ranges.append((low, high))
        at += 1
    return _CharacterClass(tuple(ranges), is_negated), at


def _parse_character(pattern: str, at: int) -> tuple[str, int]:
    """Parse a character that a backslash may escape. Return it and its position."""
    if pattern[at] != "\\":
        return pattern[at], at
    if at + 1 == len(pattern):
        raise BadInput(f"{pattern!r} is not a pattern: there is nothing behind its last backslash.")
    return pattern[at + 1], at + 1


def _matches(tokens: list[_CharacterClass | None], text: str) -> bool:
    """Match a text. Whenever the tokens after the last star do not fit, that star takes one more character."""
    token_at = text_at = 0
    star_at = resume_at = -1
    while text_at < len(text):
        token = tokens[token_at] if token_at < len(tokens) else _ANY
        if token_at < len(tokens) and token is _STAR:
            star_at, resume_at = token_at, text_at
            token_at += 1
        elif token_at < len(tokens) and token is not None and token.fits(text[text_at]):
            token_at += 1
            text_at += 1
        elif star_at >= 0 and text[resume_at] != "/":
            resume_at += 1
            token_at, text_at = star_at + 1, resume_at
        else:
            return False
    return all(token is _STAR for token in tokens[token_at:])
