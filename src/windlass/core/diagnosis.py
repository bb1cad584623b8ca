"""Findings of the doctor: a stable code with its meaning, its risk and its remedy."""

from __future__ import annotations

from enum import IntEnum

import msgspec


class Severity(IntEnum):
    """Severity of a finding, most urgent first."""

    ERROR = 1  # jobs are lost, stuck or counted wrongly, or will be
    WARNING = 2  # leftovers, or a setting that is a risk
    NOTE = 3  # for information

    @property
    def label(self) -> str:
        return self.name.lower()


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of inconsistency, with the number of times it was found."""

    code: str
    severity: Severity
    what: str  # the inconsistency
    risk: str  # its consequences if nothing is done
    remedy: str  # what to do; after a repair, a note that nothing is left to do
    count: int = 1
    repaired: int = 0  # number of repaired occurrences
    examples: tuple[str, ...] = ()  # at most ten: jobs, queues, lanes, keys

    @property
    def is_open(self) -> bool:
        """Whether unrepaired occurrences are left."""
        return self.repaired < self.count


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a running check. The totals are known only at the end."""

    keys: int
    jobs: int
    findings: int


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    findings: tuple[Finding, ...]  # by severity, then by code
    jobs: int  # checked jobs; a job that was added or removed during the check may be missing
    queues: int
    keys: int
    uncounted: tuple[str, ...] = ()  # queues whose bytes could not be summed: they kept changing, or miss jobs

    @property
    def is_healthy(self) -> bool:
        """Whether no error is left open."""
        return not any(finding.severity is Severity.ERROR and finding.is_open for finding in self.findings)


class FindingMeaning(msgspec.Struct, frozen=True):
    severity: Severity
    what: str
    risk: str
    remedy: str  # for occurrences that were not repaired


_REPAIR = "Run `windlass doctor --repair`."
_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

