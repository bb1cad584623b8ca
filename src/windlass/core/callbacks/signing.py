"""Signatures of callbacks: signing by the server, verification by the receiver. Time is an argument."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from windlass.core.errors import BadInput

SIGNATURE_HEADER = "Windlass-Signature"
ID_HEADER = "Windlass-Callback-Id"
KEY_MIN = 16  # characters: a shorter key could be guessed
KEYS_MAX = 2  # the key in use, and its predecessor or successor
_SCHEME = "v1"


def compute_digest(key: str, at_s: int, callback_id: str, body: bytes) -> str:
    """Return the HMAC-SHA256 of `<seconds>.<id>.<body>` in hexadecimal."""
    signed = f"{at_s}.{callback_id}.".encode() + body
    return hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()


def sign_callback(keys: Sequence[str], at_s: int, callback_id: str, body: bytes) -> str:
    """Return the value of the header: `t=<seconds>,v1=<digest>`, with one digest for each key."""
    digests = [f"{_SCHEME}={compute_digest(key, at_s, callback_id, body)}" for key in keys]
    return ",".join([f"t={at_s}", *digests])


def verify_signature(keys: Sequence[str], header: str, callback_id: str, body: bytes) -> int | None:
    """Return when the callback was signed with one of these keys, in seconds since 1970. None: it was not."""
    parts = [part.partition("=") for part in header.split(",")]
    times = [value for name, _, value in parts if name == "t"]
    received = [value.encode() for name, _, value in parts if name == _SCHEME]
    if len(times) != 1 or not (times[0].isascii() and times[0].isdigit() and len(times[0]) < 16):
        return None
    at_s = int(times[0])
    expected = [compute_digest(key, at_s, callback_id, body).encode() for key in keys]
    # All pairs are compared, so that the time reveals nothing.
    matches = [hmac.compare_digest(ours, theirs) for ours in expected for theirs in received]
    return at_s if any(matches) else None


def parse_keys(text: str) -> tuple[str, ...]:
    """Parse the setting: keys separated by commas."""
    keys = tuple(part.strip() for part in text.split(",") if part.strip())
    if len(keys) > KEYS_MAX:
        raise BadInput(f"at most {KEYS_MAX} keys are allowed: the key in use, and another while it is being replaced.")
    if any(len(key) < KEY_MIN for key in keys):
        raise BadInput(f"a key must have at least {KEY_MIN} characters; create one with `openssl rand -hex 32`.")
    return keys
