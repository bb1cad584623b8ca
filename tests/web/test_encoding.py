"""Tests of content negotiation and of decoding bodies."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import BadInput, UnknownJob
from windlass.core.job import Codec
from windlass.web.app.content_negotiation import body_encoding, negotiate_encoding, problem_response
from windlass.web.app.problems import NotAcceptable, UnsupportedMediaType
from windlass.wire.encoding import Encoding, decode, encode

BOTH: tuple[Encoding, ...] = (Codec.JSON, Codec.MSGPACK)


class Thing(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    payload: msgspec.Raw = msgspec.Raw(b"")


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("", Codec.JSON),
        ("application/json", Codec.JSON),
        ("Application/JSON; charset=utf-8", Codec.JSON),
        ("text/json", Codec.JSON),
        ("application/msgpack", Codec.MSGPACK),
        (" application/x-msgpack ;x=y", Codec.MSGPACK),
        ("application/vnd.msgpack", Codec.MSGPACK),
    ],
)
def test_the_encoding_of_a_body(content_type: str, expected: Codec) -> None:
    assert body_encoding(content_type) is expected


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "application/*", "json"])
def test_other_bodies_are_refused_by_name(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="application/msgpack") as refused:
        body_encoding(content_type)
    assert content_type in str(refused.value)


@pytest.mark.parametrize(
    ("accept", "of_body", "expected"),
    [
        ("", Codec.JSON, Codec.JSON),
        ("", Codec.MSGPACK, Codec.MSGPACK),
        ("*/*", Codec.MSGPACK, Codec.MSGPACK),
        ("application/*", Codec.MSGPACK, Codec.MSGPACK),
        ("application/json", Codec.MSGPACK, Codec.JSON),
        ("application/msgpack", Codec.JSON, Codec.MSGPACK),
        (
            "application/json, application/msgpack",
            Codec.MSGPACK,
            Codec.MSGPACK,
        ),  # equal quality: the encoding of the body
        ("application/json;q=0.5, application/msgpack;q=0.9", Codec.JSON, Codec.MSGPACK),
        ("application/msgpack;q=0.5, */*;q=0.9", Codec.MSGPACK, Codec.JSON),
        ("application/json;q=0, */*", Codec.JSON, Codec.MSGPACK),
        ("*/*;q=0, application/json", Codec.MSGPACK, Codec.JSON),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Codec.JSON, Codec.JSON),  # a browser
        ("application/problem+json", Codec.MSGPACK, Codec.JSON),
        ("APPLICATION/JSON ; Q=1", Codec.MSGPACK, Codec.JSON),
        ("text/plain, application/json;q=nan, application/msgpack", Codec.JSON, Codec.MSGPACK),
    ],
)
def test_negotiation_of_the_encoding(accept: str, of_body: Encoding, expected: Codec) -> None:
    assert negotiate_encoding(accept, of_body) is expected


@pytest.mark.parametrize(
    "accept", ["text/html", "application/json;q=0", "*/*;q=0", "application/json;q=x", "application/json;q=-1", ",;,"]
)
def test_unsupported_encodings_of_the_answer_are_refused(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        negotiate_encoding(accept, Codec.JSON)


@given(st.text(max_size=200))
def test_any_accept_gets_an_encoding_or_a_refusal(accept: str) -> None:
    with contextlib.suppress(NotAcceptable):
        assert negotiate_encoding(accept, Codec.JSON) in BOTH


@pytest.mark.parametrize(
    ("body", "encoding", "words"),
    [
        (b"{", Codec.JSON, "not valid JSON"),
        (b'{"name": "a"} x', Codec.JSON, "not valid JSON"),
        (b'{"name": "\xff"}', Codec.JSON, "not valid JSON"),
        (b"\xef\xbb\xbf{}", Codec.JSON, "not valid JSON"),
        (b"\x81\xa4name", Codec.MSGPACK, "not valid MessagePack"),
        (b"\xc1", Codec.MSGPACK, "not valid MessagePack"),
        (b"\xdf\xff\xff\xff\xff", Codec.MSGPACK, "not valid MessagePack"),  # announces four thousand million entries
        (b'{"name": 1}', Codec.JSON, r"\$\.name"),
        (b'{"nam": "a"}', Codec.JSON, "nam"),
        (b"[]", Codec.JSON, "Expected `object`"),
        (b"\x81\xa4name\x01", Codec.MSGPACK, r"\$\.name"),
    ],
)
def test_invalid_bodies_are_refused_with_the_position(body: bytes, encoding: Encoding, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        decode(body, Thing, encoding)


@pytest.mark.parametrize("levels", [101, 5_000, 1_000_000])
@pytest.mark.parametrize("is_closed", [True, False])
def test_deep_bodies_are_refused_in_both_encodings(levels: int, is_closed: bool) -> None:
    text = b'{"name": "a", "payload": ' + b"[" * levels + (b"]" * levels + b"}" if is_closed else b"")
    packed = b"\x82\xa4name\xa1a\xa7payload" + b"\x91" * levels + (b"\x90" if is_closed else b"")
    for body, encoding in ((text, Codec.JSON), (packed, Codec.MSGPACK)):
        with pytest.raises(BadInput, match=r"nested|not valid"):
            decode(body, Thing, encoding)


@pytest.mark.parametrize("encoding", BOTH)
def test_a_value_inside_stays_as_it_was_sent(encoding: Encoding) -> None:
    value = encode({"list": [1, 2.5, None, "ü"] * 40}, encoding)
    body = (
        b'{"name": "a", "payload": ' + value + b"}"
        if encoding is Codec.JSON
        else b"\x82\xa4name\xa1a\xa7payload" + value
    )
    assert bytes(decode(body, Thing, encoding).payload) == value


@given(st.binary(), st.sampled_from(BOTH))
def test_any_bytes_are_decoded_or_refused(body: bytes, encoding: Encoding) -> None:
    for wanted in (Thing, list[Thing], Any):
        with contextlib.suppress(BadInput):
            decode(body, wanted, encoding)


@pytest.mark.parametrize("encoding", BOTH)
def test_a_refusal_is_a_problem_in_the_encoding_of_the_answer(encoding: Encoding) -> None:
    answer = problem_response(UnknownJob(), encoding)
    made = msgspec.json.decode if encoding is Codec.JSON else msgspec.msgpack.decode
    assert answer.status == 404
    assert answer.content_type == f"application/problem+{'json' if encoding is Codec.JSON else 'msgpack'}"
    assert made(answer.body) == {
        "type": "urn:windlass:unknown_job",
        "title": "Unknown job",
        "status": 404,
        "detail": UnknownJob.sentence,
        "code": "unknown_job",
    }
