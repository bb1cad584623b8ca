"""The doctor's round: all keys of each partition, page by page, then what each queue weighs, then the engine itself.
Every step is one bounded call, and jobs flow meanwhile: each step judges only what it sees at once."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from windlass.core.diagnosis import Diagnosis, Finding, Progress, make_finding
from windlass.core.ids import format_id
from windlass.core.job import Durability

from .commands import queues
from .commands.admin import doctor, maintenance
from .commands.command import Flow, MigratingPartitions, NodeCommand
from .embedded.data_directory import Cut
from .scripts import library
from .topology.health import CONFIG, INFO, LIBRARIES, TIME, check_cuts, check_engine, read_engine

EXAMPLES_MOST = 10
KEYS_PER_CALL = 100
TRIES = 3  # for a large queue to stand still while it is counted
QUEUES_ABOUT = 100
AT_LAST = ("waits_forever",)  # of a job; what is repaired later in the round may end the wait
MISSING = "job_not_in_index"
Follow = Callable[[Progress], object]


class Round:
    """What one round has met so far."""

    def __init__(self, repair: bool, follow: Follow | None) -> None:
        self.repair = repair
        self._follow = follow
        self._counts: Counter[str] = Counter()
        self._repaired: Counter[str] = Counter()
        self._examples: dict[str, list[str]] = defaultdict(list)
        self.of_engines: list[Finding] = []
        self.keys = self.jobs = self.queues = 0
        self.uncounted: list[str] = []
        self.again: list[bytes] = []  # keys to be looked at once more, at the end

    def note(self, code: str, example: str, is_repaired: bool) -> None:
        self._counts[code] += 1
        self._repaired[code] += is_repaired
        known = self._examples[code]
        if len(known) < EXAMPLES_MOST and example not in known:
            known.append(example)

    @property
    def are_indexes_complete(self) -> bool:
        """What queues weigh is added up along the indexes."""
        return self._counts[MISSING] == self._repaired[MISSING]

    def tell(self) -> None:
        if self._follow is not None:
            self._follow(Progress(keys=self.keys, jobs=self.jobs, findings=self._counts.total()))

    def diagnosis(self) -> Diagnosis:
        met = [
            make_finding(code, count, self._repaired[code], tuple(self._examples[code]))
            for code, count in self._counts.items()
        ]
        return Diagnosis(
            findings=tuple(sorted([*self.of_engines, *met], key=lambda one: (one.severity, one.code))),
            jobs=self.jobs,
            queues=self.queues,
            keys=self.keys,
            uncounted=tuple(self.uncounted),
        )


def doctor_flow(
    homes: Sequence[int], repair: bool, durability: Durability, follow: Follow | None, cuts: Sequence[Cut] = ()
) -> Flow[Diagnosis]:
    found = Round(repair, follow)
    torn = yield from _keep_off_torn(found)
    whole = [home for home in homes if home not in torn]
    for home in whole:
        yield from _look_at_keys(found, home)
        yield from _look_at_queues(found, home)
    yield from _look_at_engines(found, whole, durability)
    found.of_engines += check_cuts(cuts, int(time.time() * 1000))
    return found.diagnosis()


def _keep_off_torn(found: Round) -> Flow[list[int]]:
    """What is torn between two nodes shows only half of its keys on each: nothing can be judged there."""
    torn: list[int] = yield MigratingPartitions()
    for home in torn:
        yield maintenance.stop_migrating_partition(home)
        found.note("slot_torn", f"partition {home}", False)
    return torn


def _look_at_keys(found: Round, home: int) -> Flow[None]:
    cursor = "0"
    found.again = []
    while True:
        cursor, names = yield doctor.survey(cursor, home)
        for first in range(0, len(names), KEYS_PER_CALL):
            yield from _examine(found, names[first : first + KEYS_PER_CALL], home)
        found.keys += len(names)
        found.tell()
        if cursor == "0":
            break
    for first in range(0, len(found.again), KEYS_PER_CALL):
        yield from _examine(found, found.again[first : first + KEYS_PER_CALL], home, is_last=True)


def _examine(found: Round, names: Sequence[bytes], home: int, *, is_last: bool = False) -> Flow[None]:
    left = [(name, b"0") for name in names]
    while left:
        step: doctor.ExamineStep = yield doctor.examine(left, found.repair, home)
        for row in step.rows:
            if row.code in AT_LAST and not is_last:
                found.again.append(b"j:" + row.example[1:])
            else:
                found.note(row.code, readable(row.example), row.is_repaired)
        found.jobs += 0 if is_last else step.jobs
        left = step.left


def _look_at_queues(found: Round, home: int) -> Flow[None]:
    cursor, seen = "0", set[str]()
    while True:
        cursor, names = yield queues.queues(cursor, QUEUES_ABOUT, home)
        for queue in set(names) - seen:
            yield from _recount(found, queue, home)
            found.tell()
        seen.update(names)
        if cursor == "0":
            break
    found.queues += len(seen)


def _recount(found: Round, queue: str, home: int) -> Flow[None]:
    for _ in range(TRIES if found.are_indexes_complete else 0):
        step = doctor.RecountStep("more", doctor.START)
        while step.status == "more":
            step = yield doctor.recount(queue, step.position, found.repair, home)
        if step.status == "done":
            if step.off or step.history_off:
                found.note("bytes_wrong", f"queue {queue}", step.is_repaired)
            return
        if step.status == "unreadable":
            break
    found.uncounted.append(queue)


def _look_at_engines(found: Round, homes: Sequence[int], durability: Durability) -> Flow[None]:
    """Each node once, whatever number of partitions it serves."""
    met = set[str]()
    for home in homes:
        replies = yield [NodeCommand(command, home) for command in (INFO, CONFIG, LIBRARIES, TIME)]
        engine = read_engine(replies, int(time.time() * 1000), durability, library().name)
        if engine.run_id not in met:
            met.add(engine.run_id)
            found.of_engines += check_engine(engine)


def readable(example: bytes) -> str:
    """An example in people's words: the script says of which kind it is."""
    kind, rest = example[:1], example[1:]
    if kind == b"j" and len(rest) == 16:
        return f"job {format_id(rest)}"
    if kind == b"q":
        return f"queue {_text(rest)}"
    if kind == b"l":
        queue, _, lane = rest.partition(b"\0")
        parts = [_text(part) for part in lane.replace(b"\2", b"\0").split(b"\0") if part]
        return f"queue {_text(queue)}, lane {' / '.join(parts)}"
    prefix, _, owner = rest.partition(b":")
    return f"key {_text(prefix)}:{format_id(owner)}" if _is_of_job(prefix, owner) else f"key {_text(rest)}"


def _is_of_job(prefix: bytes, owner: bytes) -> bool:
    return len(owner) == 16 and prefix in (b"j", b"a", b"o", b"e", b"c", b"d", b"w", b"wj")


def _text(raw: bytes) -> str:
    text = raw.decode(errors="backslashreplace")
    return text if text.isprintable() else repr(raw)[2:-1]
