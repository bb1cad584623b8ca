"""Payloads in text fields: as JSON for editing, and back in the encoding of the job."""

from __future__ import annotations

import msgspec

from windlass.core.errors import BadInput
from windlass.core.job import Blob, Codec
from windlass.core.text.codecs import as_json, as_msgpack, compact_json

EDITED_MAX = 256 * 1024  # bytes in a text field


def editable_text(blob: Blob) -> str | None:
    """Return the payload as JSON text. Return None if it is too long, or if JSON cannot express its values."""
    json_text = as_json(blob)
    if json_text is None or len(json_text) > EDITED_MAX or len(blob.data) > EDITED_MAX:
        return None
    if blob.codec is Codec.MSGPACK and not _round_trips(blob, bytes(json_text)):
        return None
    return msgspec.json.format(bytes(json_text), indent=2).decode()


def _round_trips(blob: Blob, json_text: bytes) -> bool:
    """Tell whether the JSON text encodes to the same values. Bytes and timestamps would come back as strings."""
    back = as_msgpack(Blob(json_text))
    return back is not None and msgspec.msgpack.decode(bytes(back)) == msgspec.msgpack.decode(blob.data)


def read_payload(text: str, codec: Codec = Codec.JSON) -> Blob:
    """Encode the typed text as a payload. Empty text is null."""
    try:
        payload = Blob(compact_json(text.strip().encode() or b"null"))
    except ValueError as error:
        raise BadInput(f"The payload is not JSON: {error}.") from error
    if codec is not Codec.MSGPACK:
        return payload
    packed = as_msgpack(payload)
    if packed is None:
        raise BadInput(
            "The payload of this job is MessagePack, which cannot express it: an integer is beyond 64 bits, or a "
            "number is too large."
        )
    return Blob(bytes(packed), Codec.MSGPACK)
