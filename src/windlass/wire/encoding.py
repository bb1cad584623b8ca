"""JSON and MessagePack: media types, encoders and decoders."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec

from windlass.core.errors import BadInput
from windlass.core.job import Codec
from windlass.core.validation.document_depth import is_too_deep

Encoding: TypeAlias = Literal[Codec.JSON, Codec.MSGPACK]
NESTING_MAX = 100  # levels of a body
JSON, MSGPACK = "application/json", "application/msgpack"
_ENCODERS = {Codec.JSON: msgspec.json.Encoder().encode, Codec.MSGPACK: msgspec.msgpack.Encoder().encode}


@lru_cache(None)
def _decoder(wanted: Any, encoding: Encoding) -> Any:
    decoder = msgspec.json.Decoder if encoding is Codec.JSON else msgspec.msgpack.Decoder
    return decoder(wanted).decode


def check_depth(body: bytes, encoding: Encoding) -> None:
    if is_too_deep(body, encoding, NESTING_MAX):
        raise BadInput(
            f"The body is nested more than {NESTING_MAX} levels deep; flatten it, or send the inner document as text."
        )


def decode(body: bytes, wanted: Any, encoding: Encoding) -> Any:
    """Decode a body as a type. Raises BadInput if it does not fit."""
    if len(body) > NESTING_MAX:  # each level needs a byte
        check_depth(body, encoding)
    try:
        if encoding is Codec.JSON and not body.isascii():
            body.decode()  # the decoder does not validate UTF-8 in raw values
        return _decoder(wanted, encoding)(body)
    except msgspec.ValidationError as error:
        raise BadInput(f"The body does not fit: {error}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        name = "JSON" if encoding is Codec.JSON else "MessagePack"
        raise BadInput(f"The body is not valid {name}: {error}.") from error
    except RecursionError as error:
        raise BadInput("The body is nested too deeply.") from error


def encode(value: Any, encoding: Encoding) -> bytes:
    return _ENCODERS[encoding](value)
