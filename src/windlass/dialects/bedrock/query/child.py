"""Child process that runs queries one after the other, under limits that the kernel enforces."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from windlass.dialects.bedrock.refusals import CommandRefused

from . import sqlite_query

with contextlib.suppress(ImportError):  # not on Windows (windlass.processes.posix)
    import resource

TARGET = f"{__name__}:make_handler"
FILE_FACTOR = 2  # size limit of SQLite's temporary files, as a multiple of the copy
CPU_SPARE_S = 2  # above the limit that SQLite checks itself
NICENESS = 5  # jobs have precedence over queries
M_MMAP_THRESHOLD = -3  # of malloc.h
LARGE_BYTES = 128 * 1024  # glibc's first threshold, which otherwise grows up to 32 MiB


class QueryRequest(msgspec.Struct, frozen=True, array_like=True):
    """A query, with a copy of the jobs that it can match."""

    text: str
    pages: list[bytes]  # rows as MessagePack, with the columns for the query, in their order
    parameters: dict[str, Any]  # of sql_functions.Value, a union that msgspec does not support
    limits: sqlite_query.QueryLimits
    with_headers: bool


class QueryReply(msgspec.Struct, frozen=True, array_like=True):
    """The reply to a query, without the framing."""

    status: int
    reason: str
    body: bytes = b""
    error: str = ""  # explanation for the header `error`


_decode_request = msgspec.msgpack.Decoder(QueryRequest).decode
_decode_rows = msgspec.msgpack.Decoder(list[tuple[Any, ...]]).decode
encode = msgspec.msgpack.Encoder().encode
decode_answer = msgspec.msgpack.Decoder(QueryReply).decode


def make_handler() -> Callable[[bytes], bytes]:
    """Set the limits of the child process, and return its handler. Called once in the process."""
    _set_limit(resource.RLIMIT_CORE, 0)
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    _return_freed_memory()
    return run_request


def _return_freed_memory() -> None:
    """Make glibc return large blocks to the kernel when they are freed.

    Otherwise its heap keeps texts of former queries, and the next query may add its whole memory to them. Other C
    libraries have no such setting."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)


def run_request(encoded: bytes) -> bytes:
    request = _decode_request(encoded)
    _set_limit(resource.RLIMIT_FSIZE, FILE_FACTOR * request.limits.copy_bytes)
    used = resource.getrusage(resource.RUSAGE_SELF)
    # SIGXCPU ends the process if the parent is too busy to kill it.
    _set_limit(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime + request.limits.seconds) + CPU_SPARE_S)
    try:
        rows = _decode_pages(request.pages)
        found = sqlite_query.run_query(request.text, rows, request.limits, request.parameters)
        return encode(QueryReply(200, "OK", sqlite_query.encode_result(found, with_headers=request.with_headers)))
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
    """Set the soft limit. The hard limit stays, so that the next query can raise the soft limit again."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
