"""A history indexed for the checks: calls with their answers, and per job its leases and the calls about it.

Times are CLOCK_MONOTONIC unless their name says otherwise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from ..history import CallName, Entry, JobFacts, Phase
from .job_identity import job_identity

NEVER = 1 << 63
MS = 1_000_000
# Calls that end a lease or the job, or may do so.
ENDING_CALLS: frozenset[CallName] = frozenset(("finish", "fail", "release", "cancel", "requeue", "suspend"))
# A call that is repeated after a lost answer finds the effect of its first try: such a refusal may hide a success.
MAY_HAVE_SUCCEEDED = frozenset(("already_ended", "stale_lease", "wrong_state", "unknown_job", "gone"))


_DEFAULTS = tuple(zip(JobFacts.__struct_fields__, JobFacts.__struct_defaults__, strict=True))


class Call:
    """One call. If it took effect, then between `begun_ns` and `answered_ns`."""

    __slots__ = ("answer", "begun", "phase")

    def __init__(self, begun: Entry) -> None:
        self.begun = begun
        self.answer: Entry | None = begun if begun.phase != "begun" else None
        self.phase: Phase = "unknown" if begun.phase == "begun" else begun.phase

    def set_answer(self, answer: Entry) -> None:
        self.answer, self.phase = answer, answer.phase

    @property
    def begun_ns(self) -> int:
        return self.begun.at_ns

    @property
    def answered_ns(self) -> int:
        """The instant of the answer; NEVER if the caller received none."""
        return NEVER if self.answer is None or self.phase == "unknown" else self.answer.at_ns

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (self.begun,) if self.answer in (None, self.begun) else (self.begun, self.answer)


class JobCall:
    """The part of a call that concerns one job, with its answer."""

    __slots__ = ("call", "code", "facts", "job_id", "phase", "position")

    def __init__(self, call: Call, facts: JobFacts, job_id: str, position: int) -> None:
        self.call = call
        self.position = position  # among the jobs of the call
        self.facts = facts
        self.job_id = job_id
        self.code = facts.code or (call.answer.code if call.answer is not None else "")
        self.phase: Phase = "refused" if facts.code else call.phase

    @property
    def name(self) -> CallName:
        return self.call.begun.call

    @property
    def client(self) -> str:
        return self.call.begun.client

    @property
    def entries(self) -> tuple[Entry, ...]:
        return self.call.entries

    @property
    def is_ok(self) -> bool:
        return self.phase == "ok"

    @property
    def may_have_effect(self) -> bool:
        return self.phase != "refused" or self.code in MAY_HAVE_SUCCEEDED

    @property
    def begun_ns(self) -> int:
        return self.call.begun_ns

    @property
    def answered_ns(self) -> int:
        return self.call.answered_ns


class Lease:
    """A lease whose holder received the answer to its take."""

    __slots__ = ("extensions", "grant")

    def __init__(self, grant: JobCall) -> None:
        self.grant = grant  # the take
        self.extensions: list[JobCall] = []

    @property
    def token(self) -> int:
        return self.grant.facts.token

    def deadline_ms(self, before_ns: int) -> int:
        """Return the deadline by the engine's clock, as it was known before an instant. 0: unknown."""
        extended = [call.facts.lease_until_ms for call in self.extensions if call.answered_ns < before_ns]
        return max(self.grant.facts.lease_until_ms, *extended, 0) if self.grant.facts.lease_until_ms else 0

    def earliest_expiry_ns(self, slack_ms: int) -> int:
        """Return an instant before which the lease cannot expire. Its length counts from the begin of the call."""
        if not self.grant.facts.lease_ms:
            return NEVER if self.is_connection_bound else self.grant.answered_ns
        calls = [self.grant, *self.extensions]
        return max(call.begun_ns + (call.facts.lease_ms - slack_ms) * MS for call in calls)

    @property
    def is_connection_bound(self) -> bool:
        """Whether the lease ends with a connection."""
        return bool(self.grant.call.begun.connection)


