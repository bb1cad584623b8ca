"""Server processes: wiring of settings, store, service, background loops and listeners.

`Family`, `Serving`, `running` and `serving` are older names, kept for importers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.deployment import build_store, embedded_engine

    from .prefork import PreforkSupervisor
    from .prefork import PreforkSupervisor as Family
    from .process import Parent, serve
    from .server import Server, open_server
    from .server import Server as Serving
    from .server import open_server as serving
    from .service import open_service
    from .service import open_service as running
    from .sockets import Sockets, open_sockets

__all__ = [
    "Family",
    "Parent",
    "PreforkSupervisor",
    "Server",
    "Serving",
    "Sockets",
    "build_store",
    "embedded_engine",
    "open_server",
    "open_service",
    "open_sockets",
    "running",
    "serve",
    "serving",
]

# Imported on first use, so that a program that only needs a store does not load the listeners.
_HOMES = {
    "build_store": "windlass.deployment",
    "embedded_engine": "windlass.deployment",
    "open_service": "windlass.server.service",
    "PreforkSupervisor": "windlass.server.prefork",
    "Sockets": "windlass.server.sockets",
    "open_sockets": "windlass.server.sockets",
    "Parent": "windlass.server.process",
    "serve": "windlass.server.process",
    "Server": "windlass.server.server",
    "open_server": "windlass.server.server",
}
_ALIASES = {"Family": "PreforkSupervisor", "Serving": "Server", "running": "open_service", "serving": "open_server"}


def __getattr__(name: str) -> Any:
    target = _ALIASES.get(name, name)
    if target not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[target]), target)
