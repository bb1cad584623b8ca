"""Checks of the lines that running code leaves with its job."""

from __future__ import annotations

from typing import Any

from windlass.core.errors import BadInput, TooLarge
from windlass.core.log import Log, LogLine
from windlass.core.text.durations import INSTANT_MAX

from . import jobs as check
from .lease_reports import held


def log(request: Any) -> None:
    held(request, Log)
    check.items("lines", request.lines)
    if not request.lines:
        raise BadInput("lines must hold at least one line.")
    if len(request.lines) > check.LOG_LINES_MAX:
        count, most = len(request.lines), check.LOG_LINES_MAX
        raise TooLarge(f"A request may bring {most} lines, not {count}; send the others in the next.")
    for one in request.lines:
        check.instance("A line", one, LogLine)
        line(one.at_ms, one.level, one.text)


def line(at_ms: Any, level: Any, text: Any) -> None:
    check.whole("at_ms", at_ms, 0, INSTANT_MAX)
    check.text("level", level, check.LOG_LEVEL_MAX)
    check.opaque("text", text, check.LOG_LINE_MAX)
