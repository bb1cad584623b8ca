"""GLOB in the engine with almost valid patterns: it agrees with SQLite, in a bounded number of steps."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

import pytest

from tests.fuzz.corpus_files import inputs_of
from tests.fuzz.mutation import Mutator
from tests.support.engine_process import EngineProcess
from tests.support.profiles import examples
from windlass.core.errors import Refusal
from windlass.core.validation.bounds import NAME_MAX, WILDCARDS_MAX
from windlass.core.validation.values import check_glob
from windlass.store.connection.endpoint import parse_url
from windlass.store.connection.reconnect import SyncReconnectingConnection
from windlass.store.scripts import join_modules

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

TEXTS = [b"mail/send", b"aaaaaaaaaaaaaaaaaaaaaaaab", b"x-]^[?*", "名前é🧵".encode(), b"a" * 200, b"ab" * 100]
_COUNTED = "local function char_at(text, at)\n  STEPS = STEPS + 1\n"


@pytest.fixture
def matched(engine: EngineProcess) -> Iterator[Callable[[str, str], tuple[bool, int]]]:
    """Return whether pattern and text match, and how many characters were examined."""
    counting = join_modules(["glob"]).replace("local function char_at(text, at)\n", _COUNTED)
    assert _COUNTED in counting
    script = f"local STEPS = 0\n{counting}\nreturn {{modules['glob'].match(ARGV[1], ARGV[2]) and 1 or 0, STEPS}}"
    connection = SyncReconnectingConnection(parse_url(engine.unix_url))

    def match(pattern: str, text: str) -> tuple[bool, int]:
        is_match, steps = connection.call("EVAL", script, 0, pattern, text)
        return is_match == 1, steps

    yield match
    connection.close()


def _valid_text(data: bytes) -> str | None:
    """Return the text if it is valid for the engine and has no NUL, at which SQLite would end it."""
    try:
        text = data.decode()
        check_glob(text)
    except (UnicodeDecodeError, Refusal):
        return None
    return None if "\0" in text else text


def test_glob_agrees_with_sqlite_in_bounded_steps(matched: Callable[[str, str], tuple[bool, int]]) -> None:
    sqlite = sqlite3.connect(":memory:")
    patterns = Mutator(list(inputs_of("glob_patterns").values()), "patterns")
    texts = Mutator(TEXTS, "texts")
    tried = 0
    for data, name in zip(patterns.inputs(examples(1_500, 30_000)), texts.inputs(examples(1_500, 30_000)), strict=True):
        pattern, text = _valid_text(data), _valid_text(name.replace(b"*", b"+"))
        if pattern is None or text is None:
            continue
        found, steps = matched(pattern, text)
        (expected,) = sqlite.execute("SELECT ? GLOB ?", (text, pattern)).fetchone()
        assert found == bool(expected), (pattern, text)
        assert steps <= 8 * (len(pattern) + 2) * (len(text) + 2), (pattern, text, steps)
        tried += 1
    assert tried > 300


def test_the_worst_patterns_take_bounded_steps(matched: Callable[[str, str], tuple[bool, int]]) -> None:
    text = "a" * NAME_MAX
    for part in ("a", "?", "[a-z]", "aa", "[^b]a"):
        stars = min(WILDCARDS_MAX, NAME_MAX // (len(part) + 1) - 1)
        pattern = f"*{part}" * stars + "b"
        is_match, steps = matched(pattern, text)
        assert not is_match
        assert steps <= 8 * len(pattern) * len(text)
