"""The process in which queries run: one question after the other, under limits that the kernel enforces."""

from __future__ import annotations

import contextlib
import math
import os
import resource
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from windlass.dialects.bedrock.refusals import CommandRefused

from . import sqlite_query

TARGET = f"{__name__}:handler"
FILE_FACTOR = 2  # a file that SQLite sorts in may have so many times the bytes of the copy
CPU_SPARE_S = 2  # beyond the limit that SQLite is asked to keep by itself
NICENESS = 5  # queries come after jobs


class QueryRequest(msgspec.Struct, frozen=True, array_like=True):
    """A query, with a copy of the jobs that it can be about."""

    text: str
    pages: list[bytes]  # each some rows as MessagePack, in the order of query.COLUMNS
    parameters: dict[str, Any]  # sql_functions.Value, a union that msgspec does not take
    limits: sqlite_query.QueryLimits
    with_headers: bool


class QueryReply(msgspec.Struct, frozen=True, array_like=True):
    """The reply to a query, without the framing."""

    status: int
    reason: str
    body: bytes = b""
    error: str = ""  # the reason at length


_decode_question = msgspec.msgpack.Decoder(QueryRequest).decode
_decode_rows = msgspec.msgpack.Decoder(list[tuple[Any, ...]]).decode
encode = msgspec.msgpack.Encoder().encode
decode_answer = msgspec.msgpack.Decoder(QueryReply).decode


def make_handler() -> Callable[[bytes], bytes]:
    """Called once in the child process: confine it, and return the function that answers."""
    _set_limit(resource.RLIMIT_CORE, 0)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    return run_request


def run_request(request: bytes) -> bytes:
    question = _decode_question(request)
    _set_limit(resource.RLIMIT_FSIZE, FILE_FACTOR * question.limits.copy_bytes)
    used = resource.getrusage(resource.RUSAGE_SELF)
    # Ends the process by SIGXCPU, should the parent be too busy to kill it.
    _set_limit(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime + question.limits.seconds) + CPU_SPARE_S)
    try:
        found = sqlite_query.run_query(
            question.text, _decode_pages(question.pages), question.limits, question.parameters
        )
        return encode(QueryReply(200, "OK", sqlite_query.encode_result(found, with_headers=question.with_headers)))
    except sqlite_query.BadQuery as bad:
        return encode(QueryReply(402, "Bad query", error=str(bad)))
    except CommandRefused as refused:
        return encode(QueryReply(refused.status, refused.reason, error=refused.detail))
    except MemoryError:
        return encode(QueryReply(*sqlite_query.ABORTED, error=sqlite_query.OUT_OF_MEMORY))


def _decode_pages(pages: list[bytes]) -> Iterator[tuple[Any, ...]]:
    for page in pages:
        yield from _decode_rows(page)


def _set_limit(kind: int, most: int) -> None:
    """The hard limit stays: the next question may raise this one again."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
