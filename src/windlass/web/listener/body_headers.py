"""Request headers that say how the body is encoded and what its sender waits for. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.web.app.problems import ExpectationFailed, UnsupportedContentEncoding

_CONTINUE = "100-continue"


def check_body_headers(headers: Mapping[str, str]) -> None:
    """Raise a refusal when a body cannot be read as its sender means it."""
    for coding in _members(headers.get("content-encoding", "")):
        if coding != "identity":
            raise UnsupportedContentEncoding(
                f"The content encoding {coding!r} is not understood here; send the body without Content-Encoding."
            )
    for expected in _members(headers.get("expect", "")):
        if expected != _CONTINUE:
            raise ExpectationFailed(
                f"The expectation {expected!r} cannot be met here; send it without Expect, or with {_CONTINUE}."
            )


def expects_continue(expect: str) -> bool:
    members = _members(expect)
    return bool(members) and all(member == _CONTINUE for member in members)


def _members(field: str) -> list[str]:
    """Split a list as HTTP writes it: with commas, in any case, and perhaps with empty members."""
    return [member for part in field.lower().split(",") if (member := part.strip())]