# Inconsistencies of a namespace. docs/doctor.md lists the same codes.
MEANINGS: dict[str, FindingMeaning] = {
    "record_unreadable": FindingMeaning(
        _E,
        "Records of jobs cannot be read.",
        "These jobs are neither taken nor ended, and operations on them fail.",
        "Restore them from a backup, or delete their keys (j:<id>) if you do not need the jobs.",
    ),
    "wrong_type": FindingMeaning(
        _E,
        "Keys hold a value of the wrong type.",
        "Operations that use them fail.",
        "Find the other program that writes into this namespace, then rename or delete these keys.",
    ),
    "not_examined": FindingMeaning(
        _E,
        "Keys could not be checked because they refer to data that cannot be read.",
        "They may hide other inconsistencies.",
        "Resolve unreadable records and wrong types first, then run the doctor again.",
    ),
    "key_incomplete": FindingMeaning(
        _E,
        "Definitions are incomplete.",
        "They have no effect.",
        "Define them again, or delete their keys.",
    ),
    "job_not_in_index": FindingMeaning(
        _E,
        "Jobs are missing from the index that their record names.",
        "They are not taken, promoted, recovered, counted or found.",
        _REPAIR,
    ),
    "ghost": FindingMeaning(
        _W,
        "Indexes list jobs, lanes or queues that no longer exist or are elsewhere.",
        "Counts are too high, and takers check these entries for nothing.",
        _REPAIR,
    ),
    "lane_not_listed": FindingMeaning(
        _E, "Lanes with jobs are not listed where takers look.", "Their jobs are not taken.", _REPAIR
    ),
    "room_forgotten": FindingMeaning(
        _E, "Lanes are blocked by a limit or a pause that no longer applies.", "Their jobs are not taken.", _REPAIR
    ),
    "limit_drifted": FindingMeaning(
        _E,
        "Limits count jobs that are not running.",
        "They block more jobs than they should, in the worst case all.",
        _REPAIR,
    ),
    "limit_not_listed": FindingMeaning(
        _W, "Limits do not list all of their keys.", "A change of such a limit may miss some keys.", _REPAIR
    ),
    "cap_wrong": FindingMeaning(
        _W,
        "Keys with their own caps are not listed, or their caps do not match their jobs.",
        "A cap is not shown, is never removed, or is removed too early.",
        _REPAIR,
    ),
    "pauses_miscounted": FindingMeaning(
        _E, "Queues count their pauses wrongly.", "A pause may be ignored, or checked for nothing.", _REPAIR
    ),
    "timer_late": FindingMeaning(
        _E, "Timers of queues fire too late.", "Scheduled jobs start late, or expired leases go unnoticed.", _REPAIR
    ),
    "bytes_wrong": FindingMeaning(
        _E,
        "Queues count their bytes wrongly.",
        "Size limits refuse jobs too early or too late, and histories are trimmed wrongly.",
        _REPAIR,
    ),
    "consequences_wrong": FindingMeaning(
        _W,
        "Queues count wrongly how many of their jobs failed because of another job.",
        "Pages and metrics show a wrong number of failures.",
        _REPAIR,
    ),
    "queue_not_listed": FindingMeaning(
        _E, "Queues are not listed.", "They are not shown, and the janitor skips them.", _REPAIR
    ),
    "counter_behind": FindingMeaning(
        _E,
        "A counter is behind numbers that were already assigned.",
        "A lease token or a sequence number could be assigned twice.",
        _REPAIR,
    ),
    "belongings_lost": FindingMeaning(
        _W,
        "Records of jobs name attempts, a result or dependents that no longer exist.",
        "This data is lost; a repair removes it from the record.",
        _REPAIR,
    ),
    "belongings_unmarked": FindingMeaning(
        _W,
        "Attempts, results, members or dependents are not named in the record of their job.",
        "They are not shown, and are left behind when the job is removed.",
        _REPAIR,
    ),
    "orphan": FindingMeaning(
        _W, "Keys belong to jobs or schedules that no longer exist.", "They use memory and are never removed.", _REPAIR
    ),
    "kept_for_nobody": FindingMeaning(
        _W, "Finished jobs are kept although no job needs them.", "They use memory and are never removed.", _REPAIR
    ),
    "retention_wrong": FindingMeaning(
        _E, "Jobs that must be kept have a removal time.", "They will be lost at that time.", _REPAIR
    ),
    "link_to_nobody": FindingMeaning(
        _W,
        "Children belong to a parent that has ended or no longer exists.",
        "They are kept or held although no parent needs them.",
        _REPAIR,
    ),
    "wrong_member": FindingMeaning(
        _E,
        "Jobs and the jobs that wait for them disagree about the wait.",
        "A wait ends too early, or never.",
        _REPAIR,
    ),
    "wait_is_over": FindingMeaning(_E, "Jobs wait although nothing is left to wait for.", "They never start.", _REPAIR),
    "waits_forever": FindingMeaning(
        _W,
        "Jobs wait for jobs that no longer exist: deleted children, or jobs that an import or a repair did not find.",
        "They never start by themselves.",
        "Start them with `wake`, or cancel them.",
    ),
    "flow_wrong": FindingMeaning(
        _W,
        "Flows count their steps wrongly or are not listed.",
        "They are shown in a wrong state or not at all, or are removed too early or never.",
        _REPAIR,
    ),
    "flow_lost": FindingMeaning(
        _W,
        "Jobs belong to a flow that does not exist or does not know them.",
        "The flow is not shown, or without these steps. A repair adds them with the dependencies that are still known.",
        _REPAIR,
    ),
    "schedule_not_listed": FindingMeaning(
        _E, "Schedules are not planned for their next occurrence.", "They do not fire, or at a wrong time.", _REPAIR
    ),
    "callback_not_listed": FindingMeaning(
        _E, "Pending callbacks are missing from the delivery list.", "They are not delivered.", _REPAIR
    ),
    "worker_not_listed": FindingMeaning(
        _W, "Registered workers are missing from the heartbeat index.", "They are shown and never removed.", _REPAIR
    ),
    "lease_unclaimed": FindingMeaning(
        _E,
        "Live workers do not know of jobs that are leased to them.",
        "These jobs do not run; without a lease deadline they wait until the worker stops.",
        f"{_REPAIR} It releases the jobs and spends no attempt. The worker's log says why it did not release them.",
    ),
    "loops_behind": FindingMeaning(
        _W,
        "Work of the background loops is overdue by more than five minutes.",
        "Scheduled jobs, lost leases, retention and schedules are delayed.",
        "Run `windlass serve`, or its loops in your own process. If it runs, find out why it is slow.",
    ),
    "slot_torn": FindingMeaning(
        _E,
        "Slots of partitions are being moved key by key from one node to another.",
        "Scripts see only half of the keys on either node. Until the move ends, no job is taken from these partitions.",
        "Finish the move, then run the doctor again. Move slots atomically instead (`CLUSTER MIGRATESLOTS`, Valkey 9).",
    ),
    "would_expire": FindingMeaning(
        _E, "Keys that must stay have a time to live.", "The engine will remove them, jobs included.", _REPAIR
    ),
    "never_expires": FindingMeaning(
        _W, "Keys that should expire have no time to live.", "They use memory and are never removed.", _REPAIR
    ),
    "unknown_key": FindingMeaning(
        _W,
        "Keys in this namespace are not known to this version.",
        "Another program, or another version, writes here.",
        "Find out which program owns them, and give Windlass its own namespace.",
    ),
}


def make_finding(code: str, count: int, repaired: int, examples: tuple[str, ...] = ()) -> Finding:
    """Return the finding for a code, with its texts."""
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
