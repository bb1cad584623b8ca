"""Wire format of Bedrock: parses requests and encodes replies. No I/O."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from windlass.web.listener.bounds import Bounds

_ESCAPE_SEQUENCE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_ESCAPED_CHARACTERS = str.maketrans({"\\": "\\\\", "\r": "\\r", "\n": "\\n", "\t": "\\t"})
_LINE_ENDS = (b"\n", b"\r")
_SURROGATE = re.compile("[\ud800-\udfff]")


class ProtocolError(Exception):
    """Input that cannot be parsed. The connection cannot go on after it."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class BedrockRequest(msgspec.Struct):
    """One command. A body is read and dropped, because no command uses it."""

    verb: str  # as typed, up to the first space of the line
    line: str
    headers: dict[str, str]  # lower-case names, unescaped values; the last of repeated headers wins
    raw: dict[str, str]  # the same, values as they were sent

    @property
    def connection(self) -> str:
        """Header `Connection`: `close`, `wait`, `forget`, or a value without a meaning."""
        value = self.headers.get("connection")
        return "" if value is None else value.lower()

    def timeout_s(self, default_s: float) -> float:
        """Seconds that the command may take."""
        value = self.headers.get("timeout")
        timeout_ms = 0 if value is None else _parse_count(value)
        return timeout_ms / 1000 if timeout_ms > 0 else default_s

    def pause_s(self, now_s: float) -> float:
        """Seconds until the command is to run."""
        value = self.headers.get("commandexecutetime")
        return 0.0 if value is None else max(_parse_count(value) / 1_000_000 - now_s, 0.0)


class Reply(msgspec.Struct, frozen=True):
    status: int
    reason: str
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    # For the connection; not sent to the client.
    jobs: tuple[tuple[bytes, int], ...] = ()  # handed out by GetJob: id and lease token
    settled: tuple[bytes, ...] = ()  # ids of jobs that the command reported on


class BedrockReader:
    """Incremental parser: `feed` takes bytes, `next` returns the next complete request."""

    __slots__ = ("_body_left", "_bounds", "_buffer", "_request", "_scanned")

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._buffer = bytearray()
        self._scanned = 0  # leading bytes without the end of a head
        self._request: BedrockRequest | None = None  # parsed, but its body has not arrived
        self._body_left = 0

    def feed(self, data: bytes) -> None:
        self._buffer += data

    @property
    def buffered_bytes(self) -> int:
        return len(self._buffer)

    @property
    def is_mid_request(self) -> bool:
        """Whether part of a request has arrived."""
        return self._request is not None or bool(self._buffer)

    def next(self) -> BedrockRequest | None:
        """Return the next request, or None until more bytes arrive. Raise ProtocolError, again on each further call."""
        if self._request is None:
            if not self._buffer:
                return None
            self._request = self._head()
        request = self._request
        if request is None or (self._body_left and self._lacks_body()):
            return None
        self._request = None
        return request

    def _head(self) -> BedrockRequest | None:
        end = self._end_of_head()
        if end < 0:
            return None
        buffer = self._buffer
        is_all = end == len(buffer)
        try:
            text = buffer.decode() if is_all else buffer[:end].decode()
        except UnicodeDecodeError:
            raise ProtocolError(400, "Malformed request: its head is not UTF-8") from None
        request = _parse(text, self._bounds.headers_max)
        self._body_left = _body_length(request.headers, self._bounds.drain_bytes_max)
        if is_all:
            buffer.clear()
        else:
            del buffer[:end]
        self._scanned = 0
        return request

    def _end_of_head(self) -> int:
        buffer, scanned = self._buffer, self._scanned
        if scanned == 0 and buffer.startswith(_LINE_ENDS):
            self._skip_blank_lines()
        start = scanned - 2 if scanned > 2 else 0
        self._scanned = size = len(buffer)
        end = buffer.find(b"\n\n", start)
        with_returns = buffer.find(b"\n\r\n", start, size if end < 0 else end + 2)
        if with_returns >= 0:
            end = with_returns + 1
        if (size if end < 0 else end + 2) > self._bounds.header_bytes_max:
            raise ProtocolError(431, f"Request too large: its head may have {self._bounds.header_bytes_max} bytes")
        return -1 if end < 0 else end + 2

    def _skip_blank_lines(self) -> None:
        del self._buffer[: len(self._buffer) - len(self._buffer.lstrip(b"\r\n"))]

    def _lacks_body(self) -> bool:
        if self._body_left:
            arrived = min(self._body_left, len(self._buffer))
            del self._buffer[:arrived]
            self._body_left -= arrived
        return self._body_left > 0


