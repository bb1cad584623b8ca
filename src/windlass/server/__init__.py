"""The only place where things are wired together: settings, store, service, loops, and the front ends."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .deployment import build_store, embedded_engine, running
    from .prefork import Family
    from .process import Parent, serve
    from .serve import Serving, serving
    from .sockets import Sockets, open_sockets

__all__ = [
    "Family",
    "Parent",
    "Serving",
    "Sockets",
    "build_store",
    "embedded_engine",
    "open_sockets",
    "running",
    "serve",
    "serving",
]

# Loaded when first used: a program that only needs a store pays for no front end.
_HOMES = {
    "build_store": "deployment",
    "embedded_engine": "deployment",
    "running": "deployment",
    "Family": "prefork",
    "Sockets": "sockets",
    "open_sockets": "sockets",
    "Parent": "process",
    "serve": "process",
    "Serving": "serve",
    "serving": "serve",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
