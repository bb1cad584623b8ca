"""Checks of log lines of jobs."""

from __future__ import annotations

from typing import Any

from windlass.core.errors import BadInput, TooLarge
from windlass.core.log import Log, LogLine
from windlass.core.text.durations import INSTANT_MAX

from .bounds import LOG_LEVEL_MAX, LOG_LINE_MAX, LOG_LINES_MAX
from .lease_reports import check_lease_ref
from .values import check_free_text, check_instance, check_integer, check_list, check_text


def check_log(request: Any) -> None:
    check_lease_ref(request, Log)
    check_list("lines", request.lines)
    if not request.lines:
        raise BadInput("lines must contain at least one line.")
    if len(request.lines) > LOG_LINES_MAX:
        count, most = len(request.lines), LOG_LINES_MAX
        raise TooLarge(f"A request may contain {most} lines, not {count}; send the others in the next request.")
    for line in request.lines:
        check_instance("A line", line, LogLine)
        check_log_line(line.at_ms, line.level, line.text)


def check_log_line(at_ms: Any, level: Any, text: Any) -> None:
    check_integer("at_ms", at_ms, 0, INSTANT_MAX)
    check_text("level", level, LOG_LEVEL_MAX)
    check_free_text("text", text, LOG_LINE_MAX)
