"""Bodies of the callbacks that carry messages about alerts."""

from __future__ import annotations

from windlass.background.callbacks.native_body import native_body
from windlass.core.alerts.message import decode_message, slack_body, webhook_body
from windlass.core.alerts.targets import SLACK, is_message
from windlass.core.callbacks.callback import PendingCallback


def alert_body(pending: PendingCallback) -> bytes:
    """Return the body of a message. A job of a program in the queue of the alerts has the body of any job."""
    if not is_message(pending.callback):
        return native_body(pending)
    message = decode_message(pending.job.payload.data)
    if pending.callback.type == SLACK:
        return slack_body(message)
    return webhook_body(message, pending.key)
