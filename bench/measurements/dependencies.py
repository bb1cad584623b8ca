"""Parent with ten thousand children: cost of a child compared with a simple job, and longest call of each phase."""

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import NamedTuple

from bench.engine import BULK, QUEUE, Engine
from bench.figures import Setting, Table, in_turns, middle, ratio
from windlass.core.job import Job, NewJob
from windlass.core.operations import Finish, Take
from windlass.core.queue import FOREVER_MS
from windlass.service import Service

CHILDREN = 10_000
PHASES = ("enqueue", "release", "take", "finish", "clean up")


class Cost(NamedTuple):
    script_us: float  # per child
    longest_ms: float  # longest call, as its caller sees it


class Run:
    """Life of a parent with its children, or of as many simple jobs, phase by phase."""

    def __init__(self, engine: Engine, service: Service, count: int) -> None:
        self.engine, self.service, self.count = engine, service, count
        self.costs: dict[str, Cost] = {}
        self.longest_s = 0.0

    def timed(self, ask: Callable[[], object]) -> object:
        began_at_s = perf_counter()
        answer = ask()
        self.longest_s = max(self.longest_s, perf_counter() - began_at_s)
        return answer

    def phase(self, name: str, work: Callable[[], None]) -> None:
        self.longest_s = 0.0
        with self.engine.metered(self.count) as meter:
            work()
        self.costs[name] = Cost(meter.spent.script_us_per_job, 1000 * self.longest_s)

    def enqueue(self, template: NewJob) -> None:
        for start in range(0, self.count, BULK):
            jobs = [template] * min(BULK, self.count - start)
            self.timed(lambda jobs=jobs: self.service.enqueue(jobs).wait())

    def go_on(self) -> None:
        """Run the scheduler's steps until no work on the children is left."""
        while True:
            step = self.timed(lambda: self.service.promote().wait())
            if step.next_at_ms is None or step.next_at_ms > step.now_ms:  # type: ignore[attr-defined]
                return

    def take(self) -> list[Job]:
        taken: list[Job] = []
        request = Take(queues=(QUEUE,), most=BULK, lease_ms=FOREVER_MS)
        while len(taken) < self.count:
            taken += self.timed(lambda: self.service.take(request).wait().jobs)  # type: ignore[arg-type]
        return taken

    def finish(self, jobs: Sequence[Job]) -> None:
        for start in range(0, len(jobs), BULK):
            reports = [Finish(job.id, job.lease_token) for job in jobs[start : start + BULK]]
            self.timed(lambda reports=reports: self.service.finish(reports).wait())


def _plain(engine: Engine, service: Service, count: int) -> dict[str, Cost]:
    run = Run(engine, service, count)
    taken: list[Job] = []
    run.phase("enqueue", lambda: run.enqueue(NewJob(queue=QUEUE, name="noop")))
    run.phase("take", lambda: taken.extend(run.take()))
    run.phase("finish", lambda: run.finish(taken))
    return run.costs


def _family(engine: Engine, service: Service, count: int) -> dict[str, Cost]:
    run = Run(engine, service, count)
    service.enqueue([NewJob(queue="parents", name="parent", lease_ms=FOREVER_MS)]).wait()
    parents = Take(queues=("parents",))
    (parent,) = service.take(parents).wait().jobs
    taken: list[Job] = []

    def hand_over() -> None:
        run.finish([parent])
        run.go_on()

    def end() -> None:
        run.finish(service.take(parents).wait().jobs)
        run.go_on()

    run.phase("enqueue", lambda: run.enqueue(NewJob(queue=QUEUE, name="noop", parent=parent.id, held=True)))
    run.phase("release", hand_over)
    run.phase("take", lambda: taken.extend(run.take()))
    run.phase("finish", lambda: run.finish(taken))
    run.phase("clean up", end)

    return run.costs


def _row(phase: str, plain: list[dict[str, Cost]], family: list[dict[str, Cost]]) -> list[str]:
    mine = [costs[phase] for costs in family]
    beside = [costs[phase] for costs in plain] if phase in plain[0] else []
    return [
        phase,
        middle([cost.script_us for cost in beside]) if beside else "–",
        middle([cost.script_us for cost in mine]),
        ratio([cost.script_us for cost in mine], [cost.script_us for cost in beside]) if beside else "–",
        f"{median(cost.longest_ms for cost in beside):.1f}" if beside else "–",
        f"{median(cost.longest_ms for cost in mine):.1f}",
    ]


def _total(plain: list[dict[str, Cost]], family: list[dict[str, Cost]]) -> list[str]:
    sums = [[sum(cost.script_us for cost in costs.values()) for costs in samples] for samples in (plain, family)]
    longest = [
        f"{median(max(cost.longest_ms for cost in costs.values()) for costs in samples):.1f}"
        for samples in (plain, family)
    ]
    return ["all", middle(sums[0]), middle(sums[1]), ratio(sums[1], sums[0]), *longest]


def section(setting: Setting) -> list[Table]:
    count = setting.scaled(CHILDREN)
    with Engine() as engine, engine.service() as service:
        ways = {
            "plain": lambda: _plain(engine, service, count),
            "family": lambda: _family(engine, service, count),
        }
        found = in_turns(setting, f"a parent with {count:,} children", ways)
    plain, family = found["plain"], found["family"]
    head = (
        "phase",
        "simple, script µs",
        "child, script µs",
        "ratio",
        "simple, longest call ms",
        "child, longest call ms",
    )
    note = (
        f"Calls of {BULK:,} jobs to enqueue, take and finish. Releasing held children, and cleaning them up after the "
        "end of their parent, runs in steps of 200 members, in idle takers or the scheduler."
    )
    rows = [*(_row(phase, plain, family) for phase in PHASES), _total(plain, family)]
    return [Table(f"A parent with {count:,} children", head, rows, note)]
