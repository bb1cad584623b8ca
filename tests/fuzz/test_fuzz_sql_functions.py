"""SQL functions with hostile arguments: some hundred queries, limited in time and memory. `make fuzz` runs more."""

from __future__ import annotations

import itertools
import string

from tests.fuzz.sql_functions import QueryProcess, statements
from tests.support.profiles import examples

SEED = "windlass"
QUERIES = examples(usual=300, deep=10_000)
# A text of 4 MB is compared with 500 bytes at each of its positions, 60 times before SQLite checks the clock.
LIKE = "(printf('%.*c',4000000,'a') LIKE '%'||printf('%.*c',498,'a')||'b')"
SLOW = f"SELECT {' + '.join(itertools.repeat(LIKE, 60))};"


def test_no_query_exceeds_its_time_or_memory() -> None:
    with QueryProcess() as process:
        for statement in itertools.islice(statements(SEED), QUERIES):
            description = process.find_fault(statement)
            assert not description, f"{description}: {statement}"


def test_a_process_keeps_no_texts_of_a_query() -> None:
    """They would count as memory that the process needs anyway, on top of which the next query gets its own."""
    texts = ", ".join(f"printf('%.*c',1000000,'{letter}')" for letter in string.ascii_letters[:30])
    with QueryProcess() as process:
        for _ in range(3):
            assert process.find_fault(f"SELECT length(printf('', {texts}));") == ""
            assert process.kept_bytes < 32 * 1024 * 1024


def test_the_kernel_ends_a_query_that_checks_no_clock() -> None:
    with QueryProcess() as process:
        assert process.find_fault(SLOW) == ""
        assert process.ended == 1
        assert process.find_fault("SELECT 1;") == ""
        assert process.ended == 1


def test_the_same_seed_gives_the_same_queries() -> None:
    first, again, other = (list(itertools.islice(statements(seed), 50)) for seed in ("a", "a", "b"))
    assert first == again != other
