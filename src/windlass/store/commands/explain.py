"""Explain command: the script's findings as facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from windlass.core.errors import Refusal
from windlass.core.explain.inputs import (
    AwaitedMembers,
    Facts,
    FullLimit,
    QueuePosition,
    RegisteredWorker,
    RelatedJob,
    SuspendedOn,
    Takers,
)
from windlass.core.explain.references import Step
from windlass.core.explain.unknown_names import NameFacts
from windlass.core.limits.limit import parse_key
from windlass.core.operations import ANY_JOB, Filter
from windlass.core.queue import Pause
from windlass.core.states import State
from windlass.store.records.attempt import unpack_attempt
from windlass.store.records.durable_state import unpack_step
from windlass.store.records.record import unpack

from .command import Argument, Command, parse_read_reply
from .limits import read_limit
from .queues import read_pause
from .workers import read_info

LISTED = 10  # holders of a limit, members
WORKERS_LOOKED_AT = 500
NAMES_LOOKED_AT = 100
JOBS_LOOKED_AT = 200  # for their names: the first of the default lane, and the heads of so many lanes without names
_STEPS: dict[bytes, Step] = {
    b"r.": "releasing",
    b"f0": "clearing",
    b"f1": "clearing",
    b"w.": "looking",
    b"el": "letting_go",
    b"ek": "letting_go",
    b"ea": "letting_go",
    b"eo": "letting_go",
}


def explain(job_id: bytes, partition: int) -> Command[Facts | Refusal]:
    args: list[Argument] = [job_id, LISTED, WORKERS_LOOKED_AT]
    return Command(
        "explain", args, lambda reply: parse_read_reply(reply, lambda parts: _facts(job_id, parts)), partition=partition
    )


def _facts(job_id: bytes, parts: Any) -> Facts:
    now_ms, record, attempt, facts = parts
    job = unpack(job_id + record, is_whole=False)
    found: dict[bytes, list[Any]] = defaultdict(list)
    for kind, *fact in facts:
        found[kind].append(fact)
    all_workers, workers, name_lists = _only(found[b"workers"], (0, [], []))
    lease_ms, is_lease_fixed, holder = _only(found[b"holder"], (0, 0, []))
    removed_at_ms, is_needed = _only(found[b"kept"], (0, 0))
    return Facts(
        now_ms=now_ms,
        job=job,
        last_attempt=unpack_attempt(attempt) if attempt else None,
        pauses=_pauses(job.queue, found[b"pause"]),
        limits=[_limit(fact) for fact in found[b"limit"]],
        position=_place(_only(found[b"place"], None)),
        takers=_takers(_only(found[b"takers"], (0, 0, 0, []))),
        workers=_workers(workers, name_lists),
        workers_without_name=_only(found[b"strangers"], ([],))[0],
        has_more_workers=all_workers > len(workers),
        queue_lease_ms=lease_ms,
        is_lease_fixed=bool(is_lease_fixed),
        holder=_worker(holder) if holder else None,
        parent=_relative(*_only(found[b"parent"], (b"", 0))) if found[b"parent"] else None,
        awaited=_awaited(_only(found[b"members"], None)),
        steps=list(dict.fromkeys(_STEPS[kind] for (kind,) in found[b"step"])),
        waits=[_suspended_on(*fact) for fact in found[b"wait"]],
        suspended_at_ms=_only(found[b"suspended"], (0,))[0],
        removed_at_ms=removed_at_ms or None,
        is_needed=bool(is_needed),
    )


def _suspended_on(name: bytes, packed: bytes, pending_children: int) -> SuspendedOn:
    return SuspendedOn(unpack_step(name.decode(), packed), pending_children)


def _only(facts: list[Any], default: Any) -> Any:
    return facts[0] if facts else default


def _pauses(queue: str, facts: list[Any]) -> list[Pause]:
    return [read_pause(queue, what, content) for what, content in facts]


def _limit(fact: Any) -> FullLimit:
    limit_key, definition, running, token_at, holders, own_cap = fact
    return FullLimit(
        limit=read_limit(definition),
        key=parse_key(limit_key.decode()),
        own_cap=own_cap or None,
        running=running,
        next_token_at_ms=token_at or None,
        holders=holders,
    )


def _place(fact: Any) -> QueuePosition | None:
    if fact is None:
        return None
    ahead, is_fair, lanes, blocked_lanes, weight = fact
    return QueuePosition(ahead=ahead, is_fair=bool(is_fair), lanes=lanes, blocked_lanes=blocked_lanes, weight=weight)


def _takers(fact: Any) -> Takers:
    waiting, wanting, served, unfit = fact
    return Takers(
        waiting=waiting, wanting=wanting, served=served, other_filters=[read_filter(text.decode()) for text in unfit]
    )


def read_filter(text: str) -> Filter:
    """Parse the text that `filter_text` writes."""
    if not text:
        return ANY_JOB
    head, kind, rest = text.split("\1", 2)
    priority = head.lstrip("hs")
    names = tuple(rest.split("\0")) if rest else ()
    return Filter(
        only=names if kind == "only" else (),
        all_but=names if kind == "except" else (),
        glob=rest if kind == "glob" else "",
        priority=int(priority) if priority else None,
        hidden=head.startswith("h"),
        steps="s" in head,
    )


def _worker(row: Any, names: bytes = b"") -> RegisteredWorker:
    worker, silent_at, beat_ms, description, running = row
    return RegisteredWorker(
        id=worker, info=read_info(description, names), silent_at_ms=silent_at, beat_ms=beat_ms, running=running
    )


def _workers(rows: Any, name_lists: Any) -> list[RegisteredWorker]:
    """Read workers. The last field of a row is the index of the worker's names, from 1; 0: it gave none."""
    lists = [b"", *name_lists]
    return [_worker(row[:-1], lists[row[-1]]) for row in rows]


def unknown_names(queue: str, names: Sequence[str], partition: int) -> Command[NameFacts]:
    """Read who knows these names, or without names the first names of queued jobs."""
    args: list[Argument] = [queue, NAMES_LOOKED_AT, JOBS_LOOKED_AT, WORKERS_LOOKED_AT, *names]
    return Command("unknown_names", args, lambda reply: _name_facts(queue, reply), partition=partition)


def _name_facts(queue: str, reply: Any) -> NameFacts:
    now_ms, rows, filters, all_workers, workers, name_lists = reply
    return NameFacts(
        now_ms=now_ms,
        queue=queue,
        names={name.decode(): frozenset(strangers) for name, strangers in rows},
        taker_filters=[read_filter(text.decode()) for text in filters],
        workers=_workers(workers, name_lists),
        has_more_workers=all_workers > len(workers),
    )


def _relative(job_id: bytes, state: int) -> RelatedJob:
    return RelatedJob(job_id, State(state) if state else None)


def _awaited(fact: Any) -> AwaitedMembers:
    if fact is None:
        return AwaitedMembers()
    pending, first, deleted, first_deleted = fact
    members = [_relative(*pair) for pair in first]
    return AwaitedMembers(pending=pending, first=members, deleted=deleted, first_deleted=first_deleted)
