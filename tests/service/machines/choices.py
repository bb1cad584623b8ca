"""Choices of the state machine: jobs, takes, configurations, edits. Few values, so that features interact."""

from __future__ import annotations

import hashlib
from typing import Any

from hypothesis import strategies as st

from windlass.core.ids import make_id
from windlass.core.job import Blob, Callback, Codec
from windlass.core.operations import Filter, Take
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import Backoff

QUEUES = ("q", "r")
SOLO = "solo"  # never configured, and has no taker
NAMES = ("a", "b", "ab")
WORKERS = tuple(bytes([n]) * 16 for n in (1, 2, 3))
WAKEUP_LISTS = ("bell1", "bell2")
REFUSED_MOST = 2  # a taker of so many asks by name even where that is refused
HOOKS = (Callback(url="http://h/"), Callback(url="http://i/", events=("failed", "cancelled")))
LONG = b"x" * 1500  # longer than a change rewrites
SEVERAL_REPEATED_IDS = 6


def id_of(number: int) -> bytes:
    """Return an id. Ids have no order, and are the same in each run."""
    return make_id(0, 0, int.from_bytes(hashlib.blake2b(b"%d" % number, digest_size=8).digest(), "big"))


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from((usual, usual, usual, *others))


def some_of(most: int, *pairs: tuple[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Choose a few unusual fields: fewer draws than one per field, and a failure shows only relevant fields."""
    return st.lists(st.sampled_from(pairs), max_size=most).map(dict)


def named(name: str, *values: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((name, value) for value in values)


def backoff(tries: int) -> Backoff:
    return Backoff(tries=tries, base_ms=1_000, jitter=0.0)


def take_of(parts: tuple[tuple[str, ...], dict[str, Any]]) -> Take:
    return Take(queues=parts[0], **parts[1])


PAYLOADS = {"two bytes": Blob(b"22"), "raw": Blob(b"1", Codec.RAW), "long": Blob(LONG)}  # short names in failures
RULES = ("SCHEDULED, +2 SECONDS", "STARTED, +1 SECOND", "FINISHED, +0 SECONDS", "FINISHED, +40 SECONDS")
oddities = some_of(
    5,
    *named("name", "b", "ab"),
    *named("payload", *PAYLOADS),
    *named("priority", -1, 5),
    *named("delay_ms", 1_000, 60_000),
    *named("expires_in_ms", 500, 5_000, 100_000),
    *named("lane", "x", "y"),
    *named("unique", "u", "u", "v"),
    *named("unique_check", "replace", "replace", "none"),
    *named("unique_while_kept", True),
    *named("if_revision", 1, 2),
    *named("retry", backoff(1), backoff(2)),
    *named("lease_ms", 2_000, FOREVER_MS),
    *named("retake", True, True),
    *named("timeout_ms", 3_000),
    *named("result_ttl_ms", 10_000, FOREVER_MS),
    *named("tombstone_ms", 1_000, 40_000),
    *named("tags", ("t",), ("t", "s")),
    *named("is_late", True),
    *named("repeat", *RULES),
    *named("callback", *HOOKS),
)
habits = some_of(
    3,
    *named("name", "b"),
    *named("lane", "x"),
    *named("unique", "u", "u", "u"),
    *named("unique_check", "replace", "replace"),
    *named("unique_while_kept", True),
    *named("retry", backoff(1), backoff(2)),
    *named("retake", True, True, True),
    *named("tags", ("t",)),
    *named("timeout_ms", 3_000),
    *named("result_ttl_ms", 10_000),
    *named("tombstone_ms", 40_000),
    *named("expires_in_ms", 5_000),
    *named("repeat", *RULES[:2]),
    *named("callback", *HOOKS),
)
manners = some_of(1, *named("worker", *WORKERS[:2]), *named("lease_ms", 1_000, 1_000), *named("accept_ms", 1_000))
new_jobs = st.tuples(mostly(*QUEUES), oddities, st.integers(-12, SEVERAL_REPEATED_IDS - 1))
FILTERS = (
    Filter(priority=0),
    Filter(priority=5),
    Filter(only=("a",)),
    Filter(only=("a", "b", "a")),
    Filter(only=("b",), priority=0),
    Filter(all_but=("a",)),
    Filter(all_but=("b", "ab"), priority=5),
    *(Filter(glob=glob) for glob in ("a*", "*b", "?", "a")),
)
takes = st.tuples(
    mostly(("q",), ("r",), ("q", "r"), ("r", "q")),
    some_of(
        3,
        *named("most", 2, 2, 5, 5),
        *named("wants", *FILTERS),
        *named("worker", *WORKERS, *WORKERS),
        *named("lease_ms", 1_000, 1_000, 50_000, FOREVER_MS),
        *named("accept_ms", 1_000, 1_000),
    ),
).map(take_of)
configurations = some_of(
    3,
    *named("lease_ms", None, 5_000, FOREVER_MS),
    *named("max_length", None, 3),
    *named("max_bytes", None, 2_000),
    *named("history_length", None, 0, 1, 3, 3),
    *named("history_bytes", None, 2_000),
    *named("retention_ms", None, 0, 20_000, FOREVER_MS),
    *named("name_lanes", True, True, True, False, None),
    *named("lease_renewal", False, True, None),
)
edits = some_of(
    3,
    *named("name", *NAMES),
    *named("priority", 0, 5),
    *named("run_in_ms", 0, 20_000, -3_000),
    *named("payload", *PAYLOADS),
    *named("repeat", "", RULES[0]),
    *named("if_revision", 1, 2),
    *named("in_any_state", True, True, True, True),
)
picks = st.integers(0, 40)  # which of those there are; beyond STILL_THERE, of all that ever were
STILL_THERE = 30
SPECIAL = range(10)  # of the overdue, or of the leased, where there are any
few_picks = st.lists(picks, min_size=1, max_size=2)
delays = st.sampled_from((0, 1_000, 30_000))


def with_payload(fields: dict[str, Any]) -> dict[str, Any]:
    return fields | {"payload": PAYLOADS[fields["payload"]]} if "payload" in fields else fields
