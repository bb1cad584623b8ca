"""Checks of the headers Content-Encoding and Expect. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.web.app.problems import ExpectationFailed, UnsupportedContentEncoding

_CONTINUE = "100-continue"


def check_body_headers(headers: Mapping[str, str]) -> None:
    """Raise a refusal if the request has a content encoding or an expectation that is not supported."""
    for coding in _members(headers.get("content-encoding", "")):
        if coding != "identity":
            raise UnsupportedContentEncoding(
                f"The content encoding {coding!r} is not supported; send the body without Content-Encoding."
            )
    for expected in _members(headers.get("expect", "")):
        if expected != _CONTINUE:
            raise ExpectationFailed(
                f"The expectation {expected!r} is not supported; send the request without Expect, or with {_CONTINUE}."
            )


def expects_continue(expect: str) -> bool:
    members = _members(expect)
    return bool(members) and all(member == _CONTINUE for member in members)


def _members(field: str) -> list[str]:
    """Split a comma-separated header value into lower-case members, without empty ones."""
    return [member for part in field.lower().split(",") if (member := part.strip())]
