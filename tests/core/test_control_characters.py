"""Detection and display of C1 control characters and bidirectional controls."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.text.control_characters import escape_control, escape_control_in_json, has_control

BIDIRECTIONAL = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
REFUSED = [*map(chr, range(0x80, 0xA0)), *BIDIRECTIONAL]


@pytest.mark.parametrize("char", REFUSED, ids=lambda char: f"U+{ord(char):04X}")
def test_each_of_them_is_found_and_shown(char: str) -> None:
    assert has_control(f"a{char}b")
    assert escape_control(f"é{char}\n") == f"é{char.encode('unicode_escape').decode()}\n"
    assert escape_control_in_json(f'"é{char}"') == f'"é\\u{ord(char):04x}"'


@pytest.mark.parametrize(
    "text", ["", "plain", "é ß 名", "\u00a0\u00ad", "\u200b\u200c\u200d\ufeff", "👩‍👩‍👧", "\u2028", "\x7f"]
)
def test_other_characters_are_no_control_characters(text: str) -> None:
    assert not has_control(text)


def test_del_is_shown_as_an_escape_too() -> None:
    assert escape_control("a\x7fb") == "a\\x7fb"


@given(st.text(st.characters(codec="utf-8")))
def test_json_stays_the_same_document(text: str) -> None:
    written = escape_control_in_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert json.loads(written) == {text: [text]}
    assert not has_control(written)
