"""Parts of the job pages that need no server: rendered values, timelines, filters, editable payloads."""

from __future__ import annotations

import json
import re
from html import unescape

import msgspec
import pytest

from windlass.core.errors import BadInput
from windlass.core.job import Attempt, Blob, Codec, Job, Timeline
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.dashboard.forms.filters import JobsQuery, ListFilter, exact_name, name_pattern, parse_instant_ms
from windlass.dashboard.forms.payload import EDITED_MAX, editable_text, read_payload
from windlass.dashboard.views import timeline
from windlass.dashboard.views.values import DEPTH_MAX, NODES_MAX, TEXT_MAX, render_value

HOUR_MS = 3_600_000
HOSTILE = "<script>alert(1)</script>"


def _text(blob: Blob) -> str:
    """Return the visible text of a rendered value."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", render_value(blob).markup)).split())


def test_shows_numbers_as_they_were_written() -> None:
    shown = _text(Blob(b'{"a": 9007199254740993, "b": 0.10, "c": 1e400, "d": -0, "e": ' + b"7" * 5000 + b"}"))
    assert "9007199254740993" in shown
    assert "0.10" in shown
    assert "1e400" in shown
    assert "-0" in shown
    assert "7" * TEXT_MAX in shown
    assert "18446744073709551615" in _text(Blob(msgspec.msgpack.encode(2**64 - 1), Codec.MSGPACK))


def test_shows_repeated_keys() -> None:
    assert _text(Blob(b'{"a": 1, "a": 2}')).count("a :") == 2


@pytest.mark.parametrize("codec", [Codec.JSON, Codec.MSGPACK])
def test_escapes_strings_and_keys(codec: Codec) -> None:
    encode = msgspec.json.encode if codec is Codec.JSON else msgspec.msgpack.encode
    shown = render_value(Blob(encode({HOSTILE: [HOSTILE, None, True]}), codec))
    assert "<script" not in shown.markup
    assert _text(Blob(encode({HOSTILE: HOSTILE}), codec)).count(HOSTILE) == 2


@pytest.mark.parametrize(
    ("blob", "text"),
    [
        (Blob(msgspec.msgpack.encode({"key": b"\x00\x01\xff"}), Codec.MSGPACK), "3 B of binary data 00 01 ff"),
        (Blob(b"\x80\x81", Codec.RAW), "2 B of binary data 80 81"),
        (Blob(b"just <b>text</b>", Codec.RAW), "just <b>text</b>"),
        (Blob(b'{"cut": "in the mid'), '{"cut": "in the mid'),
        (Blob(b"\xc1", Codec.MSGPACK), "1 B of binary data c1"),
        (Blob(b"NaN"), "NaN"),
        (Blob(msgspec.msgpack.encode({1: "one"}), Codec.MSGPACK), '{ 1 : "one" }'),
        (Blob(b"{}"), "{}"),
        (Blob(b'[[], {}, ""]'), '[ [] {} "" ]'),
    ],
)  # fmt: skip
def test_shows_values_that_are_not_plain_json(blob: Blob, text: str) -> None:
    shown = _text(blob)
    shown = re.sub(r"\d+ (field|item)s? [}\]] ", "", shown).replace("\u202f", " ")
    assert text in shown


def test_cuts_long_values_and_shows_that() -> None:
    wide = render_value(Blob(json.dumps(list(range(10 * NODES_MAX))).encode()))
    assert wide.is_cut
    assert wide.markup.count("<li>") <= NODES_MAX
    assert "more" in wide.markup
    long = render_value(Blob(json.dumps("x" * (TEXT_MAX + 7)).encode()))
    assert long.is_cut
    assert "7 more characters" in long.markup
    deep = render_value(Blob(b"[" * (DEPTH_MAX + 5) + b"]" * (DEPTH_MAX + 5)))
    assert deep.is_cut
    assert not render_value(Blob(b'{"a": 1}')).is_cut


def test_shows_excessive_nesting_as_text() -> None:
    assert render_value(Blob(b"[" * 200_000 + b"]" * 200_000)).is_cut


# Timeline


def _job(**fields: object) -> Job:
    given = {
        "id": b"\0" * 16, "state": State.QUEUED, "queue": "q", "name": "n", "payload": Blob(b"1"),
        "payload_is_whole": True, "priority": 0, "sequence": 1, "created_at_ms": 1000, "run_at_ms": 1000,
        "started_at_ms": None, "ended_at_ms": None, "expires_at_ms": None, "lane": "", "unique": None,
        "retry": Backoff(), "lease_ms": 0, "timeout_ms": 0, "result_ttl_ms": 0, "tags": (), "trace": "", "repeat": "",
        "schedule": "", "planned_at_ms": None, "parent": None, "is_held": False, "joins": False, "has_members": False,
        "on_failure": "collect", "callback": None, "limits": (), "attempt": 0, "revision": 1, "progress": 0.0,
        "is_cancel_requested": False, "is_overdue": False, "is_history": False, "worker": None, "lease_token": 0,
        "lease_deadline_at_ms": None,
    }  # fmt: skip
    return Job(**(given | fields))  # type: ignore[arg-type]


def _attempt(number: int, from_ms: int, to_ms: int) -> Attempt:
    return Attempt(attempt=number, started_at_ms=from_ms, ended_at_ms=to_ms, worker=None, reason="error", error=None)


@pytest.mark.parametrize(
    ("job", "attempts", "kinds"),
    [
        (_job(), [], [("wait", 4000)]),
        (_job(run_at_ms=3000), [], [("plan", 2000), ("wait", 2000)]),
        (_job(run_at_ms=9000, state=State.SCHEDULED), [], [("plan", 4000), ("ahead", 4000)]),
        (_job(state=State.RUNNING, started_at_ms=2000), [], [("wait", 1000), ("run", 3000)]),
        (_job(state=State.FINISHED, started_at_ms=1000, ended_at_ms=1000), [], [("good", 0)]),
        (_job(state=State.CANCELLED, ended_at_ms=2000), [], [("wait", 1000)]),
        (_job(state=State.WAITING, started_at_ms=2000), [], [("wait", 1000), ("wait", 3000)]),
        (
            _job(state=State.FAILED, started_at_ms=3000, ended_at_ms=3500),
            [_attempt(1, 1500, 2000), _attempt(2, 3000, 3500)],
            [("wait", 500), ("bad", 500), ("wait", 1000), ("bad", 500)],
        ),
        (
            _job(state=State.FINISHED, started_at_ms=3000, ended_at_ms=4000),
            [_attempt(1, 1000, 2000)],
            [("bad", 1000), ("wait", 1000), ("good", 1000)],
        ),
    ],
)
def test_phases_of_a_timeline(job: Job, attempts: list[Attempt], kinds: list[tuple[str, int]]) -> None:
    phases = timeline.phases(Timeline(job, attempts), now_ms=5000)
    assert [(phase.kind, phase.duration_ms) for phase in phases] == kinds


def test_an_attempt_of_a_millisecond_in_a_day_is_visible() -> None:
    job = _job(state=State.FINISHED, started_at_ms=24 * HOUR_MS, ended_at_ms=24 * HOUR_MS + 1)
    svg = timeline.render(timeline.phases(Timeline(job, []), now_ms=25 * HOUR_MS))
    widths = [float(width) for width in re.findall(r'<rect[^>]* width="([\d.]+)"', svg)]
    assert len(widths) == 2
    assert min(widths) >= 3
    assert sum(widths) <= timeline.WIDTH


# Filters


def test_the_default_list_is_queued_or_all_states_with_a_tag() -> None:
    assert ListFilter().list_name == "queued"
    assert ListFilter(tag="x").list_name == ""
    with pytest.raises(BadInput, match="Use one of queued, running"):
        _ = ListFilter(state="nonsense").list_name


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", ""),
        ("mail", "*mail*"),
        (" mail ", "*mail*"),
        ("send_*", "send_*"),
        ("=send", "send"),
        ("=a*b[", "a[*]b[[]"),
    ],
)
def test_name_patterns(typed: str, expected: str) -> None:
    assert name_pattern(typed) == expected


def test_exact_names() -> None:
    assert name_pattern(exact_name("mail")) == "mail"


def test_time_filters_are_durations_or_instants() -> None:
    now_ms = 100 * HOUR_MS
    assert ListFilter(state="failed", since="1h").time_bounds(now_ms) == {
        "ended_from_ms": 99 * HOUR_MS,
        "ended_before_ms": 0,
    }
    assert ListFilter(state="queued", before="2h").time_bounds(now_ms) == {
        "created_from_ms": 0,
        "created_before_ms": 98 * HOUR_MS,
    }
    assert parse_instant_ms("1970-01-02 00:00") == 24 * HOUR_MS
    assert parse_instant_ms("1970-01-02T01:00+01:00") == 24 * HOUR_MS
    with pytest.raises(BadInput, match="write 30m"):
        ListFilter(since="yesterday").time_bounds(now_ms)


def test_queries_of_the_next_and_previous_page() -> None:
    first = JobsQuery(state="failed", queue="mail")
    second = msgspec.convert(first.next_page("c1"), JobsQuery)
    third = msgspec.convert(second.next_page("c2"), JobsQuery)
    assert (third.cursor, third.queue) == ("c2", "mail")
    assert msgspec.convert(third.previous_page(), JobsQuery) == second
    assert msgspec.convert(second.previous_page(), JobsQuery) == first


# Editable payloads


@pytest.mark.parametrize("text", [b'{"n": 123456789012345678901234567890, "f": 0.10, "t": "\\u00e9<"}', b"null", b"[]"])
def test_an_unchanged_payload_round_trips(text: bytes) -> None:
    typed = editable_text(Blob(text))
    assert typed is not None
    again = read_payload(typed)
    assert b"".join(again.data.split()) == b"".join(text.split())


def test_a_messagepack_payload_stays_messagepack() -> None:
    blob = Blob(msgspec.msgpack.encode({"n": 2**63, "f": 1.5, "list": [None, True]}), Codec.MSGPACK)
    typed = editable_text(blob)
    assert typed is not None
    again = read_payload(typed, Codec.MSGPACK)
    assert again.codec is Codec.MSGPACK
    assert msgspec.msgpack.decode(again.data) == msgspec.msgpack.decode(blob.data)
    with pytest.raises(BadInput, match="beyond 64 bits"):
        read_payload(str(2**70), Codec.MSGPACK)


@pytest.mark.parametrize(
    "blob",
    [
        Blob(msgspec.msgpack.encode({"picture": b"\xff"}), Codec.MSGPACK),
        Blob(msgspec.msgpack.encode(b"bytes"), Codec.MSGPACK),
        Blob(b"raw", Codec.RAW),
        Blob(b"no json"),
        Blob(b'"' + b"x" * EDITED_MAX + b'"'),
    ],
)
def test_a_payload_that_would_not_round_trip_is_not_editable(blob: Blob) -> None:
    assert editable_text(blob) is None


def test_refuses_invalid_json() -> None:
    with pytest.raises(BadInput, match="not JSON"):
        read_payload('{"a": }')
    assert read_payload("  ") == Blob(b"null")
