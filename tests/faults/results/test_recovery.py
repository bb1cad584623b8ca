"""Times of recovery from a history: the jobs of a killed worker count once, and only if it still held them."""

from __future__ import annotations

from faults.checks import HistoryIndex
from faults.history import CallName, Entry, JobFacts, Phase
from faults.results.crossings import count_crossings
from faults.results.recovery import Injected, Recovery, count_repeated_runs, measure_recovery

MS = 1_000_000


class HistoryDraft:
    """A history that a test writes call by call."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def call(
        self, client: str, call: CallName, from_ms: int, until_ms: int, phase: Phase = "ok", **facts: object
    ) -> None:
        number = len(self.entries)
        known = JobFacts(id="1" * 32, **facts)  # type: ignore[arg-type]
        for at_ms, what in ((from_ms, "begun"), (until_ms, phase)):
            jobs = () if call == "take" and what == "begun" else (known,)
            if at_ms:
                self.entries.append(
                    Entry(at_ns=at_ms * MS, client=client, n=number, call=call, phase=what, jobs=jobs)  # type: ignore[arg-type]
                )


def kill(target: str, at_ms: int) -> Injected:
    return Injected(
        fault="worker-kill", target=target, begun_ns=at_ms * MS, undone_ns=(at_ms + 100) * MS, length_s=0.1
    )  # fmt: skip


def measured(history: HistoryDraft, *kills: Injected) -> Recovery:
    return measure_recovery(HistoryIndex(history.entries), kills)


def test_a_held_job_runs_again() -> None:
    history = HistoryDraft()
    history.call("producer", "enqueue", 10, 20)
    history.call("worker", "take", 30, 40, token=1)
    history.call("other", "take", 50, 1_040, token=2)
    history.call("producer", "enqueue", 210, 230)
    assert measured(history, kill("worker", 100), kill("worker", 110)) == Recovery(
        acknowledged={"worker-kill": [20, 30]}, ran_again={"worker-kill": [940]}
    )


def test_a_run_of_the_sdk_that_was_cut_runs_again() -> None:
    history = HistoryDraft()
    history.call("worker", "run", 30, 0, token=1)
    history.call("worker", "run", 700, 800, token=2)
    assert measured(history, kill("worker", 100)).ran_again == {"worker-kill": [600]}


def test_a_job_that_had_ended_does_not_count() -> None:
    history = HistoryDraft()
    history.call("worker", "take", 30, 40, token=1)
    history.call("worker", "finish", 50, 0, token=1)
    history.call("other", "take", 50, 1_040, token=2)
    assert measured(history, kill("worker", 100)).ran_again == {}


def test_a_job_of_another_worker_does_not_count() -> None:
    history = HistoryDraft()
    history.call("worker", "take", 30, 40, token=1)
    history.call("other", "take", 50, 60, token=2)
    history.call("third", "take", 70, 1_040, token=3)
    assert measured(history, kill("worker", 100)).ran_again == {}


def test_runs_without_a_report_between_them_are_repeated() -> None:
    history = HistoryDraft()
    history.call("worker", "take", 30, 40, token=1)
    history.call("worker", "fail", 50, 60, token=1)
    history.call("worker", "take", 70, 80, token=2)
    assert count_repeated_runs(HistoryIndex(history.entries)) == 0
    history.call("other", "take", 90, 1_100, token=3)
    assert count_repeated_runs(HistoryIndex(history.entries)) == 1


def test_a_job_crosses_if_a_worker_of_another_front_end_has_it() -> None:
    history = HistoryDraft()
    history.call("producer-bedrock", "enqueue", 10, 20)
    history.call("worker-bedrock", "take", 30, 40)
    assert count_crossings(HistoryIndex(history.entries)) == 0
    history.call("worker-sdk", "take", 50, 60, token=1)
    assert count_crossings(HistoryIndex(history.entries)) == 1
