"""Cost of partitions and redirections: the same calls on a cluster of three primaries and on one engine, both over TCP
on this machine. A cluster is meant for several machines; here its nodes share the cores with all other processes."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter

import uvloop

from bench.engine import BULK
from bench.figures import Setting, Table, in_turns, ratio, spread
from windlass.core.job import NewJob
from windlass.core.operations import Finish, Take
from windlass.service import Service
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

# `python -m bench` may be started from another folder.
sys.path.append(str(Path(__file__).resolve().parents[2]))
from tests.topologies.nodes import ClusterProcesses, Node

QUEUES = tuple(f"bench{number}" for number in range(48))  # three for each of 16 partitions
TASKS = 50
DRAINERS = 4
JOBS = {"bulk": 40_000, "tasks": 20_000, "drain": 20_000}
HEAD = ("", "cluster, jobs/s", "standalone, jobs/s", "ratio")


def _jobs(count: int) -> list[NewJob]:
    return [NewJob(queue=QUEUES[number % len(QUEUES)], name="noop") for number in range(count)]


async def in_bulk(service: Service, count: int) -> None:
    for start in range(0, count, BULK):
        await service.enqueue(_jobs(min(BULK, count - start)))


async def from_tasks(service: Service, count: int) -> None:
    async def work(jobs: list[NewJob]) -> None:
        for job in jobs:
            await service.enqueue([job])

    await asyncio.gather(*(work(_jobs(count)[at::TASKS]) for at in range(TASKS)))


async def drain(service: Service, count: int) -> None:
    """Drain all queues. Each drainer has its own queues, as workers of one kind do, in several partitions."""

    async def work(queues: tuple[str, ...]) -> int:
        done, finishes = 0, list[Finish]()
        while True:
            answer = await service.finish_and_take(finishes, [], Take(queues=queues, most=100))
            done += len(finishes)
            finishes = [Finish(job.id, job.lease_token) for job in answer.taken.jobs]
            if not finishes:
                return done

    counts = await asyncio.gather(*(work(QUEUES[at::DRAINERS]) for at in range(DRAINERS)))
    assert sum(counts) == count, f"{sum(counts)} of {count} jobs were delivered"


def measured(
    url: str, empty: Callable[[], None], what: Callable[[Service, int], object], count: int, is_filled: bool
) -> float:
    async def main() -> float:
        async with Store(parse_url(url), partitions=16) as store:
            service = Service(store)
            await service.enqueue(_jobs(len(QUEUES)))
            await drain(service, len(QUEUES))
            if is_filled:
                await in_bulk(service, count)
            began_at_s = perf_counter()
            await what(service, count)  # type: ignore[misc]
            return count / (perf_counter() - began_at_s)

    empty()
    return uvloop.run(main())


def _empty(nodes: list[Node]) -> None:
    for node in nodes:
        node.send_command("FLUSHALL")


@contextlib.contextmanager
def _places() -> Iterator[dict[str, tuple[str, list[Node]]]]:
    with ClusterProcesses(has_replicas=False) as cluster, Node(tcp=True, config=("--appendonly", "no")) as single:
        yield {"cluster": (cluster.url, [*cluster.nodes]), "standalone": (single.url, [single])}


def section(setting: Setting) -> list[Table]:
    names = {
        f"enqueue in bulk, {BULK:,} a call": ("bulk", in_bulk),
        f"enqueue, {TASKS} concurrent tasks": ("tasks", from_tasks),
        f"take and finish, {DRAINERS} drainers": ("drain", drain),
    }
    with _places() as places:
        ways: dict[tuple[str, str], Callable[[], float]] = {}
        for name, (kind, what) in names.items():
            count = setting.scaled(JOBS[kind])
            for place, (url, nodes) in places.items():
                ways[name, place] = partial(measured, url, partial(_empty, nodes), what, count, kind == "drain")
        found = in_turns(setting, "cluster", ways)
    rows = [
        [
            name,
            spread(found[name, "cluster"]),
            spread(found[name, "standalone"]),
            ratio(found[name, "cluster"], found[name, "standalone"]),
        ]
        for name in names
    ]
    note = (
        "Three primaries against one engine, both with 16 partitions, over TCP on one machine. All of them share its "
        "cores."
    )
    return [Table("Cluster", HEAD, rows, note)]
