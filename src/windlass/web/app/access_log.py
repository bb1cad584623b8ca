"""One line of JSON for each request, on the logger `windlass.access`. The event loop only notes what happened; a thread
writes it down, so that a slow disk or a full pipe keeps nobody waiting."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from windlass.core.text.control_characters import escape_control_in_json
from windlass.web.listener.messages import Client, Head

PENDING_MAX = 50_000  # lines; what comes while so many are not written is only counted
BATCH_LINES = 500  # lines of one record, where only lines matter: a record costs ten times what a line does
CLOSE_S = 5.0
BATCH_DELAY_S = 0.05  # how long lines are gathered before they are written
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
    at: str
    logger: str  # what tells these lines from others of the log
    peer: str
    who: str  # name of the token; empty: nobody was let in
    method: str
    path: str  # without the query, which may hold what is nobody's business
    status: int
    bytes: int
    ms: float
    operation: str


class AccessLog:
    """Opened and closed once. A logger that has no handler of its own gets one that writes the bare lines to standard
    error."""

    def __init__(self, logger: logging.Logger = log) -> None:
        self._log = logger
        self._noted: deque[_AccessRecord] = deque()
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
        """What was noted is written first, if that does not take for ever."""
        self._is_over.set()
        self._wake.set()
        self._thread.join(CLOSE_S)
        if self._handler is not None:
            self._log.removeHandler(self._handler)
            self._log.propagate = True

    def on_answer(self, head: Head | None, status: int, size: int, duration_s: float, client: Client) -> None:
        if len(self._noted) >= PENDING_MAX:
            self._dropped += 1
            return
        self._noted.append(_AccessRecord(time.time(), client.peer, head or NO_HEAD, status, size, duration_s))
        if not self._is_awake:  # else the thread will look again before it sleeps
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
        while self._noted:
            lines = [encode_record(self._noted.popleft()) for _ in range(min(len(self._noted), BATCH_LINES))]
            for text in ["\n".join(lines)] if self._is_bare else lines:
                self._log.info(text)
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self._log.warning(
                msgspec.json.encode({"at": _instant(time.time()), "logger": log.name, "dropped": dropped}).decode()
            )


def encode_record(noted: _AccessRecord) -> str:
    head = noted.head
    line = AccessLogLine(
        at=_instant(noted.at_s),
        logger=log.name,
        peer=noted.peer,
        who=head.who,
        method=head.method,
        path=head.path,
        status=noted.status,
        bytes=noted.size,
        ms=round(noted.duration_s * 1000, 3),
        operation=head.operation,
    )
    return escape_control_in_json(msgspec.json.encode(line).decode())


def _instant(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
