"""Every parser of outside input with its corpus and some hundred almost valid inputs. `make fuzz` runs for minutes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from tests.fuzz.corpus_files import FOLDER, inputs_of
from tests.fuzz.mutation import Mutator
from tests.fuzz.parser_check import Parser, find_fault, lines_run, outcome
from tests.fuzz.parsers import PARSERS
from tests.support.profiles import examples

SEED = "windlass"
MUTATIONS = examples(usual=250, deep=5_000)
SMALL, LARGE = 2_000, 16_000  # bytes: the work of a linear parser grows eightfold
every_parser = pytest.mark.parametrize("name", PARSERS)


def test_every_parser_has_a_corpus_and_every_corpus_a_parser() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PARSERS)
    assert all(len(inputs_of(name)) >= 2 for name in PARSERS)


@every_parser
def test_the_corpus(name: str) -> None:
    found = inputs_of(name)
    mutator = Mutator(list(found.values()), SEED)
    faults = {
        file: description
        for file, data in found.items()
        if (description := find_fault(PARSERS[name], data, mutator.pieces(data)))
    }
    assert faults == {}


@every_parser
def test_almost_valid_inputs(name: str) -> None:
    mutator = Mutator(list(inputs_of(name).values()), SEED + name)
    for data in mutator.inputs(MUTATIONS):
        description = find_fault(PARSERS[name], data, mutator.pieces(data))
        assert not description, f"{description}: {data[:300]!r} ({len(data)} bytes)"


@pytest.mark.parametrize("name", [name for name, parser in PARSERS.items() if parser.grows])
def test_work_is_linear_in_the_input(name: str) -> None:
    """Count lines of Python for every input of the corpus, repeated to two sizes."""
    parser = PARSERS[name]
    for file, data in inputs_of(name).items():
        few, many = (lines_run(parser, _as_long_as(data, size)) for size in (SMALL, LARGE))
        assert many <= 20 * few + 20_000, f"{file}: {few} lines for {SMALL} bytes, {many} for {LARGE}"


@every_parser
def test_memory_is_linear_in_the_input(name: str) -> None:
    for file, data in inputs_of(name).items():
        outcome(PARSERS[name], data)  # fills caches
        tracemalloc.start()
        try:
            outcome(PARSERS[name], data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 4_000_000 + 400 * len(data), f"{file}: {peak} bytes of memory for {len(data)}"


def _as_long_as(data: bytes, size: int) -> bytes:
    return (data * (size // max(1, len(data)) + 1))[:size]


# The check itself


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (int, "ValueError"),
        (lambda data: data.decode(), "UnicodeDecodeError"),
        (lambda data: [][len(data)], "IndexError"),
    ],
)
def test_an_unexpected_error_is_found(read: Callable[[bytes], object], error: str) -> None:
    found = [
        find_fault(Parser(read, (KeyError,)), data) for data in Mutator([b"123", b"caf\xc3\xa9"], SEED).inputs(200)
    ]
    assert any(error in description for description in found)


def test_an_answer_that_depends_on_the_pieces_is_found() -> None:
    def careless(pieces: object) -> list[bytes]:
        return [line for piece in pieces for line in piece.split(b"\n")]  # type: ignore[attr-defined]

    parser = Parser(lambda data: careless([data]), (), careless)
    assert "pieces" in find_fault(parser, b"one\ntwo", [b"on", b"e\ntwo"])
    assert find_fault(parser, b"one\ntwo", [b"one\ntwo"]) == ""


def test_more_than_linear_work_is_found() -> None:
    def squared(data: bytes) -> int:
        count = 0
        for at in range(0, len(data), 20):
            for _ in data[:at:20]:
                count += 1
        return count

    few, many = (lines_run(Parser(squared, ()), b"x" * size) for size in (SMALL, LARGE))
    assert many > 20 * few + 20_000


def test_the_same_seed_gives_the_same_inputs() -> None:
    corpus = [b"one", b"two and more"]
    assert list(Mutator(corpus, "a").inputs(50)) == list(Mutator(corpus, "a").inputs(50))
    assert list(Mutator(corpus, "a").inputs(50)) != list(Mutator(corpus, "b").inputs(50))
