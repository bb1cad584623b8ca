"""The log as the processor writes it: one object per line on stderr. Who does not read it stops nothing: what has no
room is left out, and counted."""

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
    shown = {
        "log_level": record.levelname,
        "created_at": instants.format_instant(int(record.created * 1000)),
        "log_message": message.encode(errors="backslashreplace").decode(),
    }
    return escape_control_in_json(msgspec.json.encode(shown).decode()).encode() + b"\n"


class LineHandler(logging.Handler):
    def __init__(self, outlet: OutputPipe[None]) -> None:
        super().__init__()
        self._output = outlet
        self._left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        if not self._output.has_room:
            self._left_out += 1
            return
        if self._left_out:
            count, self._left_out = self._left_out, 0
            said = f"{count} lines of the log were left out: nobody read them."
            left_out = logging.LogRecord(record.name, logging.WARNING, "", 0, said, None, None)
            self._output.put(log_line(left_out))
        self._output.put(log_line(record))
