"""Verification of callbacks by their receivers. Needs neither an app nor an engine."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from windlass.core.callbacks.signing import ID_HEADER, SIGNATURE_HEADER, verify_signature
from windlass.core.errors import WindlassError

TOLERANCE_S = 300.0


class BadSignature(WindlassError):
    """The callback is not signed with a known key, or its signature is too old."""

    code = "bad_signature"


def verify_callback(
    body: bytes,
    headers: Mapping[str, str],
    keys: str | Sequence[str],
    *,
    tolerance_s: float = TOLERANCE_S,
    now_s: float | None = None,
) -> str:
    """Return the callback's id if one of the keys signed it at most `tolerance_s` ago; else raise BadSignature.

    The id is the same in every delivery attempt. `body` must be the bytes as received, before any parsing.
    """
    known = {name.lower(): value for name, value in headers.items()}
    callback_id, written = known.get(ID_HEADER.lower(), ""), known.get(SIGNATURE_HEADER.lower(), "")
    signed_at_s = verify_signature((keys,) if isinstance(keys, str) else tuple(keys), written, callback_id, body)
    if signed_at_s is None:
        raise BadSignature("The callback has no signature by a known key. Check the signing keys on both sides.")
    if abs((time.time() if now_s is None else now_s) - signed_at_s) > tolerance_s:
        raise BadSignature(f"The callback was not signed within {tolerance_s:g} s of now. Check the clocks.")
    return callback_id
