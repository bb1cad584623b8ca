"""Sentence about figures of very many queues, which are not all read at once."""

from __future__ import annotations

from windlass.core.queue import QueueSurvey
from windlass.core.text.humanize import pluralize

from .formats import count


def describe_survey(survey: QueueSurvey, now_ms: int) -> str:
    """Return the sentence; empty: all queues were read at once."""
    if not survey.is_in_turns:
        return ""
    if survey.read_since_ms is None:
        return (
            f"These figures are of {count(len(survey.stats))} of {count(survey.queue_count)} queues. There are too "
            "many to read at once: the others follow with each update of this page."
        )
    age_s = max(0, now_ms - survey.read_since_ms) // 1000
    return (
        f"The {count(survey.queue_count)} queues are read in turns, the busiest with each update: figures of others "
        f"are up to {pluralize(age_s, 'second')} old."
    )
