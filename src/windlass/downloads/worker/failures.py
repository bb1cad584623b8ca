"""Failures of download attempts, and whether a retry may help."""

from __future__ import annotations

import time
from collections.abc import Mapping

from windlass.outbound import AddressForbidden, InvalidRedirect, RequestFailed, ResponseTooLarge, TlsFailed
from windlass.outbound.retry_after import retry_after_ms

PREPARING = "preparing the request"
TOO_MANY_REQUESTS = 429
SERVICE_UNAVAILABLE = 503
RETRY_AFTER_MAX_MS = 3_600_000  # an origin cannot delay a retry for longer


class DownloadFailure(Exception):
    """Failure of an attempt. `is_internal`: the cause is on this side; such an attempt does not count."""

    def __init__(
        self,
        phase: str,
        what: str,
        *,
        is_retriable: bool = False,
        is_internal: bool = False,
        response_code: int = 0,
        counted_as: str = "",
        retry_after_ms: int | None = None,
    ) -> None:
        self.is_retriable = is_retriable
        self.is_internal = is_internal
        self.response_code = response_code
        self.counted_as = counted_as  # suffix of the counter `download.response`; empty: not counted
        self.retry_after_ms = retry_after_ms  # as the origin asks; None: the usual delay
        super().__init__(
            f"Error while {phase}, {what}, retriable: {_go_bool(is_retriable)}, internal: {_go_bool(is_internal)}"
        )


def _go_bool(claim: bool) -> str:
    return "true" if claim else "false"


def status_failure(status: int, reason: str, headers: Mapping[str, str]) -> DownloadFailure:
    """Return the failure for a status of 400 or more. 429 and 503 may say when to try again."""
    may_say_when = status in (TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE)
    return DownloadFailure(
        "downloading",
        f"Received status code {status} {reason}".rstrip(),
        is_retriable=status >= 500 or status == TOO_MANY_REQUESTS,
        response_code=status,
        counted_as=f".{status}",
        retry_after_ms=retry_after_ms(headers, time.time(), most_ms=RETRY_AFTER_MAX_MS) if may_say_when else None,
    )


def connection_failure(error: RequestFailed, response_code: int) -> DownloadFailure:
    """Return the failure for a connection error."""
    if isinstance(error, TlsFailed):
        return DownloadFailure(
            "downloading", f"TLS Error occured: {error}", response_code=response_code, counted_as=".tls"
        )
    is_final = isinstance(error, AddressForbidden | ResponseTooLarge | InvalidRedirect)
    return DownloadFailure(
        "downloading",
        str(error),
        is_retriable=not is_final,
        response_code=response_code,
        counted_as=".body" if response_code else "",
    )


def disk_failure(error: OSError) -> DownloadFailure:
    return DownloadFailure("writing the file", str(error), is_retriable=True, is_internal=True)
