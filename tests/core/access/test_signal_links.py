"""Signed links: what was not signed with the key of the deployment, for this purpose, is no link."""

from __future__ import annotations

import base64
import hashlib
import hmac

from windlass.core.access.signal_links import SignalLink, read_link, sign_link
from windlass.core.ids import make_id

KEY = b"k" * 32
LINK = SignalLink(job_id=make_id(1, 0, 7), occurrence_at_ms=3, signal="ok", expires_at_ms=9, nonce=b"n" * 9)


def changed_links(token: str) -> list[str]:
    """Return the link with each character changed, cut off at each place, and with more at its ends."""
    flipped = [f"{token[:at]}{'A' if token[at] != 'A' else 'B'}{token[at + 1 :]}" for at in range(len(token) - 1)]
    return [*flipped, *(token[:length] for length in range(1, len(token))), f"{token}AAAA", f"AAAA{token}", token * 2]


def test_no_changed_link_is_read() -> None:
    token = sign_link(LINK, KEY)
    assert read_link(token, KEY) == LINK
    assert [text for text in changed_links(token) if read_link(text, KEY) is not None] == []
    assert read_link(token, b"l" * 32) is None


def test_a_signature_for_another_purpose_is_none() -> None:
    """The key also signs nothing else: a digest of the same bytes by the bare key is no link."""
    packed = base64.urlsafe_b64decode(sign_link(LINK, KEY) + "==")[24:]
    for digest in ("sha256", "sha1"):
        forged = hmac.digest(KEY, packed, digest).ljust(24, b"\0")[:24] + packed
        assert read_link(base64.urlsafe_b64encode(forged).decode(), KEY) is None
    unsigned = hashlib.sha256(packed).digest()[:24] + packed
    assert read_link(base64.urlsafe_b64encode(unsigned).decode(), KEY) is None
