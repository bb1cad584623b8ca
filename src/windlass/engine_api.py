"""Names for programs that use the service directly instead of tasks: a store, its service, and their requests.

Most programs need only `windlass`: applications, tasks and workers. Use this module to enqueue and take jobs of any
name, to write your own worker or front end, or to manage a deployment from Python (docs/service.md):

    from windlass.engine_api import NewJob, Service, Settings, build_store

    service = Service(build_store(Settings(url="redis://localhost")))
    service.enqueue([NewJob(queue="mail", name="send")]).wait()

`Backoff` and `Limit` are the engine's. Tasks use `windlass.Backoff` and `windlass.Limit`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core import errors
    from .core.access.audit import AuditEntry
    from .core.access.tokens import NewToken, Role, parse_token
    from .core.bulk_action import Action
    from .core.callbacks.callback import FailedDelivery, LeasedCallback
    from .core.event import Emit
    from .core.ids import format_id, parse_id
    from .core.job import Blob, Callback, Cap, Codec, FlowRef, Job, NewJob
    from .core.limits.condition import Condition
    from .core.limits.limit import Limit, Matcher
    from .core.log import Log, LogLine
    from .core.operations import Edit, Fail, Filter, Finish, LeaseRef, Listing, Take, Update, WorkerInfo
    from .core.retry import Backoff
    from .core.scheduling import cron, repeat
    from .core.scheduling.schedule import Schedule
    from .core.states import State
    from .deployment import build_store
    from .server.server import open_server
    from .service import Service
    from .settings import Settings

__all__ = [
    "Action",
    "AuditEntry",
    "Backoff",
    "Blob",
    "Callback",
    "Cap",
    "Codec",
    "Condition",
    "Edit",
    "Emit",
    "Fail",
    "FailedDelivery",
    "Filter",
    "Finish",
    "FlowRef",
    "Job",
    "LeaseRef",
    "LeasedCallback",
    "Limit",
    "Listing",
    "Log",
    "LogLine",
    "Matcher",
    "NewJob",
    "NewToken",
    "Role",
    "Schedule",
    "Service",
    "Settings",
    "State",
    "Take",
    "Update",
    "WorkerInfo",
    "build_store",
    "cron",
    "errors",
    "format_id",
    "open_server",
    "parse_id",
    "parse_token",
    "repeat",
]

# Imported on first use: a program that builds a store does not load the server.
_HOMES = {
    "Action": "core.bulk_action",
    "AuditEntry": "core.access.audit",
    "Backoff": "core.retry",
    "Blob": "core.job",
    "Callback": "core.job",
    "Cap": "core.job",
    "Codec": "core.job",
    "Condition": "core.limits.condition",
    "Edit": "core.operations",
    "Emit": "core.event",
    "Fail": "core.operations",
    "FailedDelivery": "core.callbacks.callback",
    "Filter": "core.operations",
    "Finish": "core.operations",
    "FlowRef": "core.job",
    "Job": "core.job",
    "LeaseRef": "core.operations",
    "LeasedCallback": "core.callbacks.callback",
    "Limit": "core.limits.limit",
    "Listing": "core.operations",
    "Log": "core.log",
    "LogLine": "core.log",
    "Matcher": "core.limits.limit",
    "NewJob": "core.job",
    "NewToken": "core.access.tokens",
    "Role": "core.access.tokens",
    "Schedule": "core.scheduling.schedule",
    "Service": "service",
    "Settings": "settings",
    "State": "core.states",
    "Take": "core.operations",
    "Update": "core.operations",
    "WorkerInfo": "core.operations",
    "build_store": "deployment",
    "format_id": "core.ids",
    "open_server": "server",
    "parse_id": "core.ids",
    "parse_token": "core.access.tokens",
}
_MODULES = {"cron": "core.scheduling.cron", "errors": "core.errors", "repeat": "core.scheduling.repeat"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"windlass.{_MODULES[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"windlass.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
