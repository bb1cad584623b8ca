"""What stands behind the question mark."""

from __future__ import annotations

import contextlib
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from windlass.core.errors import BadInput
from windlass.web.app.query_parser import FIELDS_MAX, parse_query


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    queue: str = ""
    most: Annotated[int, Meta(ge=1, le=100)] = 50
    wait: bool = False
    tags: tuple[str, ...] = ()
    until: int | None = None
    share: float = 0.5


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", Wanted()),
        ("queue=mail&most=7&wait=true&share=0.25", Wanted(queue="mail", most=7, wait=True, share=0.25)),
        ("queue=a%2Fb%20c+d&wait=1", Wanted(queue="a/b c d", wait=True)),
        ("queue=7", Wanted(queue="7")),
        ("queue=", Wanted()),
        ("queue", Wanted()),
        ("tags=a&tags=b&tags=", Wanted(tags=("a", "b", ""))),
        ("until=12", Wanted(until=12)),
        ("until=null", Wanted(until=None)),
        ("queue=%F0%9F%90%98", Wanted(queue="🐘")),
    ],
)
def test_queries_become_values_with_types(query: str, expected: Wanted) -> None:
    assert parse_query(query, Wanted) == expected


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("most=0", "most"),
        ("most=ten", "most"),
        ("most=", "most"),
        ("wait=perhaps", "wait"),
        ("unheard=1", "unheard"),
        ("queue=a&queue=b", "given twice"),
        ("queue=%FF", "cannot be read"),
        ("&".join(f"tags={n}" for n in range(FIELDS_MAX + 1)), "cannot be read"),
        ("share=nan&most=1e3", "most"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_name(query: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        parse_query(query, Wanted)


@given(st.text(st.characters(codec="latin-1"), max_size=100))
def test_any_query_is_read_or_refused(query: str) -> None:
    with contextlib.suppress(BadInput):
        parse_query(query, Wanted)
