"""Log of the processor: a JSON object per line on stderr.

A reader that does not keep up does not block the processor: lines without room are dropped and counted."""

from __future__ import annotations

import logging
import traceback

import msgspec

from windlass.core.text.control_characters import escape_control_in_json

from . import instants
from .pipes import OutputPipe

MESSAGE_MAX = 8 * 1024


def log_line(record: logging.LogRecord) -> bytes:
    message = record.getMessage()
    if record.exc_info and record.exc_info[0]:
        message += "\n" + "".join(traceback.format_exception(*record.exc_info))
    if len(message) > MESSAGE_MAX:
        message = message[:MESSAGE_MAX] + " …"
    fields = {
        "log_level": record.levelname,
        "created_at": instants.format_instant(int(record.created * 1000)),
        "log_message": message.encode(errors="backslashreplace").decode(),
    }
    return escape_control_in_json(msgspec.json.encode(fields).decode()).encode() + b"\n"


class LineHandler(logging.Handler):
    def __init__(self, output: OutputPipe[None]) -> None:
        super().__init__()
        self._output = output
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        if not self._output.has_room:
            self._dropped += 1
            return
        if self._dropped:
            count, self._dropped = self._dropped, 0
            text = f"Dropped {count} log lines, because stderr was not read."
            notice = logging.LogRecord(record.name, logging.WARNING, "", 0, text, None, None)
            self._output.put(log_line(notice))
        self._output.put(log_line(record))
