"""Sentences and order of the reasons of an explanation, without an engine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from windlass.core.explain.filter_text import describe_filter
from windlass.core.explain.inputs import (
    AwaitedMembers,
    Facts,
    FullLimit,
    QueuePosition,
    RegisteredWorker,
    RelatedJob,
    Takers,
)
from windlass.core.explain.reason import ReasonBase
from windlass.core.explain.reasons import (
    AwaitsMembers,
    Ended,
    Explanation,
    LimitFull,
    Paused,
    Reason,
    Running,
    Unwanted,
    WorkersBusy,
)
from windlass.core.explain.references import Holder, Related
from windlass.core.explain.rules import explain
from windlass.core.ids import format_id
from windlass.core.job import Attempt, Blob, Job
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Filter, WorkerInfo
from windlass.core.queue import Pause
from windlass.core.retry import Backoff
from windlass.core.states import State
from windlass.core.text.humanize import (
    humanize_age,
    humanize_duration,
    humanize_instant,
    humanize_since,
    list_first,
    quote_text,
)

NOW = 1_800_000_000_000  # 2027-01-15 08:00:00 UTC
ID = bytes(range(16))
DOCUMENT = Path(__file__).parents[2] / "docs" / "explain.md"


def job(state: State = State.QUEUED, **fields: Any) -> Job:
    whole = {
        "id": ID, "state": state, "queue": "q", "name": "n", "payload": Blob(b"null"), "payload_is_whole": True,
        "priority": 0, "sequence": 1, "created_at_ms": NOW, "run_at_ms": NOW, "started_at_ms": None,
        "ended_at_ms": None, "expires_at_ms": None, "lane": "", "unique": None, "retry": Backoff(), "lease_ms": 0,
        "timeout_ms": 0, "result_ttl_ms": 0, "tags": (), "trace": "", "repeat": "", "schedule": "",
        "planned_at_ms": None, "parent": None, "is_held": False, "joins": False, "has_members": False,
        "on_failure": "collect", "callback": None, "limits": (), "attempt": 0, "revision": 1, "progress": 0.0,
        "is_cancel_requested": False, "is_overdue": False, "is_history": False, "worker": None, "lease_token": 0,
        "lease_deadline_at_ms": None,
    }  # fmt: skip
    return Job(**(whole | fields))


def explained(state: State = State.QUEUED, *, of: dict[str, Any] | None = None, **facts: Any) -> Explanation:
    return explain(Facts(now_ms=NOW, job=job(state, **(of or {})), **facts))


def kinds(found: Explanation) -> list[str]:
    return [str(type(reason).__struct_config__.tag) for reason in found.reasons]


@pytest.mark.parametrize(
    ("duration_ms", "words"),
    [
        (0, "0 ms"), (850, "850 ms"), (1_400, "1 s"), (59_600, "1 min"), (90_000, "1 min 30 s"), (165_000, "3 min"),
        (3_599_900, "1 h"), (4_800_000, "1 h 20 min"), (86_400_000, "1 day"), (90_000_000, "1 day 1 h"),
        (14 * 86_400_000, "14 days"),
    ],
)  # fmt: skip
def test_spans(duration_ms: int, words: str) -> None:
    assert humanize_duration(duration_ms) == words


def test_instants() -> None:
    assert humanize_instant(NOW + 5_000, NOW) == "2027-01-15 08:00:05 UTC (in 5 s)"
    assert humanize_instant(NOW - 5_000, NOW) == "2027-01-15 07:59:55 UTC (5 s ago)"
    assert humanize_instant(NOW, NOW) == "2027-01-15 08:00:00 UTC (just now)"
    assert humanize_since(NOW - 5_000, NOW) == "2027-01-15 07:59:55 UTC (for 5 s)"
    assert humanize_since(NOW, NOW) == "2027-01-15 08:00:00 UTC"
    assert humanize_instant(2**47, NOW).startswith("6429-10-17 ")
    assert humanize_age(NOW + 50, NOW) == "just now"


def test_lists_and_long_names() -> None:
    assert list_first(["a"], 1) == "a"
    assert list_first(["a", "b", "c"], 3) == "a, b and c"
    assert list_first(["a", "b", "c", "d"], 12) == "a, b, c and 9 more"
    assert len(quote_text("x" * 1_000)) == 82


def test_every_kind_of_reason_is_tagged_by_its_name_and_says_something() -> None:
    tags = {str(kind.__struct_config__.tag) for kind in get_args(Reason)}
    assert len(tags) == len(get_args(Reason))
    assert {"no_worker", "limit_full", "workers_busy", "held_by_parent"} <= tags
    defined = {kind for kind in _subclasses(ReasonBase) if not kind.__name__.startswith("_")}
    assert defined == set(get_args(Reason))


def _subclasses(kind: type) -> set[type]:
    return {found for below in kind.__subclasses__() for found in {below} | _subclasses(below)}


def test_every_kind_of_reason_is_in_the_document() -> None:
    text = DOCUMENT.read_text()
    tags = {str(kind.__struct_config__.tag) for kind in get_args(Reason)}
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == tags


def test_the_most_decisive_reason_comes_first_and_the_others_are_counted() -> None:
    limit = Limit(name="l", matches=Matcher(), running=2)
    found = explained(
        of={"lane": "a"},
        pauses=[
            Pause(queue="q", since_ms=NOW - 60_000, reason=""),
            Pause(queue="q", lane="a", since_ms=NOW, reason="x"),
        ],
        limits=[FullLimit(limit=limit, key=None, running=2, next_token_at_ms=None, holders=[ID])],
        position=QueuePosition(ahead=7),
    )
    assert kinds(found) == ["paused", "paused", "limit_full", "no_worker", "ahead"]
    assert found.summary == (
        'The job is queued: queue "q" has been paused since 2027-01-15 07:59:00 UTC (for 1 min), no reason was given; '
        "3 more reasons."
    )
    assert found.reasons[2].sentence == f'Limit "l" is full: 2 of 2 running, held by {format_id(ID)} and 1 more.'


def test_where_a_job_stands_is_said_together_with_what_goes_wrong_there() -> None:
    worker = RegisteredWorker(
        id=ID, info=WorkerInfo(queues=("q",), slots=4), silent_at_ms=NOW + 1, beat_ms=9, running=4
    )
    found = explained(position=QueuePosition(ahead=412), workers=[worker, worker])
    assert found.summary == (
        'The job is queued: 412 jobs are ahead of it in queue "q"; all 2 workers of queue "q" are busy: '
        "8 of 8 slots in use."
    )


def test_of_too_many_workers_it_is_not_said_that_none_listens() -> None:
    assert kinds(explained(position=QueuePosition(ahead=0), has_more_workers=True)) == ["next"]


def test_busy_workers_are_no_reason_while_another_waits_for_it() -> None:
    worker = RegisteredWorker(id=ID, info=WorkerInfo(queues=("q",)), silent_at_ms=NOW + 1, beat_ms=9, running=1)
    takers = Takers(waiting=2, wanting=1, other_filters=[Filter(priority=3)])
    assert kinds(explained(position=QueuePosition(ahead=0), workers=[worker], takers=takers)) == ["next"]


@pytest.mark.parametrize(
    ("wants", "words"),
    [
        (Filter(only=("a", "b")), 'only "a", "b"'),
        (Filter(all_but=("a",)), 'all but "a"'),
        (Filter(glob="a*", priority=-3), 'names like "a*" with priority -3'),
        (Filter(priority=5), "priority 5"),
    ],
)
def test_filters_in_words(wants: Filter, words: str) -> None:
    assert describe_filter(wants) == words


def test_one_or_many() -> None:
    unwanted = Unwanted(queue="q", name="n", priority=0, waiting=1, wants=["priority 5"])
    assert unwanted.describe(NOW) == (
        'The only taker waiting at queue "q" wants other jobs (priority 5), not "n" with priority 0.'
    )
    assert WorkersBusy(queue="q", workers=1, slots=1, running=1).describe(NOW) == (
        'The only worker of queue "q" is busy: 1 of 1 slot in use.'
    )
    members = AwaitsMembers(count=1, members=[Related("a", "running")])
    assert members.describe(NOW) == "1 job it waits for has not ended: a (running)."


def test_a_member_that_is_gone_and_still_counts_is_being_told() -> None:
    found = explained(State.WAITING, awaited=AwaitedMembers(pending=1, first=[RelatedJob(ID, None)]))
    assert kinds(found) == ["awaits_members", "in_steps"]
    assert found.reasons[0].sentence == f"1 job it waits for has not ended: {format_id(ID)} (gone)."


def test_a_holder_as_it_is_known() -> None:
    assert Holder(id="x").describe() == "x"
    assert Holder(id="x", pid=7).describe() == "x (pid 7)"
    assert Holder(id="x", name="w", host="h", pid=7).describe() == '"w" on h (pid 7)'


def test_a_long_reason_is_shortened_in_words_and_whole_in_data() -> None:
    paused = Paused(scope="queue", queue="q" * 255, since_at_ms=NOW, reason="why " * 125)
    assert len(paused.describe(NOW)) < 500
    limited = LimitFull(limit="l" * 128, key='"' + "k" * 62 + '"', cap=1, running=1, holders=[])
    assert limited.describe(NOW).endswith("is full: 1 of 1 running.")


def test_attempts_of_any_number() -> None:
    running = Running(worker=None, since_at_ms=NOW, attempt=3, max_attempts=0, deadline_at_ms=None)
    assert running.describe(NOW) == (
        "A taker without a worker id has been running it since 2027-01-15 08:00:00 UTC, attempt 3; "
        "its lease has no deadline."
    )


def test_an_end_without_a_reason() -> None:
    last = Attempt(attempt=1, started_at_ms=NOW, ended_at_ms=NOW - 5, worker=None, reason="old", error=None)
    found = explained(State.CANCELLED, of={"ended_at_ms": NOW}, last_attempt=last)
    assert found.summary == ("It was cancelled at 2027-01-15 08:00:00 UTC (just now); it is kept until it is deleted.")
    (reason,) = found.reasons
    assert isinstance(reason, Ended)
    assert reason.reason == ""


def test_as_json() -> None:
    found = explained(position=QueuePosition(ahead=0))
    plain = msgspec.to_builtins(found)
    assert plain["id"] == format_id(ID)
    assert [reason["kind"] for reason in plain["reasons"]] == ["no_worker", "next"]
    assert msgspec.json.decode(msgspec.json.encode(found), type=Explanation) == found
