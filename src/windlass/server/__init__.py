"""The only place where things are wired together: settings, store, service, loops, and the front ends."""

from __future__ import annotations

from .deployment import build_store, running
from .family import Family
from .listening import Sockets, open_sockets
from .process import Parent, serve
from .serving import Serving, serving

__all__ = ["Family", "Parent", "Serving", "Sockets", "build_store", "open_sockets", "running", "serve", "serving"]
