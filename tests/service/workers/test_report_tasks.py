"""report_tasks, tasks: sums that workers report, read per task with percentiles, workers and failures."""

from __future__ import annotations

import random

import pytest

from tests.service.admin.doctor_findings import assert_healthy
from tests.service.helpers import new, put, take
from tests.support.namespace import dump_keys, list_keys, send_command
from windlass.core.errors import UnknownWorker
from windlass.core.job import Blob
from windlass.core.operations import Fail, WorkerInfo
from windlass.core.stats import task_figures
from windlass.core.stats.task_figures import BUCKET_MAX, TASKS_KEPT, TaskFigures, TaskSums, bucket_of
from windlass.service import Service

WORKER, OTHER = b"w" * 16, b"v" * 16
MAILER = WorkerInfo(host="h", queues=("mail",), name="mailer", names=("send_mail", "check_inbox"))
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
PAST_CACHE_MS = 5_001


@pytest.fixture
def mailing(service: Service) -> Service:
    service.register(WORKER, MAILER, beat_ms=HOUR_MS).wait()
    return service


def sums(queue: str = "mail", name: str = "send_mail", *, runs_ms: tuple[float, ...] = (), **counts: int) -> TaskSums:
    runs: dict[int, int] = {}
    for run_ms in runs_ms:
        runs[bucket_of(run_ms)] = runs.get(bucket_of(run_ms), 0) + 1
    return TaskSums(queue=queue, name=name, runs=runs, **counts)


def pass_time(service: Service, by_ms: int = PAST_CACHE_MS) -> None:
    service.store.clock_offset_ms += by_ms


# Percentiles


@pytest.mark.parametrize("scale", [0.3, 7, 900, 60_000, 5_000_000])
def test_percentiles_are_within_a_bucket_of_the_exact_values(mailing: Service, scale: float) -> None:
    chance = random.Random(7)
    runs_ms = tuple(chance.lognormvariate(0, 1) * scale for _ in range(2_000))
    mailing.report_tasks(WORKER, 1, [sums(runs_ms=runs_ms)]).wait()
    found = mailing.task("send_mail").wait().figures
    assert found.finished == 2_000
    exact = sorted(runs_ms)
    for share, measured in ((0.5, found.run_p50_ms), (0.95, found.run_p95_ms), (0.99, found.run_p99_ms)):
        assert measured == pytest.approx(exact[int(share * 2_000) - 1], rel=0.25, abs=1)


def test_every_run_time_is_within_its_bucket() -> None:
    for run_ms in (0, 0.9, 1, 1.24, 1.25, 1.99, 2, 3, 7.99, 8, 1023, 1024, 86_400_000):
        low, high = task_figures.bucket_bounds(bucket_of(run_ms))
        assert low <= run_ms < high
    assert bucket_of(2.0**60) == BUCKET_MAX


def test_without_runs_there_are_no_percentiles() -> None:
    assert TaskFigures().run_p99_ms is None


# Sums over time and queues


def test_reports_are_added_up(mailing: Service) -> None:
    mailing.report_tasks(WORKER, 1, [sums(runs_ms=(5, 9), failed=1)]).wait()
    mailing.report_tasks(WORKER, 2, [sums(runs_ms=(5,), retried=2, cancelled=3), sums("bulk", runs_ms=(5,))]).wait()
    found = mailing.task("send_mail").wait()
    assert found.queues == ("bulk", "mail")
    assert (found.figures.finished, found.figures.failed, found.figures.retried) == (4, 1, 2)
    assert (found.figures.cancelled, found.figures.failed_attempts) == (3, 3)
    assert found.figures.runs == {bucket_of(5): 3, bucket_of(9): 1}
    assert found.reported_at_ms is not None


def test_a_report_that_is_sent_again_counts_once(mailing: Service) -> None:
    for _ in range(3):
        assert mailing.report_tasks(WORKER, 7, [sums(runs_ms=(5,))]).wait() == 0
    assert mailing.task("send_mail").wait().figures.finished == 1


def test_a_worker_that_is_not_registered_must_register_first(service: Service) -> None:
    before = dump_keys(service.store)
    with pytest.raises(UnknownWorker):
        service.report_tasks(WORKER, 1, [sums(runs_ms=(5,))]).wait()
    assert dump_keys(service.store) == before


def test_steps_of_a_history(mailing: Service) -> None:
    mailing.store.clock_offset_ms = -(mailing.now().wait() % HOUR_MS) + HOUR_MS  # the next full hour
    mailing.report_tasks(WORKER, 1, [sums(runs_ms=(5, 5))]).wait()
    pass_time(mailing, MINUTE_MS)
    mailing.report_tasks(WORKER, 2, [sums(failed=1)]).wait()
    pass_time(mailing, 15 * MINUTE_MS)
    by_minute = mailing.task("send_mail", steps=60).wait().steps
    assert [(step.finished, step.failed) for step in by_minute] == [(2, 0), (0, 1)]
    assert by_minute[1].at_ms - by_minute[0].at_ms == MINUTE_MS
    by_quarter = mailing.task("send_mail", step_minutes=15, steps=2).wait().steps
    assert [(step.finished, step.failed) for step in by_quarter] == [(2, 1)]
    assert mailing.task("send_mail", step_minutes=15, steps=1).wait().figures == TaskFigures()


