"""What payloads, results and errors hold, in the encoding that an edge speaks. Nothing is lost silently: what has no
form there has none here."""

from __future__ import annotations

import msgspec

from .job import Blob, Codec

_TROUBLE = (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError)


def compact(data: bytes) -> bytes:
    """JSON without white space, numbers and keys as they were written. ValueError: it is not JSON."""
    try:
        data.decode()  # the formatter does not look inside strings
        return msgspec.json.format(data, indent=-1)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(str(error).removesuffix(".")) from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def as_json(blob: Blob) -> msgspec.Raw | None:
    """The value as JSON; None when it has none. Bytes inside MessagePack become base64."""
    try:
        if blob.codec is Codec.JSON:
            return msgspec.Raw(compact(blob.data))
        if blob.codec is Codec.MSGPACK:
            return msgspec.Raw(msgspec.json.encode(msgspec.msgpack.decode(blob.data)))
    except _TROUBLE:
        pass
    return None


def as_msgpack(blob: Blob) -> msgspec.Raw | None:
    """The value as MessagePack; None when it has none, as an integer beyond 64 bits."""
    try:
        if blob.codec is Codec.MSGPACK:
            msgspec.msgpack.decode(blob.data)  # what is embedded must be whole
            return msgspec.Raw(blob.data)
        if blob.codec is Codec.JSON:
            return msgspec.Raw(msgspec.msgpack.encode(msgspec.json.decode(blob.data)))
    except _TROUBLE:
        pass
    return None
