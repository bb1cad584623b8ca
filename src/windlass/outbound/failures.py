"""Why a request to somebody else got no answer that could be used."""

from __future__ import annotations

from ..core.errors import WindlassError


class Unanswered(WindlassError):
    """No connection, no answer in time, or none that is HTTP."""

    code = "unanswered"


class AddressForbidden(Unanswered):
    """The address must not be dialled from here."""

    code = "address_forbidden"


class AnswerTooLarge(Unanswered):
    code = "answer_too_large"
