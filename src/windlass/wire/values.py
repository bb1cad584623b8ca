"""Payloads, results and errors as values of the request's encoding, or as base64."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from windlass.core.errors import BadInput
from windlass.core.job import NULL_BLOB, Blob, Codec
from windlass.core.text.codecs import as_json, as_msgpack

from .encoding import Encoding

CodecName: TypeAlias = Literal["json", "msgpack", "raw"]
Value: TypeAlias = Annotated[Raw, msgspec.Meta(description="Any value.", examples=[{"order": 7}])]
_NAMES: dict[Codec, CodecName] = {Codec.JSON: "json", Codec.MSGPACK: "msgpack", Codec.RAW: "raw"}
_CODECS = {name: codec for codec, name in _NAMES.items()}
_ENCODERS: dict[Codec, Callable[[Blob], Raw | None]] = {Codec.JSON: as_json, Codec.MSGPACK: as_msgpack}


class EncodedValue(msgspec.Struct, frozen=True):
    """Stored value as the fields of a response: the value itself, or base64."""

    value: Raw | UnsetType
    codec: CodecName | UnsetType
    base64: str | UnsetType


NO_VALUE = EncodedValue(UNSET, UNSET, UNSET)


def encode_value(blob: Blob | None, encoding: Encoding) -> EncodedValue:
    """Encode a stored value. A value that the encoding cannot hold becomes base64."""
    if blob is None:
        return NO_VALUE
    value = _ENCODERS[encoding](blob)
    return encode_bytes(blob) if value is None else EncodedValue(value, _NAMES[blob.codec], UNSET)


def encode_bytes(blob: Blob) -> EncodedValue:
    """Encode a value as base64. Truncated values need it, as a cut number would look like another number."""
    return EncodedValue(UNSET, _NAMES[blob.codec], base64.b64encode(blob.data).decode())


def decode_value(
    what: str, value: Raw | UnsetType, in_base64: str | UnsetType, codec: CodecName | UnsetType, encoding: Encoding
) -> Blob | None:
    """Return a value of a request as it is stored, or None if the request has none."""
    if in_base64 is UNSET:
        if codec is not UNSET:
            raise BadInput(f"{what}_codec needs {what}_base64; {what} itself has the encoding of the body.")
        return None if value is UNSET else Blob(bytes(value), encoding)
    if value is not UNSET:
        raise BadInput(f"Give {what} or {what}_base64, not both.")
    try:
        data = base64.b64decode(in_base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInput(f"{what}_base64 is not base64: {error}.") from error
    return Blob(data, Codec.RAW if codec is UNSET else _CODECS[codec])


def decode_payload(
    value: Raw | UnsetType, in_base64: str | UnsetType, codec: CodecName | UnsetType, encoding: Encoding
) -> Blob:
    return decode_value("payload", value, in_base64, codec, encoding) or NULL_BLOB
