"""Django: the backend for settings.TASKS, the applications for workers, streams of jobs as responses, and the dashboard
beside the project's own pages."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """Load names on first use: Django imports this package as an installed app before it is ready."""
    if name == "WindlassBackend":
        from .backend import WindlassBackend

        return WindlassBackend
    if name in ("app", "aliases"):
        from .worker_apps import WorkerApps

        return WorkerApps() if name == "aliases" else WorkerApps().default
    if name in ("stream_response", "astream_response"):
        from . import streams

        return getattr(streams, name)
    if name in ("mount", "user_of"):
        from . import asgi_mount

        return getattr(asgi_mount, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
