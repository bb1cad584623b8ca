"""The rules about durable jobs: a correct history has no finding, and each violation has its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from faults.checks import FinalState, Guarantees, check_entries, durable
from faults.checks.final_state import FinalDurable, FinalJob, FinalStep
from faults.history import CallName, DurableFacts, Entry, JobFacts

JOB, NAP_MS, MS = "a" * 32, 500, 1_000_000


class DurableHistory:
    """A job with a step, a sleep, a signal and a stream. It lost its first lease during the sleep."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.now_ms = 0
        self.steps = {
            "charge": self.step("charge", "step", "v1", ended=20),
            "nap": self.step("nap", "sleep", "", begun=30, ended=530, wake=530),
            "go": self.step("go", "signal", "s1", ended=600),
        }
        self.unread: tuple[str, ...] = ("s2",)
        self.stream: tuple[str | None, ...] = ("0", None, "1")
        self.call("enqueue", jobs=[JobFacts(key="k", id=JOB)], answered=[JobFacts(outcome="queued")])
        self.run(1)
        self.call("work", name="charge", token=1, value="v1")
        self.call("step", name="charge", token=1, answer={"value": "v1"})
        self.call("write", token=1, values=("0",))
        self.call("signal", value="s1", answer={"outcome": "kept"})
        self.call("sleep", name="nap", token=1, length_ms=NAP_MS, phase="unknown")
        self.now_ms = 560
        self.run(2)
        self.call("step", name="charge", token=2, answer={"value": "v1"})
        self.call("sleep", name="nap", token=2, length_ms=NAP_MS)
        self.call("wait", name="go", token=2, answer={"value": "s1"})
        self.call("signal", value="s2", answer={"outcome": "kept"})
        self.call("write", token=2, values=("1",))
        self.call("read", after=0, answer={"values": ("0", None)})
        self.call("read", after=2, answer={"values": ("1",)})

    def step(
        self, name: str, kind: str, value: str, *, begun: int = 10, ended: int | None = None, wake: int | None = None
    ) -> FinalStep:
        return FinalStep(
            name=name, kind=kind, value=value, begun_at_ms=begun, ended_at_ms=ended, wake_at_ms=wake
        )  # fmt: skip

    def run(self, token: int) -> None:
        self.call("run", jobs=[JobFacts(id=JOB, token=token)], phase="unknown")

    def call(
        self,
        call: CallName,
        *,
        jobs: list[JobFacts] | None = None,
        answered: list[JobFacts] | None = None,
        phase: Any = "ok",
        answer: dict[str, Any] | None = None,
        **facts: Any,
    ) -> None:
        requested = None if jobs else DurableFacts(job=JOB, **facts)
        given = None if requested is None else msgspec.structs.replace(requested, **(answer or {}))
        lines = [("begun", jobs, requested), (phase, answered, given)]
        for kind, about, durable_facts in lines[:1] if call == "work" or phase == "unknown" else lines:
            self.now_ms += 5
            self.entries.append(
                Entry(
                    at_ns=self.now_ms * MS, client="client", n=0,
                    call=call, phase=kind, jobs=tuple(about or ()), durable=durable_facts,
                )
            )  # fmt: skip
        self._number()

    def _number(self) -> None:
        """Give both lines of a call one number."""
        number, numbered = 0, []
        for entry in self.entries:
            number += entry.phase == "begun"
            numbered.append(msgspec.structs.replace(entry, n=number))
        self.entries = numbered

    def findings(self, **guarantees: Any) -> set[str]:
        stored = FinalDurable(steps=tuple(self.steps.values()), unread=self.unread, stream=self.stream)
        final = FinalState(jobs={JOB: FinalJob(id=JOB, key="k", state="finished")}, durable={JOB: stored})
        return {finding.rule for finding in check_entries(self.entries, final, Guarantees(slack_ms=20, **guarantees))}


def test_a_correct_history_has_no_finding() -> None:
    assert DurableHistory().findings() == set()


def test_a_failover_may_lose_acknowledged_steps() -> None:
    history = DurableHistory()
    history.unread = ()
    assert history.findings() == {durable.SIGNAL_LOST}
    assert history.findings(may_lose_reports=True, lost_allowed="any") == set()


