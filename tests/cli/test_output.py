"""Formats, column widths and values, without an engine."""

from __future__ import annotations

import msgspec
import pytest

from windlass.cli.blobs import blob_text, error_text
from windlass.cli.output import Column, fit_columns, format_brief, format_distance
from windlass.cli.queue_page import compute_rates
from windlass.core.job import Blob, Codec
from windlass.core.queue import Minute
from windlass.core.text.codecs import as_json
from windlass.core.text.control_characters import printable
from windlass.core.text.error_text import error_line


def packed(value: object) -> Blob:
    return Blob(msgspec.msgpack.encode(value), Codec.MSGPACK)


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (0, "0ms"),
        (850, "850ms"),
        (1_000, "1s"),
        (61_999, "1m 1s"),
        (59 * 60_000, "59m"),
        (3_600_000 * 5 + 60_000, "5h 1m"),
        (86_400_000 * 12 + 3_600_000, "12d"),
    ],
)
def test_durations(span_ms: int, text: str) -> None:
    assert format_brief(span_ms) == text


def test_distances() -> None:
    assert [format_distance(at, 100_000) for at in (99_500, 40_000, 160_000)] == ["now", "1m ago", "in 1m"]


def test_escapes_characters_that_move_the_cursor() -> None:
    assert printable("a\x1b[31m\x9bb\u202ec\u2028d\n\te") == "a\\x1b[31m\\x9bb\\u202ec\\u2028d\\n\\te"
    assert printable("a\n\tb\r", keeps_lines=True) == "a\n\tb\\r"
    assert printable("Grüße, 東京 ✓") == "Grüße, 東京 ✓"


# Tables

COLUMNS = (Column("id"), Column("name", shrinks=10), Column("created", rank=1), Column("tags", rank=3, shrinks=5))


@pytest.mark.parametrize(
    ("width", "name", "widths"),
    [
        (91, 20, {0: 36, 1: 20, 2: 12, 3: 15}),
        (90, 20, {0: 36, 1: 20, 2: 12}),  # an optional column is dropped before a name is shortened
        (110, 200, {0: 36, 1: 56, 2: 12}),
        (112, 200, {0: 36, 1: 41, 2: 12, 3: 15}),  # unless the name stays readable
        (72, 20, {0: 36, 1: 18, 2: 12}),
        (64, 20, {0: 36, 1: 10, 2: 12}),
        (63, 20, {0: 36, 1: 20}),
        (50, 20, {0: 36, 1: 10}),
        (20, 20, {0: 36, 1: 10}),
    ],
)
def test_columns_are_shortened_then_dropped(width: int, name: int, widths: dict[int, int]) -> None:
    assert fit_columns(COLUMNS, (36, name, 12, 15), width) == widths


def test_rates_of_the_last_sixty_seconds() -> None:
    minutes = [Minute(at_ms=60_000, enqueued=60, finished=10), Minute(at_ms=120_000, enqueued=5)]
    assert compute_rates(minutes, 120_000 + 15_000)[:3] == (50.0, 0, 7.5)
    assert compute_rates(minutes, 240_000)[:3] == (0, 0, 0)


# Payloads and errors


@pytest.mark.parametrize(
    ("blob", "expected"),
    [
        (Blob(b'{"n": 12345678901234567890123, "f": 1.10}'), b'{"n":12345678901234567890123,"f":1.10}'),
        (Blob(b'{"a": 1, "a": 2}'), b'{"a":1,"a":2}'),
        (packed({"u": 2**64 - 1, "b": b"12", 7: None}), b'{"u":18446744073709551615,"b":"MTI=","7":null}'),
        (Blob(b"{bad"), None),
        (Blob(b'"\xff"'), None),
        (Blob(b"\xc1", Codec.MSGPACK), None),
        (packed({"ext": msgspec.msgpack.Ext(1, b"x")}), None),
        (Blob(b"1", Codec.RAW), None),
        (Blob(b"[" * 9000 + b"]" * 9000), None),
    ],
)
def test_values_as_json_keep_all_digits(blob: Blob, expected: bytes | None) -> None:
    found = as_json(blob)
    assert (None if found is None else bytes(found)) == expected


def test_values_as_text() -> None:
    assert blob_text(packed({"a": [1]})) == '{"a":[1]}'
    assert blob_text(Blob(b'{"a":"%s"}' % (b"x" * 100))).splitlines()[0] == "{"
    assert blob_text(Blob(b"plain \xff", Codec.RAW)) == "plain \\xff"


@pytest.mark.parametrize(
    ("reason", "error", "line"),
    [
        ("error", packed({"type": "ValueError", "message": "no"}), "ValueError: no"),
        ("error", Blob(b'{"type": "ValueError", "message": ""}'), "ValueError"),
        ("timeout", packed({"type": "TimeoutError", "message": "30s"}), "timeout: TimeoutError: 30s"),
        ("error", Blob(b'"text"'), "error: text"),
        ("error", Blob(b'{"other": 1}'), 'error: {"other":1}'),
        ("crashed", Blob(b"\xff", Codec.RAW), "crashed: \\xff"),
        ("lease_expired", None, "lease_expired"),
    ],
)
def test_errors_in_one_line(reason: str, error: Blob | None, line: str) -> None:
    assert error_line(reason, error) == line


def test_the_error_text_is_the_traceback_if_there_is_one() -> None:
    assert error_text(packed({"type": "E", "message": "m", "traceback": "a\nb\n"})) == "a\nb"
    assert error_text(packed({"type": "E", "message": "m"})) == '{"type":"E","message":"m"}'
