"""Serializer of response heads. Header names and values are checked, so that no header can start a new line."""

from __future__ import annotations

import re
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from time import time

KEEP = b""
CLOSE = b"Connection: close\r\n"
KEEP_HTTP10 = b"Connection: keep-alive\r\n"  # HTTP/1.0 closes without it
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\nServer: windlass\r\nDate: ".encode()
    for status in HTTPStatus
}
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_RESERVED = frozenset(("connection", "content-length", "date", "server", "transfer-encoding"))
BODILESS = frozenset((204, 304))

_types: dict[str, bytes] = {"": b""}  # cache of Content-Type lines
_TYPES_MAX = 256


class _Date:
    second = 0
    line = b""


def date_line() -> bytes:
    """Return the value of `Date` with the end of its line. It is formatted once a second."""
    second = int(time())
    if second != _Date.second:
        _Date.second = second
        _Date.line = formatdate(second, usegmt=True).encode() + b"\r\n"
    return _Date.line


def head_lines(
    status: int, headers: tuple[tuple[str, str], ...], content_type: str, length: int | None, connection: bytes
) -> bytes:
    """Return everything before the body. Without a length the body is chunked or ends with the connection."""
    line = _LINES.get(status) or _unusual_line(status)
    type_line = _types.get(content_type)
    if type_line is None:
        type_line = _type_line(content_type)
    more = _header_lines(headers) if headers else b""
    if length is not None and status not in BODILESS:
        return b"%b%b%b%b%bContent-Length: %d\r\n\r\n" % (line, date_line(), type_line, more, connection, length)
    return b"%b%b%b%b%b\r\n" % (line, date_line(), type_line, more, connection)


def _unusual_line(status: int) -> bytes:
    if not 200 <= status <= 599:
        raise ValueError(f"{status} is not a valid status of a response; it must be from 200 to 599.")
    return f"HTTP/1.1 {status} \r\nServer: windlass\r\nDate: ".encode()


def _type_line(content_type: str) -> bytes:
    line = _line("Content-Type", content_type)
    if len(_types) < _TYPES_MAX:
        _types[content_type] = line
    return line


def _header_lines(headers: tuple[tuple[str, str], ...]) -> bytes:
    lines = b""
    for name, value in headers:
        _check_header_name(name)
        lines += _line(name, value)
    return lines


@lru_cache(256)
def _check_header_name(name: str) -> None:
    if name.lower() in _RESERVED:
        raise ValueError(f"The header {name} is set by the listener; the application must not set it.")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid header name.")


def _line(name: str, value: str) -> bytes:
    return b"%b: %b\r\n" % (name.encode(), _encode_value(name, value))


def _encode_value(name: str, value: str) -> bytes:
    if not value.isprintable() and not _VALUE.fullmatch(value):
        raise ValueError(f"The value of the header {name} has a control character.")
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        raise ValueError(f"The value of the header {name} has a character outside Latin-1.") from None


def header_pairs(headers: tuple[tuple[str, str], ...], content_type: str) -> list[tuple[bytes, bytes]]:
    """Return names and values of headers for a server that writes the lines itself, with the same checks."""
    named = (("Content-Type", content_type), *headers) if content_type else headers
    for name, _ in headers:
        _check_header_name(name)
    return [(name.lower().encode(), _encode_value(name, value)) for name, value in named]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
