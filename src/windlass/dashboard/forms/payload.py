"""Payloads as people edit them: JSON in a text field and back, in the encoding that the job had."""

from __future__ import annotations

import msgspec

from windlass.core.errors import BadInput
from windlass.core.job import Blob, Codec
from windlass.core.text.codecs import as_json, as_msgpack, compact_json

EDITED_MAX = 256 * 1024  # bytes that a text field shows


def editable_text(blob: Blob) -> str | None:
    """The text to edit; None: it is too long, or JSON has no form for what is inside."""
    written = as_json(blob)
    if written is None or len(written) > EDITED_MAX or len(blob.data) > EDITED_MAX:
        return None
    if blob.codec is Codec.MSGPACK and not _round_trips(blob, bytes(written)):
        return None
    return msgspec.json.format(bytes(written), indent=2).decode()


def _round_trips(blob: Blob, written: bytes) -> bool:
    """Bytes and instants would come back as texts."""
    back = as_msgpack(Blob(written))
    return back is not None and msgspec.msgpack.decode(bytes(back)) == msgspec.msgpack.decode(blob.data)


def read_payload(text: str, codec: Codec = Codec.JSON) -> Blob:
    """What was typed, as it is stored; nothing typed is null."""
    try:
        written = Blob(compact_json(text.strip().encode() or b"null"))
    except ValueError as error:
        raise BadInput(f"The payload is not JSON: {error}.") from error
    if codec is not Codec.MSGPACK:
        return written
    packed = as_msgpack(written)
    if packed is None:
        raise BadInput(
            "The payload of this job is MessagePack, which has no form for it: an integer is beyond 64 bits, or a "
            "number too large."
        )
    return Blob(bytes(packed), Codec.MSGPACK)
