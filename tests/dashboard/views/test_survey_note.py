"""Sentence of the overview about figures of very many queues."""

from __future__ import annotations

import msgspec

from windlass.core.queue import QueueSurvey, survey_of
from windlass.dashboard.views.survey_note import describe_survey

SURVEY = msgspec.structs.replace(survey_of([], 0), queue_count=70_000, is_in_turns=True)


def _at(since_ms: int | None) -> QueueSurvey:
    return msgspec.structs.replace(SURVEY, read_since_ms=since_ms)


def test_queues_that_are_all_read_need_no_sentence() -> None:
    assert describe_survey(survey_of([], 5), 90_000) == ""


def test_the_sentence_names_the_part_that_was_read() -> None:
    assert "are of 0 of 70\u202f000 queues" in describe_survey(_at(None), 0)


def test_the_sentence_names_the_age_of_the_oldest_figure() -> None:
    assert describe_survey(_at(1_000), 43_500).endswith("up to 42 seconds old.")
    assert describe_survey(_at(1_000), 2_000).endswith("up to 1 second old.")
