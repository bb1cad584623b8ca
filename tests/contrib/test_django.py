"""Django tasks through the backend: a small project with a database and its worker processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import django
import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.db import connection, connections, transaction
from django.test import override_settings
from django.utils import timezone

from tests.support.engine_process import EngineProcess
from windlass import Context, SyncContext, Windlass
from windlass.core.errors import BadInput

pytestmark = pytest.mark.xdist_group("django")  # one worker of the project serves all tests
PROJECT = Path(__file__).parent / "django_project"
ENOUGH_S = 60
SLOTS = 4


class Shop:
    """The project in this process."""

    def __init__(self) -> None:
        from shop import tasks
        from shop.models import Note

        from windlass.contrib.django.interface import ResultDoesNotExist, task_backends

        self.tasks: Any = tasks
        self.notes: Any = Note.objects
        self.backend: Any = task_backends["default"]
        self.does_not_exist: Any = ResultDoesNotExist

    def texts(self) -> list[str]:
        return list(self.notes.order_by("id").values_list("text", flat=True))

    def ended(self, result: Any) -> Any:
        """Wait until the job has ended and return its result."""
        self.backend.app.service.result(_bytes(result.id), wait_ms=ENOUGH_S * 1000).wait()
        result.refresh()
        return result


def _bytes(result_id: str) -> bytes:
    return bytes.fromhex(result_id.replace("-", ""))


def work(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs what there is to run."""
    command = [sys.executable, *arguments, "-c", "1", "--burst"]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=ENOUGH_S, check=False)


MANAGE = ("manage.py", "windlass_worker")


