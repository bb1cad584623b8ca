"""What a supervisor and its worker processes say to each other, a line each, over a pair of sockets. When one side is
gone the other reads the end."""

from __future__ import annotations

import msgspec

from windlass.settings import Settings

STOP = b"stop"  # to a worker: take no more, end within the grace
STOP_NOW = b"now"  # to a worker: give back what runs
LINE_MAX = 2**24


class LoadedMessage(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """The application is imported."""

    settings: Settings
    queues: tuple[str, ...]
    slots: int
    tasks: dict[str, int]  # name → crashes after which a job fails
    files: list[str]


class NotLoadedMessage(msgspec.Struct, frozen=True, tag=True):
    """It could not be; why is on stderr."""

    files: list[str]


class ReadyMessage(msgspec.Struct, frozen=True, tag=True):
    """It takes jobs."""

    engine: str


class WorkingMessage(msgspec.Struct, frozen=True, tag=True):
    """How many jobs it runs; told about once a second while that is more than none."""

    running: int


Message = LoadedMessage | NotLoadedMessage | ReadyMessage | WorkingMessage
_decoder = msgspec.json.Decoder(Message)


def encode(message: Message) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def decode(line: bytes) -> Message:
    found: Message = _decoder.decode(line)
    return found
