"""Continuation of a broken transfer: what to remember of it, what to ask for, and whether an answer continues it. No
I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from windlass.outbound import IncomingResponse
from windlass.outbound.retry_after import parse_http_date

PARTIAL_CONTENT = 206
RANGE_NOT_SATISFIABLE = 416
# A date is a strong validator only if the file did not change within the second in which it was sent.
CLOCK_STEP_S = 1
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)")
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e]{0,1000}"')
_OWN = frozenset({"range", "if-range"})


class ResumePoint(msgspec.Struct, frozen=True, kw_only=True):
    """Known facts about a body whose transfer broke off."""

    url: str  # of the order
    status: int  # of the answer that began it
    validator: str  # a strong ETag, or a date of its last change
    is_etag: bool
    received: int  # bytes
    length: int | None  # of the whole body; None: not known

    @property
    def headers(self) -> dict[str, str]:
        return {"Range": f"bytes={self.received}-", "If-Range": self.validator}


def may_resume(headers: Mapping[str, str]) -> bool:
    """Tell whether a request with these headers may be continued by another one. An order that asks for a part of a
    file has headers of its own for that."""
    return not any(name.lower() in _OWN for name in headers)


def resume_point(url: str, incoming: IncomingResponse, received: int) -> ResumePoint | None:
    """Return where to continue a broken answer. None: the origin cannot continue it, or did not say so."""
    units = [unit.strip().lower() for unit in incoming.headers.get("Accept-Ranges", "").split(",")]
    validator = _validator_of(incoming.headers)
    if incoming.status != 200 or "bytes" not in units or not validator or not received:
        return None
    return ResumePoint(
        url=url,
        status=incoming.status,
        validator=validator,
        is_etag=validator.startswith('"'),
        received=received,
        length=incoming.length,
    )


def _validator_of(headers: Mapping[str, str]) -> str:
    etag = headers.get("ETag", "")
    if _STRONG_ETAG.fullmatch(etag):
        return etag
    changed = headers.get("Last-Modified", "")
    changed_at, sent_at = parse_http_date(changed), parse_http_date(headers.get("Date", ""))
    if changed_at is None or sent_at is None or (sent_at - changed_at).total_seconds() < CLOCK_STEP_S:
        return ""
    return changed


def continued_length(point: ResumePoint, incoming: IncomingResponse) -> int | None:
    """Return the length of the whole body if an answer continues it up to its end. None: the answer is something
    else."""
    found = _CONTENT_RANGE.fullmatch(incoming.headers.get("Content-Range", "").strip())
    if incoming.status != PARTIAL_CONTENT or found is None or not _is_same_version(point, incoming.headers):
        return None
    first, last = int(found[1]), int(found[2])
    length = point.length if found[3] == "*" else int(found[3])
    if length is None or point.length not in (None, length) or (first, last) != (point.received, length - 1):
        return None
    return length if incoming.length in (None, last - first + 1) else None


def _is_same_version(point: ResumePoint, headers: Mapping[str, str]) -> bool:
    """Compare the validators. An answer to If-Range must repeat an ETag, but may leave out a date."""
    if point.is_etag:
        return headers.get("ETag", "") == point.validator
    return headers.get("Last-Modified", point.validator) == point.validator