@pytest.fixture(scope="module")
def project(engine: EngineProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_SETTINGS_MODULE", "shop_settings")
        patch.setenv("SHOP_ENGINE", engine.unix_url)
        patch.setenv("SHOP_NAMESPACE", f"django{os.getpid()}")
        patch.setenv("SHOP_DATABASE", str(tmp_path_factory.mktemp("shop") / "shop.sqlite3"))
        patch.syspath_prepend(str(PROJECT))
        django.setup()
        from windlass.contrib.django.application import applications

        shop = Shop()
        with connection.schema_editor() as editor:
            editor.create_model(shop.notes.model)
        yield shop
        connections.close_all()
        for app in applications.values():
            app.close()


@pytest.fixture(scope="module")
def worker(project: Shop) -> Iterator[subprocess.Popen[str]]:
    """One that runs all the time, as `manage.py` starts it."""
    process = subprocess.Popen([sys.executable, *MANAGE, "-q", "default", "-c", str(SLOTS)], cwd=PROJECT)
    yield process
    process.terminate()
    assert process.wait(ENOUGH_S) == 0


@pytest.fixture
def shop(project: Shop) -> Shop:
    project.notes.all().delete()
    return project


def test_a_sync_task_with_the_database(shop: Shop, worker: object) -> None:
    before = timezone.now() - timedelta(seconds=1)
    result = shop.tasks.note.enqueue("hello", times=2)
    assert (result.status, result.args, result.kwargs) == ("READY", ["hello"], {"times": 2})
    assert not result.is_finished
    shop.ended(result)
    assert (result.status, result.return_value, result.errors) == ("SUCCESSFUL", {"times": 2}, [])
    assert before < result.enqueued_at <= result.started_at <= result.finished_at
    assert (result.attempts, result.last_attempted_at) == (1, result.started_at)
    assert shop.texts() == ["hello", "hello"]


def test_an_async_task_with_the_database(shop: Shop, worker: object) -> None:
    shop.notes.create(text="here")
    result = shop.ended(shop.tasks.count.enqueue("here"))
    assert (result.status, result.return_value) == ("SUCCESSFUL", 1)


@pytest.mark.anyio
async def test_from_async_code(shop: Shop, worker: object) -> None:
    result = await shop.tasks.count.aenqueue("nowhere")
    while not result.is_finished:
        await result.arefresh()
    assert result.return_value == 0
    assert (await shop.tasks.count.aget_result(result.id)).return_value == 0


ARGUMENTS = (["text", b"bytes", (1, 2.5, None, True), {"key": [{"deep": "ü"}]}], {"times": 2**53, "more": []})


@pytest.mark.parametrize("has_zone", [True, False])
@pytest.mark.parametrize("is_deferred", [True, False])
def test_all_ways_to_a_result_give_equal_ones(shop: Shop, has_zone: bool, is_deferred: bool) -> None:
    args, kwargs = ARGUMENTS
    with override_settings(USE_TZ=has_zone):
        run_after = timezone.now() + timedelta(hours=1, microseconds=1) if is_deferred else None
        task = shop.tasks.anything.using(priority=7, queue_name="ordered", run_after=run_after)
        results = [task.enqueue(*args, **kwargs), async_to_sync(task.aenqueue)(*args, **kwargs)]
        for result in results:
            _assert_found_equal(result)
            assert (result.task, result.backend, result.status) == (task, "default", "READY")
            assert timezone.is_aware(result.enqueued_at) is has_zone
            shop.backend.app.job(result.id).cancel()


def test_results_of_ended_and_retried_jobs_are_equal(shop: Shop, worker: object) -> None:
    results = [shop.tasks.note.enqueue("well"), shop.tasks.print_label.enqueue(7)]
    run_after = timezone.now() - timedelta(microseconds=1)
    retried = shop.tasks.third_time_lucky.using(run_after=run_after).enqueue("paper")
    assert work(*MANAGE, "--backend", "persistent").returncode == 0
    for result in (*map(shop.ended, results), retried):
        result.refresh()
        _assert_found_equal(result)
    assert retried.task.run_after == run_after


def _assert_found_equal(result: Any) -> None:
    task, before = result.task, replace(result)
    object.__setattr__(before, "_return_value", result._return_value)  # `replace` does not copy it
    assert task.get_result(result.id) == result
    assert async_to_sync(task.aget_result)(result.id) == result
    result.refresh()
    assert result == before
    async_to_sync(result.arefresh)()
    assert result == before


@pytest.mark.parametrize(("name", "argument"), [("print_label", 7), ("print_labels", [7])])
def test_a_task_that_raises_has_failed(shop: Shop, worker: object, name: str, argument: object) -> None:
    result = shop.ended(getattr(shop.tasks, name).enqueue(argument))
    assert (result.status, result.attempts) == ("FAILED", 1)
    (error,) = result.errors
    assert error.exception_class is shop.tasks.OutOfPaper
    assert error.traceback.splitlines()[1].strip().startswith(f'File "{PROJECT / "shop" / "tasks.py"}"')
    assert error.traceback.rstrip().endswith(f"OutOfPaper: for order{'s' * (name == 'print_labels')} {argument}")
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


@pytest.mark.parametrize("name", ["leave", "leave_async", "leave_in_subtask"])
@pytest.mark.parametrize("how", ["SystemExit", "exit", "KeyboardInterrupt", "CancelledError"])
def test_a_task_that_wants_to_end_the_process_has_failed(shop: Shop, worker: object, name: str, how: str) -> None:
    result = shop.ended(getattr(shop.tasks, name).enqueue(how))
    assert (result.status, result.attempts) == ("FAILED", 1)
    assert [error.exception_class.__name__ for error in result.errors] == ["SystemExit" if how == "exit" else how]


def test_no_connection_to_the_database_is_left_open(shop: Shop, worker: object) -> None:
    # More runs than threads, so that some run would find connections that an earlier run left open.
    results = [shop.ended(shop.tasks.finds_an_open_connection.enqueue()) for _ in range(SLOTS + 1)]
    assert [result.return_value for result in results] == [False] * (SLOTS + 1)


def test_what_json_does_not_know_is_not_returned(shop: Shop, worker: object) -> None:
    result = shop.ended(shop.tasks.unspeakable.enqueue())
    assert result.status == "FAILED"
    assert result.errors[0].exception_class is TypeError


def test_the_context(shop: Shop, worker: object) -> None:
    result = shop.ended(shop.tasks.who.enqueue())
    assert result.return_value == [1, "RUNNING", result.worker_ids]


def test_retries_where_the_backend_has_them(shop: Shop) -> None:
    result = shop.tasks.third_time_lucky.enqueue("paper")
    assert work(*MANAGE, "--backend", "persistent").returncode == 0
    result.refresh()
    assert result.return_value == [3, result.id, "paper", 2]
    assert (result.attempts, result.worker_ids) == (3, [result.worker_ids[0]] * 3)
    assert [error.exception_class for error in result.errors] == [shop.tasks.OutOfPaper] * 2
    assert result.started_at <= result.last_attempted_at <= result.finished_at


def test_a_task_that_wants_to_end_the_process_is_retried(shop: Shop) -> None:
    task = shop.tasks.leave.using(backend="persistent", queue_name="persistent")
    results = [task.enqueue("exit"), task.enqueue("KeyboardInterrupt")]
    assert work(*MANAGE, "--backend", "persistent").returncode == 0
    for result, kind in zip(results, (SystemExit, KeyboardInterrupt), strict=True):
        result.refresh()
        assert (result.status, result.attempts) == ("FAILED", 3)
        assert [error.exception_class for error in result.errors] == [kind] * 3


def test_between_two_attempts(shop: Shop) -> None:
    patient = shop.tasks.print_label.using(backend="patient", queue_name="patient")
    result = patient.enqueue(7)
    assert work("-m", "windlass", "worker", "windlass.contrib.django:aliases.patient").returncode == 0
    result.refresh()
    assert (result.status, result.attempts, result.finished_at) == ("READY", 1, None)
    assert [error.exception_class for error in result.errors] == [shop.tasks.OutOfPaper]


def test_larger_priorities_first_and_later_ones_later(shop: Shop) -> None:
    ordered = shop.tasks.note.using(queue_name="ordered")
    for text, priority in (("plain", 0), ("urgent", 100), ("some day", -100), ("also plain", 0)):
        ordered.using(priority=priority).enqueue(text)
    run_after = timezone.now() + timedelta(hours=1)
    deferred = ordered.using(run_after=run_after).enqueue("later")
    assert work("-m", "windlass", "worker", "windlass.contrib.django:app", "-q", "ordered").returncode == 0
    assert shop.texts() == ["urgent", "plain", "also plain", "some day"]
    deferred.refresh()
    assert (deferred.status, deferred.attempts) == ("READY", 0)
    found = shop.backend.get_result(deferred.id)
    assert (found.task.queue_name, found.task.priority) == ("ordered", 0)
    assert abs(found.task.run_after - run_after) < timedelta(milliseconds=2)


def test_a_deferred_task_runs_when_it_is_due(shop: Shop, worker: object) -> None:
    run_after = timezone.now() + timedelta(milliseconds=200)
    result = shop.ended(shop.tasks.note.using(run_after=run_after).enqueue("now"))
    assert result.started_at + timedelta(milliseconds=2) >= run_after


def test_on_commit_only(shop: Shop, worker: object) -> None:
    kept: list[Any] = []
    with transaction.atomic():
        shop.notes.create(text="in here")
        transaction.on_commit(lambda: kept.append(shop.tasks.count.enqueue("in here")))
        assert kept == []
    assert shop.ended(kept[0]).return_value == 1


def test_signals_are_sent(shop: Shop, worker: object) -> None:
    shop.ended(shop.tasks.note.enqueue("signals"))
    shop.ended(shop.tasks.count.enqueue("signals"))
    shop.ended(shop.tasks.print_label.enqueue("signals"))
    statuses = [text.removeprefix("WindlassBackend ") for text in shop.texts() if text != "signals"]
    assert statuses == ["RUNNING", "SUCCESSFUL", "RUNNING", "SUCCESSFUL", "RUNNING", "FAILED"]


def test_a_cancelled_job_has_failed(shop: Shop) -> None:
    result = shop.tasks.note.using(queue_name="ordered").enqueue("never")
    shop.backend.app.job(result.id).cancel()
    result.refresh()
    assert (result.status, result.attempts) == ("FAILED", 0)
    assert [error.exception_class.__name__ for error in result.errors] == ["JobCancelled"]


@pytest.mark.parametrize("result_id", ["nonsense", "01890a5d-ac96-7000-8000-b5c1d0b7a3f2"])
def test_a_result_that_is_not_there(shop: Shop, result_id: str) -> None:
    with pytest.raises(shop.does_not_exist):
        shop.tasks.note.get_result(result_id)


def test_wrong_calls_and_tasks_are_refused_at_once(shop: Shop) -> None:
    from windlass.contrib.django.interface import InvalidTask

    with pytest.raises(TypeError, match="missing a required argument"):
        shop.tasks.note.enqueue()
    with pytest.raises(TypeError, match="Unsupported type"):
        shop.tasks.note.enqueue(object())
    with pytest.raises(InvalidTask, match="Queue"):
        shop.tasks.note.using(queue_name="elsewhere")
    foreign = type(shop.tasks.note)(func=_bytes)
    with pytest.raises(InvalidTask, match=r"OPTIONS\['modules'\]"):
        foreign.enqueue("0")


def test_wrong_settings_are_one_sentence(shop: Shop) -> None:
    from windlass.contrib.django import WindlassBackend
    from windlass.contrib.django.interface import InvalidBackend

    with pytest.raises(InvalidBackend, match=r"TASKS\['other'\]\['OPTIONS'\] has unknown options: color"):
        WindlassBackend("other", {"OPTIONS": {"color": "red"}})
    with pytest.raises(InvalidBackend, match="retry must be"):
        WindlassBackend("other", {"OPTIONS": {"retry": "often"}})
    done = work(*MANAGE, "--backend", "nowhere")
    assert done.returncode == 2
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_banner_lists_the_tasks(shop: Shop) -> None:
    persistent = work(*MANAGE, "--backend", "persistent")
    patient = work(*MANAGE, "--backend", "patient", "--processes", "1")
    assert _shown_tasks(persistent) == "shop.tasks.third_time_lucky"
    # No task is declared for this backend: any of them may come, by `using(backend=…)`.
    assert _shown_tasks(patient).startswith("shop.deferred.remind, shop.tasks.anything, ")


def _shown_tasks(done: subprocess.CompletedProcess[str]) -> str:
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("  tasks ")]
    return line.removeprefix("  tasks ").strip()


