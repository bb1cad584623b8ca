"""The only place where things are wired together: settings, store, service, loops, and the front ends."""

from __future__ import annotations

from .deployment import build_store, running
from .serving import Serving, serving

__all__ = ["Serving", "build_store", "running", "serving"]
