"""Choices of the machine with all features. Few values, so that features interact."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.service.machines.choices import HOOKS, WORKERS, backoff, mostly, named, some_of
from windlass.core.job import Blob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Filter
from windlass.core.queue import FOREVER_MS

QUEUES = ("q", "r")
NAMES = ("a", "b", "cc")
WAKEUP_LISTS = ("bell1", "bell2", "bell3")
SCHEDULES = ("s1", "s2")
RULES = ("SCHEDULED, +2 SECONDS", "STARTED, +1 SECOND", "FINISHED, +0 SECONDS")
LIMITS = (
    Limit(name="l1", matches=Matcher(queue="q"), running=2),
    Limit(name="l1", matches=Matcher(), running=1),
    Limit(name="l1", matches=Matcher(), running=3),
    Limit(name="l2", matches=Matcher(), running=1, key="k"),
    Limit(name="l2", matches=Matcher(name="a"), running=0),
    Limit(name="l3", matches=Matcher(), rate=1, per_ms=1000, burst=2),
    Limit(name="l3", matches=Matcher(name="b"), rate=3, per_ms=1000, key="k"),
    Limit(name="l4", matches=Matcher(lane="x"), running=1),
    Limit(name="l4", matches=Matcher(payload={"k": 1}), running=1, key="m"),
)
FILTERS = (
    Filter(), Filter(), Filter(steps=True), Filter(steps=True), Filter(steps=True), Filter(only=("a",), steps=True),
    Filter(all_but=("a",)), Filter(glob="c*"), Filter(priority=1),
)  # fmt: skip
Deed = tuple[str, dict[str, Any]]


def content(k: int, m: int = 0) -> Blob:
    return Blob(json.dumps({"k": k, "m": m}).encode())


def deed(deed_name: str, /, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Deed]:
    return st.tuples(st.just(deed_name), st.fixed_dictionaries(arguments))


picks = st.integers(0, 30)
few_picks = st.lists(picks, min_size=1, max_size=3)
queues = mostly(*QUEUES)
one_or_more = st.sampled_from((1, 1, 2, 3, 8))
oddities = some_of(
    6,
    *named("name", "b", "cc"),
    *named("lane", "x", "y"),
    *named("k", 2, 3),
    *named("priority", 1, 2),
    *named("delay_ms", 700, 3_000),
    *named("unique", *(("u", how) for how in ("keep", "replace", "replace", "debounce", "throttle", "none"))),
    *named("unique", ("v", "replace")),
    *named("unique_while_kept", True),
    *named("retry", backoff(1), backoff(2)),
    *named("retake", True, True),
    *named("timeout_ms", 3_000),
    *named("expires_in_ms", 500, 5_000),
    *named("result_ttl_ms", 10_000, FOREVER_MS),
    *named("tombstone_ms", 1_000, 20_000),
    *named("tags", ("t",), ("t", "s")),
    *named("index", ("k",)),
    *named("repeat", *RULES),
    *named("callback", *HOOKS),
    *named("on_failure", "collect", "fail", "ignore"),
    *named("is_child", True, True, True),
    *named("held", True, True, True),
    *named("waits_for", 1, 1, 2),
    *named("joins", True, True),
)
new_jobs = st.tuples(queues, oddities, picks)
changes = some_of(
    3,
    *named("name", *NAMES),
    *named("priority", 0, 2),
    *named("payload", content(1), content(2), content(3, 1)),
    *named("run_in_ms", 0, 2_000, -3_000),
    *named("repeat", "", RULES[0]),
    *named("in_any_state", True, True, True),
)
configurations = some_of(
    2,
    *named("name_lanes", True, False),
    *named("fair_share", True, False),
    *named("aging_ms", 0, 500),
    *named("history_length", 0, 1, 3),
    *named("retention_ms", 0, 20_000, None),
    *named("max_length", 6, 0, 0),
    *named("lease_ms", 5_000, 30_000),
    *named("lease_renewal", False, True),
    *named("index", ("k",), ("k", "x"), None),
)
manners = some_of(2, *named("worker", *WORKERS[:2]), *named("lease_ms", 1_000, 20_000), *named("accept_ms", 1_000))
templates = some_of(
    2, *named("lane", "x"), *named("unique", "u"), *named("k", 2), *named("joins", True), *named("callback", HOOKS[0]),
    *named("result_ttl_ms", 10_000), *named("retake", True),
)  # fmt: skip

# How often each happens is ours to say.
SHARES = {
    deed("enqueue", jobs=st.lists(new_jobs, min_size=1, max_size=4)): 8,
    deed("raise_children", pick=picks, jobs=st.lists(new_jobs, min_size=1, max_size=3), held=st.booleans()): 4,
    deed(
        "hand_over", pick=picks, jobs=st.lists(new_jobs, min_size=1, max_size=3), held=st.booleans(), more=one_or_more
    ): 4,
    deed(
        "take", queues=st.sampled_from((("q",), ("q",), ("r",), ("q", "r"), ("r", "q"))),
        wants=st.sampled_from(FILTERS), most=one_or_more,
        wakeup_list=st.sampled_from((*WAKEUP_LISTS, "", "", "")), manner=manners,
    ): 12,
    deed("finish", which=few_picks, for_good=mostly(False, True), result=st.booleans()): 10,
    deed(
        "fail", which=few_picks, then=st.sampled_from(("retry", "retry", "final", "cancelled")),
        delay_ms=st.sampled_from((0, 700)),
    ): 4,
    deed("finish_and_take", finished=few_picks, failed=st.lists(picks, max_size=1), most=one_or_more): 5,
    deed("hold", which=few_picks, how=st.sampled_from(("release", "extend", "update", "log", "accept"))): 5,
    deed(
        "speak", pick=picks, worker=st.sampled_from(WORKERS), idle_ms=st.sampled_from((0, 3_000)),
        says=st.lists(st.sampled_from(("idle", "accepted", "progress", "finished", "failed")), min_size=1, max_size=3),
    ): 5,
    deed("assign", queues=st.sampled_from((("q",), ("q", "r"))), most=one_or_more, spends_attempt=st.booleans()): 5,
    deed(
        "durable_call", which=few_picks, how=st.sampled_from(("step", "cursor", "receive", "stream")),
        name=st.sampled_from(("s", "t")),
    ): 4,
    deed(
        "suspend", which=few_picks, kinds=st.lists(
            st.sampled_from(("sleep", "signal", "children", "retry")), min_size=1, max_size=2, unique=True
        ),
        for_ms=st.sampled_from((0, 333, 3_000, None)),
    ): 5,
    deed("signal", which=few_picks, name=st.sampled_from(("go", "stop"))): 3,
    deed("rewind", which=few_picks, step=st.sampled_from(("", "s", "sleep"))): 1,
    deed("cancel", which=few_picks, counts_waiting=mostly(True, False), even_failed=st.booleans()): 3,
    deed("intervene", which=few_picks, how=st.sampled_from(("requeue", "retry", "wake")), fully=st.booleans()): 3,
    deed("delete", which=few_picks): 1,
    deed("edit", which=few_picks, change=changes): 3,
    deed("limit", limit=st.sampled_from(LIMITS), is_removed=mostly(False, True)): 2,
    deed(
        "pause", queue=queues, what=st.sampled_from(({}, {"lane": "x"}, {"name": "a"})), is_over=mostly(True, False)
    ): 2,
    deed("configure", queue=queues, change=configurations): 1,
    deed("remove_queue", queue=queues): 1,
    deed("set_weights", queue=queues, weight=st.sampled_from((1, 3))): 1,
    deed(
        "schedule", name=st.sampled_from(SCHEDULES), queue=queues, template=templates,
        overlap=st.sampled_from(("allow", "skip", "replace")), how=mostly("make", "remove", "run", "pause", "resume"),
    ): 2,
    deed("callbacks", how=st.sampled_from(("settle", "retry", "give up", "put back", "redeliver"))): 1,
    deed("loop", name=st.sampled_from(("promote", "recover", "clean", "sweep", "fire"))): 3,
    deed("pass_time", by_ms=st.sampled_from((1, 333, 1_000, 6_000, 40_000)), loops=mostly(True, False)): 4,
}  # fmt: skip
deeds = st.sampled_from([deed for deed, share in SHARES.items() for _ in range(share)]).flatmap(lambda deed: deed)
