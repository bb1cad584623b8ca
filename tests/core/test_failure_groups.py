"""Failure groups and causes, without an engine: consequences are counted for the group of their cause."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.core.test_explain import NOW, job
from windlass.core.flow.cause import blamed_member, direct_cause, trace_cause
from windlass.core.ids import format_id
from windlass.core.job import Attempt, Blob, Codec, Job, Timeline
from windlass.core.states import State
from windlass.core.stats.failure_groups import FailureGrouping


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def attempt(reason: str = "error", error: Any = "no route", ended_at_ms: int = NOW) -> Attempt:
    blob = Blob(msgspec.json.encode(error))
    return Attempt(attempt=1, started_at_ms=None, ended_at_ms=ended_at_ms, worker=None, reason=reason, error=blob)


def failed(number: int, name: str = "n") -> tuple[Job, Attempt]:
    return job(State.FAILED, id=key(number), name=name, ended_at_ms=NOW), attempt()


def consequence(number: int, member: int) -> tuple[Job, Attempt]:
    found = job(State.FAILED, id=key(number), name="later", ended_at_ms=NOW, is_consequence=True)
    return found, attempt("member_failed", format_id(key(member)))


def grouped(*pages: list[tuple[Job, Attempt]]) -> tuple[dict[str, tuple[int, int]], int]:
    """Return (count, consequences) of the groups by name, and the number of other consequences."""
    grouping = FailureGrouping()
    for page in pages:
        grouping.add([item for item, _ in page], {item.id: last for item, last in page})
    groups, others = grouping.result()
    return {group.name: (group.count, group.consequences) for group in groups}, others


def test_a_consequence_is_counted_for_its_cause() -> None:
    assert grouped([consequence(2, 1), failed(1)]) == ({"n": (1, 1)}, 0)


def test_chains_lead_to_the_first_job_on_any_page() -> None:
    pages = [[consequence(4, 3), consequence(3, 2)], [consequence(2, 1), failed(1, "a")], [failed(9, "b")]]
    assert grouped(*pages) == ({"a": (1, 3), "b": (1, 0)}, 0)


def test_consequences_of_several_jobs_of_a_group_are_added() -> None:
    page = [consequence(11, 1), consequence(12, 2), consequence(13, 2), failed(1), failed(2)]
    assert grouped(page) == ({"n": (2, 3)}, 0)


def test_a_cause_that_was_not_examined_is_counted_apart() -> None:
    assert grouped([consequence(3, 2), consequence(2, 1), failed(9)]) == ({"n": (1, 0)}, 2)
    assert grouped([consequence(3, 2)]) == ({}, 1)


def test_a_circle_or_an_unreadable_id_is_no_endless_walk() -> None:
    unreadable = consequence(5, 1)[0], attempt("member_failed", {"any": "error"})
    assert grouped([consequence(1, 2), consequence(2, 1), consequence(3, 3), unreadable]) == ({}, 4)


def test_a_chain_of_ten_thousand_is_resolved_quickly() -> None:
    chain = [consequence(number, number - 1) for number in range(10_000, 1, -1)]
    assert grouped(chain, [failed(1)]) == ({"n": (1, 9_999)}, 0)
    assert grouped(chain[::-1], [failed(1)]) == ({"n": (1, 9_999)}, 0)


# Causes


def timeline(pair: tuple[Job, Attempt]) -> Timeline:
    return Timeline(pair[0], [pair[1]])


@pytest.mark.parametrize("reason", ["member_failed", "member_cancelled"])
def test_an_attempt_names_the_job_because_of_which_it_ended(reason: str) -> None:
    assert blamed_member(attempt(reason, format_id(key(7)))) == key(7)


@pytest.mark.parametrize(
    "last",
    [
        None,
        attempt(),
        attempt("error", format_id(key(7))),
        attempt("member_failed", "not an id"),
        attempt("member_failed", ["a"]),
        msgspec.structs.replace(attempt("member_failed"), error=None),
        msgspec.structs.replace(attempt("member_failed"), error=Blob(b"\xff\x00", Codec.RAW)),
    ],
)
def test_other_attempts_name_no_job(last: Attempt | None) -> None:
    assert blamed_member(last) is None


def test_only_the_last_attempt_of_an_ended_job_counts() -> None:
    ended, last = consequence(2, 1)
    assert direct_cause(Timeline(ended, [last])) == key(1)
    earlier = msgspec.structs.replace(last, ended_at_ms=NOW - 1)
    assert direct_cause(Timeline(ended, [earlier])) is None
    assert direct_cause(Timeline(job(State.WAITING), [last])) is None
    assert direct_cause(Timeline(ended, [])) is None


def test_a_cause_is_the_last_known_job_of_the_chain() -> None:
    known = {item[0].id: timeline(item) for item in (consequence(3, 2), consequence(2, 1), failed(1))}
    cause = trace_cause(key(3), known)
    assert cause is not None
    assert cause.job.id == key(1)
    del known[key(1)]
    nearest = trace_cause(key(3), known)
    assert nearest is not None
    assert nearest.job.id == key(2)
    assert trace_cause(key(2), known) is None
    assert trace_cause(key(9), known) is None
    circle = {item[0].id: timeline(item) for item in (consequence(1, 2), consequence(2, 1))}
    assert trace_cause(key(1), circle) is not None
