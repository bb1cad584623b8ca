"""What a doctor says: findings with a stable code, what each means, and what to do about it."""

from __future__ import annotations

from enum import IntEnum

import msgspec


class Severity(IntEnum):
    """The most urgent first."""

    ERROR = 1  # jobs are lost, stuck or counted wrongly, or will be
    WARNING = 2  # something is left behind, or a risk was taken
    NOTE = 3  # worth knowing

    @property
    def label(self) -> str:
        return self.name.lower()


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be, however often it was met."""

    code: str
    severity: Severity
    what: str  # is wrong
    risk: str  # if it stays so
    remedy: str  # what to do; of what was repaired, that nothing is left to do
    count: int = 1
    repaired: int = 0  # of them
    examples: tuple[str, ...] = ()  # ten at most: jobs, queues, lanes, keys

    @property
    def is_open(self) -> bool:
        """Is something left to do?"""
        return self.repaired < self.count


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the doctor has come. How much there is in all is only known at the end."""

    keys: int
    jobs: int
    findings: int


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    findings: tuple[Finding, ...]  # by severity, then by code
    jobs: int  # looked at; one that came or went meanwhile may be missing
    queues: int
    keys: int
    uncounted: tuple[str, ...] = ()  # queues whose bytes could not be added up: they changed all the time, or miss jobs

    @property
    def is_healthy(self) -> bool:
        """Is there no error that is still open?"""
        return not any(one.severity is Severity.ERROR and one.is_open for one in self.findings)


class FindingMeaning(msgspec.Struct, frozen=True):
    severity: Severity
    what: str
    risk: str
    remedy: str  # when it was not repaired


_REPAIR = "Run `windlass doctor --repair`."
_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

