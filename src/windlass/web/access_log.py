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

from .messages import Client, Head

WAITING_MAX = 50_000  # lines; what comes while so many are not written is only counted
GATHERED_S = 0.05  # how long lines are gathered before they are written
NOBODY = Head("", "", "", {}, "")

log = logging.getLogger("windlass.access")


class _Noted(NamedTuple):
    at_s: float
    peer: str
    head: Head
    status: int
    size: int
    duration_s: float


class Line(msgspec.Struct, frozen=True):
    at: str
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
        self._noted: deque[_Noted] = deque()
        self._dropped = 0
        self._is_awake = False
        self._wake = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="windlass-access-log", daemon=True)

    def open(self) -> None:
        if not self._log.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(message)s"))
            self._log.addHandler(handler)
            self._log.propagate = False
        self._log.setLevel(logging.INFO)
        self._thread.start()

    def close(self) -> None:
        """What was noted is written first."""
        self._is_over.set()
        self._wake.set()
        self._thread.join()

    def on_answer(self, head: Head | None, status: int, size: int, duration_s: float, client: Client) -> None:
        if len(self._noted) >= WAITING_MAX:
            self._dropped += 1
            return
        self._noted.append(_Noted(time.time(), client.peer, head or NOBODY, status, size, duration_s))
        if not self._is_awake:  # else the thread will look again before it sleeps
            self._is_awake = True
            self._wake.set()

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._wake.wait()
            self._wake.clear()
            self._is_over.wait(GATHERED_S)
            self._is_awake = False
            self._write()
        self._write()

    def _write(self) -> None:
        while self._noted:
            self._log.info(written(self._noted.popleft()))
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            self._log.warning(msgspec.json.encode({"at": _instant(time.time()), "dropped": dropped}).decode())


def written(noted: _Noted) -> str:
    head = noted.head
    line = Line(
        at=_instant(noted.at_s),
        peer=noted.peer,
        who=head.who,
        method=head.method,
        path=head.path,
        status=noted.status,
        bytes=noted.size,
        ms=round(noted.duration_s * 1000, 3),
        operation=head.operation,
    )
    return msgspec.json.encode(line).decode()


def _instant(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
