"""Payloads, results and errors in an export: JSON as it is, other bytes as base64 with their codec."""

from __future__ import annotations

import base64
from typing import TypeAlias

import msgspec

from windlass.core.errors import BadInput
from windlass.core.job import Blob, Codec

EncodedBlob: TypeAlias = dict[str, msgspec.Raw]
_encoder = msgspec.json.Encoder()


def encode_blob(blob: Blob) -> EncodedBlob:
    """Encode a blob: JSON is embedded where possible, anything else becomes base64, so that every byte is preserved."""
    if blob.codec is Codec.JSON and _is_plain_json(blob.data):
        return {"json": msgspec.Raw(blob.data)}
    return {
        "base64": msgspec.Raw(_encoder.encode(base64.b64encode(blob.data).decode())),
        "codec": msgspec.Raw(_encoder.encode(blob.codec.name.lower())),
    }


def _is_plain_json(data: bytes) -> bool:
    if not data or data != data.strip(b" \t\r\n") or b"\n" in data or b"\r" in data:
        return False
    try:
        msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


def decode_blob(encoded: EncodedBlob) -> Blob:
    if encoded.keys() == {"json"}:
        return Blob(bytes(encoded["json"]))
    if encoded.keys() != {"base64", "codec"}:
        raise BadInput("A payload, result or error has either json, or base64 and codec.")
    try:
        codec = Codec[msgspec.json.decode(encoded["codec"], type=str).upper()]
        return Blob(base64.b64decode(msgspec.json.decode(encoded["base64"], type=str), validate=True), codec)
    except (KeyError, ValueError) as error:
        raise BadInput(f"A payload, result or error is not valid base64 with its codec: {error}.") from error
