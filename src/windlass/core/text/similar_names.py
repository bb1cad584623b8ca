"""Suggestions for misspelt names of tasks and queues."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from .humanize import quote_text


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return the known name that is spelt most like this name; empty if there is none."""
    return next(iter(get_close_matches(name, sorted(set(known)), n=1)), "")


def describe_missing_task(who: str, name: str, suggestion: str) -> str:
    """Return the sentence about a worker, or no worker, that should have a task. `who` ends with its verb."""
    hint = f"; did you mean {quote_text(suggestion)}?" if suggestion else "."
    return f"{who} task called {quote_text(name)}{hint}"


def describe_missing_queue(what: str, suggestion: str) -> str:
    """Return a sentence about a queue that does not exist, with the suggestion of one that does."""
    return f"{what}; did you mean {quote_text(suggestion)}?" if suggestion else f"{what}."
