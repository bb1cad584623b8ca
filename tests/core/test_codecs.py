"""Conversion between encodings: the same value, or none."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.job import Blob, Codec
from windlass.core.limits.limit import encode_key
from windlass.core.text.codecs import as_json, as_msgpack, compact_json, has_unreadable_number

LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    LEAVES.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
    max_leaves=20,
)
HUGE = b"123456789012345678901234567890"


@given(VALUES)
def test_there_and_back_is_the_same_value(value: Any) -> None:
    packed = as_msgpack(Blob(msgspec.json.encode(value), Codec.JSON))
    assert packed is not None
    assert msgspec.msgpack.decode(packed) == value
    written = as_json(Blob(bytes(packed), Codec.MSGPACK))
    assert written is not None
    assert msgspec.json.decode(written) == value


def test_json_stays_as_it_was_written() -> None:
    """Only white space is removed: no digit and no key is lost."""
    written = b' { "a" : 1.000, "b": ' + HUGE + b', "a": "\\u00e9 \xc3\xa9" }\n'
    kept = as_json(Blob(written, Codec.JSON))
    assert kept is not None
    assert bytes(kept) == b'{"a":1.000,"b":' + HUGE + b',"a":"\\u00e9 \xc3\xa9"}'


def test_messagepack_stays_as_it_was_written() -> None:
    written = b"\x82\xd9\x01a\xcd\x00\x01\xa1b\xc4\x01\xff"  # longer forms than needed, and bytes
    kept = as_msgpack(Blob(written, Codec.MSGPACK))
    assert kept is not None
    assert bytes(kept) == written


@pytest.mark.parametrize(
    "blob",
    [
        Blob(b"\x81\x01\x02\x03", Codec.MSGPACK),  # something behind the value
        Blob(b"\x91", Codec.MSGPACK),  # not whole
        Blob(msgspec.msgpack.encode({(1, 2): 3}), Codec.MSGPACK),  # a key that JSON cannot have
        Blob(msgspec.msgpack.encode(msgspec.msgpack.Ext(9, b"x")), Codec.MSGPACK),
        Blob(b"\x91" * 1_000_000 + b"\x90", Codec.MSGPACK),  # beyond the recursion limit of every Python
        Blob(b"{]", Codec.JSON),
        Blob(b'"\xff"', Codec.JSON),
        Blob(b"raw", Codec.RAW),
    ],
)
def test_what_has_no_form_in_json_has_none(blob: Blob) -> None:
    assert as_json(blob) is None


@pytest.mark.parametrize(
    "blob",
    [
        Blob(HUGE, Codec.JSON),
        Blob(b"[" * 1_000_000 + b"]" * 1_000_000, Codec.JSON),
        Blob(b'{"a":', Codec.JSON),
        Blob(b"\x91", Codec.MSGPACK),
        Blob(b"raw", Codec.RAW),
    ],
)
def test_what_has_no_form_in_messagepack_has_none(blob: Blob) -> None:
    assert as_msgpack(blob) is None


@pytest.mark.parametrize("text", [b"", b"{", b'"\xff"', b"1 2", b"[" * 1_000_000 + b"]" * 1_000_000])
def test_compact_refuses_what_is_not_json(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        compact_json(text)


@given(st.binary(), st.sampled_from(list(Codec)))
def test_any_bytes_have_a_form_or_none(data: bytes, codec: Codec) -> None:
    for found, decode in ((as_json, msgspec.json.decode), (as_msgpack, msgspec.msgpack.decode)):
        form = found(Blob(data, codec))
        if form is not None:
            decode(form)  # what is embedded is whole


# Numbers that no float can hold


@pytest.mark.parametrize(
    "data", [b"1e999", b'{"a":[-1E+400]}', b"1" * 310 + b".5", b"1" * 250 + b"e99", b"1" * 5000 + b",1e999"]
)
@pytest.mark.parametrize("before", [0, 5000])
def test_a_number_beyond_all_floats_is_found_however_long_the_document_is(data: bytes, before: int) -> None:
    padded = b'["%b",%b]' % (b"x" * before, data)
    assert has_unreadable_number(padded)
    assert as_msgpack(Blob(padded)) is None


@pytest.mark.parametrize(
    "data", [b"1e308", b"1e-999", b"0e999", b"1" * 300, b"1" * 5000, b'"1e999"', b"{", b"\xff", b"[" * 5000]
)
def test_other_documents_hold_none(data: bytes) -> None:
    assert not has_unreadable_number(data)
    assert not has_unreadable_number(b'["%b",%b]' % (b"7e99" * 2000, data))


@given(st.recursive(LEAVES | st.just(float("nan")), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_has_no_form_for_infinities_and_nan(value: Any) -> None:
    found = as_json(Blob(msgspec.msgpack.encode(value), Codec.MSGPACK))
    is_finite = "inf" not in (shown := _numbers_in(value)) and "nan" not in shown
    assert (found is not None) == is_finite


def _numbers_in(value: Any) -> str:
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        value = list(value.values())
    return " ".join(map(_numbers_in, value)) if isinstance(value, list) else ""


@pytest.mark.parametrize("number", ["inf", "-inf", "nan"])
def test_a_float_of_32_bits_is_one_too(number: str) -> None:
    assert as_json(Blob(b"\xca" + struct.pack(">f", float(number)), Codec.MSGPACK)) is None
    assert as_json(Blob(b"\xca" + struct.pack(">f", 1.5), Codec.MSGPACK)) is not None


def test_infinities_are_keys_of_limits_for_themselves() -> None:
    keys = [encode_key(value) for value in (None, float("inf"), float("-inf"), float("nan"))]
    assert keys[0] == "null"
    assert len(set(keys)) == 4
