"""Tests of the line splitter: lines come out as they went in, wherever the stream is split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import TooLarge
from windlass.core.text.line_splitter import LineSplitter, batches


@given(st.binary(), st.lists(st.integers(0, 20)))
def test_lines_do_not_depend_on_how_the_stream_is_split(text: bytes, cuts: list[int]) -> None:
    lines = LineSplitter(1000)
    found: list[bytes] = []
    rest = text
    for length in (*cuts, len(text)):
        found += lines.feed(rest[:length])
        rest = rest[length:]
    found += lines.end()
    expected = text.split(b"\n")
    assert found == (expected if expected[-1] else expected[:-1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [(b"", []), (b"a", [b"a"]), (b"a\n", [b"a"]), (b"a\n\nb", [b"a", b"", b"b"]), (b"\n", [b""])],
)
def test_lines_and_the_end(text: bytes, expected: list[bytes]) -> None:
    lines = LineSplitter(10)
    assert [*lines.feed(text), *lines.end()] == expected
    assert lines.end() == []


def test_a_line_may_have_its_maximum_and_no_byte_more() -> None:
    lines = LineSplitter(3)
    assert lines.feed(b"abc\nab") == [b"abc"]
    assert lines.feed(b"c") == []
    with pytest.raises(TooLarge, match="3 bytes"):
        lines.feed(b"d")
    with pytest.raises(TooLarge):
        LineSplitter(3).feed(b"a\nabcd\n")


def test_a_line_in_a_million_pieces_costs_no_more_than_its_length() -> None:
    """Check linear time: joining again for each piece would take minutes."""
    lines = LineSplitter(2_000_000)
    for _ in range(1_000_000):
        lines.feed(b"x")
    assert lines.feed(b"\n") == [b"x" * 1_000_000]


def test_batches_are_full_but_the_last() -> None:
    assert list(batches([b"1", b"2", b"3"], 2)) == [[b"1", b"2"], [b"3"]]
    assert list(batches([], 2)) == []
