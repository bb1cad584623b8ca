"""Roles of a server process: serve requests, process downloads, deliver callbacks. Every role runs background loops."""

from __future__ import annotations

from .errors import BadInput

API, PROCESSOR, NOTIFIER = "api", "processor", "notifier"
ROLES = (API, PROCESSOR, NOTIFIER)


def parse_roles(text: str) -> frozenset[str]:
    """Parse role names separated by commas."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in ROLES:
            raise BadInput(f"{name!r} is not a server role; the roles are {', '.join(ROLES)}.")
    return frozenset(names)
