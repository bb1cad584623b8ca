"""Signatures of callbacks."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from windlass.core.callbacks.signing import parse_keys, sign_callback, verify_signature
from windlass.core.errors import BadInput

KEY, OTHER = "a" * 16, "b" * 16
WRITTEN = sign_callback((KEY, OTHER), 1_700_000_000, "id-1", b"{}")


def test_the_form() -> None:
    known = hmac.new(KEY.encode(), b"1700000000.id-1.{}", hashlib.sha256).hexdigest()
    assert sign_callback((KEY,), 1_700_000_000, "id-1", b"{}") == f"t=1700000000,v1={known}"
    assert WRITTEN.count("v1=") == 2


@pytest.mark.parametrize("keys", [(KEY,), (OTHER,), ("c" * 16, KEY)])
def test_any_key_that_signed_will_do(keys: tuple[str, ...]) -> None:
    assert verify_signature(keys, WRITTEN, "id-1", b"{}") == 1_700_000_000


@pytest.mark.parametrize(
    ("keys", "written", "callback_id", "body"),
    [
        ((), WRITTEN, "id-1", b"{}"),
        (("c" * 16,), WRITTEN, "id-1", b"{}"),
        ((KEY,), WRITTEN, "id-2", b"{}"),
        ((KEY,), WRITTEN, "id-1", b"{ }"),
        ((KEY,), WRITTEN.replace("t=17", "t=18"), "id-1", b"{}"),
        ((KEY,), WRITTEN.replace("v1", "v0"), "id-1", b"{}"),
        ((KEY,), "t=1," + WRITTEN, "id-1", b"{}"),
        ((KEY,), "", "id-1", b"{}"),
        ((KEY,), "t=²,v1=ü", "id-1", b"{}"),
        ((KEY,), "t=" + "9" * 400 + ",v1=", "id-1", b"{}"),
    ],
)
def test_anything_else_will_not(keys: tuple[str, ...], written: str, callback_id: str, body: bytes) -> None:
    assert verify_signature(keys, written, callback_id, body) is None


def test_keys_from_a_setting() -> None:
    assert parse_keys("") == ()
    assert parse_keys(f" {KEY} ,{OTHER},") == (KEY, OTHER)
    for text in ("short", f"{KEY},short", f"{KEY},{OTHER},{'c' * 16}"):
        with pytest.raises(BadInput):
            parse_keys(text)
