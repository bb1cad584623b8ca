"""Server processes: wiring of settings, store, service, background loops and listeners.

`Family`, `Serving`, `running` and `serving` are older names, kept for importers.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from windlass.core.errors import BadSetting
from windlass.processes.posix import IS_POSIX

if TYPE_CHECKING:
    from windlass.deployment import build_store, embedded_engine

    from .mounted import asgi
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
    "asgi",
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
    "asgi": "windlass.server.mounted",
}
_ALIASES = {"Family": "PreforkSupervisor", "Serving": "Server", "running": "open_service", "serving": "open_server"}


_PACKAGES = ("filetype", "httptools", "jinja2")  # of the extra `server`; a client's installation lacks them


def check_installation() -> None:
    """Raise an error where a server cannot run: without its packages, and on Windows."""
    if not IS_POSIX:
        raise BadSetting(
            "windlass serve needs Linux or macOS: run it there, and set WINDLASS_URL to its address (http://host:8080) "
            "for programs and workers on this system."
        )
    check_packages("windlass serve")


def check_packages(what: str) -> None:
    """Raise an error that names `what` if the packages of the extra `server` are not installed."""
    if any(importlib.util.find_spec(name) is None for name in _PACKAGES):
        raise BadSetting(f"{what} needs the server's packages: pip install windlass-queue")


def __getattr__(name: str) -> Any:
    target = _ALIASES.get(name, name)
    if target not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if target in ("asgi", "open_server"):
        check_packages(f"{target}()")
    return getattr(importlib.import_module(_HOMES[target]), target)
