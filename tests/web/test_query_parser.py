"""Tests of the query string parser."""

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


class Query(msgspec.Struct, forbid_unknown_fields=True):
    queue: str = ""
    most: Annotated[int, Meta(ge=1, le=100)] = 50
    wait: bool = False
    tags: tuple[str, ...] = ()
    until: int | None = None
    share: float = 0.5


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", Query()),
        ("queue=mail&most=7&wait=true&share=0.25", Query(queue="mail", most=7, wait=True, share=0.25)),
        ("queue=a%2Fb%20c+d&wait=1", Query(queue="a/b c d", wait=True)),
        ("queue=7", Query(queue="7")),
        ("queue=", Query()),
        ("queue", Query()),
        ("tags=a&tags=b&tags=", Query(tags=("a", "b", ""))),
        ("until=12", Query(until=12)),
        ("until=null", Query(until=None)),
        ("queue=%F0%9F%90%98", Query(queue="🐘")),
    ],
)
def test_queries_become_values_with_types(query: str, expected: Query) -> None:
    assert parse_query(query, Query) == expected


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
def test_invalid_fields_are_refused_by_name(query: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        parse_query(query, Query)


@given(st.text(st.characters(codec="latin-1"), max_size=100))
def test_any_query_is_read_or_refused(query: str) -> None:
    with contextlib.suppress(BadInput):
        parse_query(query, Query)
