"""Failures of outbound requests."""

from __future__ import annotations

from windlass.core.errors import WindlassError


class RequestFailed(WindlassError):
    """Failed request: no connection, no answer in time, or no valid HTTP answer."""

    code = "unanswered"


class AddressForbidden(RequestFailed):
    """Failed request to an address that the policy does not allow."""

    code = "address_forbidden"


class ResponseTooLarge(RequestFailed):
    code = "answer_too_large"


class TlsFailed(RequestFailed):
    """Failed TLS handshake: the certificate is invalid, or there is no common version or cipher."""

    code = "tls_failed"


class TruncatedBody(RequestFailed):
    """Body that ended before its announced length."""

    code = "cut_short"


class InvalidRedirect(RequestFailed):
    """Redirect to an unusable URL, or too many redirects."""

    code = "astray_redirect"
