"""Fast path of simple jobs (lua/lib/fast_path/simple.lua): the same calls go to a library with both paths and to a
library without the fast path, at the same instants, and every answer and every key must be equal."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass.store.store as store_module
from tests.service.frozen_engine import START_MS, frozen_library, frozen_store
from tests.support.engine_process import EngineProcess, admin_endpoint
from tests.support.profiles import machine_settings
from windlass.core.errors import Refusal
from windlass.core.ids import make_id, numbered_id
from windlass.core.job import Blob, NewJob
from windlass.core.operations import Edit, Fail, Finish, LeaseRef, Take
from windlass.core.queue import FOREVER_MS
from windlass.core.retry import Backoff
from windlass.service import Service
from windlass.store.commands import jobs as job_commands
from windlass.store.commands.command import Flow
from windlass.store.commands.take import WaitRegistration
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.scripts import Library
from windlass.store.waiting.take import take_flow

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
QUEUES = ("a", "b")
LANED = "c"  # divided by names, as Bedrock's queue is
WORKERS = (b"", b"w" * 16)
_namespaces = itertools.count(1)


def without_the_short_way() -> Library:
    frozen = frozen_library()
    library = frozen.rewritten("general", lambda source: source.replace("if fast_path then", "if false then"))
    assert "if false then" in library.source
    return library


class Side:
    """A deployment that is asked by one of the libraries."""

    def __init__(self, engine: EngineProcess, library: Library) -> None:
        self.store = frozen_store(engine, f"p{os.getpid()}-{next(_namespaces)}")
        self.store._request_ids._owner = "either"  # in the name of a key
        self.service = Service(self.store)
        self.root = self.store.root(0)
        self.control = SyncConnection.open(admin_endpoint(self.store.endpoint))  # type: ignore[arg-type]
        self._library = library

    def ask(self, question: Callable[[Service], Any]) -> Any:
        with mock.patch.object(store_module, "library", return_value=self._library):
            try:
                return question(self.service)
            except Refusal as refusal:
                return repr(refusal)

    def everything(self) -> dict[bytes, Any]:
        keys = self.control.call("KEYS", f"{self.root}*")
        return {key.removeprefix(self.root.encode()): self._content(key) for key in keys}

    def _content(self, key: bytes) -> Any:
        kind = self.control.call("TYPE", key)
        kind = kind if isinstance(kind, str) else kind.decode()
        expires = self.control.call("PTTL", key) >= 0
        if kind == "string":
            return expires, self.control.call("GET", key)
        if kind == "hash":
            found = self.control.call("HGETALL", key)
            return expires, dict(zip(found[::2], found[1::2], strict=True))
        if kind == "set":
            return expires, sorted(self.control.call("SMEMBERS", key))
        if kind == "zset":
            return expires, self.control.call("ZRANGE", key, 0, -1, "WITHSCORES")
        if kind == "stream":
            return expires, self.control.call("XRANGE", key, "-", "+")
        return expires, self.control.call("LRANGE", key, 0, -1)

    def close(self) -> None:
        self.control.close()
        self.store.close_sync()


class Both:
    """Run each operation on both sides; answers and keys must be equal."""

    def __init__(self, engine: EngineProcess) -> None:
        self.sides = (Side(engine, frozen_library()), Side(engine, without_the_short_way()))
        self.held: list[tuple[bytes, int]] = []
        self.ids: list[bytes] = []

    def ask(self, question: Callable[[Service], Any]) -> Any:
        first, second = (side.ask(question) for side in self.sides)
        assert repr(first) == repr(second)
        return first

    def write(self, *command: Any) -> None:
        """A raw command; its key is the second word."""
        for side in self.sides:
            side.control.call(command[0], f"{side.root}{command[1]}", *command[2:])

    def compare(self) -> None:
        first, second = (side.everything() for side in self.sides)
        assert first == second

    def note_taken(self, taken: Any) -> None:
        if not isinstance(taken, str):
            self.held += [(job.id, job.lease_token) for job in taken.jobs]

    def close(self) -> None:
        for side in self.sides:
            side.close()


@pytest.fixture
def both(engine: EngineProcess) -> Iterator[Callable[[], Both]]:
    made: list[Both] = []

    def make() -> Both:
        made.append(Both(engine))
        return made[-1]

    yield make
    for one in made:
        one.close()


SPECIAL: list[dict[str, Any]] = [
    {"lane": "l"}, {"unique": "u"}, {"tags": ("t",)}, {"delay_ms": 500}, {"expires_in_ms": 400}, {"hidden": True},
    {"retake": True}, {"run_at_ms": START_MS - 5}, {"repeat": "FINISHED, +1 HOUR"},
]  # fmt: skip
PLAIN: list[dict[str, Any]] = [
    {}, {"priority": -3}, {"priority": 7}, {"payload": Blob(b'{"n":1}')}, {"payload": Blob(b"x" * 2000)},
    {"name": "n" * 1000, "payload": Blob(b"y" * 40)}, {"retry": Backoff(tries=2)}, {"lease_ms": 700},
    {"lease_ms": FOREVER_MS}, {"timeout_ms": 300}, {"trace": "t"},
]  # fmt: skip
KEPT: list[dict[str, Any]] = [
    {"result_ttl_ms": 60_000}, {"result_ttl_ms": FOREVER_MS}, {"result_ttl_ms": 60_000, "payload": Blob(b"z" * 2000)},
]  # fmt: skip
DECLARED = {"unique_check": "none", "unique_while_kept": True, "lease_ms": FOREVER_MS}
NUMBERED: list[dict[str, Any]] = [
    {"unique": "=n", **DECLARED}, {"name": "m", "unique": "=m", **DECLARED},
    {"unique": "=n", "priority": -500, **DECLARED}, {"name": "m", "unique": "=m", "priority": 500, **DECLARED},
    {"unique": "=n", "payload": Blob(b'{"n":1}'), **DECLARED}, {"unique": "=m", "unique_check": "none"},
    {"name": "long/" + "n" * 500, "payload": Blob(b"x" * 2000)},
]  # fmt: skip
NOT_SO_PLAIN: list[dict[str, Any]] = [
    {"unique": "=n", "unique_check": "refuse"}, {"hidden": True}, {"lane": "l"}, {"tags": ("t",)}, {"delay_ms": 500},
    {"expires_in_ms": 400}, {"queue": "a"},
]  # fmt: skip
# Mostly simple jobs: if one job of a call is not simple, all take the general path.
contents = st.one_of(st.sampled_from(PLAIN), st.sampled_from(PLAIN + KEPT), st.sampled_from(PLAIN + KEPT + SPECIAL))
numbered = st.one_of(st.sampled_from(NUMBERED), st.sampled_from(NUMBERED), st.sampled_from(NUMBERED + NOT_SO_PLAIN))
queues = st.sampled_from(("a", "a", "a", "b"))
takes = st.tuples(
    st.sampled_from((("a",), ("a",), ("b", "a"), ("a", "a"), (LANED,))),
    st.sampled_from((1, 1, 2, 3, 20)),
    st.sampled_from(WORKERS),
    st.sampled_from((0, 0, 400, 30_000, FOREVER_MS, -500)),  # negative: a fallback
)
tokens = st.sampled_from(("own", "own", "own", "own", "any", "wrong"))
ends = st.lists(
    st.tuples(st.integers(0, 5), tokens, st.sampled_from((None, None, Blob(b"1"), Blob(b"r" * 1500)))), max_size=4
)
MARKS: list[tuple[Any, ...]] = [
    ("ZADD", ":waiters:a", START_MS + 10**9, b"bell\1"), ("SET", ":followed", START_MS), ("DEL", ":followed"),
    ("SADD", ":push_full", WORKERS[1]), ("DEL", ":push_full"), ("DEL", ":waiters:a"),
    ("ZADD", ":waiters:a", START_MS + 10**9 + 1, b"other\1"), ("ZADD", ":waiters:a", START_MS - 1, b"gone\1"),
    ("ZADD", ":waiters:a", START_MS + 10**9, b"picky\1\1only\1n"), ("ZADD", ":waiters:", START_MS + 10**9, b"loops\1"),
    ("ZADD", ":waiters:", START_MS + 10**9, b"bell\1"), ("ZADD", ":work", 1, b"r." + b"j" * 16),
    ("ZADD", ":waiters:c", START_MS + 10**9, b"bell\1"), ("DEL", ":waiters:c"),
]  # fmt: skip
SETTINGS: list[dict[str, Any]] = [
    {"history_length": 2}, {"history_length": 0}, {"name_lanes": True}, {"name_lanes": False}, {"fair_share": True},
    {"fair_share": False}, {"aging_ms": 10}, {"aging_ms": 0}, {"max_length": 3}, {"max_length": 0}, {"lease_ms": 250},
]  # fmt: skip
steps = st.one_of(
    st.tuples(st.just("enqueue"), st.lists(st.tuples(queues, contents, st.booleans()), min_size=1, max_size=4)),
    st.tuples(st.just("number"), st.lists(numbered, min_size=1, max_size=4)),
    st.tuples(st.just("take"), takes),
    st.tuples(st.just("wait"), takes),
    st.tuples(st.just("exchange"), takes, ends, st.booleans()),
    st.tuples(st.just("exchange"), takes, ends, st.just(False)),
    st.tuples(st.just("finish"), ends),
    st.tuples(st.just("dispatch"), takes),
    st.tuples(st.just("accept"), st.integers(0, 2), tokens, st.sampled_from((0, 0, 400, 30_000, FOREVER_MS))),
    st.tuples(st.sampled_from(("release", "edit")), st.integers(0, 3)),
    st.tuples(
        st.just("await"),
        st.booleans(),
        st.integers(0, 3),
        st.sampled_from(("bell", "other")),
        st.sampled_from((False, False, True)),
    ),
    st.tuples(st.just("pass"), st.sampled_from((1, 50, 350, 60_000))),
    st.one_of(
        st.tuples(st.just("mark"), st.sampled_from(MARKS)),
        st.tuples(st.just("configure"), st.sampled_from(SETTINGS), st.sampled_from(("a", "a", LANED))),
        st.tuples(st.just("pause"), st.booleans(), st.sampled_from((("a", ""), (LANED, ""), (LANED, "n")))),
        st.tuples(st.just("own number"), st.integers(1, 4)),
    ),
)


def jobs_of(both: Both, wanted: list[tuple[str, dict[str, Any], bool]]) -> list[NewJob]:
    jobs = []
    for queue, content, is_repeated in wanted:
        number = len(both.ids) - (is_repeated and len(both.ids) % 3 == 2)
        both.ids.append(make_id(START_MS, 0, number))
        jobs.append(NewJob(**{"queue": queue, "name": "n", "id": both.ids[-1], **content}))
    return jobs


def finishes_of(both: Both, wanted: list[tuple[int, str, Blob | None]]) -> list[Finish]:
    finishes = []
    for at, whose, result in wanted:
        if at < len(both.held):
            job_id, token = both.held[-1 - at]
            token = token if whose == "own" else 0 if whose == "any" else token + 1
            finishes.append(Finish(job_id, token, result) if result else Finish(job_id, token))
    return finishes


def take_of(wanted: tuple[tuple[str, ...], int, bytes, int]) -> Take:
    names, most, worker, lease_ms = wanted
    return Take(queues=names, most=most, worker=worker, lease_ms=max(0, lease_ms), fallback_lease_ms=max(0, -lease_ms))


def take_or_wait(service: Service, wanted: tuple[tuple[str, ...], int, bytes, int]) -> Any:
    """Take like a waiting taker: without a job its registration stays."""
    request = take_of(wanted)
    flow = take_flow(request, list(request.queues), 0, WaitRegistration("bell", 1_000))
    return service.store.run_sync(flow).taken


def await_end(service: Service, job_id: bytes, wakeup_list: str, withdraws: bool) -> Any:
    """Register for the end of a job like a waiting caller, or withdraw; the caller itself does not wait."""

    def flow() -> Flow[Any]:
        return (yield job_commands.result(job_id, False, wakeup_list, 0, leaves=withdraws))

    return service.store.run_sync(flow())


def do(both: Both, step: tuple[Any, ...]) -> None:
    kind = step[0]
    if kind == "enqueue":
        jobs = jobs_of(both, step[1])
        both.ask(lambda service: service.enqueue(jobs).wait())
    elif kind == "number":
        jobs = [NewJob(**{"queue": LANED, "name": "n", **content}) for content in step[1]]
        both.ask(lambda service: service.enqueue_numbered(jobs).wait())
    elif kind == "own number":  # another producer makes the id that ours will have
        both.ask(lambda service: service.enqueue([_own_number(service, step[1])]).wait())
    elif kind == "take":
        both.note_taken(both.ask(lambda service: service.take(take_of(step[1])).wait()))
    elif kind == "wait":
        both.note_taken(both.ask(lambda service: take_or_wait(service, step[1])))
    elif kind == "exchange":
        finishes = finishes_of(both, step[2])
        failures = [Fail(id=job_id, token=token) for job_id, token in both.held[:1] if step[3]]
        answer = both.ask(lambda service: service.finish_and_take(finishes, failures, take_of(step[1])).wait())
        both.note_taken(answer if isinstance(answer, str) else answer.taken)
    elif kind == "finish":
        finishes = finishes_of(both, step[1])
        if finishes:
            both.ask(lambda service: service.finish(finishes).wait())
    elif kind == "dispatch":
        request = msgspec.structs.replace(take_of(step[1]), accept_ms=500)
        both.note_taken(both.ask(lambda service: service.take(request).wait()))
    elif kind == "accept":
        accepted = [LeaseRef(finish.id, finish.token) for finish in finishes_of(both, [(step[1], step[2], None)])]
        if accepted:
            both.ask(lambda service: service.accept(accepted, lease_ms=step[3]).wait())
    elif kind == "release":
        given_back = [LeaseRef(*one) for one in both.held[-1 - step[1] :][:1]]
        if given_back:
            both.ask(lambda service: service.release(given_back).wait())
    elif kind == "edit":
        if both.ids:
            edit = Edit(id=both.ids[-1 - step[1] % len(both.ids)], payload=Blob(b"changed"))
            both.ask(lambda service: service.edit([edit]).wait())
    elif kind == "await":
        ids = [job_id for job_id, _ in both.held] if step[1] else both.ids
        if ids:
            awaited = ids[-1 - step[2] % len(ids)]
            both.ask(lambda service: await_end(service, awaited, *step[3:]))
    elif kind == "pass":
        for side in both.sides:
            side.store.clock_offset_ms += step[1]
    elif kind == "mark":
        both.write(*step[1])
    elif kind == "configure":
        both.ask(lambda service: service.configure(step[2], step[1]).wait())
    else:
        queue, name = step[2]
        both.ask(lambda service: (service.pause if step[1] else service.resume)(queue, name=name).wait())


def _own_number(service: Service, ahead: int) -> NewJob:
    last = int(service.store._sync_connection.call("GET", f"{service.store.root(0)}:number") or 0)
    return NewJob(queue=LANED, name="n", id=numbered_id(last + ahead, 0))


TAKE_ONE = ("take", (("a",), 1, WORKERS[1], 0))
FINISH_IT = ("finish", [(0, "own", Blob(b"1"))])
NOT_PLAIN: dict[str, list[tuple[Any, ...]]] = {
    "another lane is first": [("enqueue", [("a", {}, False), ("a", {"lane": "l", "priority": -1}, False)]), TAKE_ONE],
    "somebody waits for some names only": [("mark", MARKS[8]), ("enqueue", [("a", {}, False)] * 2)],
    "others wait for what is left": [
        ("enqueue", [("a", {}, False)] * 2),
        ("mark", MARKS[0]),
        TAKE_ONE,
        ("mark", MARKS[6]),
        TAKE_ONE,
    ],
    "it is paused, and somebody waits": [
        ("mark", MARKS[0]),
        ("pause", True, ("a", "")),
        ("enqueue", [("a", {}, False)]),
    ],
    "families have work to do": [("mark", MARKS[11]), ("wait", TAKE_ONE[1])],
    "somebody follows": [("mark", MARKS[1]), ("enqueue", [("a", {}, False)]), TAKE_ONE, FINISH_IT],
    "a worker was full": [("enqueue", [("a", {}, False)]), TAKE_ONE, ("mark", MARKS[3]), FINISH_IT],
    "it is paused": [("enqueue", [("a", {}, False)]), ("pause", True, ("a", "")), TAKE_ONE],
    "a history is kept": [
        ("configure", {"history_length": 2}, "a"),
        ("enqueue", [("a", {}, False)]),
        TAKE_ONE,
        FINISH_IT,
    ],
    "a job is due": [
        ("enqueue", [("a", {}, False), ("a", {"delay_ms": 5, "priority": -1}, False)]),
        ("pass", 5),
        TAKE_ONE,
    ],
    "a lease ran out": [("enqueue", [("a", {"lease_ms": 700}, False)]), TAKE_ONE, ("pass", 700), TAKE_ONE],
    "another holds it": [("enqueue", [("a", {}, False)]), TAKE_ONE, ("finish", [(0, "wrong", None)])],
    "a numbered one finds a waiter": [("mark", MARKS[12]), ("number", NUMBERED[:2])],
    "its lane is held back": [
        ("number", NUMBERED[:1]),
        ("pause", True, (LANED, "n")),
        ("take", ((LANED,), 1, WORKERS[1], 0)),
        ("number", [NUMBERED[2]]),
    ],
    "its number is somebody's": [("own number", 2), ("number", NUMBERED[:3])],
    "names have no lanes": [("configure", {"name_lanes": False}, LANED), ("number", NUMBERED[:2])],
    "lanes take turns": [
        ("configure", {"fair_share": True}, LANED),
        ("number", NUMBERED[:2]),
        ("number", [NUMBERED[2]]),
    ],
    "it was given back": [("enqueue", [("a", {}, False)]), TAKE_ONE, ("release", 0), ("pass", 50), TAKE_ONE],
    "it was changed": [("enqueue", [("a", {}, False)]), ("edit", 0), TAKE_ONE],
    "it has ended": [("enqueue", [("a", {}, False)]), TAKE_ONE, FINISH_IT, ("enqueue", [("a", {}, True)])],
    "one of several has ended": [
        ("enqueue", [("a", {}, False)]),
        TAKE_ONE,
        FINISH_IT,
        ("enqueue", [("a", {}, True), ("a", {}, False)]),
    ],
    "it ends twice": [("enqueue", [("a", {}, False)]), TAKE_ONE, ("finish", [(0, "own", None), (0, "own", None)])],
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_is_not_plain_goes_the_general_way(both: Callable[[], Both], name: str) -> None:
    one = both()
    do(one, ("enqueue", [("a", {}, False)]))
    do(one, TAKE_ONE)
    do(one, ("configure", {"name_lanes": True}, LANED))
    do(one, ("number", [{"name": "first"}]))
    for step in NOT_PLAIN[name]:
        do(one, step)
        one.compare()


def test_plain_jobs_go_the_short_way(both: Callable[[], Both]) -> None:
    """By their commands: otherwise nothing here would be compared with anything."""
    one = both()
    for content in ({}, {"result_ttl_ms": 60_000}):
        do(one, ("enqueue", [("a", {}, False)]))
        do(one, ("take", (("a",), 1, WORKERS[1], 0)))
        for step in (
            ("enqueue", [("a", content, False)] * 3),
            ("take", (("a",), 1, WORKERS[1], 0)),
            ("exchange", (("a",), 1, WORKERS[1], 0), [(0, "own", None)], False),
            ("finish", [(0, "own", Blob(b"1"))]),
            ("take", (("a",), 2, WORKERS[1], 0)),
            ("exchange", (("a",), 1, WORKERS[1], 0), [(0, "own", None)], False),  # which finds no other
            ("wait", (("a",), 1, WORKERS[1], 0)),
            ("enqueue", [("a", content, False)]),  # which wakes a taker
        ):
            short, general = _commands(one, step)
            assert short != general, step


@pytest.mark.parametrize("content", [{}, *KEPT], ids=["removed", "kept", "kept forever", "kept and long"])
def test_awaited_jobs_go_the_short_way(both: Callable[[], Both], content: dict[str, Any]) -> None:
    """Callers await them before they are taken or while they run."""
    one = both()
    do(one, ("enqueue", [("a", {}, False)]))
    do(one, TAKE_ONE)
    do(one, ("enqueue", [("a", content, False)] * 3))
    for step in (
        ("await", False, 2, "bell", False),
        TAKE_ONE,
        ("await", True, 0, "other", False),
        ("exchange", TAKE_ONE[1], [(0, "own", Blob(b"1"))], False),
        ("await", True, 0, "bell", False),
        FINISH_IT,
        TAKE_ONE,
        ("await", True, 0, "bell", False),
        ("await", True, 0, "bell", True),
        FINISH_IT,
    ):
        if step[0] == "await":
            do(one, step)
        else:
            short, general = _commands(one, step)
            assert short != general, step
        one.compare()


@pytest.mark.parametrize("content", [{}, {"timeout_ms": 300}, {"lease_ms": 700}], ids=["plain", "timeout", "lease"])
def test_an_acceptance_goes_the_short_way(both: Callable[[], Both], content: dict[str, Any]) -> None:
    one = both()
    do(one, ("enqueue", [("a", {}, False)]))
    do(one, TAKE_ONE)
    do(one, ("enqueue", [("a", content, False)] * 4))
    for token, lease_ms in (("own", 0), ("own", 400), ("any", 30_000)):
        do(one, ("dispatch", TAKE_ONE[1]))
        do(one, ("pass", 50))
        do(one, ("accept", 0, "wrong", 0))
        one.compare()
        short, general = _commands(one, ("accept", 0, token, lease_ms))
        assert short != general, (token, lease_ms)
        one.compare()
    do(one, ("dispatch", TAKE_ONE[1]))
    do(one, ("accept", 0, "own", FOREVER_MS))
    one.compare()


def test_many_at_once_are_indexed_in_trees(both: Callable[[], Both]) -> None:
    """Which they stay, so that no step walks past all others; and nothing is left of how that was done."""
    one = both()
    do(one, ("enqueue", [("a", {}, False)] * 61))
    do(one, TAKE_ONE)
    for step in (
        ("take", (("a",), 20, WORKERS[1], 0)),
        ("exchange", (("a",), 20, WORKERS[1], 0), [(at, "own", None) for at in range(20)], False),
        ("exchange", (("a",), 20, WORKERS[1], 0), [(at, "own", None) for at in range(20)], False),
    ):
        do(one, step)
        one.compare()
        side = one.sides[0]
        for key in ("running:a", f"wj:{WORKERS[1].decode()}"):
            assert side.control.call("OBJECT", "ENCODING", f"{side.root}:{key}") == b"skiplist"
            assert side.control.call("ZCARD", f"{side.root}:{key}") == 21


def test_numbered_jobs_go_the_short_way(both: Callable[[], Both]) -> None:
    one = both()
    do(one, ("configure", {"name_lanes": True}, LANED))
    do(one, ("number", NUMBERED))
    for wanted in ([NUMBERED[0]], NUMBERED):
        short, general = _commands(one, ("number", wanted))
        assert short != general, wanted
        one.compare()


def _commands(both: Both, step: tuple[Any, ...]) -> list[Counter[str]]:
    """What the step sends to the engine, by each of the two libraries."""
    counts: list[Counter[str]] = []
    held, ids = list(both.held), list(both.ids)
    for side in both.sides:
        both.held, both.ids = list(held), list(ids)
        before = _processed(side)
        with mock.patch.object(both, "ask", side.ask):
            do(both, step)
        counts.append(_processed(side) - before)
    return counts


def _processed(side: Side) -> Counter[str]:
    text = side.control.call("INFO", "commandstats").decode()
    found = re.findall(r"cmdstat_([^:]+):calls=(\d+)", text)
    return Counter({name: int(calls) for name, calls in found if name not in ("info", "fcall")})


@machine_settings(25, 600, steps=16)
@given(wanted=st.lists(steps, min_size=4, max_size=16))
def test_both_ways_lead_to_the_same(both: Callable[[], Both], wanted: list[tuple[Any, ...]]) -> None:
    one = both()
    do(one, ("enqueue", [("a", {}, False), ("b", {}, False)]))
    do(one, ("take", (QUEUES, 2, WORKERS[1], 1)))  # the timers are early from here on
    do(one, ("configure", {"name_lanes": True}, LANED))
    do(one, ("number", [{"name": "first"}]))
    for step in wanted:
        do(one, step)
        one.compare()
