"""Windlass: a job queue on Redis/Valkey that does not lose jobs."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.errors import Refusal, WindlassError
    from .core.event import Event
    from .core.job import Callback
    from .sdk.app import Windlass
    from .sdk.callbacks import BadSignature, verify_callback
    from .sdk.context import Context
    from .sdk.depends import Depends
    from .sdk.failures import GiveUp, JobCancelled, JobFailed, ResultGone
    from .sdk.flow import Chain, Group, group
    from .sdk.flow_handle import FlowHandle, GroupHandle, Outcome
    from .sdk.gathering import Child
    from .sdk.handle import JobHandle
    from .sdk.limits import Limit, Rate
    from .sdk.middleware import CallNext
    from .sdk.options import Backoff
    from .sdk.task import Call, Task
    from .sdk.testing import Testing
    from .sdk.worker.worker import Worker

__version__ = "0.1.0"
__all__ = [
    "Backoff",
    "BadSignature",
    "Call",
    "CallNext",
    "Callback",
    "Chain",
    "Child",
    "Context",
    "Depends",
    "Event",
    "FlowHandle",
    "GiveUp",
    "Group",
    "GroupHandle",
    "JobCancelled",
    "JobFailed",
    "JobHandle",
    "Limit",
    "Outcome",
    "Rate",
    "Refusal",
    "ResultGone",
    "Task",
    "Testing",
    "Windlass",
    "WindlassError",
    "Worker",
    "group",
    "verify_callback",
]

# Loaded when first used: a command line that lists jobs needs none of the SDK.
_HOMES = {
    "Refusal": "core.errors",
    "WindlassError": "core.errors",
    "Event": "core.event",
    "Callback": "core.job",
    "Windlass": "sdk.app",
    "BadSignature": "sdk.callbacks",
    "verify_callback": "sdk.callbacks",
    "Context": "sdk.context",
    "Depends": "sdk.depends",
    "GiveUp": "sdk.failures",
    "JobCancelled": "sdk.failures",
    "JobFailed": "sdk.failures",
    "ResultGone": "sdk.failures",
    "Chain": "sdk.flow",
    "Group": "sdk.flow",
    "group": "sdk.flow",
    "FlowHandle": "sdk.flow_handle",
    "GroupHandle": "sdk.flow_handle",
    "Outcome": "sdk.flow_handle",
    "Child": "sdk.gathering",
    "JobHandle": "sdk.handle",
    "Limit": "sdk.limits",
    "Rate": "sdk.limits",
    "CallNext": "sdk.middleware",
    "Backoff": "sdk.options",
    "Call": "sdk.task",
    "Task": "sdk.task",
    "Testing": "sdk.testing",
    "Worker": "sdk.worker.worker",
}

logging.getLogger("windlass").addHandler(logging.NullHandler())  # the program decides what is written, and where


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
