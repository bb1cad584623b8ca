"""Failures of outbound requests."""

from __future__ import annotations

from windlass.core.errors import WindlassError


class RequestFailed(WindlassError):
    """There was no connection, no answer in time, or no valid HTTP answer."""

    code = "unanswered"


class AddressForbidden(RequestFailed):
    """The policy does not allow this address."""

    code = "address_forbidden"


class ResponseTooLarge(RequestFailed):
    code = "answer_too_large"


class TlsFailed(RequestFailed):
    """The certificate of the server is invalid, or no TLS version or cipher is common."""

    code = "tls_failed"


class TruncatedBody(RequestFailed):
    """The body ended before its announced length."""

    code = "cut_short"


class InvalidRedirect(RequestFailed):
    """A redirect to an unusable URL, or too many redirects."""

    code = "astray_redirect"
