"""Which names no worker of a queue knows, and the suggestion for them, without an engine."""

from __future__ import annotations

import pytest

from windlass.core.explain.inputs import RegisteredWorker
from windlass.core.explain.unknown_names import UNKNOWN_MAX, NameFacts, find_unknown_names
from windlass.core.operations import ANY_JOB, Filter, WorkerInfo
from windlass.core.text.similar_names import describe_missing_task, suggest_name

NOW = 1_800_000_000_000
MAILER = WorkerInfo(queues=("mail",), names=("send_mail", "check_inbox"))


def worker(info: WorkerInfo = MAILER, *, id: bytes = b"w" * 16, silent_in_ms: int = 5_000) -> RegisteredWorker:  # noqa: A002
    return RegisteredWorker(id=id, info=info, silent_at_ms=NOW + silent_in_ms, beat_ms=10_000, running=0)


def unknown(
    *workers: RegisteredWorker,
    takers: tuple[Filter, ...] = (),
    names: tuple[str, ...] = ("send_mial",),
    strangers: frozenset[bytes] = frozenset(),
    has_more: bool = False,
) -> list[str]:
    facts = NameFacts(
        now_ms=NOW,
        queue="mail",
        names=dict.fromkeys(names, strangers),
        taker_filters=list(takers),
        workers=list(workers),
        has_more_workers=has_more,
    )
    return [found.sentence for found in find_unknown_names(facts)]


SENTENCE = 'No worker has a task called "send_mial"; did you mean "send_mail"?'


def test_a_name_that_no_worker_has_is_reported_with_a_suggestion() -> None:
    assert unknown(worker()) == [SENTENCE]
    assert unknown(worker(), names=("send_mail", "send_mial", "check_inbox")) == [SENTENCE]


def test_without_a_similar_name_nothing_is_suggested() -> None:
    assert unknown(worker(), names=("resize",)) == ['No worker has a task called "resize".']


@pytest.mark.parametrize(
    "other",
    [
        worker(WorkerInfo(queues=("mail",)), id=b"x" * 16),
        worker(WorkerInfo(queues=("mail", "other"), names=("send_mial",)), id=b"x" * 16),
    ],
)
def test_a_worker_that_may_know_the_name_is_enough(other: RegisteredWorker) -> None:
    assert unknown(worker(), other) == []


@pytest.mark.parametrize(
    "other",
    [
        worker(WorkerInfo(queues=("mail",)), id=b"x" * 16, silent_in_ms=-1),
        worker(WorkerInfo(queues=("other",), names=("send_mial",)), id=b"x" * 16),
    ],
)
def test_silent_workers_and_workers_of_other_queues_do_not_count(other: RegisteredWorker) -> None:
    assert unknown(worker(), other) == [SENTENCE]
    assert unknown(other) == []


def test_without_all_workers_nothing_is_reported() -> None:
    assert unknown(worker(), has_more=True) == []
    assert unknown() == []


@pytest.mark.parametrize("wants", [ANY_JOB, Filter(only=("send_mial",)), Filter(glob="send_*"), Filter(all_but=("a",))])
def test_a_waiting_taker_that_wants_the_name_is_enough(wants: Filter) -> None:
    assert unknown(worker(), takers=(wants,)) == []


@pytest.mark.parametrize("wants", [Filter(only=("a",)), Filter(glob="re*"), Filter(all_but=("send_mial",))])
def test_a_waiting_taker_that_wants_other_names_does_not_count(wants: Filter) -> None:
    assert unknown(worker(), takers=(wants,)) == [SENTENCE]


def test_names_of_waiting_takers_are_suggested() -> None:
    takers = (Filter(only=("resize_image",)),)
    assert unknown(worker(), takers=takers, names=("resize_imgae",)) == [
        'No worker has a task called "resize_imgae"; did you mean "resize_image"?'
    ]


def test_a_push_worker_that_refused_the_name_does_not_know_it() -> None:
    pushed = worker(WorkerInfo(queues=("mail",), url="http://w.example"))
    assert unknown(pushed) == []
    assert unknown(pushed, strangers=frozenset({pushed.id})) == ['No worker has a task called "send_mial".']


def test_the_number_of_names_is_bounded() -> None:
    assert len(unknown(worker(), names=tuple(f"n{number}" for number in range(100)))) == UNKNOWN_MAX


def test_suggestions() -> None:
    assert suggest_name("send_mial", ["send_mail", "send_sms"]) == "send_mail"
    assert suggest_name("send_mial", []) == ""
    assert describe_missing_task("This worker has no", "a", "") == 'This worker has no task called "a".'
