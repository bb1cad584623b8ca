"""Failures of download attempts, and whether a retry may help."""

from __future__ import annotations

from windlass.outbound import AddressForbidden, InvalidRedirect, RequestFailed, ResponseTooLarge, TlsFailed


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
    ) -> None:
        self.is_retriable = is_retriable
        self.is_internal = is_internal
        self.response_code = response_code
        self.counted_as = counted_as  # suffix of the counter `download.response`; empty: not counted
        super().__init__(
            f"Error while {phase}, {what}, retriable: {_go_bool(is_retriable)}, internal: {_go_bool(is_internal)}"
        )


def _go_bool(claim: bool) -> str:
    return "true" if claim else "false"


def status_failure(status: int, reason: str) -> DownloadFailure:
    return DownloadFailure(
        "downloading",
        f"Received status code {status} {reason}".rstrip(),
        is_retriable=status >= 500,
        response_code=status,
        counted_as=f".{status}",
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
