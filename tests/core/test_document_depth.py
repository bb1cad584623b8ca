"""Nesting depth of documents, compared with a recursive implementation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windlass.core.job import Codec
from windlass.core.validation import document_depth
from windlass.core.validation.document_depth import is_too_deep

LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text()
KEYS = st.text()
DOCUMENTS = st.recursive(
    LEAVES, lambda inside: st.lists(inside, max_size=20) | st.dictionaries(KEYS, inside, max_size=20), max_leaves=60
)
WITH_BYTES = st.recursive(
    LEAVES | st.binary(max_size=300),
    lambda inside: (
        st.lists(inside, max_size=20)
        | st.dictionaries(KEYS, inside, max_size=20)
        | inside.map(lambda value: [value] * 17)
        | inside.map(lambda value: [value, msgspec.msgpack.Ext(5, b"\x91" * 16), msgspec.msgpack.Ext(5, b"\x91" * 7)])
    ),
    max_leaves=20,
)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _nested(levels: int, codec: Codec) -> bytes:
    return b"[" * levels + b"]" * levels if codec is Codec.JSON else b"\x91" * (levels - 1) + b"\x90"


@given(DOCUMENTS, st.integers(0, 6))
@example({"a": '[[[{"\\'}, 1)
@example(['\\"[[[['], 1)
def test_json_as_a_recursion_says(document: Any, most: int) -> None:
    assert is_too_deep(msgspec.json.encode(document), Codec.JSON, most) == (_depth(document) > most)


@given(WITH_BYTES, st.integers(0, 6))
@example([[]] * 70_000, 2)
@example(["ü" * 70_000, b"\x91" * 70_000, b"\x91" * 300, "x" * 300, [b"\x91" * 300]], 1)
@example([[]] * 70_000, 1)
@example({str(n): 0 for n in range(300)} | {"last": {"a": [1]}}, 2)
@example({str(n): 0 for n in range(70_000)} | {"last": {"a": [1]}}, 2)
@example([b"\x91" for _ in range(300)] + [[[1]]], 2)
@example([b"\x91" for _ in range(70_000)] + [[[1]]], 2)
def test_messagepack_as_a_recursion_says(document: Any, most: int) -> None:
    assert is_too_deep(msgspec.msgpack.encode(document), Codec.MSGPACK, most) == (_depth(document) > most)


@given(st.binary(), st.sampled_from([Codec.JSON, Codec.MSGPACK]), st.integers(0, 5))
def test_any_bytes_get_an_answer(data: bytes, codec: Codec, most: int) -> None:
    assert is_too_deep(data, codec, most) in (True, False)


@pytest.mark.parametrize("codec", [Codec.JSON, Codec.MSGPACK])
def test_the_bound_is_the_last_that_is_allowed(codec: Codec) -> None:
    assert not is_too_deep(_nested(100, codec), codec, 100)
    assert is_too_deep(_nested(101, codec), codec, 100)
    assert is_too_deep(_nested(500_000, codec), codec, 100)


@pytest.mark.parametrize(
    "hostile",
    [
        b"[" * 101 + b'"' + b'\\"' * 300_000,  # strings that nothing ends, each inside another
        b"[" * 101 + b'"a' * 300_000,
        (b"[" * 100 + b"]" * 100) * 1_000,
    ],
)
def test_hostile_json_costs_no_more_than_its_length(hostile: bytes) -> None:
    """A quadratic algorithm would take hours."""
    assert is_too_deep(hostile, Codec.JSON, 100) == hostile.startswith(b"[" * 101)


def test_what_has_millions_of_tiny_values_is_as_bad_as_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen million empty lists would need a gigabyte: the check creates none of them, and its steps are bounded."""
    monkeypatch.setattr(document_depth, "STEPS_MAX", 10_000)
    assert is_too_deep(b"\xdd\x00\xff\xff\xff" + b"\x90" * 0xFFFFFF, Codec.MSGPACK, 100)
    assert not is_too_deep(b"\xdd\x00\x00\x20\x00" + b"\x90" * 0x2000, Codec.MSGPACK, 100)


def test_raw_bytes_have_no_depth() -> None:
    assert not is_too_deep(b"[" * 1000, Codec.RAW, 1)
