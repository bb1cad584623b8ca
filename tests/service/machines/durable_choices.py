"""Choices of the durable machine: steps, waits, signals and jobs. Few names, so that calls meet each other."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.service.machines.choices import backoff, mostly, named, some_of
from windlass.core.durable import StepKind, StepStatus
from windlass.core.job import Blob
from windlass.core.queue import FOREVER_MS

QUEUE, CHILD_QUEUE = "q", "c"
LEASE_MS = 5_000
SIGNALS = ("go", "stop")
REQUEST_IDS = (b"", b"", b"r" * 16, b"s" * 16)
PAUSES_MS = (0, 1, 700, 3_000, 20_000)

picks = st.integers(0, 40)
values = st.integers(0, 99).map(lambda number: Blob(b"%d" % number))
signals = st.sampled_from(SIGNALS)
signal_waits = st.sampled_from(("go?", "go?#2", "stop?"))
names = st.sampled_from(("a", "b", "c", "nap", "go?", "rows", "gather"))

oddities = some_of(
    3,
    *named("retry", backoff(1), backoff(2), backoff(3)),
    *named("repeat", "FINISHED, +0 SECONDS", "FINISHED, +2 SECONDS"),
    *named("expires_in_ms", 600, 4_000),
    *named("delay_ms", 700),
    *named("result_ttl_ms", FOREVER_MS),
    *named("retake", True),
)


def _stored(kind: StepKind, status: StepStatus, *names: str) -> tuple[dict[str, Any], ...]:
    return tuple({"kind": kind, "status": status, "name": name} for name in names)


outcomes = st.sampled_from(
    (
        *_stored(StepKind.STEP, StepStatus.DONE, "a", "a", "b", "c", "nap"),
        *_stored(StepKind.STEP, StepStatus.FAILED, "a", "b"),
        *_stored(StepKind.CURSOR, StepStatus.WAITING, "rows", "rows"),
        *_stored(StepKind.CURSOR, StepStatus.DONE, "rows"),
        *_stored(StepKind.SLEEP, StepStatus.DONE, "nap"),
        *_stored(StepKind.CHILDREN, StepStatus.DONE, "gather"),
    )
)
# Kind, name, and what belongs to it. Children are added by the machine.
_pauses = st.sampled_from(PAUSES_MS)
_sleeps = st.builds(
    lambda name, ms: {"kind": "sleep", "name": name, "for_ms": ms}, mostly("nap", "nap#2", "a"), _pauses
)
_waits_for_signals = st.builds(
    lambda name, ms, schema: {
        "kind": "signal", "name": name, "signal": name.partition("?")[0], "for_ms": ms, "schema": schema,
    },
    signal_waits,
    st.sampled_from((None, *PAUSES_MS)),
    mostly(None, Blob(b'{"type":"integer"}')),
)  # fmt: skip
_retries = st.builds(
    lambda name, ms, tries: {"kind": "retry", "name": name, "for_ms": ms, "tries": tries, "error": Blob(b"1")},
    st.sampled_from(("a", "b", "rows")),
    _pauses,
    st.integers(1, 3),
)
_gathers = st.builds(
    lambda needs_all, ms: {"kind": "children", "name": "gather", "needs_all": needs_all, "for_ms": ms},
    st.booleans(),
    mostly(None, 3_000),
)
waits = st.lists(
    st.one_of(_sleeps, _waits_for_signals, _waits_for_signals, _retries, _gathers),
    min_size=1,
    max_size=3,
    unique_by=lambda wait: str(wait["name"]),
)
instants = st.sampled_from((1, 700, 3_000, LEASE_MS, 20_000))
