"""Bodies of the callbacks that carry messages about alerts."""

from __future__ import annotations

import msgspec

from windlass.background.callbacks.native_body import native_body
from windlass.core.alerts.message import AlertMessage, slack_body, webhook_body
from windlass.core.alerts.targets import RESERVED_TYPE, SLACK
from windlass.core.callbacks.callback import PendingCallback

_decode = msgspec.json.Decoder(AlertMessage).decode


def alert_body(pending: PendingCallback) -> bytes:
    """Return the body of a message. A job of a program in the queue of the alerts has the body of any job."""
    if not pending.callback.type.startswith(RESERVED_TYPE):
        return native_body(pending)
    message = _decode(pending.job.payload.data)
    if pending.callback.type == SLACK:
        return slack_body(message)
    return webhook_body(message, pending.key)
