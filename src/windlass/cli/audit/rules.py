"""Service calls that are in the audit log, with the same operation, target and detail as over a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from windlass.core.access.audit import summarize_ids
from windlass.core.ids import format_id
from windlass.wire.limits import limit_shape

Arguments: TypeAlias = Mapping[str, Any]  # of a call, by name


class Rule(NamedTuple):
    """Audit entry of a call. `operation`: id of the route of the HTTP API."""

    operation: str
    target: Callable[[Arguments], str]
    detail: Callable[[Arguments], str] = lambda call: ""
    is_change: Callable[[Arguments], bool] = lambda call: True


def _named(call: Arguments) -> str:
    return str(call["name"])


def _queue(call: Arguments) -> str:
    return str(call["queue"])


def _ids(call: Arguments) -> str:
    return summarize_ids(call["ids"])


def _ids_of_requests(call: Arguments) -> str:
    return summarize_ids([request.id for request in call["requests"]])


def _part(call: Arguments) -> str:
    if call["lane"]:
        return f"lane {call['lane']}: "
    return f"name {call['name']}: " if call["name"] else ""


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _distinct(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


_JOBS = {
    "wake": Rule("wake_many", _ids),
    "retry": Rule("retry_many", _ids),
    "requeue": Rule("requeue_many", _ids),
    "delete": Rule("delete_many", _ids),
    "edit": Rule("edit_many", _ids_of_requests),
    "rewind": Rule("rewind_many", _ids_of_requests, lambda call: _distinct(one.step for one in call["requests"])),
    "signal": Rule("signal_many", _ids_of_requests, lambda call: _distinct(one.name for one in call["requests"])),
    "signal_link": Rule("signal_url", lambda call: format_id(call["job_id"]), lambda call: str(call["signal"])),
    "resume_flow": Rule("resume_flow", lambda call: format_id(call["flow_id"])),
    "redeliver": Rule("redeliver", lambda call: "", lambda call: f"{len(call['ids'])} callbacks"),
}
_QUEUES = {
    "pause": Rule("pause_queue", _queue, lambda call: _part(call) + call["reason"]),
    "resume": Rule("resume_queue", _queue, _part),
    "configure": Rule(
        "configure_queue", _queue, lambda call: _json(call["changes"]), is_change=lambda call: bool(call["changes"])
    ),
    "set_weights": Rule(
        "weigh_lanes", _queue, lambda call: _json(call["weights"]), is_change=lambda call: bool(call["weights"])
    ),
    "remove_queue": Rule("remove_queue", _queue, lambda call: "force" if call["force"] else ""),
    "limit": Rule("set_limit", lambda call: str(call["limit"].name), lambda call: _json(limit_shape(call["limit"]))),
    "unlimit": Rule("remove_limit", _named),
    "set_cap": Rule(
        "set_cap",
        lambda call: str(call["limit"]),
        lambda call: _json({"running": call["running"], "key": call["key"]}),
    ),
}
_SCHEDULES = {
    "schedule": Rule(
        "set_schedule",
        lambda call: str(call["wanted"].name),
        lambda call: f"jobs {call['wanted'].job.name} in {call['wanted'].job.queue}",
    ),
    "unschedule": Rule("remove_schedule", _named),
    "pause_schedule": Rule("pause_schedule", _named, lambda call: str(call["reason"])),
    "resume_schedule": Rule("resume_schedule", _named),
    "run_schedule": Rule("run_schedule", _named),
}
_DEPLOYMENT = {
    "set_alert": Rule(
        "set_alert", lambda call: str(call["rule"].name), lambda call: f"{call['rule'].kind} {call['rule'].pattern}"
    ),
    "remove_alert": Rule("remove_alert", _named),
    "mute_alert": Rule("mute_alert", _named, lambda call: f"{call['for_ms']} ms"),
    "test_alert": Rule("test_alert", _named),
    "stop_worker": Rule("stop_worker", lambda call: format_id(call["worker"])),
    "remove_filter": Rule("remove_filter", _named),
    "create_token": Rule(
        "create_token",
        lambda call: str(call["new"].name),
        lambda call: " ".join((*sorted(call["new"].roles), *call["new"].queues)),
    ),
    "revoke_token": Rule("revoke_token", _named),
    "doctor": Rule("doctor", lambda call: "", lambda call: "repair", is_change=lambda call: bool(call["repair"])),
}
RULES = _JOBS | _QUEUES | _SCHEDULES | _DEPLOYMENT
