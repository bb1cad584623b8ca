"""Example requests of the operations, for the API documents."""

from __future__ import annotations

from typing import Any

from windlass.downloads.api.examples import DOWNLOAD_EXAMPLES
from windlass.web.docs.openapi import Examples

EXAMPLE_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
_JOB = {"queue": "mail", "name": "send", "payload": {"order": 7}}
_JOB_ACTION_BODIES: dict[str, dict[str, Any]] = {
    "accept": {"token": 1},
    "extend": {"token": 1},
    "progress": {"token": 1, "progress": 0.5, "note": "written"},
    "finish": {"token": 1, "result": {"sent": True}},
    "fail": {"token": 1, "error": {"message": "the mail server is away"}},
    "release": {"token": 1},
    "log": {"token": 1, "lines": [{"at_ms": 1_767_225_600_000, "text": "connected"}]},
    "emit": {"token": 1, "value": {"page": 3}},
    "cancel": {"reason": "no longer needed"},
    "retry": {},
    "requeue": {},
    "wake": {},
    "edit": {"priority": -5},
    "store_step": {"token": 1, "name": "charge", "value": {"receipt": "r-7"}},
    "suspend": {
        "token": 1,
        "waits": [{"name": "approval", "kind": "signal", "signal": "approval", "for_ms": 259_200_000}],
    },
    "receive_signal": {"token": 1, "name": "approval", "signal": "approval"},
    "signal": {"name": "approval", "value": {"approved": True}},
    "rewind": {"step": "charge"},
    "write_stream": {"token": 1, "values": [{"text": "shipped"}], "sequence": 0},
}
_BODIES: dict[str, Any] = {
    **_JOB_ACTION_BODIES,
    **{f"{name}_many": {"items": [{"id": EXAMPLE_ID, **body}]} for name, body in _JOB_ACTION_BODIES.items()},
    "delete_many": {"items": [{"id": EXAMPLE_ID}]},
    "signal_url": {"signal": "approval", "expires_in_ms": 259_200_000},
    "steps_many": {"items": [{"id": EXAMPLE_ID}]},
    "waits_many": {"items": [{"id": EXAMPLE_ID}]},
    "enqueue": _JOB,
    "enqueue_many": {"items": [_JOB]},
    "enqueue_stream": _JOB,
    "take": {"queues": ["mail"], "wait_ms": 20_000},
    "exchange": {"finishes": [{"id": EXAMPLE_ID, "token": 1}], "take": {"queues": ["mail"], "wait_ms": 20_000}},
    "configure_queue": {"lease_ms": 60_000, "max_length": 100_000},
    "weigh_lanes": {"weights": {"gold": 10}},
    "pause_queue": {"reason": "the mail server is away"},
    "resume_queue": {},
    "purge_queue": {"state": "failed"},
    "set_cap": {"key": "acme", "running": 8},
    "set_limit": {"matches": {"queue": "mail"}, "running": 10},
    "set_alert": {
        "kind": "failures",
        "pattern": "mail*",
        "threshold": 5,
        "window_ms": 600_000,
        "targets": ["slack:https://hooks.slack.com/services/T0/B0/secret", "mailto:ops@example.com"],
    },
    "mute_alert": {"for_ms": 3_600_000},
    "set_schedule": {"job": {"queue": "mail", "name": "digest"}, "cron": "0 7 * * *", "timezone": "Europe/Berlin"},
    "pause_schedule": {"reason": "holidays"},
    "report_tasks": {
        "number": 1,
        "tasks": [{"queue": "mail", "name": "send", "retried": 1, "runs": [0, 0, 3, 1]}],
    },
    "register": {"host": "worker-1", "queues": ["mail"], "slots": 8},
    "create_token": {"name": "shop", "roles": ["produce"], "queues": ["mail*"]},
    "save_filter": {"page": "jobs", "fields": {"state": "failed", "queue": "mail"}},
    "redeliver": {"items": [{"id": f"{EXAMPLE_ID}-1"}]},
    "doctor": {"repair": False},
    "import_lines": {"kind": "limit", "limit": {"name": "mail", "matches": {"queue": "mail"}, "running": 10}},
    **DOWNLOAD_EXAMPLES,
    "jobber_queue": {"type": "mail", "payload": {"order": 7}},
}
_QUERIES: dict[str, dict[str, Any]] = {
    "jobs": {"queue": "mail", "state": "failed"},
    "result": {"wait_ms": 20_000},
}
EXAMPLES = Examples(_BODIES, _QUERIES)