class JobHistory:
    """All calls about one job."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.keys: set[str] = set()
        self.enqueues: list[JobCall] = []
        self.leases: list[Lease] = []  # by token if there are tokens, else by the time of the answer
        self.calls: list[JobCall] = []  # all other calls, by their begin

    def calls_named(self, *names: CallName) -> list[JobCall]:
        return [call for call in self.calls if call.name in names]

    @cached_property
    def was_requeued(self) -> bool:
        """Whether a requeue may have started the job again after its end."""
        return any(call.may_have_effect for call in self.calls_named("requeue"))


class HistoryIndex:
    def __init__(self, entries: Iterable[Entry]) -> None:
        self.calls = _pair_calls(entries)
        self.jobs: dict[str, JobHistory] = {}
        self.ids_of_key: dict[str, set[str]] = defaultdict(set)
        self.enqueues: list[JobCall] = []
        self.deliveries: dict[str, list[JobCall]] = defaultdict(list)
        self._connections: dict[str, int] = {}
        merged = [(call, _merge_answer(call)) for call in self.calls]
        for _, jobs in merged:
            self._collect_ids(jobs)
        for call, jobs in merged:
            self._add(call, jobs)
        self._sort()

    def connection_alive_until_ns(self, connection: str) -> int:
        """Return the begin of the last call that was answered over the connection: it was alive then."""
        return self._connections.get(connection, 0)

    def jobs_of(self, call: JobCall) -> list[JobHistory]:
        """Return the job of a call and all other jobs that the same enqueue made."""
        ids = {call.job_id} | self.ids_of_key.get(call.facts.key, set())
        return [self.jobs[job_id] for job_id in sorted(ids) if job_id in self.jobs]

    def _collect_ids(self, jobs: Sequence[JobFacts]) -> None:
        for facts in jobs:
            if facts.key and facts.id:
                self.ids_of_key[facts.key].add(job_identity(facts.id))

    def _add(self, call: Call, jobs: Sequence[JobFacts]) -> None:
        if call.begun.connection and call.phase in ("ok", "refused"):
            connection = call.begun.connection
            self._connections[connection] = max(self._connections.get(connection, 0), call.begun_ns)
        for position, facts in enumerate(jobs):
            job_id = job_identity(facts.id) if facts.id else self._id_of_key(facts.key)
            job_call = JobCall(call, facts, job_id, position)
            if job_call.name == "enqueue":
                self.enqueues.append(job_call)
            if facts.delivery:
                self.deliveries[facts.delivery].append(job_call)
            if job_id:
                self._add_to_job(self.jobs.setdefault(job_id, JobHistory(job_id)), job_call)

    def _add_to_job(self, history: JobHistory, call: JobCall) -> None:
        if call.facts.key:
            history.keys.add(call.facts.key)
        if call.name == "enqueue":
            history.enqueues.append(call)
        elif call.name == "take":
            if call.is_ok:
                history.leases.append(Lease(call))
        else:
            history.calls.append(call)

    def _id_of_key(self, key: str) -> str:
        """Return the id that belongs to a key, or a name made of the key where the front end shows no id."""
        ids = self.ids_of_key.get(key, set()) if key else set()
        return next(iter(ids)) if len(ids) == 1 else key and f"key {key}"

    def _sort(self) -> None:
        for history in self.jobs.values():
            history.leases.sort(key=lambda lease: (lease.token, lease.grant.answered_ns))
            by_token = {lease.token: lease for lease in history.leases if lease.token}
            for call in history.calls_named("extend"):
                if call.is_ok and call.facts.token in by_token:
                    by_token[call.facts.token].extensions.append(call)


def _pair_calls(entries: Iterable[Entry]) -> list[Call]:
    """Join the two entries of each call."""
    calls: dict[tuple[str, int], Call] = {}
    for entry in sorted(entries, key=lambda entry: entry.at_ns):
        known = calls.get((entry.client, entry.n))
        if known is None:
            calls[entry.client, entry.n] = Call(entry)
        elif entry.phase == "begun":
            raise ValueError(f"Two clients have the name {entry.client!r}. Give each client a name of its own.")
        else:
            known.set_answer(entry)
    return sorted(calls.values(), key=lambda call: call.begun_ns)


def _merge_answer(call: Call) -> Sequence[JobFacts]:
    """Return the facts of each requested job with those of the answer; of a take, the jobs that were given."""
    requested = call.begun.jobs
    if call.begun.call == "take":
        return call.answer.jobs if call.answer is not None and call.phase == "ok" else ()
    if call.answer is None or call.answer is call.begun or not call.answer.jobs:
        return requested
    return [_with_answer(*pair) for pair in zip(requested, call.answer.jobs, strict=True)]


def _with_answer(requested: JobFacts, answer: JobFacts) -> JobFacts:
    answered = {field: value for field, default in _DEFAULTS if (value := getattr(answer, field)) != default}
    return msgspec.structs.replace(requested, **answered)
