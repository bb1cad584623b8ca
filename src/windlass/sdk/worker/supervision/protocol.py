"""Messages of a worker process to its supervisor, one line each. The orders of the supervisor are `StopOrder`."""

from __future__ import annotations

import msgspec

from windlass.settings import Settings


class LoadedMessage(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The application was imported."""

    settings: Settings
    queues: tuple[str, ...]
    slots: int
    tasks: dict[str, int]  # name to the number of crashes after which a job fails
    files: list[str]


class NotLoadedMessage(msgspec.Struct, frozen=True, tag=True):
    """The application could not be imported. The worker has written the reason to stderr."""

    files: list[str]


class ReadyMessage(msgspec.Struct, frozen=True, tag=True):
    """The worker takes jobs."""

    engine: str


class WorkingMessage(msgspec.Struct, frozen=True, tag=True):
    """Number of running jobs, sent about once a second while it is above zero."""

    running: int


Message = LoadedMessage | NotLoadedMessage | ReadyMessage | WorkingMessage
_decoder = msgspec.json.Decoder(Message)


def encode(message: Message) -> bytes:
    return msgspec.json.encode(message)


def decode(line: bytes) -> Message:
    found: Message = _decoder.decode(line)
    return found
