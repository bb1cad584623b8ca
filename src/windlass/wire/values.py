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
_WRITERS: dict[Codec, Callable[[Blob], Raw | None]] = {Codec.JSON: as_json, Codec.MSGPACK: as_msgpack}


class Written(msgspec.Struct, frozen=True):
    """A stored value on its way out."""

    value: Raw | UnsetType
    codec: CodecName | UnsetType
    base64: str | UnsetType


ABSENT = Written(UNSET, UNSET, UNSET)


def write(blob: Blob | None, encoding: Encoding) -> Written:
    if blob is None:
        return ABSENT
    found = _WRITERS[encoding](blob)
    return write_bytes(blob) if found is None else Written(found, _NAMES[blob.codec], UNSET)


def write_bytes(blob: Blob) -> Written:
    """Also for the beginning of a value: it may look like another one, as a number that was cut."""
    return Written(UNSET, _NAMES[blob.codec], base64.b64encode(blob.data).decode())


def read(
    what: str, value: Raw | UnsetType, in_base64: str | UnsetType, codec: CodecName | UnsetType, encoding: Encoding
) -> Blob | None:
    """The value that a caller gave, as it is stored; None when they gave none."""
    if in_base64 is UNSET:
        if codec is not UNSET:
            raise BadInput(f"{what}_codec goes with {what}_base64; a plain {what} is in the encoding of the body.")
        return None if value is UNSET else Blob(bytes(value), encoding)
    if value is not UNSET:
        raise BadInput(f"Give {what} or {what}_base64, not both.")
    try:
        data = base64.b64decode(in_base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadInput(f"{what}_base64 is not base64: {error}.") from error
    return Blob(data, Codec.RAW if codec is UNSET else _CODECS[codec])


def read_payload(
    value: Raw | UnsetType, in_base64: str | UnsetType, codec: CodecName | UnsetType, encoding: Encoding
) -> Blob:
    return read("payload", value, in_base64, codec, encoding) or NULL_BLOB
