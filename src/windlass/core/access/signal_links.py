"""Signed links by which a person without a token sends one signal to one job. Time and randomness are arguments."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct

import msgspec

from windlass.core.durable import SIGNAL_NAME_MAX
from windlass.core.job import Job

KEY_BYTES, NONCE_BYTES = 32, 9
EXPIRES_IN_MS = 7 * 86_400_000  # unless its creator says otherwise
_PURPOSE = b"windlass signal link 1"
_CONTENT = struct.Struct(f">16sQQ{NONCE_BYTES}s")  # job, occurrence, expiry, nonce; the name of the signal follows
_SIGNATURE_BYTES = 24
_TEXT_MAX = 2 * (_SIGNATURE_BYTES + _CONTENT.size + SIGNAL_NAME_MAX)  # more than base64 needs


class SignalLink(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a link: it is good for one signal of this name, to one occurrence of a job, until its expiry."""

    job_id: bytes
    occurrence_at_ms: int  # as `occurrence_of` returns it
    signal: str
    expires_at_ms: int
    nonce: bytes  # each link is used once by itself, even if two have the same content

    @property
    def request_id(self) -> bytes:
        """Return the id of the request that the link is good for. The engine accepts it once."""
        return hashlib.sha256(_PURPOSE + _pack(self)).digest()[:16]


class SignedLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link for a person. `url` is empty where the address of the server is not known."""

    token: str  # last segment of the path /signals/<token>
    expires_at_ms: int
    url: str = ""


def occurrence_of(job: Job) -> int:
    """Return the planned instant of a repeating job. Other jobs have one occurrence: 0."""
    return (job.planned_at_ms or job.created_at_ms) if job.repeat else 0


def sign_link(link: SignalLink, key: bytes) -> str:
    packed = _pack(link)
    return base64.urlsafe_b64encode(_sign(packed, key) + packed).rstrip(b"=").decode()


def read_link(text: str, key: bytes) -> SignalLink | None:
    """Return the link, or None if it was not signed with this key. The caller checks its expiry."""
    found = _decode(text)
    if len(found) <= _SIGNATURE_BYTES + _CONTENT.size:
        return None
    packed = found[_SIGNATURE_BYTES:]
    if not hmac.compare_digest(_sign(packed, key), found[:_SIGNATURE_BYTES]):
        return None
    job_id, occurrence_at_ms, expires_at_ms, nonce = _CONTENT.unpack_from(packed)
    return SignalLink(
        job_id=job_id,
        occurrence_at_ms=occurrence_at_ms,
        signal=packed[_CONTENT.size :].decode(),
        expires_at_ms=expires_at_ms,
        nonce=nonce,
    )


def _pack(link: SignalLink) -> bytes:
    return _CONTENT.pack(link.job_id, link.occurrence_at_ms, link.expires_at_ms, link.nonce) + link.signal.encode()


def _sign(packed: bytes, key: bytes) -> bytes:
    own_key = hmac.digest(key, _PURPOSE, "sha256")
    return hmac.digest(own_key, packed, "sha256")[:_SIGNATURE_BYTES]


def _decode(text: str) -> bytes:
    """Decode a text that anybody may have made. An empty result: it is no link."""
    if len(text) > _TEXT_MAX or not text.isascii():
        return b""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
