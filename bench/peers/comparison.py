"""Comparison on one engine: programs take turns for each measurement. A peer that fails is left out with a remark. A
peer that delivers wrongly keeps its figure, with a remark. Windlass must do neither."""

from collections.abc import Sequence

from bench.engine import Engine
from bench.figures import Setting

from . import BARE, WINDLASS, measuring
from .bare import BARE_MEASURES
from .measuring import Drained
from .process import PeerFailure
from .rows import MEASURES, Found, first_rate, jobs_for

MEASURE_S, QUICK_MEASURE_S = 1.0, 0.5
PICK_UPS, QUICK_PICK_UPS = 300, 120
STORED_JOBS = 3_000  # the same for all: hash tables of the engine grow in steps
# drain row -> slots, processes, kind of function
DRAINS = {
    "drain_100": (100, 1, "loop"),
    "drain_10": (10, 1, "loop"),
    "drain_2": (100, 2, "loop"),
    "drain_threads": (100, 1, "threads"),
}
ENQUEUES = {"enqueue_one": "one", "enqueue_50": "tasks", "bulk": "bulk"}


class Comparison:
    def __init__(self, setting: Setting, engine: Engine) -> None:
        self._setting = setting
        self._engine = engine
        self._for_s = QUICK_MEASURE_S if setting.is_quick else MEASURE_S
        self._rates: dict[tuple[str, str], float] = {}  # latest rates, so that a slow peer gets few jobs
        self._failed: set[tuple[str, str]] = set()
        self.found: Found = {}
        self.remarks: dict[tuple[str, str], str] = {}  # (who, measure) -> sentence

    def take_turns(self, measure: str, who: Sequence[str]) -> None:
        """Run one round of a measurement."""
        for one in who:
            if (one, measure) not in self._failed:
                self._take_turn(measure, one)

    def _take_turn(self, measure: str, who: str) -> None:
        try:
            values = self._measured(measure, who)
        except PeerFailure as failure:
            if who == WINDLASS:
                raise
            self._leave_out(measure, who, failure)
            return
        for row, value in zip(MEASURES[measure], values, strict=True):
            self.found.setdefault(row, {}).setdefault(who, []).append(value)

    def _leave_out(self, measure: str, who: str, failure: PeerFailure) -> None:
        """Remove a peer from all rounds, because figures are compared round by round."""
        self._setting.say(str(failure))
        self._failed.add((who, measure))
        self.remarks[who, measure] = str(failure).partition(": ")[0]
        for row in MEASURES[measure]:
            self.found.get(row, {}).pop(who, None)

    def _measured(self, measure: str, who: str) -> list[float]:
        if who == BARE:
            return BARE_MEASURES[measure](self._engine, self._count(measure, who))
        if measure in ENQUEUES:
            return [self._enqueued(measure, who)]
        if measure in DRAINS:
            return [self._drained(measure, who)]
        if measure == "cost":
            return self._cost(who)
        if measure == "pickup":
            return list(measuring.picked_up_ms(self._engine, who, self._count(measure, who)))
        return [self._picked_up_loaded(measure, who)]

    def _count(self, measure: str, who: str) -> int:
        if measure == "pickup":
            return QUICK_PICK_UPS if self._setting.is_quick else PICK_UPS
        return jobs_for(self._rates.get((who, measure)) or first_rate(measure, who), self._for_s)

    def _enqueued(self, measure: str, who: str) -> float:
        rate = measuring.enqueued(self._engine, who, ENQUEUES[measure], self._count(measure, who)).per_s
        self._rates[who, measure] = rate
        return rate

    def _drained(self, measure: str, who: str) -> float:
        slots, processes, kind = DRAINS[measure]
        way, count = measuring.quickest(who), self._count(measure, who)
        _, found = measuring.drained(self._engine, who, way, count, slots=slots, processes=processes, kind=kind)
        self._rates[who, measure] = self._checked(measure, who, found).per_s
        return found.per_s

    def _checked(self, measure: str, who: str, drained: Drained) -> Drained:
        if not drained.delivery.is_exact:
            sentence = drained.delivery.sentence()
            self._setting.say(f"{who}: {sentence}")
            assert who != WINDLASS, sentence
            self.remarks[who, measure] = sentence
        return drained

    def _cost(self, who: str) -> list[float]:
        """Enqueue from 50 concurrent tasks, then drain with one process with 100 slots."""
        enqueued, drained = measuring.drained(self._engine, who, "tasks", self._count("cost", who), slots=100)
        self._rates[who, "cost"] = self._checked("cost", who, drained).per_s
        both = enqueued.spent, drained.spent
        stored = measuring.enqueued(self._engine, who, measuring.quickest(who), STORED_JOBS).jobs
        return [
            sum(spent.cpu_us_per_job for spent in both),
            sum(spent.commands / spent.jobs for spent in both),
            measuring.bytes_per_job(self._engine, stored),
        ]

    def _picked_up_loaded(self, measure: str, who: str) -> float:
        """Measure the maximum load first, every time: it varies with other load on the machine."""
        most_per_s = measuring.flow_per_s(self._engine, who, self._count(measure, who))
        self._rates[who, measure] = most_per_s
        count = jobs_for(most_per_s / 2, 2 * self._for_s)
        return measuring.picked_up_loaded_ms(self._engine, who, count, most_per_s / 2)