def test_workers_import_nothing_but_the_project(shop: Shop) -> None:
    from windlass.contrib.django.task_lookup import TaskNotFound

    assert settings.TASKS["default"]["QUEUES"] == list(shop.backend.app.queues())
    for path, words in (
        ("antigravity.fly", "installed app"),
        ("shop.nowhere.note", "cannot be imported"),
        ("shop.tasks.OutOfPaper", "is not a task"),
        ("shop.models.Note", "is not a task"),
    ):
        with pytest.raises(TaskNotFound, match=words):
            shop.backend.app.find(path)
    assert shop.backend.app.tasks.get("antigravity.fly") is None
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("is_async", [False, True])
def test_a_step_inside_a_transaction_is_refused(shop: Shop, is_async: bool) -> None:
    app = Windlass()

    def note(text: str) -> None:
        with transaction.atomic():  # a step commits its own work before it returns
            shop.notes.create(text=text)

    @app.task
    def task(ctx: SyncContext) -> None:
        ctx.step("outside", note, "outside")
        with transaction.atomic():
            ctx.step("inside", note, "inside")

    @app.task(name="async_task")
    async def async_task(ctx: Context) -> None:
        await ctx.step("outside", asyncio.to_thread, note, "outside")
        await asyncio.to_thread(
            task,
        )

    with pytest.raises(BadInput, match="is inside a transaction"):
        asyncio.run(async_task()) if is_async else task()
    assert shop.texts() == ["outside"] * (2 if is_async else 1)