def test_a_signal_without_an_answer_may_be_lost() -> None:
    history = DurableHistory()
    history.call("signal", value="s3", phase="unknown")
    assert history.findings() == set()


def the_function_is_called_again(history: DurableHistory) -> None:
    history.call("work", name="charge", token=2, value="v2")


def a_replay_gets_another_value(history: DurableHistory) -> None:
    history.call("step", name="charge", token=2, answer={"value": "v2"})


def another_value_is_stored(history: DurableHistory) -> None:
    history.steps["charge"] = history.step("charge", "step", "v2", ended=20)


def an_acknowledged_step_is_not_stored(history: DurableHistory) -> None:
    del history.steps["charge"]


def an_old_token_stores_a_value(history: DurableHistory) -> None:
    history.call("store", name="other", token=1, value="v3")
    history.steps["other"] = history.step("other", "step", "v3", ended=700)


def an_acknowledged_signal_is_gone(history: DurableHistory) -> None:
    history.unread = ()


def a_signal_stays_after_its_wait(history: DurableHistory) -> None:
    history.unread = ("s1", "s2")


def two_waits_receive_one_signal(history: DurableHistory) -> None:
    history.steps["go#2"] = history.step("go#2", "signal", "", ended=700)
    history.call("wait", name="go#2", token=2, answer={"value": "s1"})


def a_sleep_is_over_early(history: DurableHistory) -> None:
    history.call("sleep", name="other nap", token=2, length_ms=NAP_MS)


def the_engine_ends_a_sleep_early(history: DurableHistory) -> None:
    history.steps["nap"] = history.step("nap", "sleep", "", begun=30, ended=500, wake=530)


def the_end_of_a_sleep_is_moved(history: DurableHistory) -> None:
    history.steps["nap"] = history.step("nap", "sleep", "", begun=30, ended=700, wake=700)


def a_value_is_written_twice(history: DurableHistory) -> None:
    history.stream = ("0", None, "1", "1")


def a_written_value_is_gone(history: DurableHistory) -> None:
    history.call("write", token=2, values=("2",))


def a_piece_was_different(history: DurableHistory) -> None:
    history.call("read", after=1, answer={"values": ("0",)})


VIOLATIONS: tuple[tuple[Callable[[DurableHistory], None], str], ...] = (
    (the_function_is_called_again, durable.RAN_AGAIN),
    (a_replay_gets_another_value, durable.CHANGED),
    (another_value_is_stored, durable.CHANGED),
    (an_acknowledged_step_is_not_stored, durable.CHANGED),
    (an_old_token_stores_a_value, durable.OLD_TOKEN),
    (an_acknowledged_signal_is_gone, durable.SIGNAL_LOST),
    (a_signal_stays_after_its_wait, durable.SIGNAL_TWICE),
    (two_waits_receive_one_signal, durable.SIGNAL_TWICE),
    (a_sleep_is_over_early, durable.TOO_SHORT),
    (the_engine_ends_a_sleep_early, durable.TOO_SHORT),
    (the_end_of_a_sleep_is_moved, durable.STARTED_OVER),
    (a_value_is_written_twice, durable.STREAM),
    (a_written_value_is_gone, durable.STREAM),
    (a_piece_was_different, durable.STREAM),
)


@pytest.mark.parametrize(("violate", "rule"), VIOLATIONS, ids=lambda value: getattr(value, "__name__", value))
def test_a_violation_is_found(violate: Callable[[DurableHistory], None], rule: str) -> None:
    history = DurableHistory()
    violate(history)
    assert history.findings() == {rule}


@pytest.mark.parametrize(
    ("violate", "rule"),
    [(a_signal_stays_after_its_wait, durable.SIGNAL_TWICE), (the_engine_ends_a_sleep_early, durable.TOO_SHORT)],
)
def test_what_is_stored_agrees_with_itself_also_after_a_failover(
    violate: Callable[[DurableHistory], None], rule: str
) -> None:
    history = DurableHistory()
    violate(history)
    assert history.findings(may_lose_reports=True, lost_allowed="any") == {rule}
