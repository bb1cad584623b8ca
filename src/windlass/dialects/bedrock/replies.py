"""Replies with a fixed status line, also for abandoned commands."""

from __future__ import annotations

from enum import Enum, auto

from .wire import Reply

OK = Reply(200, "OK")
QUEUED = Reply(202, "Successfully queued")
REQUEST_TIMEOUT = Reply(408, "The request did not arrive in time")
UNKNOWN_COMMAND = Reply(430, "Unrecognized command")
INTERNAL_FAILURE = Reply(502, "Internal failure")
BUSY = Reply(503, "The server holds as many requests as it may; try again")
TOO_MANY_CONNECTIONS = Reply(503, "Too many connections; try again in a moment")
TOO_MANY_QUEUED = Reply(503, "Too many commands are queued; try again in a moment")


class AbandonReason(Enum):
    """Reason why a running command was abandoned."""

    TIMED_OUT = auto()
    SERVER_STOPPING = auto()
    HALF_CLOSED = auto()
    CLIENT_GONE = auto()


ABANDONED_REPLIES = {
    AbandonReason.TIMED_OUT: Reply(555, "Timeout"),
    AbandonReason.SERVER_STOPPING: Reply(303, "Timeout"),
    AbandonReason.HALF_CLOSED: Reply(303, "Timeout"),
    AbandonReason.CLIENT_GONE: INTERNAL_FAILURE,  # never sent
}
