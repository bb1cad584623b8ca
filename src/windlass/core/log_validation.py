"""Checks of the lines that running code leaves with its job."""

from __future__ import annotations

from typing import Any

from . import validation as check
from .durations import INSTANT_MAX
from .errors import BadInput, TooLarge
from .log import LEVELS, Log, LogLine

LINE_MAX = 4 * 1024
LINES_MAX = 200


def log(request: Any) -> None:
    check.held(request, Log)
    check.items("lines", request.lines)
    if not request.lines:
        raise BadInput("lines must hold at least one line.")
    if len(request.lines) > LINES_MAX:
        raise TooLarge(f"A request may bring {LINES_MAX} lines, not {len(request.lines)}; send the others in the next.")
    for one in request.lines:
        check.instance("A line", one, LogLine)
        line(one.at_ms, one.level, one.text)


def line(at_ms: Any, level: Any, text: Any) -> None:
    """Unlike other texts it may have control characters: a traceback has line breaks."""
    check.whole("at_ms", at_ms, 0, INSTANT_MAX)
    if level not in LEVELS:
        raise BadInput(f"level must be one of {', '.join(LEVELS)}, not {level!r:.40}.")
    if type(text) is not str:
        raise BadInput(f"text must be text, not {type(text).__name__}.")
    check.encoded("text", text, LINE_MAX)
