"""Run of the doctor: all keys of each partition, page by page, then the bytes of each queue, then the engines.

Each step is one bounded call. Jobs run at the same time, so a step judges only the data that it reads at once.
"""

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
from .topology.health import CONFIG, INFO, LIBRARIES, TIME, check_calls, check_cuts, check_engine, read_engine

EXAMPLES_MAX = 10
KEYS_PER_CALL = 100
RECOUNT_ATTEMPTS = 3  # a large queue may change while it is counted
QUEUES_PER_CALL = 100
CHECKED_LAST = ("waits_forever",)  # checked again at the end: a later repair may have ended the wait
NOT_INDEXED = "job_not_in_index"
ProgressHandler = Callable[[Progress], object]


class DoctorRun:
    """Findings of one run so far."""

    def __init__(self, repair: bool, on_progress: ProgressHandler | None) -> None:
        self.repair = repair
        self._on_progress = on_progress
        self._counts: Counter[str] = Counter()
        self._repaired: Counter[str] = Counter()
        self._examples: dict[str, list[str]] = defaultdict(list)
        self.engine_findings: list[Finding] = []
        self.keys = self.jobs = self.queues = 0
        self.uncounted: list[str] = []
        self.recheck: list[bytes] = []  # keys to check again at the end

    def record(self, code: str, example: str, is_repaired: bool) -> None:
        self._counts[code] += 1
        self._repaired[code] += is_repaired
        known = self._examples[code]
        if len(known) < EXAMPLES_MAX and example not in known:
            known.append(example)

    @property
    def are_indexes_complete(self) -> bool:
        """Return whether queues can be recounted: their bytes are added up along the indexes."""
        return self._counts[NOT_INDEXED] == self._repaired[NOT_INDEXED]

    def report_progress(self) -> None:
        if self._on_progress is not None:
            self._on_progress(Progress(keys=self.keys, jobs=self.jobs, findings=self._counts.total()))

    def diagnosis(self) -> Diagnosis:
        findings = [
            make_finding(code, count, self._repaired[code], tuple(self._examples[code]))
            for code, count in self._counts.items()
        ]
        return Diagnosis(
            findings=tuple(
                sorted([*self.engine_findings, *findings], key=lambda finding: (finding.severity, finding.code))
            ),
            jobs=self.jobs,
            queues=self.queues,
            keys=self.keys,
            uncounted=tuple(self.uncounted),
        )


def doctor_flow(
    partitions: Sequence[int],
    repair: bool,
    durability: Durability,
    on_progress: ProgressHandler | None,
    cuts: Sequence[Cut] = (),
    *,
    is_managed: bool = False,
    scripts_because: str = "",
) -> Flow[Diagnosis]:
    run = DoctorRun(repair, on_progress)
    migrating = yield from _stop_migrating(run)
    whole = [partition for partition in partitions if partition not in migrating]
    for partition in whole:
        yield from _check_keys(run, partition)
        yield from _check_queues(run, partition)
    yield from _check_engines(run, whole, durability, is_managed)
    run.engine_findings += [*check_cuts(cuts, int(time.time() * 1000)), *check_calls(scripts_because)]
    return run.diagnosis()


def _stop_migrating(run: DoctorRun) -> Flow[list[int]]:
    """Stop the takers of partitions whose slot is being moved key by key, and return these partitions. They are not
    checked: each of the two nodes has only some of the keys."""
    migrating: list[int] = yield MigratingPartitions()
    for partition in migrating:
        yield maintenance.stop_migrating_partition(partition)
        run.record("slot_torn", f"partition {partition}", False)
    return migrating


def _check_keys(run: DoctorRun, partition: int) -> Flow[None]:
    cursor = "0"
    run.recheck = []
    while True:
        cursor, names = yield doctor.survey(cursor, partition)
        for first in range(0, len(names), KEYS_PER_CALL):
            yield from _examine(run, names[first : first + KEYS_PER_CALL], partition)
        run.keys += len(names)
        run.report_progress()
        if cursor == "0":
            break
    for first in range(0, len(run.recheck), KEYS_PER_CALL):
        yield from _examine(run, run.recheck[first : first + KEYS_PER_CALL], partition, is_last=True)


def _examine(run: DoctorRun, names: Sequence[bytes], partition: int, *, is_last: bool = False) -> Flow[None]:
    left = [(name, b"0") for name in names]
    while left:
        step: doctor.ExamineStep = yield doctor.examine(left, run.repair, partition)
        for row in step.rows:
            if row.code in CHECKED_LAST and not is_last:
                run.recheck.append(b"j:" + row.example[1:])
            else:
                run.record(row.code, format_example(row.example), row.is_repaired)
        run.jobs += 0 if is_last else step.jobs
        left = step.left


def _check_queues(run: DoctorRun, partition: int) -> Flow[None]:
    cursor, seen = "0", set[str]()
    while True:
        cursor, names = yield queues.queues(cursor, QUEUES_PER_CALL, partition)
        for queue in set(names) - seen:
            yield from _recount(run, queue, partition)
            run.report_progress()
        seen.update(names)
        if cursor == "0":
            break
    run.queues += len(seen)


def _recount(run: DoctorRun, queue: str, partition: int) -> Flow[None]:
    for _ in range(RECOUNT_ATTEMPTS if run.are_indexes_complete else 0):
        step = doctor.RecountStep("more", doctor.START)
        while step.status == "more":
            step = yield doctor.recount(queue, step.position, run.repair, partition)
        if step.status == "done":
            if step.are_bytes_off:
                run.record("bytes_wrong", f"queue {queue}", step.is_repaired)
            if step.are_consequences_off:
                run.record("consequences_wrong", f"queue {queue}", step.is_repaired)
            return
        if step.status == "unreadable":
            break
    run.uncounted.append(queue)


def _check_engines(run: DoctorRun, partitions: Sequence[int], durability: Durability, is_managed: bool) -> Flow[None]:
    """Check each node once, however many partitions it serves."""
    checked = set[str]()
    for partition in partitions:
        replies = yield [NodeCommand(command, partition) for command in (INFO, CONFIG, LIBRARIES, TIME)]
        engine = read_engine(replies, int(time.time() * 1000), durability, library().name, is_managed=is_managed)
        if engine.run_id not in checked:
            checked.add(engine.run_id)
            run.engine_findings += check_engine(engine)


def format_example(example: bytes) -> str:
    """Return an example as readable text. Its first byte is its kind."""
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
