"""Why a request to somebody else got no answer that could be used."""

from __future__ import annotations

from windlass.core.errors import WindlassError


class RequestFailed(WindlassError):
    """No connection, no answer in time, or none that is HTTP."""

    code = "unanswered"


class AddressForbidden(RequestFailed):
    """The address must not be dialled from here."""

    code = "address_forbidden"


class ResponseTooLarge(RequestFailed):
    code = "answer_too_large"


class TlsFailed(RequestFailed):
    """The other side is not who it should be, or speaks TLS in no way that we do."""

    code = "tls_failed"


class TruncatedBody(RequestFailed):
    """The body ended before its announced end."""

    code = "cut_short"


class InvalidRedirect(RequestFailed):
    """A redirect to where nobody can go, or too many of them."""

    code = "astray_redirect"
