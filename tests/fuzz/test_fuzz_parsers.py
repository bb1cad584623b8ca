"""Every parser of what comes from outside, with its corpus and some hundred inputs that are almost right. `make fuzz`
does the same for minutes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from tests.fuzz.corpus_files import FOLDER, inputs_of
from tests.fuzz.mutation import Mutator
from tests.fuzz.parser_check import Parser, fault, lines_run, outcome
from tests.fuzz.parsers import PARSERS
from tests.support.profiles import examples

SEED = "windlass"
MUTATIONS = examples(usual=250, deep=5_000)
SMALL, LARGE = 2_000, 16_000  # bytes: of a parser whose work is in proportion, the second costs eight times the first
every_parser = pytest.mark.parametrize("name", PARSERS)


def test_every_parser_has_a_corpus_and_every_corpus_a_parser() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PARSERS)
    assert all(len(inputs_of(name)) >= 2 for name in PARSERS)


@every_parser
def test_what_is_in_the_corpus(name: str) -> None:
    found = inputs_of(name)
    mutator = Mutator(list(found.values()), SEED)
    faults = {file: said for file, data in found.items() if (said := fault(PARSERS[name], data, mutator.pieces(data)))}
    assert faults == {}


@every_parser
def test_what_is_almost_right(name: str) -> None:
    mutator = Mutator(list(inputs_of(name).values()), SEED + name)
    for data in mutator.inputs(MUTATIONS):
        said = fault(PARSERS[name], data, mutator.pieces(data))
        assert not said, f"{said}: {data[:300]!r} ({len(data)} bytes)"


# What another reads has a bound that says it all.
@pytest.mark.parametrize("name", [name for name, parser in PARSERS.items() if parser.grows])
def test_the_work_is_in_proportion_to_the_input(name: str) -> None:
    """Counted in lines of Python, over every input of the corpus made long by repetition."""
    parser = PARSERS[name]
    for file, data in inputs_of(name).items():
        few, many = (lines_run(parser, _as_long_as(data, size)) for size in (SMALL, LARGE))
        assert many <= 20 * few + 20_000, f"{file}: {few} lines for {SMALL} bytes, {many} for {LARGE}"


@every_parser
def test_the_memory_is_in_proportion_to_the_input(name: str) -> None:
    for file, data in inputs_of(name).items():
        outcome(PARSERS[name], data)  # what is made once is made
        tracemalloc.start()
        try:
            outcome(PARSERS[name], data)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 4_000_000 + 400 * len(data), f"{file}: {peak} bytes of memory for {len(data)}"


def _as_long_as(data: bytes, size: int) -> bytes:
    return (data * (size // max(1, len(data)) + 1))[:size]


# The judge itself


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (int, "ValueError"),
        (lambda data: data.decode(), "UnicodeDecodeError"),
        (lambda data: [][len(data)], "IndexError"),
    ],
)
def test_a_parser_that_fails_otherwise_is_seen(read: Callable[[bytes], object], said: str) -> None:
    found = [fault(Parser(read, (KeyError,)), data) for data in Mutator([b"123", b"caf\xc3\xa9"], SEED).inputs(200)]
    assert any(said in one for one in found)


def test_an_answer_that_depends_on_the_pieces_is_seen() -> None:
    def careless(pieces: object) -> list[bytes]:
        return [line for piece in pieces for line in piece.split(b"\n")]  # type: ignore[attr-defined]

    parser = Parser(lambda data: careless([data]), (), careless)
    assert "pieces" in fault(parser, b"one\ntwo", [b"on", b"e\ntwo"])
    assert fault(parser, b"one\ntwo", [b"one\ntwo"]) == ""


def test_work_that_grows_faster_than_the_input_is_seen() -> None:
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
