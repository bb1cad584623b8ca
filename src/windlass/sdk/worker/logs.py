"""Log lines as text or JSON, each with the job in whose run it was written.

Only the command line configures logging. Programs with their own configuration add `JobFilter` to their handlers.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec

from windlass.core.text.control_characters import escape_control, escape_control_in_json
from windlass.sdk.context import current_job

from .job_log import failure_log, job_log

LogFormat: TypeAlias = Literal["text", "json"]

_PLAIN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_current: tuple[LogFormat, int] | None = None
_NAMES_JOB = (job_log.name, failure_log.name)  # loggers whose messages name their job
_FIELDS = ("job_id", "task_name", "attempt", "queue_name")


class JobFilter(logging.Filter):
    """Adds `job_id`, `task_name`, `attempt` and `queue_name` to each record. Outside of jobs they are empty strings."""

    def filter(self, record: logging.LogRecord) -> bool:
        job = current_job.get()
        if job is not None:
            record.__dict__.update(job_id=job.key, task_name=job.name, attempt=job.attempt, queue_name=job.queue)
        else:
            for field in _FIELDS:
                record.__dict__.setdefault(field, "")
        return True


class TextFormatter(logging.Formatter):
    """Text lines: `2026-01-31 12:00:00,000 INFO shop.mail: sent [send_mail 0198…, attempt 2, queue mail]`"""

    def __init__(self, shows_process: bool = False) -> None:
        process = " %(process)d" if shows_process else ""
        super().__init__(f"%(asctime)s %(levelname)s{process} %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return escape_control(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        line = super().formatMessage(record)
        if not getattr(record, "job_id", "") or record.name in _NAMES_JOB:
            return line
        labelled: Any = record  # with the fields of JobFilter
        return (
            f"{line} [{labelled.task_name} {labelled.job_id}, attempt {labelled.attempt}, queue {labelled.queue_name}]"
        )


class JsonFormatter(logging.Formatter):
    """Formats each record as one JSON object per line.

    Fields of `extra` are included. Values that JSON does not know become strings.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        for name, value in record.__dict__.items():
            if name not in _PLAIN and name not in line and not (name in _FIELDS and value == ""):
                line[name] = value
        return escape_control_in_json(_encode_line(line | self._error(record)))

    def _error(self, record: logging.LogRecord) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if record.exc_info and record.exc_info[1] is not None:
            kind, error, _ = record.exc_info
            fields["error"] = {
                "type": kind.__name__ if kind else "",
                "message": str(error),
                "traceback": self.formatException(record.exc_info),
            }
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        return fields


def _encode_line(line: dict[str, Any]) -> str:
    try:
        return msgspec.json.encode(line, enc_hook=_as_text).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):  # keys that are not strings, lone surrogates, …
        whole = {name: _plain(value) for name, value in line.items()}
        return msgspec.json.encode(whole).decode()


def _as_text(value: object) -> str:
    """Convert any value to a string, so that no line is lost because of its values."""
    try:
        text = str(value)
    except Exception as error:
        text = f"<{type(value).__name__}: {error!r}>"
    return text.encode(errors="backslashreplace").decode()


def _plain(value: object) -> object:
    return value if type(value) in (int, bool, type(None)) else _as_text(value)


def configure_logging(
    format: LogFormat = "text",  # noqa: A002 (callers use the keyword)
    level: int = logging.INFO,
    *,
    shows_process: bool = False,  # for several processes with one stderr
) -> None:
    """Send all log lines of the process to stderr in this format.

    Call it once, before any application code is loaded, so that an application's own logging configuration wins. Child
    processes do the same.
    """
    global _current  # noqa: PLW0603 (logging is configured once per process)
    _current = (format, level)
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(JobFilter())
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter(shows_process))
    logging.basicConfig(level=level, handlers=[handler], force=True)


def current_logging() -> tuple[LogFormat, int] | None:
    """Return the arguments of `configure_logging`, or None if it was not called."""
    return _current
