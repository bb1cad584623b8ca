"""Codec between values and blobs: writes MessagePack, reads MessagePack and JSON. Never pickle.

A value is decoded as the type that the reader asks for. Without a type it is decoded as MessagePack's own types: None,
bool, int, float, str, bytes, lists, dicts, and aware datetimes (in UTC). `storable.py` decides which types can be
stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from windlass.core.errors import BadInput, WindlassError
from windlass.core.job import Blob, Codec

from .storable import normalize_annotation, refuse_unstorable, restore, simplify

Decode: TypeAlias = Callable[[bytes], Any]
_PLACE = re.compile(r"(?: - at (`key` in )?`\$\.?(.*)`)?$", re.DOTALL)


class Unreadable(WindlassError):
    """Stored bytes that are not a value of the requested type."""

    code = "unreadable"


_packer = msgspec.msgpack.Encoder(enc_hook=simplify)


def pack(value: object) -> bytes:
    """Encode a value as MessagePack. The error says what to pass instead."""
    try:
        return _packer.encode(value)
    except OverflowError:
        raise BadInput("an integer of more than 64 bits cannot be stored; pass it as text (str)") from None
    except UnicodeEncodeError:
        raise BadInput("a text with lone surrogates cannot be stored; pass it as bytes") from None
    except RecursionError:
        raise BadInput("a value that contains itself, or is nested too deeply, cannot be stored") from None
    except (TypeError, ValueError) as error:
        raise BadInput(str(error)) from error


def encode(value: object) -> Blob:
    return Blob(pack(value), Codec.MSGPACK)


def decode(blob: Blob, type: Any = Any) -> Any:  # noqa: A002 - the word that msgspec and its users know
    """Decode a blob as `type`.

    Raises BadInput if the type cannot be stored, and Unreadable if the bytes are not such a value.
    """
    read = decoder(type, blob.codec)
    try:
        return read(blob.data)
    except Exception as error:  # a type's own code can raise anything on bad data
        raise Unreadable(describe_error(error)) from error


def decoder(type: Any, codec: Codec) -> Decode:  # noqa: A002
    """Return the decoder of a type and codec, made once per type."""
    try:
        return _known_decoder(type, codec)
    except TypeError:  # the metadata of an annotation can be unhashable
        return new_decoder(type, codec)


def new_decoder(type: Any, codec: Codec) -> Decode:  # noqa: A002
    type = normalize_annotation(type)  # noqa: A001
    refuse_unstorable(type)
    if codec is Codec.RAW:
        return lambda data: msgspec.convert(data, type, dec_hook=restore)
    kind = msgspec.msgpack.Decoder if codec is Codec.MSGPACK else msgspec.json.Decoder
    decode: Decode = kind(type, dec_hook=restore).decode
    return decode


_known_decoder = lru_cache(maxsize=4096)(new_decoder)


def describe_error(error: Exception) -> str:
    """Describe a decoding error in the form `orders[0].total: expected int, got str`."""
    text = str(error) or type(error).__name__
    if not isinstance(error, msgspec.ValidationError):
        return f"malformed: {text}" if isinstance(error, msgspec.DecodeError | UnicodeDecodeError) else text
    found = _PLACE.search(text)
    is_key, place = found.groups() if found else (None, None)
    message = (text[: found.start()] if found else text).replace("`", "")
    message = message[:1].lower() + message[1:]
    if is_key:
        message = f"a key: {message}"
    return f"{place}: {message}" if place else message