# What may disagree in a namespace. docs/doctor.md has the same codes.
MEANINGS: dict[str, FindingMeaning] = {
    "record_unreadable": FindingMeaning(
        _E,
        "Records of jobs cannot be read.",
        "These jobs are neither taken nor ended, and operations on them fail.",
        "Restore them from a backup, or delete their keys (j:<id>) when they are worth nothing.",
    ),
    "wrong_type": FindingMeaning(
        _E,
        "Keys hold another kind of value than they should.",
        "Operations that use them fail.",
        "Find out who else writes into this namespace; then rename or delete these keys.",
    ),
    "not_examined": FindingMeaning(
        _E,
        "Keys could not be looked at, because something they lead to cannot be read.",
        "They may hide other disagreements.",
        "See to unreadable records and wrong types first, then look again.",
    ),
    "key_incomplete": FindingMeaning(
        _E,
        "Definitions are incomplete.",
        "What they describe does not happen.",
        "Define them anew, or delete their keys.",
    ),
    "job_not_in_index": FindingMeaning(
        _E,
        "Jobs do not stand where their records say.",
        "Nobody takes, promotes, recovers, counts or finds them there.",
        _REPAIR,
    ),
    "ghost": FindingMeaning(
        _W,
        "Indexes list jobs, lanes or queues that are gone or elsewhere.",
        "Counts are too high, and takers look at them in vain.",
        _REPAIR,
    ),
    "lane_not_listed": FindingMeaning(
        _E, "Lanes with jobs are not listed where takers look.", "Their jobs are not taken.", _REPAIR
    ),
    "room_forgotten": FindingMeaning(
        _E, "Lanes are held back by a limit or a pause that has room.", "Their jobs are not taken.", _REPAIR
    ),
    "limit_drifted": FindingMeaning(
        _E,
        "Limits count jobs that do not run.",
        "They hold back more than they should, in the worst case everything.",
        _REPAIR,
    ),
    "limit_not_listed": FindingMeaning(
        _W, "Limits do not know all of their keys.", "A change of such a limit may not reach them.", _REPAIR
    ),
    "cap_wrong": FindingMeaning(
        _W,
        "Keys with caps of their own are not listed, or their caps do not fit their jobs.",
        "A cap is not shown, stays for ever, or is forgotten too early.",
        _REPAIR,
    ),
    "pauses_miscounted": FindingMeaning(
        _E, "Queues count their pauses wrongly.", "A pause may be ignored, or be looked for in vain.", _REPAIR
    ),
    "timer_late": FindingMeaning(
        _E, "Timers of queues come too late.", "Scheduled jobs start late, or leases run out unnoticed.", _REPAIR
    ),
    "bytes_wrong": FindingMeaning(
        _E,
        "Queues count their bytes wrongly.",
        "Bounds on bytes refuse jobs too early, or too late; a history is trimmed wrongly.",
        _REPAIR,
    ),
    "queue_not_listed": FindingMeaning(
        _E, "Queues are not listed.", "Nobody sees them, and the janitor passes them by.", _REPAIR
    ),
    "counter_behind": FindingMeaning(
        _E,
        "A counter is behind numbers that were given out.",
        "A lease token or a place in the order could be given out twice.",
        _REPAIR,
    ),
    "belongings_lost": FindingMeaning(
        _W,
        "Jobs say that they have attempts, a result or dependents, which are gone.",
        "What is gone cannot be brought back; a repair makes the record say so.",
        _REPAIR,
    ),
    "belongings_unmarked": FindingMeaning(
        _W,
        "Attempts, results, members or dependents are not known to their job.",
        "They are not shown, and stay behind when the job goes.",
        _REPAIR,
    ),
    "orphan": FindingMeaning(
        _W, "Keys belong to jobs or schedules that are gone.", "They use memory for ever.", _REPAIR
    ),
    "kept_for_nobody": FindingMeaning(
        _W, "Finished jobs are kept though nobody needs them.", "They use memory for ever.", _REPAIR
    ),
    "retention_wrong": FindingMeaning(
        _E, "Jobs are to be removed that must be kept.", "They would be lost at that instant.", _REPAIR
    ),
    "link_to_nobody": FindingMeaning(
        _W,
        "Children belong to a parent that has ended or is gone.",
        "They are kept, or held back, for nobody.",
        _REPAIR,
    ),
    "wrong_member": FindingMeaning(
        _E,
        "Jobs and those who wait for them do not know the same of each other.",
        "A wait ends too early, or never.",
        _REPAIR,
    ),
    "wait_is_over": FindingMeaning(_E, "Jobs wait though nothing is left to wait for.", "They never start.", _REPAIR),
    "waits_forever": FindingMeaning(
        _W,
        "Jobs wait for others that are gone: deleted children, or what an import or a repair did not find.",
        "They never start by themselves.",
        "Let them start with `wake`, or cancel them.",
    ),
    "schedule_not_listed": FindingMeaning(
        _E, "Schedules are not planned at their next occurrence.", "They do not fire, or at a wrong time.", _REPAIR
    ),
    "callback_not_listed": FindingMeaning(
        _E, "Callbacks that are owed are not in the list of those to deliver.", "Nobody delivers them.", _REPAIR
    ),
    "worker_not_listed": FindingMeaning(
        _W, "Workers are known that nobody expects to beat.", "They are shown for ever.", _REPAIR
    ),
    "lease_unclaimed": FindingMeaning(
        _E,
        "Living workers do not know of jobs that are leased to them.",
        "These jobs do not run; without a lease deadline they wait until the worker stops.",
        f"{_REPAIR} It gives the jobs back and spends no attempt. The worker's log says why it did not do so itself.",
    ),
    "loops_behind": FindingMeaning(
        _W,
        "What the loops should have done is overdue by more than five minutes.",
        "Scheduled jobs, lost leases, retention and schedules wait for somebody to look.",
        "Run `windlass serve` (or its loops in a process of yours), or look at why it is slow.",
    ),
    "slot_torn": FindingMeaning(
        _E,
        "Slots of partitions are moved key by key from one node to another.",
        "Scripts see only half of the keys on either node; nothing is taken from these partitions meanwhile.",
        "Finish the move, then look again. Move slots atomically instead (`CLUSTER MIGRATESLOTS`, Valkey 9).",
    ),
    "would_expire": FindingMeaning(
        _E, "Keys that must stay have a time to live.", "The engine removes them then, jobs among them.", _REPAIR
    ),
    "never_expires": FindingMeaning(
        _W, "Keys that should go by themselves have no time to live.", "They use memory for ever.", _REPAIR
    ),
    "unknown_key": FindingMeaning(
        _W,
        "Keys in this namespace are not known to this version.",
        "Somebody else, or another version, writes here.",
        "Find out whose they are; give Windlass a namespace of its own.",
    ),
}


def make_finding(code: str, count: int, repaired: int, examples: tuple[str, ...] = ()) -> Finding:
    """What was met in the namespace under a code, in words."""
    meaning = MEANINGS[code]
    if repaired == count:
        remedy = "It was repaired."
    elif repaired:
        remedy = f"{repaired} of {count} were repaired. {meaning.remedy}"
    else:
        remedy = meaning.remedy
    return Finding(
        code=code, severity=meaning.severity, what=meaning.what, risk=meaning.risk, remedy=remedy,
        count=count, repaired=repaired, examples=examples,
    )  # fmt: skip