def _parse(head: str, headers_max: int) -> BedrockRequest:
    lines = (head.replace("\r\n", "\n") if "\r" in head else head).split("\n")
    if len(lines) - 3 > headers_max:  # less the command line and the two empty strings at the end
        raise ProtocolError(431, f"Request too large: it may have {headers_max} headers")
    line, raw, last = "", dict[str, str](), ""
    for text in lines:
        if not line:
            line = text.strip(" ")
        elif not text:
            last = ""
        elif text[0] not in " \t":
            name, _, value = text.partition(":")
            last = name.rstrip(" ").lower()
            if last:
                raw[last] = value.strip(" ")
        elif last:
            raw[last] = (raw[last] + text).strip(" ")
        else:
            line = (line + text).rstrip(" ")
    return _make_request(line, raw, has_escapes="\\" in head)


def _make_request(line: str, raw: dict[str, str], *, has_escapes: bool) -> BedrockRequest:
    """Make a request. The line `Query: SELECT 1;` means the command `Query` with the header `query`."""
    if line[:6].lower() == "query:":
        raw["query"] = line[6:].strip(" ")
        headers = {name: unescape(value) for name, value in raw.items()} | {"query": raw["query"]}
        return BedrockRequest("Query", line, headers, raw)
    headers = {name: unescape(value) for name, value in raw.items()} if has_escapes else raw
    return BedrockRequest(line.partition(" ")[0], line, headers, raw)


def _parse_count(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0


def _body_length(headers: dict[str, str], most: int) -> int:
    if "transfer-encoding" in headers and headers["transfer-encoding"].lower() != "identity":
        raise ProtocolError(400, "Malformed request: a body needs a Content-Length, chunks are not read")
    text = headers.get("content-length") or "0"
    if text == "0":
        return 0
    if not (text.isascii() and text.isdigit()):
        raise ProtocolError(400, "Malformed Content-Length")
    if len(text) > 18 or int(text) > most:
        raise ProtocolError(413, f"Request too large: its body may have {most} bytes, and no command reads it")
    return int(text)


def unescape(value: str) -> str:
    """Replace `\\n \\r \\t \\b \\f \\uXXXX`. A backslash before any other character is removed."""
    if "\\" not in value:
        return value
    text = _ESCAPE_SEQUENCE.sub(_replace_escape, value)
    if _SURROGATE.search(text):  # a pair is one character; a single surrogate is invalid
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _replace_escape(match: re.Match[str]) -> str:
    text = match[1]
    return chr(int(text[1:], 16)) if len(text) == 5 else _ESCAPES.get(text, text)


def escape(value: str) -> str:
    return value if value.isprintable() and "\\" not in value else value.translate(_ESCAPED_CHARACTERS)


def encode_reply(reply: Reply, *, closes: bool = False, protocol: str = "") -> bytes:
    """Encode a reply. `protocol` comes before the status, for clients that use HTTP."""
    head = f"{protocol}{reply.status} {reply.reason if reply.reason.isalnum() else escape(reply.reason)}\r\n"
    for name, value in reply.headers:
        head += f"{name}: {value if value.isalnum() else escape(value)}\r\n"
    if closes:
        head += "Connection: close\r\n"
    return f"{head}Content-Length: {len(reply.body)}\r\n\r\n".encode("utf-8", "replace") + reply.body


def encode_json(value: dict[str, Any]) -> bytes:
    """Encode as compact JSON, with the keys in Bedrock's order: by name, ignoring case."""
    return msgspec.json.encode(dict(sorted(value.items(), key=lambda item: item[0].lower())))
