"""Envelope of a message, and its form as a line of JSON. messages.py interprets the topics."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Mapping

import msgspec

from windlass.core.errors import BadInput
from windlass.core.job import Codec
from windlass.core.validation.document_depth import is_too_deep
from windlass.wire.encoding import NESTING_MAX

from . import instants

NULL = msgspec.Raw(b"null")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Identity of this processor, and the namespaces of the topics that it reads and writes."""

    name: str = "job_queue"
    uuid: str
    host: str
    listener: str = "default"
    publisher: str = "default"


def identity_from(environment: Mapping[str, str]) -> Identity:
    """Read the identity from the environment. Empty variables count as not set."""
    known = {name: value for name, value in environment.items() if value}
    return Identity(
        name=known.get("SERVICE_NAME", "job_queue"),
        uuid=known.get("SERVICE_UUID") or str(uuid.uuid4()),
        host=known.get("SERVICE_HOST") or socket.gethostname(),
        listener=known.get("NAMESPACE_LISTENER", "default"),
        publisher=known.get("NAMESPACE_PUBLISHER", "default"),
    )


def process_identity() -> Identity:
    return identity_from(os.environ)


class Envelope(msgspec.Struct, frozen=True):
    """Envelope of a message that was read. Other fields are ignored."""

    topic: str
    payload: msgspec.Raw = NULL
    service_uuid: str = ""
    service_host: str = ""
    created_at: str = ""


_decode = msgspec.json.Decoder(Envelope).decode


def parse_envelope(line: bytes) -> Envelope:
    """Parse a line. Raise BadInput if it is not a message."""
    try:
        if not line.isascii():
            line.decode()  # the decoder does not check strings in the payload
        if is_too_deep(line, Codec.JSON, NESTING_MAX):
            raise BadInput(f"The message is nested more than {NESTING_MAX} levels deep.")
        return _decode(line)
    except UnicodeDecodeError as error:
        raise BadInput(f"The line is not UTF-8: {error}.") from error
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadInput(f"The line is not a message: {str(error).removesuffix('.')}.") from error


class _Message(msgspec.Struct, frozen=True):
    topic: str
    service_name: str
    service_uuid: str
    service_host: str
    created_at: str
    payload: msgspec.Raw


_encode = msgspec.json.Encoder().encode


def encode_message(sender: Identity, topic: str, payload: bytes, now_ms: int) -> bytes:
    """Encode a message as a line, with the line end. `topic` has no namespace."""
    message = _Message(
        f"{sender.publisher}/{topic}",
        sender.name,
        sender.uuid,
        sender.host,
        instants.format_instant(now_ms),
        msgspec.Raw(payload),
    )
    return _encode(message) + b"\n"
