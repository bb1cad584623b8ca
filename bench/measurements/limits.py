"""Cost of take next to lanes that a limit holds back, with many limits and with many lanes; cost of matching."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from bench.engine import BULK, Engine
from bench.figures import Finding, Reading, Setting, Table, in_turns, middle, ratio
from windlass.core.job import Blob, Job, NewJob
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Finish, LeaseRef, Take
from windlass.service import Service

BLOCKED_LANES = 10_000
LIMITS = 1_000
LANES = 100_000
STACKED = 10
TAKES = 200
PER_CALL = 100


def put(service: Service, jobs: list[NewJob]) -> None:
    for start in range(0, len(jobs), BULK):
        service.enqueue(jobs[start : start + BULK]).wait()


def _keyed(queue: str, key: int, **more: object) -> NewJob:
    return NewJob(queue=queue, name="n", payload=Blob(json.dumps({"k": key}).encode()), **more)  # type: ignore[arg-type]


def cost_of_takes(engine: Engine, service: Service, queue: str) -> float:
    """Take one by one, and release all jobs afterwards."""
    taken: list[Job] = []

    def take() -> None:
        taken.extend(service.take(Take(queues=(queue,))).wait().jobs)

    usual_us = engine.usual_us([take] * TAKES)
    service.release([LeaseRef(job.id, job.lease_token) for job in taken]).wait()
    return usual_us


def _cost_of_rounds(engine: Engine, service: Service, queue: str) -> float:
    """Take a job, finish it and enqueue another, so that each round reuses the freed place of the limit."""

    def go_round() -> None:
        (job,) = service.take(Take(queues=(queue,))).wait().jobs
        service.finish([Finish(job.id, job.lease_token)]).wait()
        put(service, [NewJob(queue=queue, name=job.name, lane=job.lane, payload=job.payload)])

    return engine.usual_us([go_round] * TAKES)


def _cost_of_enqueue(engine: Engine, service: Service, queue: str) -> float:
    jobs = [_keyed(queue, at % 10) for at in range(PER_CALL)]
    with engine.metered(1) as meter:
        for _ in range(20):
            service.enqueue(jobs).wait()
    return meter.spent.script_us / (20 * PER_CALL)


PLENTY = TAKES + 100


def _one_lane(service: Service) -> None:
    put(service, [NewJob(queue="lane", name="n", lane="a") for _ in range(PLENTY)])


def _blocked(service: Service) -> None:
    service.limit(Limit(name="none", matches=Matcher(queue="blocked", name="n"), running=0, key="k")).wait()
    put(service, [_keyed("blocked", key) for key in range(BLOCKED_LANES)])
    put(service, [NewJob(queue="blocked", name="free", lane="a") for _ in range(PLENTY)])


def _prepare(service: Service, setting: Setting) -> None:
    setting.say("limits: a queue without lanes, and a queue with one lane")
    put(service, [NewJob(queue="plain", name="n") for _ in range(PLENTY)])
    _one_lane(service)
    setting.say(f"limits: {BLOCKED_LANES:,} lanes held back")
    _blocked(service)
    setting.say(f"limits: {LANES:,} lanes")
    put(service, [NewJob(queue="lanes", name="n", lane=f"{at}") for at in range(LANES)])
    service.configure("fair", {"fair_share": True}).wait()
    put(service, [NewJob(queue="fair", name="n", lane=f"{at}") for at in range(LANES)])
    setting.say("limits: one place for many keys")
    service.limit(Limit(name="one", matches=Matcher(queue="shared"), running=1)).wait()
    service.limit(Limit(name="each", matches=Matcher(queue="shared"), running=1, key="k")).wait()
    put(service, [_keyed("shared", key) for key in range(BLOCKED_LANES)])
    service.limit(Limit(name="alone", matches=Matcher(queue="limited"), running=1)).wait()
    put(service, [_keyed("limited", 0) for _ in range(PLENTY)])
    for at in range(STACKED):
        service.limit(Limit(name=f"s{at}", matches=Matcher(queue="stacked"), running=1_000_000, key="k")).wait()
    many_limits(service, LIMITS)


def many_limits(service: Service, count: int, jobs: int = 10 * LIMITS) -> None:
    """Make many limits, each with its own name and room."""
    for at in range(count):
        service.limit(Limit(name=f"m{at}", matches=Matcher(queue="many", name=f"n{at}"), running=1_000)).wait()
    put(service, [NewJob(queue="many", name=f"n{at % count}") for at in range(jobs)])


def _warm(service: Service, queues: Sequence[str]) -> None:
    """Take once from each queue: the first takes move blocked lanes aside, and the figures are about later takes."""
    for queue in queues:
        jobs = service.take(Take(queues=(queue,))).wait().jobs
        service.release([LeaseRef(job.id, job.lease_token) for job in jobs]).wait()


def beside_blocked(setting: Setting) -> list[Reading]:
    """Measure only the row that has a floor."""
    with Engine() as engine, engine.service() as service:
        _one_lane(service)
        _blocked(service)
        _warm(service, ["blocked"])
        ways = {queue: partial(cost_of_takes, engine, service, queue) for queue in ("lane", "blocked")}
        return _readings(in_turns(setting, "takes next to lanes held back", ways))


def _readings(takes: Mapping[str, list[float]]) -> list[Reading]:
    return [Reading("take_blocked", takes["blocked"], takes["lane"])]


def section(setting: Setting) -> list[Finding]:
    with Engine() as engine, engine.service() as service:
        _prepare(service, setting)
        _warm(service, ("blocked", "shared", "many"))
        takes: dict[str, Callable[[], float]] = {
            queue: partial(cost_of_takes, engine, service, queue)
            for queue in ("plain", "lane", "blocked", "many", "lanes", "fair")
        }
        rounds: dict[str, Callable[[], float]] = {
            queue: partial(_cost_of_rounds, engine, service, queue) for queue in ("lane", "limited", "shared")
        }
        enqueues: dict[str, Callable[[], float]] = {
            queue: partial(_cost_of_enqueue, engine, service, queue) for queue in ("free", "stacked")
        }
        found = in_turns(setting, "takes", takes)
        found_rounds = in_turns(setting, "rounds", rounds)
        found_enqueues = in_turns(setting, "enqueues", enqueues)
    labels = {
        "plain": "no lanes, no limits",
        "lane": "one lane",
        "blocked": f"one lane beside {BLOCKED_LANES:,} lanes that a limit holds back",
        "many": f"{LIMITS:,} limits, each with its own name and room",
        "lanes": f"{LANES:,} lanes",
        "fair": f"{LANES:,} lanes, fair share",
    }
    round_labels = {
        "lane": "one lane, no limit",
        "limited": "one lane, at most one running",
        "shared": f"{BLOCKED_LANES:,} keys, at most one running in total and per key",
    }
    enqueue_labels = {"free": "no limits", "stacked": f"{STACKED} limits on each job, all per key"}
    return [
        Table(
            "Taking with limits", ("script µs per take of 1", "µs", "against one lane"),
            [[labels[queue], middle(found[queue]), ratio(found[queue], found["lane"])] for queue in labels],
        ),
        Table(
            "Reuse of a freed place", ("script µs per take, finish, enqueue", "µs", "against no limit"),
            [[label, middle(found_rounds[queue]), ratio(found_rounds[queue], found_rounds["lane"])]
             for queue, label in round_labels.items()],
        ),
        Table(
            f"Enqueue with limits, {PER_CALL} per call", ("script µs per job", "µs", "against none"),
            [[label, middle(found_enqueues[queue]), ratio(found_enqueues[queue], found_enqueues["free"])]
             for queue, label in enqueue_labels.items()],
        ),
        *_readings(found),
    ]  # fmt: skip
