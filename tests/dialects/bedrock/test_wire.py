"""Wire format of Bedrock: parsing of requests and encoding of replies."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as some

from windlass.dialects.bedrock.wire import (
    BedrockReader,
    BedrockRequest,
    ProtocolError,
    Reply,
    encode_reply,
    escape,
    unescape,
)
from windlass.web.listener.bounds import Bounds

BOUNDS = Bounds(header_bytes_max=2000, headers_max=20, drain_bytes_max=100)


def read(*pieces: bytes, bounds: Bounds = BOUNDS) -> list[BedrockRequest | str]:
    """Return the requests in these bytes, and the reason of a protocol error at the end."""
    reader = BedrockReader(bounds)
    found: list[BedrockRequest | str] = []
    try:
        for piece in pieces:
            reader.feed(piece)
            while (request := reader.next()) is not None:
                found.append(request)
    except ProtocolError as error:
        found.append(error.reason)
    return found


def one(data: bytes) -> BedrockRequest:
    (found,) = read(data)
    assert isinstance(found, BedrockRequest), found
    return found


# What a request looks like


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_request_of_either_line_end(end: bytes) -> None:
    found = one(end.join([b"CreateJob", b"name: foo", b'data: {"value":1}', b"", b""]))
    assert (found.verb, found.line) == ("CreateJob", "CreateJob")
    assert found.headers == {"name": "foo", "data": '{"value":1}'}


def test_line_ends_may_be_mixed() -> None:
    assert one(b"Ping\r\na: 1\nb: 2\r\n\n").headers == {"a": "1", "b": "2"}
    assert one(b"Ping\na: 1\n\r\n").headers == {"a": "1"}


def test_blank_lines_before_a_request_are_skipped() -> None:
    assert [
        found.verb for found in read(b"\n\r\n\nPing\n\n\n\r\nStatus\r\n\r\n\n") if isinstance(found, BedrockRequest)
    ] == [
        "Ping",
        "Status",
    ]


def test_an_unfinished_request_waits() -> None:
    assert read(b"Ping\nname: foo\n") == read(b"Ping") == read(b"\n\n") == []


def test_the_verb_ends_at_the_first_space() -> None:
    found = one(b"  CreateJob / HTTP/1.1  \nname: foo\n\n")
    assert (found.verb, found.line) == ("CreateJob", "CreateJob / HTTP/1.1")


def test_header_names_in_any_case_and_the_last_one_wins() -> None:
    assert one(b"X\nNAME: a\nname :   b  \nTimeout:5\n\n").headers == {"name": "b", "timeout": "5"}


def test_a_value_may_hold_colons() -> None:
    assert one(b"X\nfirstRun: 2030-01-01 10:00:00\n\n").headers == {"firstrun": "2030-01-01 10:00:00"}


def test_a_line_without_a_colon_is_a_flag() -> None:
    assert one(b"X\nmockRequest\nname: a\n\n").headers == {"mockrequest": "", "name": "a"}


def test_a_line_that_starts_with_white_space_continues_the_one_before() -> None:
    assert one(b"X\nname: a,\n b,\r\n\tc\nother: d\n\n").headers == {"name": "a, b,\tc", "other": "d"}
    assert one(b"X\n / HTTP/1.1\nname: a\n\n").line == "X / HTTP/1.1"


def test_a_query_in_one_line() -> None:
    found = one(b"Query: SELECT '\\n' FROM jobs;\n\n")
    assert found.verb == "Query"
    assert found.headers == found.raw == {"query": "SELECT '\\n' FROM jobs;"}


def test_values_are_unescaped_and_kept_as_they_came() -> None:
    found = one(rb"X" + b"\n" + rb'data: {"a":"x\\ny","b":"\\/"}' + b"\n\n")
    assert found.headers["data"] == r'{"a":"x\ny","b":"\/"}'
    assert found.raw["data"] == r'{"a":"x\\ny","b":"\\/"}'


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r"a\nb\rc\td\be\ff", "a\nb\rc\td\be\ff"),
        (r"\\n", r"\n"),
        (r"\"\/\x", '"/x'),
        (r"\u00e9\u20AC", "é€"),
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\ud83d!", "\ufffd!"),
        (r"\u12g4", "u12g4"),
        ("end\\", "end\\"),
    ],
)
def test_unescaping(written: str, meant: str) -> None:
    assert unescape(written) == meant


@given(some.text())
def test_escaped_text_is_unescaped_to_the_same(text: str) -> None:
    assert unescape(escape(text)) == text
    assert not set(escape(text)) & set("\r\n\t")


# Bodies


def test_a_body_is_skipped() -> None:
    first, second = read(b"CreateJob\nname: a\nContent-Length: 7\n\nPing\n\nXPing\r\n\r\n")
    assert isinstance(first, BedrockRequest)
    assert isinstance(second, BedrockRequest)
    assert (first.verb, second.verb) == ("CreateJob", "Ping")


def test_a_request_waits_for_its_body() -> None:
    assert read(b"X\nContent-Length: 3\n\nab") == []
    assert len(read(b"X\nContent-Length: 3\n\nab", b"c")) == 1


@pytest.mark.parametrize("length", [b"-1", b"1.5", b"x", b"+1", "١".encode(), b"1 1"])
def test_an_invalid_content_length(length: bytes) -> None:
    assert read(b"X\nContent-Length: %b\n\n" % length) == ["Malformed Content-Length"]


@pytest.mark.parametrize("length", [b"101", b"9" * 1000])
def test_a_body_that_is_too_large_is_refused_before_it_comes(length: bytes) -> None:
    (reason,) = read(b"X\nContent-Length: %b\n\n" % length)
    assert "its body may have 100 bytes" in str(reason)


def test_chunks_are_refused() -> None:
    (reason,) = read(b"X\nTransfer-Encoding: chunked\n\n3\r\nabc\r\n0\r\n\r\n")
    assert "Content-Length" in str(reason)


# Bounds


def test_a_head_of_the_largest_size() -> None:
    name = b"a" * (2000 - len(b"X\nname: \n\n"))
    assert one(b"X\nname: " + name + b"\n\n").headers["name"] == name.decode()
    (reason,) = read(b"X\nname: b" + name + b"\n\n")
    assert "its head may have 2000 bytes" in str(reason)


def test_a_head_without_end_is_refused_as_soon_as_it_is_too_large() -> None:
    assert "its head may have 2000 bytes" in str(read(b"X" * 2001)[0])


def test_too_many_headers() -> None:
    assert len(one(b"X\n" + b"".join(b"h%d: 1\n" % number for number in range(20)) + b"\n").headers) == 20
    assert "it may have 20 headers" in str(read(b"X\n" + b"h\n" * 21 + b"\n")[0])


def test_a_head_that_is_not_utf8_is_refused() -> None:
    first, reason = read(b"Ping\n\nX\nname: \xff\n\n")
    assert isinstance(first, BedrockRequest)
    assert "not UTF-8" in str(reason)


# Any bytes, in any pieces

PIECES = (
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b":",
    b" ",
    b"\t",
    b"\\",
    b"\0",
    b"a",
    b"Content-Length",
    b"3",
    b"Ping",
    b"\xff",
)
WIRE = some.one_of(some.binary(max_size=200), some.lists(some.sampled_from(PIECES), max_size=40).map(b"".join))


@given(WIRE, some.lists(some.integers(0, 200), max_size=10))
def test_any_split_gives_the_same_requests(data: bytes, cuts: list[int]) -> None:
    marks = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in itertools.pairwise(marks)]
    bounds = Bounds(header_bytes_max=60, headers_max=4, drain_bytes_max=40)
    whole = read(data, bounds=bounds)
    assert read(*pieces, bounds=bounds) == whole
    assert read(*(data[at : at + 1] for at in range(len(data))), bounds=bounds) == whole


@given(some.dictionaries(some.text("abcdefgh", min_size=1), some.text().map(lambda text: text.strip(" "))))
def test_composed_requests_are_parsed(headers: dict[str, str]) -> None:
    lines = ["CreateJob", *(f"{name}: {escape(value)}" for name, value in headers.items()), "", ""]
    bounds = Bounds(header_bytes_max=10**6, headers_max=1000)
    (found,) = read("\r\n".join(lines).encode(), bounds=bounds)
    assert isinstance(found, BedrockRequest)
    assert found.headers == headers


# Replies


def test_a_reply_has_a_length_and_crlf() -> None:
    assert encode_reply(Reply(200, "OK")) == b"200 OK\r\nContent-Length: 0\r\n\r\n"
    assert encode_reply(Reply(200, "OK", b'{"jobID":1}', (("jobID", "1"),))) == (
        b'200 OK\r\njobID: 1\r\nContent-Length: 11\r\n\r\n{"jobID":1}'
    )


def test_a_reason_stays_in_its_line() -> None:
    result = encode_reply(Reply(402, "Bad\r\nquery", headers=(("error", 'near "a\\b"\n\tline 2'),)), closes=True)
    assert result.split(b"\r\n") == [
        rb"402 Bad\r\nquery",
        rb'error: near "a\\b"\n\tline 2',
        b"Connection: close",
        b"Content-Length: 0",
        b"",
        b"",
    ]


# What a request says of itself


@pytest.mark.parametrize(
    ("text", "found_s"), [("", 110.0), ("60000", 60.0), ("0", 110.0), ("-5", 110.0), ("soon", 110.0), ("9" * 30, 110.0)]
)
def test_the_timeout_header(text: str, found_s: float) -> None:
    assert one(f"X\ntimeout: {text}\n\n".encode()).timeout_s(110.0) == found_s


@pytest.mark.parametrize(("text", "found_s"), [("", 0), ("5000000", 0), ("12500000", 2.5), ("x", 0)])
def test_the_execution_time_header(text: str, found_s: float) -> None:
    assert one(f"X\ncommandExecuteTime: {text}\n\n".encode()).pause_s(10.0) == found_s