def test_figures_expire_after_two_days(mailing: Service) -> None:
    mailing.report_tasks(WORKER, 1, [sums(runs_ms=(5,))]).wait()
    stored = [key for key in list_keys(mailing.store) if key.startswith((b"tm:", b"tasks"))]
    assert len(stored) == 2
    for key in stored:
        assert 0 < send_command(mailing.store, "TTL", f"{mailing.store.root(0)}:".encode() + key) <= 48 * 3600
    pass_time(mailing, 49 * HOUR_MS)
    mailing.register(OTHER, MAILER, beat_ms=HOUR_MS).wait()
    mailing.report_tasks(OTHER, 1, [sums(name="check_inbox", runs_ms=(5,))]).wait()
    assert mailing.task("send_mail").wait().reported_at_ms is None
    assert_healthy(mailing)


def test_the_number_of_tasks_is_bounded(mailing: Service) -> None:
    for number in range(TASKS_KEPT // 500):
        part = [sums(name=f"n{number}-{at}", failed=1) for at in range(500)]
        assert mailing.report_tasks(WORKER, 1 + number, part).wait() == 0
    assert mailing.report_tasks(WORKER, 100, [sums(failed=1), sums(name="n0-0", failed=1)]).wait() == 1
    assert mailing.task("send_mail").wait().figures.failed == 0
    assert mailing.task("n0-0").wait().figures.failed == 2
    pass_time(mailing, 49 * HOUR_MS)
    mailing.register(WORKER, MAILER, beat_ms=HOUR_MS).wait()
    assert mailing.report_tasks(WORKER, 101, [sums(failed=1)]).wait() == 0, "places of expired tasks are free"


def test_large_counts_do_not_overflow(mailing: Service) -> None:
    for number in (1, 2):
        mailing.report_tasks(WORKER, number, [sums(failed=2**32 - 1)]).wait()
    assert mailing.task("send_mail").wait().figures.failed == 2**32 - 1


# Lists, workers and failures


def fail_one(service: Service, queue: str, name: str, message: bytes = b'{"type": "E", "message": "boom"}') -> None:
    put(service, new(queue, name))
    (job,) = take(service, queue)
    service.fail([Fail(id=job.id, token=job.lease_token, then="final", error=Blob(message))]).wait()


def test_the_list_has_tasks_that_ran_are_known_or_failed(mailing: Service) -> None:
    mailing.report_tasks(WORKER, 1, [sums(name="old_name", runs_ms=(5,) * 10, retried=4)]).wait()
    fail_one(mailing, "video", "cut")
    found = {task.name: task for task in mailing.tasks().wait()}
    assert list(found) == ["check_inbox", "cut", "old_name", "send_mail"]
    assert (found["old_name"].workers, found["old_name"].figures.failed_attempts) == (0, 4)
    assert (found["send_mail"].workers, found["send_mail"].queues) == (1, ())
    assert (found["cut"].failures, found["cut"].queues) == (1, ("video",))


def test_the_page_names_workers_and_errors(mailing: Service) -> None:
    fail_one(mailing, "mail", "send_mail")
    fail_one(mailing, "mail", "send_mailing")
    found = mailing.task("send_mail").wait()
    assert [(worker.name, worker.queues) for worker in found.workers] == [("mailer", ("mail",))]
    assert [(group.name, group.count) for group in found.failures] == [("send_mail", 1)]
    assert found.has_all_failures
    assert found.is_known


def test_a_name_with_pattern_characters_is_exact(mailing: Service) -> None:
    fail_one(mailing, "mail", "send_mail")
    fail_one(mailing, "mail", "send[*]")
    assert [group.name for group in mailing.task("send[*]").wait().failures] == ["send[*]"]


def test_silent_workers_do_not_know_a_task(service: Service) -> None:
    service.register(WORKER, MAILER, beat_ms=1_000).wait()
    pass_time(service, 6_000)
    assert service.tasks().wait() == []


def test_an_unknown_task_is_empty_with_a_suggestion(mailing: Service) -> None:
    found = mailing.task("send_mial").wait()
    assert (found.is_known, found.suggestion, found.figures) == (False, "send_mail", TaskFigures())


def test_a_caller_sees_only_its_queues(mailing: Service) -> None:
    mailing.register(OTHER, WorkerInfo(queues=("video",), names=("cut", "send_mail")), beat_ms=HOUR_MS).wait()
    mailing.report_tasks(WORKER, 1, [sums(runs_ms=(5,)), sums("video", runs_ms=(5, 5)), sums("video", "cut")]).wait()
    fail_one(mailing, "video", "send_mail")
    mine = mailing.task("send_mail", queues=("mail",)).wait()
    assert (mine.queues, mine.figures.finished, mine.failures) == (("mail",), 1, [])
    assert [worker.name for worker in mine.workers] == ["mailer"]
    listed = mailing.tasks(queues=("mail",)).wait()
    assert [task.name for task in listed] == ["check_inbox", "send_mail"]
    assert [task.figures.finished for task in listed] == [0, 1]
    assert mailing.task("cut", queues=("mail",)).wait().is_known is False
    assert mailing.task("cu", queues=("mail",)).wait().suggestion == ""
