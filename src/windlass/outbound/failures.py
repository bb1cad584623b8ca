"""Why a request to somebody else got no answer that could be used."""

from __future__ import annotations

from windlass.core.errors import WindlassError


class Unanswered(WindlassError):
    """No connection, no answer in time, or none that is HTTP."""

    code = "unanswered"


class AddressForbidden(Unanswered):
    """The address must not be dialled from here."""

    code = "address_forbidden"


class AnswerTooLarge(Unanswered):
    code = "answer_too_large"


class TlsFailed(Unanswered):
    """The other side is not who it should be, or speaks TLS in no way that we do."""

    code = "tls_failed"


class CutShort(Unanswered):
    """The body ended before its announced end."""

    code = "cut_short"


class AstrayRedirect(Unanswered):
    """A redirect to where nobody can go, or too many of them."""

    code = "astray_redirect"
