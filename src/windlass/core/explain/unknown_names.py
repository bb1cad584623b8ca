"""Names of jobs that no worker of their queue knows.

A worker knows the names that it gave at its registration. A worker that gave none may know every name, and so may a
taker without a filter. A push worker knows every name, except those that it has refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from windlass.core.operations import Filter, WorkerInfo
from windlass.core.text.glob import compile_glob
from windlass.core.text.similar_names import describe_missing_task, suggest_name

from .inputs import RegisteredWorker

UNKNOWN_MAX = 20  # names in one answer


class NameFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Workers and takers of a queue, and names to examine, read by the store in one step."""

    now_ms: int
    queue: str
    names: dict[str, frozenset[bytes]]  # name -> push workers that do not know it
    taker_filters: list[Filter] = []  # of takers that wait at the queue
    workers: list[RegisteredWorker] = []
    has_more_workers: bool = False  # more workers exist than were read


class UnknownName(msgspec.Struct, frozen=True, kw_only=True):
    """A name of jobs that no worker of the queue knows."""

    name: str
    suggestion: str = ""  # a name that a worker knows and that is spelt alike
    sentence: str


def find_unknown_names(facts: NameFacts) -> list[UnknownName]:
    """Return the names that no worker knows. Without a live worker nothing is known about names."""
    workers = live_workers(facts.workers, facts.queue, facts.now_ms)
    if not workers or facts.has_more_workers:
        return []
    known = known_names(workers, facts.taker_filters)
    unknown = [name for name, strangers in facts.names.items() if not _is_known(name, strangers, workers, facts)]
    return [_unknown_name(name, known) for name in sorted(unknown)[:UNKNOWN_MAX]]


def _is_known(name: str, strangers: frozenset[bytes], workers: Sequence[RegisteredWorker], facts: NameFacts) -> bool:
    if any(knows_name(worker.info, name) and worker.id not in strangers for worker in workers):
        return True
    return any(_wants_name(wants, name) for wants in facts.taker_filters)


def _wants_name(wants: Filter, name: str) -> bool:
    if wants.only:
        return name in wants.only
    if wants.glob:
        return compile_glob(wants.glob)(name)
    return name not in wants.all_but


def _unknown_name(name: str, known: Iterable[str]) -> UnknownName:
    suggestion = suggest_name(name, known)
    sentence = describe_missing_task("No worker has a", name, suggestion)
    return UnknownName(name=name, suggestion=suggestion, sentence=sentence)


def live_workers(workers: Iterable[RegisteredWorker], queue: str, now_ms: int) -> list[RegisteredWorker]:
    """Return the workers that serve a queue and send heartbeats."""
    return [worker for worker in workers if queue in worker.info.queues and worker.silent_at_ms > now_ms]


def knows_name(info: WorkerInfo, name: str) -> bool:
    """Return whether a worker knows a name, as far as it gave its names."""
    return not info.names or name in info.names


def known_names(workers: Iterable[RegisteredWorker], taker_filters: Iterable[Filter]) -> set[str]:
    """Return the names that workers gave and that waiting takers ask for."""
    given = {name for worker in workers for name in worker.info.names}
    return given.union(*(wants.only for wants in taker_filters))
