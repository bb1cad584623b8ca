"""Checks of a parser with an input: only its own refusals, the same answer for any pieces, an end within bounds."""

from __future__ import annotations

import contextlib
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

GIVE_UP_S = 20  # of processor time of this process; a correct parser needs a thousandth of it


class Parser(NamedTuple):
    """A parser under test. `read` returns a comparable value; `pieces` does the same for bytes in pieces."""

    read: Callable[[bytes], Any]
    refusals: tuple[type[Exception], ...]
    pieces: Callable[[Sequence[bytes]], Any] | None = None
    grows: bool = True  # its work grows with the input; False: the size of the input is bounded


class NoEnd(Exception):
    """The parser did not end in time."""


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise NoEnd(f"no end after {GIVE_UP_S} s of processor time")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, GIVE_UP_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def outcome(parser: Parser, data: bytes) -> Any:
    """Return the parser's answer, or the type of its refusal."""
    try:
        return parser.read(data)
    except parser.refusals as refusal:
        return type(refusal)


def find_fault(parser: Parser, data: bytes, pieces: Sequence[bytes] = ()) -> str:
    """Describe what is wrong with the handling of this input; empty if nothing is."""
    try:
        with _time_limit():
            whole = outcome(parser, data)
            if parser.pieces is not None and pieces and parser.pieces(pieces) != parser.pieces([data]):
                return f"another answer for {len(pieces)} pieces than for the whole"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {where.filename.rpartition('/')[2]}:{where.lineno}: {str(error)[:200]}"
    del whole
    return ""


def lines_run(parser: Parser, data: bytes) -> int:
    """Count the lines of Python that were executed. The count depends on no clock and no other process."""
    count = 0

    def on_line(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return on_line

    before = sys.gettrace()
    sys.settrace(on_line)
    try:
        outcome(parser, data)
    finally:
        sys.settrace(before)
    return count
