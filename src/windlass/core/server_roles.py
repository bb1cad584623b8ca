"""What a server process does: it answers, it downloads, it delivers callbacks. The loops run in all of them."""

from __future__ import annotations

from .errors import BadInput

API, PROCESSOR, NOTIFIER = "api", "processor", "notifier"
ROLES = (API, PROCESSOR, NOTIFIER)


def parse_roles(text: str) -> frozenset[str]:
    """From names with commas between."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in ROLES:
            raise BadInput(f"{name!r} is no role of a server; there are {', '.join(ROLES)}.")
    return frozenset(names)
