"""Tests of packet boundaries: the requests and answers do not depend on how the input is split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.web.connection_driver import drive_connection, parse_all_answers
from tests.web.http_client import chunked, request

UPGRADE = {"Connection": "Upgrade", "Upgrade": "h2c"}

one_request = st.one_of(
    st.builds(lambda body: request("/echo?q=1", body), st.binary(max_size=30)),
    st.builds(lambda pieces: chunked("/count", pieces), st.lists(st.binary(min_size=1, max_size=9), max_size=4)),
    st.builds(lambda pieces: chunked("/echo", pieces), st.lists(st.binary(min_size=1, max_size=9), max_size=4)),
    st.sampled_from(
        [
            request("/echo", X_One="1", X_Two="2"),
            request("/forbidden", b"short"),
            request("/echo", b"with an upgrade", **UPGRADE),
            request("/echo", **UPGRADE),
            request("/fail", b"x"),
            request("/echo", b"x" * 1001),
            request("/echo", version="1.0", Connection="keep-alive"),
            b"\r\n" + request("/sized?12"),
        ]
    ),
)
last = st.sampled_from(
    [b"", request("/echo", Connection="close"), b"GET nonsense\r\n\r\n", request("/echo", b"abc")[:-1]]
)


@given(requests=st.lists(one_request, min_size=1, max_size=6), end=last, data=st.data())
def test_any_split_gives_the_same_answers(requests: list[bytes], end: bytes, data: st.DataObject) -> None:
    stream = b"".join(requests) + end
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=12)))
    pieces = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    heads, written = drive_connection([stream])
    split_heads, split_written = drive_connection(pieces)
    assert split_heads == heads
    assert parse_all_answers(split_written) == parse_all_answers(written)
    assert len(heads) >= len(requests)


@given(body=st.binary(min_size=1, max_size=40))
def test_byte_by_byte(body: bytes) -> None:
    stream = request("/echo", body, **UPGRADE) + chunked("/echo", [body, body]) + request("/echo", body)
    _, written = drive_connection([stream[at : at + 1] for at in range(len(stream))])
    assert [status for status, _ in parse_all_answers(written)] == [200, 200, 200]
    assert [answer[12:] for _, answer in parse_all_answers(written)] == [body, body + body, body]


@pytest.mark.parametrize("rest", [b"0\r\n\r\n", b"zz\r\n", "１\r\n".encode()], ids=["valid", "letters", "full-width"])
def test_a_refusal_does_not_depend_on_the_chunks_that_follow(rest: bytes) -> None:
    head = b"POST /forbidden HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    stream = head + b"3\r\nabc\r\n" + rest
    for cut in range(1, len(stream)):
        _, written = drive_connection([stream[:cut], stream[cut:]])
        assert b"\r\nConnection: close\r\n" in written
        assert parse_all_answers(written) == [(401, b"no")]
