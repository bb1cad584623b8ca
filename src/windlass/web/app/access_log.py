"""Access log: one line of JSON for each request, on the logger `windlass.access`. A thread writes the lines, so that a
slow disk or a full pipe does not block the event loop."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from windlass.core.text.control_characters import escape_control_in_json
from windlass.web.listener.messages import Client, Head, path_for_logs

PENDING_MAX = 50_000  # unwritten lines; further requests are only counted
BATCH_LINES = 500  # lines in one log record on the own handler: a record costs ten times as much as a line
CLOSE_S = 5.0
BATCH_DELAY_S = 0.05  # before lines are written
NO_HEAD = Head("", "", "", {}, "")

log = logging.getLogger("windlass.access")


class _AccessRecord(NamedTuple):
    at_s: float
    peer: str
    head: Head
    status: int
    size: int
    duration_s: float


class AccessLogLine(msgspec.Struct, frozen=True):
    """Line of the access log. The field names are public."""

    at: str
    logger: str  # distinguishes these lines in a shared log
    peer: str
    who: str  # name of the token; empty if the request was not admitted
    method: str
    path: str  # without the query and the secret of a signed link
    status: int
    bytes: int
    ms: float
    operation: str


class AccessLog:
    """Writer of the access log; open and close it once. A logger without a handler gets one that writes bare lines to
    standard error."""

    def __init__(self, logger: logging.Logger = log) -> None:
        self._log = logger
        self._pending: deque[_AccessRecord] = deque()
        self._dropped = 0
        self._is_bare = not logger.handlers
        self._handler: logging.Handler | None = None
        self._is_awake = False
        self._wake = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="windlass-access-log", daemon=True)

    def open(self) -> None:
        if self._is_bare:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(message)s"))
            self._log.addHandler(handler)
            self._log.propagate = False
            self._handler = handler
        self._log.setLevel(logging.INFO)
        self._thread.start()

    def close(self) -> None:
        """Write the pending lines and stop the thread; wait at most CLOSE_S."""
        self._is_over.set()
        self._wake.set()
        self._thread.join(CLOSE_S)
        if self._handler is not None:
            self._log.removeHandler(self._handler)
            self._log.propagate = True

    def on_answer(self, head: Head | None, status: int, size: int, duration_s: float, client: Client) -> None:
        if len(self._pending) >= PENDING_MAX:
            self._dropped += 1
            return
        self._pending.append(_AccessRecord(time.time(), client.peer, head or NO_HEAD, status, size, duration_s))
        if not self._is_awake:  # otherwise the thread looks again before it sleeps
            self._is_awake = True
            self._wake.set()

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._wake.wait()
            self._wake.clear()
            self._is_over.wait(BATCH_DELAY_S)
            self._is_awake = False
            self._write()
        self._write()

    def _write(self) -> None:
        while self._pending:
            lines = [encode_record(self._pending.popleft()) for _ in range(min(len(self._pending), BATCH_LINES))]
            for text in ["\n".join(lines)] if self._is_bare else lines:
                self._log.info(text)
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self._log.warning(
                msgspec.json.encode({"at": _instant(time.time()), "logger": log.name, "dropped": dropped}).decode()
            )


def encode_record(record: _AccessRecord) -> str:
    head = record.head
    line = AccessLogLine(
        at=_instant(record.at_s),
        logger=log.name,
        peer=record.peer,
        who=head.principal_name,
        method=head.method,
        path=path_for_logs(head.path),
        status=record.status,
        bytes=record.size,
        ms=round(record.duration_s * 1000, 3),
        operation=head.operation,
    )
    return escape_control_in_json(msgspec.json.encode(line).decode())


def _instant(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
