"""Command line: count all rows, or those whose title contains a word, and compare them with earlier counts. Exits with
1 when a row is worse, and with 2 when callgrind is missing."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from . import comparison
from .callgrind import missing_tools
from .client_rows import client_rows
from .engine import CountedEngine, allocator
from .engine_rows import EngineLoad, engine_rows


def _arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description="Instructions per job.")
    parser.add_argument("words", nargs="*", help="count only rows whose title contains one of these words")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the counts")
    parser.add_argument(
        "--compare", type=Path, metavar="FILE", help=f"fail if a row exceeds {comparison.WORST} times these counts"
    )
    return parser.parse_args(given)


def _is_wanted(title: str, words: Sequence[str]) -> bool:
    return not words or any(word in title for word in words)


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def count_all(words: Sequence[str]) -> dict[str, float]:
    counts: dict[str, float] = {}
    if any(_is_wanted(title, words) for title, _ in engine_rows()):
        with CountedEngine() as engine:
            engine.wait_ready()
            load = EngineLoad(engine)
            for titles, measure in engine_rows():
                if _is_wanted(titles, words):
                    _say(titles)
                    found = measure(load)
                    counts |= zip(titles.split("|"), found if isinstance(found, tuple) else (found,), strict=True)
    for title, measure_client in client_rows():
        if _is_wanted(title, words):
            _say(title)
            counts[title] = measure_client()
    return counts


def main(given: Sequence[str]) -> int:
    arguments = _arguments(given)
    if missing := missing_tools():
        print(f"{' and '.join(missing)} not found: install the package valgrind.", file=sys.stderr)
        return 2
    logging.disable(logging.WARNING)  # nothing is persistent, which is intended here
    _say(f"allocator of the engine: {allocator() or 'libc'}")
    counts = count_all(arguments.words)
    before = comparison.load(arguments.compare) if arguments.compare else None
    print(comparison.table(counts, before).text())
    if arguments.json:
        comparison.save(arguments.json, counts)
    worse = comparison.worse_rows(counts, before) if before else []
    if worse:
        print(f"\nMore than {comparison.WORST} times the instructions: {'; '.join(worse)}.")
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
