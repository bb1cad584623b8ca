"""Windlass: a job queue on Redis/Valkey that does not lose jobs."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from . import aliases

if TYPE_CHECKING:
    from .core.errors import Refusal, WindlassError
    from .core.event import Event
    from .core.job import Callback
    from .sdk.app import Windlass
    from .sdk.callbacks import BadSignature, verify_callback
    from .sdk.context import Context
    from .sdk.durable.failures import ChildFailed, DuplicateStep, SignalTimeout, StepFailed, Suspended
    from .sdk.failures import EventLoopBlocked, GiveUp, JobCancelled, JobFailed, ResultGone
    from .sdk.flows.flow import Chain, Group, group
    from .sdk.flows.handle import FlowHandle, GroupHandle, NamedFlowHandle, Outcome
    from .sdk.flows.inputs import Child
    from .sdk.flows.named import NamedFlow, Step, flow
    from .sdk.handle import JobHandle
    from .sdk.streams.reader import StreamEntry
    from .sdk.sync_context import SyncContext
    from .sdk.tasks.depends import Depends
    from .sdk.tasks.limits import Limit, Rate
    from .sdk.tasks.middleware import CallNext
    from .sdk.tasks.options import Backoff
    from .sdk.tasks.task import Call, Task
    from .sdk.testing import Testing
    from .sdk.worker.worker import Worker
    from .server import asgi
    from .web.asgi.host_auth import Access

__version__ = "0.1.0"
__all__ = [
    "Access",
    "Backoff",
    "BadSignature",
    "Call",
    "CallNext",
    "Callback",
    "Chain",
    "Child",
    "ChildFailed",
    "Context",
    "Depends",
    "DuplicateStep",
    "Event",
    "EventLoopBlocked",
    "FlowHandle",
    "GiveUp",
    "Group",
    "GroupHandle",
    "JobCancelled",
    "JobFailed",
    "JobHandle",
    "Limit",
    "NamedFlow",
    "NamedFlowHandle",
    "Outcome",
    "Rate",
    "Refusal",
    "ResultGone",
    "SignalTimeout",
    "Step",
    "StepFailed",
    "StreamEntry",
    "Suspended",
    "SyncContext",
    "Task",
    "Testing",
    "Windlass",
    "WindlassError",
    "Worker",
    "asgi",
    "flow",
    "group",
    "verify_callback",
]

# Imported on first use: a command that lists jobs does not need the SDK.
_HOMES = {
    "Refusal": "core.errors",
    "WindlassError": "core.errors",
    "Event": "core.event",
    "Callback": "core.job",
    "Windlass": "sdk.app",
    "BadSignature": "sdk.callbacks",
    "verify_callback": "sdk.callbacks",
    "Context": "sdk.context",
    "ChildFailed": "sdk.durable.failures",
    "DuplicateStep": "sdk.durable.failures",
    "SignalTimeout": "sdk.durable.failures",
    "StepFailed": "sdk.durable.failures",
    "Suspended": "sdk.durable.failures",
    "SyncContext": "sdk.sync_context",
    "Depends": "sdk.tasks.depends",
    "EventLoopBlocked": "sdk.failures",
    "GiveUp": "sdk.failures",
    "JobCancelled": "sdk.failures",
    "JobFailed": "sdk.failures",
    "ResultGone": "sdk.failures",
    "Chain": "sdk.flows.flow",
    "Group": "sdk.flows.flow",
    "group": "sdk.flows.flow",
    "FlowHandle": "sdk.flows.handle",
    "GroupHandle": "sdk.flows.handle",
    "NamedFlowHandle": "sdk.flows.handle",
    "Outcome": "sdk.flows.handle",
    "Child": "sdk.flows.inputs",
    "NamedFlow": "sdk.flows.named",
    "Step": "sdk.flows.named",
    "flow": "sdk.flows.named",
    "JobHandle": "sdk.handle",
    "StreamEntry": "sdk.streams.reader",
    "Limit": "sdk.tasks.limits",
    "Rate": "sdk.tasks.limits",
    "CallNext": "sdk.tasks.middleware",
    "Backoff": "sdk.tasks.options",
    "Call": "sdk.tasks.task",
    "Task": "sdk.tasks.task",
    "Testing": "sdk.testing",
    "Worker": "sdk.worker.worker",
    "asgi": "server",
    "Access": "web.asgi.host_auth",
}

logging.getLogger("windlass").addHandler(logging.NullHandler())  # the program configures logging
aliases.install()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
