"""Payloads and results as HTML: collapsible JSON with every number as it was written, bytes as a hex dump.

Long values are cut, so that pages stay small; the whole value can be downloaded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from markupsafe import Markup, escape

from windlass.core.job import Blob, Codec
from windlass.core.text.codecs import as_json
from windlass.core.text.control_characters import escape_control

from .formats import count, size

NODES_MAX = 1_000  # of one value
TEXT_MAX = 2_000  # characters of one text
BYTES_SHOWN = 64
OPEN_NODES = 80  # of one value that are shown expanded
DEPTH_MAX = 60
SNIPPET_MAX = 160
_DECODE_ERRORS = (ValueError, RecursionError, msgspec.MsgspecError, OverflowError)


class JsonNumber(str):
    """A JSON number as text, exactly as it was written."""

    __slots__ = ()


class JsonPairs(list[tuple[Any, Any]]):
    """A JSON object as pairs, so that repeated keys are kept."""


class RenderedValue(NamedTuple):
    """A payload or result as HTML."""

    markup: Markup
    codec: str  # json, msgpack, raw
    size: int
    is_cut: bool


def render_value(blob: Blob, is_whole: bool = True, nodes_max: int = NODES_MAX) -> RenderedValue:
    """Render a payload or result. `is_whole` is False if `blob` holds only the beginning."""
    name = blob.codec.name.lower()
    try:
        value = _decode(blob)
    except _DECODE_ERRORS:
        return RenderedValue(
            _render_text(blob.data), name if is_whole else f"{name}, cut", len(blob.data), len(blob.data) > TEXT_MAX
        )
    writer = _TreeWriter(nodes_max)
    return RenderedValue(Markup("".join(writer.value(value, 0))), name, len(blob.data), writer.is_cut)  # noqa: S704 (escaped there)


def snippet(blob: Blob) -> str:
    """Return the beginning of a payload in one line. Lists hold only the beginning of long payloads."""
    if blob.codec is Codec.MSGPACK:
        json_text = as_json(blob)
        data = b"" if json_text is None else bytes(json_text)
    else:
        data = blob.data
    line = " ".join(data[: 4 * SNIPPET_MAX].decode(errors="ignore").split())
    return "" if line == "null" or not line.isprintable() else line[:SNIPPET_MAX]


def _decode(blob: Blob) -> Any:
    if blob.codec is Codec.JSON:
        return _READER.decode(blob.data.decode())
    if blob.codec is Codec.MSGPACK:
        return msgspec.msgpack.decode(blob.data)
    raise ValueError("raw bytes cannot be decoded")


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


_READER = json.JSONDecoder(
    parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=_refuse_constant, object_pairs_hook=JsonPairs
)


def _render_text(data: bytes) -> Markup:
    """Render data that cannot be decoded: as text if it is text, else as bytes."""
    try:
        text = data[: 4 * TEXT_MAX].decode()
        if any(char < " " and char not in "\n\r\t" for char in text):
            raise ValueError
    except ValueError:
        return Markup("").join(_render_bytes(data))
    more = f"… {count(len(data) - TEXT_MAX)} more bytes" if len(data) > TEXT_MAX else ""
    return Markup('<pre class="plain">{}</pre><p class="note">{}</p>').format(escape_control(text[:TEXT_MAX]), more)


def _render_bytes(data: bytes) -> Iterator[Markup]:
    dump = data[:BYTES_SHOWN].hex(" ", 1)
    yield Markup('<span class="binary"><span class="badge">{} of binary data</span> <code>{}{}</code></span>').format(
        size(len(data)), dump, " …" if len(data) > BYTES_SHOWN else ""
    )


class _TreeWriter:
    def __init__(self, nodes_max: int) -> None:
        self.left = nodes_max
        self.open_left = OPEN_NODES
        self.is_cut = False

    def value(self, value: Any, depth: int) -> Iterator[str]:
        self.left -= 1
        if isinstance(value, JsonPairs):
            yield from self._object(value, depth)
        elif isinstance(value, dict):
            yield from self._object(list(value.items()), depth)
        elif isinstance(value, list | tuple):
            yield from self._list(value, depth)
        else:
            yield self._leaf(value)

    def _leaf(self, value: Any) -> str:
        if isinstance(value, JsonNumber):
            return f'<span class="figure">{self._truncate(value)}</span>'
        if isinstance(value, bool) or value is None:
            return f'<span class="word">{"null" if value is None else str(value).lower()}</span>'
        if isinstance(value, str):
            return f'<span class="text">"{self._truncate(value)}"</span>'
        if isinstance(value, int | float):
            return f'<span class="figure">{value}</span>'
        if isinstance(value, bytes | bytearray):
            return "".join(_render_bytes(bytes(value)))
        return (
            f'<span class="word">{escape(self._truncate(str(value)))}</span>'  # MessagePack timestamps and extensions
        )

    def _truncate(self, text: str) -> str:
        if len(text) <= TEXT_MAX:
            return escape(escape_control(text))
        self.is_cut = True
        return escape(escape_control(text[:TEXT_MAX])) + Markup('<span class="cut">… {} more characters</span>').format(
            count(len(text) - TEXT_MAX)
        )

    def _object(self, pairs: list[tuple[Any, Any]], depth: int) -> Iterator[str]:
        if not pairs:
            yield '<span class="brace">{}</span>'
            return
        yield from self._collapsible("{", "}", len(pairs), "field", depth, self._fields(pairs, depth))

    def _fields(self, pairs: list[tuple[Any, Any]], depth: int) -> Iterator[str]:
        for at, (key, value) in enumerate(pairs):
            if self.left <= 0:
                yield self._omitted(len(pairs) - at)
                return
            yield f'<li><span class="key">{self._truncate(key if isinstance(key, str) else repr(key))}</span>: '
            yield from self.value(value, depth + 1)
            yield "</li>"

    def _list(self, values: Any, depth: int) -> Iterator[str]:
        if not values:
            yield '<span class="brace">[]</span>'
            return
        yield from self._collapsible("[", "]", len(values), "item", depth, self._items(values, depth))

    def _items(self, values: Any, depth: int) -> Iterator[str]:
        for at, value in enumerate(values):
            if self.left <= 0:
                yield self._omitted(len(values) - at)
                return
            yield "<li>"
            yield from self.value(value, depth + 1)
            yield "</li>"

    def _omitted(self, number: int) -> str:
        self.is_cut = True
        return f'<li class="cut">… {count(number)} more</li>'

    def _collapsible(
        self, begin: str, end: str, number: int, what: str, depth: int, inside: Iterator[str]
    ) -> Iterator[str]:
        if depth >= DEPTH_MAX:
            self.is_cut = True
            yield f'<span class="brace">{begin}</span><span class="cut">… too deeply nested to show</span>'
            return
        is_open = " open" if depth == 0 or number <= self.open_left else ""
        self.open_left -= number if is_open else 0
        plural = "" if number == 1 else "s"
        yield f'<details{is_open}><summary><span class="brace">{begin}</span>'
        yield f'<span class="folded"> {count(number)} {what}{plural} <span class="brace">{end}</span></span>'
        yield "</summary><ul>"
        yield from inside
        yield f'</ul><span class="brace">{end}</span></details>'
