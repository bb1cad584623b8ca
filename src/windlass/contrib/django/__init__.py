"""Django's tasks, run by Windlass: the backend for settings.TASKS, and the applications that workers are given."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Loaded when first used: this package is also an installed app, which Django imports before it is ready."""
    if name == "WindlassBackend":
        from .backend import WindlassBackend

        return WindlassBackend
    if name in ("app", "aliases"):
        from .worker_apps import WorkerApps

        return WorkerApps() if name == "aliases" else WorkerApps().default
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
