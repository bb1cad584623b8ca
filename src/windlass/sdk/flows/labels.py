"""Readable names of flows and steps that have no name of their own."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.validation.bounds import FLOW_NAME_MAX

LABEL_MAX = 100  # characters
KINDS_SHOWN = 3  # different members of a group that its name lists
_CUT = "…"


def shorten(text: str) -> str:
    if len(text) > LABEL_MAX:
        text = text[: LABEL_MAX - 1] + _CUT
    while len(text.encode()) > FLOW_NAME_MAX:
        text = text[:-2] + _CUT
    return text


def chain_label(first: str, second: str) -> str:
    return first if first.endswith(_CUT) else shorten(f"{first} → {second}")


def group_label(members: Sequence[str]) -> str:
    kinds = list(dict.fromkeys(members))
    if len(kinds) == 1:
        return shorten(f"group of {len(members)} × {kinds[0]}")
    more = ", …" if len(kinds) > KINDS_SHOWN else ""
    return shorten(f"group of {len(members)}: {', '.join(kinds[:KINDS_SHOWN])}{more}")


def join_label(count: int) -> str:
    """Return the name of a job that stands for several others."""
    return f"all of {count}"
