"""Conversion of payloads, results and errors between JSON and MessagePack.

Nothing is lost silently: a value that the target encoding cannot represent is not converted.
"""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec

from windlass.core.job import Blob, Codec

_decode_json = msgspec.json.Decoder().decode
# Up to this length decoding all values is faster than a search for numbers that may be too large.
_SHORT = 4096
# Digits become 0: a run of DIGITS_MIN of them, or an exponent, may make a number too large for a float.
_DIGITS_AS_ZERO = bytes(
    ord("0") if byte in b"0123456789" else ord("e") if byte == ord("E") else byte for byte in range(256)
)
_DIGITS_MIN = 200
_LONG = b"0" * _DIGITS_MIN
# The first two bytes of infinities and NaN in MessagePack: 32 and 64 bits, both signs. Other values hold them too.
_NON_FINITE = (b"\xca\x7f", b"\xca\xff", b"\xcb\x7f", b"\xcb\xff")
_TROUBLE = (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError)


def compact_json(data: bytes) -> bytes:
    """Return JSON without white space, with numbers and keys as written. Raise ValueError if it is not JSON."""
    try:
        data.decode()  # the formatter does not validate the inside of strings
        return msgspec.json.format(data, indent=-1)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(str(error).removesuffix(".")) from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def has_unreadable_number(data: bytes) -> bool:
    """Return whether JSON contains a number that is too large for a float, as 1e999.

    Decoders refuse such a number, or turn it into an infinity, which JSON cannot represent. Integers have no bound.
    The result is False for data that is not JSON.
    """
    if len(data) > _SHORT:
        digits = data.translate(_DIGITS_AS_ZERO)
        if b"0e" not in digits and _LONG not in digits:
            return False
    try:
        _decode_json(data)
    except msgspec.ValidationError:  # without a target type only numbers fail: a long integer, or a too large number
        return _has_infinity(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return False


def _has_infinity(data: bytes) -> bool:
    """Search with a slow decoder, which distinguishes integers of thousands of digits from other numbers."""
    try:
        json.loads(data, parse_float=_finite, parse_int=len)
    except OverflowError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


def _finite(text: str) -> float:
    if math.isinf(found := float(text)):
        raise OverflowError
    return found


def _check_finite(data: bytes, value: Any) -> None:
    """Raise ValueError for a MessagePack value that contains an infinity or NaN. JSON would turn it into null."""
    if not any(start in data for start in _NON_FINITE):
        return
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, float) and not math.isfinite(part):
            raise ValueError(f"JSON cannot represent {part}")
        if isinstance(part, dict):
            left += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple):
            left += part


def as_json(blob: Blob) -> msgspec.Raw | None:
    """Return the value as JSON, or None if JSON cannot represent it (as an infinity). Bytes become base64."""
    try:
        if blob.codec is Codec.JSON:
            return msgspec.Raw(compact_json(blob.data))
        if blob.codec is Codec.MSGPACK:
            value = msgspec.msgpack.decode(blob.data)
            _check_finite(blob.data, value)
            return msgspec.Raw(msgspec.json.encode(value))
    except _TROUBLE:
        pass
    return None


def as_msgpack(blob: Blob) -> msgspec.Raw | None:
    """Return the value as MessagePack, or None if MessagePack cannot represent it (as an integer beyond 64 bits)."""
    try:
        if blob.codec is Codec.MSGPACK:
            msgspec.msgpack.decode(blob.data)  # embedded data must be complete
            return msgspec.Raw(blob.data)
        if blob.codec is Codec.JSON:
            return msgspec.Raw(msgspec.msgpack.encode(msgspec.json.decode(blob.data)))
    except _TROUBLE:
        pass
    return None
