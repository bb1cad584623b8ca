"""Is an input handled as it should be? Only the parser's own refusals, the same answer in whatever pieces the bytes
come, and an end within bounds."""

from __future__ import annotations

import contextlib
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

GIVE_UP_S = 20  # of processor time of this process; what is right takes a thousandth of it


class Parser(NamedTuple):
    """`read` gives something that can be compared. `pieces`: the same for bytes that come in pieces."""

    read: Callable[[bytes], Any]
    refusals: tuple[type[Exception], ...]
    pieces: Callable[[Sequence[bytes]], Any] | None = None
    grows: bool = True  # in proportion to its input; False: the input has a bound that says it all


class Endless(Exception):
    """It did not come to an end."""


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise Endless(f"no end after {GIVE_UP_S} s of processor time")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, GIVE_UP_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def outcome(parser: Parser, data: bytes) -> Any:
    """What it answers, or how it refuses."""
    try:
        return parser.read(data)
    except parser.refusals as refusal:
        return type(refusal)


def fault(parser: Parser, data: bytes, pieces: Sequence[bytes] = ()) -> str:
    """What is wrong with how it handles this input; empty: nothing."""
    try:
        with _ending():
            whole = outcome(parser, data)
            if parser.pieces is not None and pieces and parser.pieces(pieces) != parser.pieces([data]):
                return f"another answer for {len(pieces)} pieces than for the whole"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {where.filename.rpartition('/')[2]}:{where.lineno}: {str(error)[:200]}"
    del whole
    return ""


def lines_run(parser: Parser, data: bytes) -> int:
    """How many lines of Python were executed for it: a count that depends on no clock and no other process."""
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
