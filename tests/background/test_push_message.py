"""The meaning of a worker's answer to a push, as its document describes it."""

from __future__ import annotations

import pytest

from windlass.background.push_message import outcome_of, pause_ms_of
from windlass.wire.push.worker_document import RESPONSES

EXPECTED = {
    "202": "accepted", "2XX": "accepted", "400": None, "404": "unknown", "410": "gone", "413": None, "415": None,
    "422": None, "429": "busy", "5XX": "unreachable", "default": "unreachable",
}  # fmt: skip


def test_every_status_has_the_meaning_that_the_document_gives() -> None:
    assert set(RESPONSES) == set(EXPECTED)
    for status in range(200, 600):
        kinds = (str(status), f"{status // 100}XX", "default")
        assert outcome_of(status) == next(EXPECTED[kind] for kind in kinds if kind in EXPECTED), status


@pytest.mark.parametrize(
    ("text", "pause_ms"),
    [
        ("1", 1_000),
        (" 7 ", 7_000),
        ("0", 0),
        ("3600", 60_000),
        ("-1", 0),
        ("1.5", 0),
        ("", 0),
        ("٣", 0),
        ("9" * 5000, 0),
    ],
)
def test_retry_after_is_bounded(text: str, pause_ms: int) -> None:
    assert pause_ms_of({"retry-after": text}) == pause_ms
    assert pause_ms_of({}) == 0
