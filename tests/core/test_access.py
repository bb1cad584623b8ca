"""Roles, queue patterns, and the text of tokens."""

from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.access.tokens import (
    Principal,
    Role,
    Token,
    digest_of,
    format_token,
    generate_secret,
    matches_pattern,
    parse_token,
)
from windlass.core.errors import Forbidden, Unauthorized

SHOWN = generate_secret(bytes(9), bytes(range(32)))
TEXT = format_token(SHOWN)
PRODUCES = frozenset({Role.PRODUCE})


def _token(**fields: object) -> Token:
    known = {"id": SHOWN.id, "name": "t", "roles": PRODUCES, "digest": digest_of(SHOWN.secret), "created_at_ms": 1}
    return Token(**(known | fields))  # type: ignore[arg-type]


@given(st.binary(min_size=9, max_size=9), st.binary(min_size=32, max_size=32))
def test_what_is_written_is_read_and_verifies(id_random: bytes, secret_random: bytes) -> None:
    shown = generate_secret(id_random, secret_random)
    text = format_token(shown)
    assert re.fullmatch(r"wl_[\w-]{12}_[\w-]{43}", text)
    assert parse_token(text) == shown
    assert _token(digest=digest_of(shown.secret)).verifies(shown.secret)


@st.composite
def _spoiled(draw: st.DrawFn) -> str:
    """A valid token text with a small change, or any other text."""
    at = draw(st.integers(0, len(TEXT)))
    piece = draw(st.text(max_size=2) | st.sampled_from(["\n", "=", " ", "_", "A"]))
    cut = draw(st.integers(0, 2))
    return draw(st.sampled_from([TEXT[:at] + piece + TEXT[at + cut :], piece]) | st.text())


@given(_spoiled())
def test_no_text_but_the_true_one_verifies_and_none_raises_anything_but_a_refusal(text: str) -> None:
    try:
        shown = parse_token(text)
    except Unauthorized:
        assert text != TEXT
        return
    is_true = shown.id == SHOWN.id and _token().verifies(shown.secret)
    assert is_true == (text == TEXT)


@pytest.mark.parametrize("text", ["", "wl_", TEXT + "\n", " " + TEXT, TEXT[:-1], TEXT.upper(), "wl_é", "\ud800"])
def test_other_texts_are_no_tokens(text: str) -> None:
    with pytest.raises(Unauthorized, match="look like"):
        parse_token(text)


def test_any_secret_can_be_compared() -> None:
    assert not _token().verifies("\ud800")
    assert not _token().verifies("")


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_patterns_mean_what_shell_patterns_mean(pattern: str, queue: str) -> None:
    assert matches_pattern(pattern, queue) == fnmatch.fnmatchcase(queue, pattern)


def test_only_the_star_is_special() -> None:
    assert matches_pattern("a?[b]", "a?[b]")
    assert not matches_pattern("a?[b]", "axb")
    assert matches_pattern("*", "")
    assert not matches_pattern("mail", "mails")
    assert not matches_pattern("mail", "Mail")


def test_a_principal_may_what_one_of_its_roles_may() -> None:
    both = Principal("p", frozenset({Role.READ, Role.PRODUCE}))
    assert both.may(PRODUCES)
    assert both.may(frozenset({Role.READ, Role.WORK}))
    assert not both.may(frozenset({Role.WORK}))
    assert not both.may(frozenset({Role.ADMIN}))
    assert Principal("root", frozenset({Role.ADMIN})).may(frozenset({Role.WORK}))
    assert not Principal("nobody", frozenset()).may(PRODUCES)


def test_a_principal_without_patterns_may_use_every_queue() -> None:
    assert Principal("p", PRODUCES).may_use("anything")
    some = Principal("p", PRODUCES, ("mail", "video-*"))
    assert [queue for queue in ("mail", "video-", "video-hd", "video", "mails") if some.may_use(queue)] == [
        "mail",
        "video-",
        "video-hd",
    ]


def test_the_sentence_says_what_is_missing() -> None:
    some = Principal("shop", PRODUCES, ("mail-*",))
    some.check(PRODUCES, "mail-1")
    some.check(PRODUCES)
    with pytest.raises(Forbidden, match="role admin or work; the token 'shop' has produce"):
        some.check(frozenset({Role.WORK}), "mail-1")
    with pytest.raises(Forbidden, match=r"queues mail-\*, not for 'video'"):
        some.check(PRODUCES, "video")


def test_the_sentence_about_something_found_names_no_queue() -> None:
    some = Principal("shop", PRODUCES, ("mail-*",))
    some.check_found("mail-1")
    Principal("all", PRODUCES).check_found("video")
    with pytest.raises(Forbidden, match=r"queues mail-\*; job 7 belongs to another queue") as caught:
        some.check_found("video", "job 7")
    assert "video" not in str(caught.value)


def test_a_token_expires_at_its_instant() -> None:
    assert not _token().is_expired(2**50)
    assert not _token(expires_at_ms=10).is_expired(9)
    assert _token(expires_at_ms=10).is_expired(10)
