"""Surveys of very many queues, the cache of their names, and pages of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.service.helpers import another, new, put, take
from windlass.core.operations import Listing
from windlass.service import Service
from windlass.service import queues as queue_operations
from windlass.store.cache import queue_survey
from windlass.store.store import Store

AT_ONCE = 20
QUEUES = 70


@pytest.fixture
def many(service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """Return the service of a server that reads 20 queues at once, of a deployment with 70."""
    monkeypatch.setattr(queue_survey, "EXACT_MAX", AT_ONCE // 2)
    monkeypatch.setattr(queue_survey, "SURVEYED_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(queue_survey, "BUSY_MAX", 3)
    monkeypatch.setattr(queue_survey, "BUSIEST_MAX", 3)
    service.store.queue_surveys.reads_in_turns = True
    put(service, *(new(queue=_name(at)) for at in range(QUEUES)))
    return service


def _name(number: int) -> str:
    return f"q{number:02}"


def _pass(service: Service, ms: int = 1_000) -> None:
    service.store.clock_offset_ms += ms


def test_few_queues_are_read_each_time(service: Service) -> None:
    put(service, new(queue="b"), new(queue="a"), new(queue="a"))
    survey = service.survey().wait()
    assert [(stats.queue, stats.queued) for stats in survey.stats] == [("a", 2), ("b", 1)]
    assert (survey.queue_count, survey.totals["queued"], survey.is_in_turns) == (2, 3, False)
    put(service, new(queue="c"))
    survey = service.survey().wait()
    assert [stats.queue for stats in survey.busiest] == ["a", "b", "c"]
    assert survey.totals["queued"] == 4


def test_many_queues_are_read_in_turns_until_all_are_known(many: Service) -> None:
    survey = many.survey().wait()
    assert (survey.queue_count, len(survey.stats), survey.read_since_ms) == (QUEUES, AT_ONCE, None)
    for _ in range(QUEUES // (AT_ONCE - 6) + 1):
        _pass(many)
        survey = many.survey().wait()
    assert [stats.queue for stats in survey.stats] == [_name(at) for at in range(QUEUES)]
    assert survey.totals["queued"] == QUEUES
    assert survey.read_since_ms is not None


def test_nothing_is_read_again_within_a_second(many: Service) -> None:
    many.survey().wait()
    assert len(many.survey().wait().stats) == AT_ONCE
    _pass(many)
    assert len(many.survey().wait().stats) > AT_ONCE


def test_queues_with_running_jobs_are_read_first(many: Service) -> None:
    (job,) = take(many, _name(QUEUES - 1))
    assert job.queue in {stats.queue for stats in many.survey().wait().stats if stats.running}


def test_the_busiest_queues_are_read_each_time(many: Service) -> None:
    put(many, *(new(queue=_name(2)) for _ in range(9)))
    assert many.survey().wait().busiest[0].queued == 10
    put(many, new(queue=_name(2)))
    _pass(many)
    survey = many.survey().wait()
    assert (survey.busiest[0].queue, survey.busiest[0].queued) == (_name(2), 11)
    assert survey.totals["queued"] == sum(stats.queued for stats in survey.stats)


def test_a_removed_queue_leaves_the_figures(many: Service) -> None:
    many.configure("a", {"max_length": 1}).wait()
    put(many, new(queue="a"))
    assert many.survey().wait().totals["queued"] == AT_ONCE
    (found,) = many.jobs(Listing(queue="a", state="queued")).wait().jobs
    many.delete([found.id]).one().wait()
    assert many.remove_queue("a").wait()
    _pass(many)
    survey = many.survey().wait()
    assert "a" not in {stats.queue for stats in survey.stats}
    assert survey.totals["queued"] == sum(stats.queued for stats in survey.stats) == len(survey.stats)


def test_a_process_without_turns_reads_all(many: Service) -> None:
    alone = another(many)
    try:
        survey = alone.survey().wait()
        assert (len(survey.stats), survey.is_in_turns) == (QUEUES, False)
    finally:
        alone.store.close_sync()


def test_a_survey_has_the_queues_of_its_caller(many: Service) -> None:
    put(many, new(queue="other"))
    survey = many.survey((_name(0)[:2] + "*",)).wait()
    assert [stats.queue for stats in survey.stats] == [_name(at) for at in range(10)]
    assert not survey.is_in_turns
    assert many.survey(("other",)).wait().totals["queued"] == 1


def test_a_list_over_known_queues_is_not_complete(many: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.service.jobs.MERGED_MAX", 50)
    page = many.jobs_within(Listing(state="queued", most=500), ()).wait()
    assert (len(page.jobs), page.is_complete) == (AT_ONCE, False)
    everything = many.jobs(Listing(state="queued", most=500)).wait()
    assert (len(everything.jobs), everything.is_complete) == (50, False)


@pytest.fixture
def named(service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setattr(queue_operations, "MANY_QUEUES", 3)
    put(service, *(new(queue=_name(at)) for at in range(5)))
    assert len(service.queues().wait()) == 5
    return service


def test_names_of_many_queues_are_kept_for_5_seconds(named: Service) -> None:
    put(named, new(queue="new"))
    assert "new" not in named.queues().wait()
    _pass(named, 5_000)
    assert "new" in named.queues().wait()


def test_a_queue_that_this_process_removes_is_gone_at_once(named: Service) -> None:
    named.configure("idle", {"max_length": 1}).wait()
    _pass(named, 5_000)
    assert "idle" in named.queues().wait()
    assert named.remove_queue("idle").wait()
    assert "idle" not in named.queues().wait()


def test_names_of_few_queues_are_read_each_time(service: Service) -> None:
    put(service, new(queue="a"))
    assert service.queues().wait() == ["a"]
    put(service, new(queue="b"))
    assert service.queues().wait() == ["a", "b"]


def test_pages_of_queues_cover_all_once(divided_store: Callable[[int], Store]) -> None:
    service = Service(divided_store(3))
    put(service, *(new(queue=_name(at)) for at in range(25)))
    seen, after = [], ""
    while True:
        page = service.queues_page(after=after, most=10).wait()
        seen += [stats.queue for stats in page.stats]
        after = page.after
        if not after:
            break
    assert seen == [_name(at) for at in range(25)]
    assert len(service.queues_page(most=25).wait().stats) == 25
    assert service.queues_page(most=25).wait().after == ""
    page = service.queues_page(after=_name(3), most=3, queues=("q1*",)).wait()
    assert ([stats.queue for stats in page.stats], page.after) == (["q10", "q11", "q12"], "q12")
