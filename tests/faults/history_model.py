"""Histories of a correct engine: a small random model, with clients whose calls overlap, lose answers and come late."""

from __future__ import annotations

import random

import msgspec

from faults.checks import FinalState, Guarantees
from faults.checks.final_state import FinalJob
from faults.history import CallName, Entry, JobFacts, Phase

MS = 1_000_000
CAP, CAPPED = 2, "limited/g"
LEASE_MS = 50
GUARANTEES = Guarantees(caps={CAPPED: CAP}, ordered=frozenset(("ordered",)), slack_ms=5)


class ModelJob:
    def __init__(self, number: int, facts: JobFacts, at_ms: int) -> None:
        self.id = f"{number:032x}"
        self.facts = facts
        self.position = (at_ms, number)
        self.state = "queued"
        self.attempt = self.token = self.until_ms = 0


class Client:
    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.free_at_ns = 0
        self.leases: list[JobFacts] = []


class Model:
    def __init__(self, seed: int, steps: int) -> None:
        self.rng = random.Random(seed)
        self.now_ns = 1_000 * MS
        self.entries: list[Entry] = []
        self.jobs: list[ModelJob] = []
        self.tokens = 0
        self.pending_callbacks: dict[str, str] = {}  # job id -> content
        self.producer, self.canceller, self.receiver, self.ordered = map(
            Client, ("producer", "canceller", "receiver", "ordered")
        )
        self.workers = [Client(f"worker-{number}") for number in range(3)]
        for _ in range(steps):
            self._step()
        self._drain()

    # Calls

    def _call(
        self, client: Client, call: CallName, jobs: list[JobFacts], *, may_be_lost: bool = True
    ) -> tuple[bool, Phase]:
        """Advance time to the instant of the call's effect. Return whether it has one, and what its caller knows."""
        begun_ns = max(client.free_at_ns, self.now_ns - self.rng.randrange(5 * MS)) + 1
        self.now_ns = max(self.now_ns, begun_ns) + self.rng.randrange(1, 3 * MS)
        client.calls += 1
        self._write(client, call, "begun", begun_ns, jobs)
        is_lost = may_be_lost and self.rng.random() < 0.08
        return not is_lost or self.rng.random() < 0.5, "unknown" if is_lost else "ok"

    def _answer(self, client: Client, call: CallName, phase: Phase, jobs: list[JobFacts], code: str = "") -> None:
        client.free_at_ns = self.now_ns + self.rng.randrange(1, 5 * MS)
        if phase != "unknown":
            self._write(client, call, phase, client.free_at_ns, jobs, code)
        elif self.rng.random() < 0.5:  # else the client was killed
            self._write(client, call, phase, client.free_at_ns, [], "cut")

    def _write(
        self, client: Client, call: CallName, phase: Phase, at_ns: int, jobs: list[JobFacts], code: str = ""
    ) -> None:
        entry = Entry(
            at_ns=at_ns, client=client.name, n=client.calls, call=call, phase=phase, jobs=tuple(jobs), code=code
        )  # fmt: skip
        self.entries.append(entry)

    @property
    def now_ms(self) -> int:
        return self.now_ns // MS

    # Actions of clients

    def _step(self) -> None:
        chance = self.rng.random()
        if chance < 0.25:
            self._enqueue()
        elif chance < 0.3:
            self._cancel()
        elif chance < 0.4:
            self._deliver()
        elif chance < 0.55:
            self._take(self.ordered, ("ordered",), 2)
        elif chance < 0.6:
            self.now_ns += self.rng.randrange(2 * LEASE_MS * MS)
        else:
            worker = self.rng.choice([*self.workers, self.ordered])
            if worker.leases and self.rng.random() < 0.8:
                self._report(worker)
            elif worker is not self.ordered:
                self._take(worker, ("plain", "limited"), 2)

    def _enqueue(self) -> None:
        requested = [self._new_job() for _ in range(self.rng.randint(1, 3))]
        is_done, phase = self._call(self.producer, "enqueue", requested)
        jobs = [ModelJob(len(self.jobs) + at + 1, facts, self.now_ms) for at, facts in enumerate(requested)]
        if is_done:
            self.jobs += jobs
        answers = [JobFacts(id=job.id, outcome="queued") for job in jobs]
        self._answer(self.producer, "enqueue", phase, answers)

    def _new_job(self) -> JobFacts:
        queue = self.rng.choice(("plain", "limited", "ordered"))
        key = f"key-{self.producer.calls}-{self.rng.getrandbits(60)}"
        return JobFacts(
            key=key, queue=queue, tries=self.rng.choice((0, 2)) if queue == "plain" else 0,
            expects_callback=self.rng.random() < 0.3, limit_keys=(CAPPED,) if queue == "limited" else (),
        )  # fmt: skip

    def _recover(self) -> None:
        for job in self.jobs:
            if job.state == "running" and job.until_ms <= self.now_ms:
                self._expire_lease(job)

    def _expire_lease(self, job: ModelJob) -> None:
        if job.facts.tries and job.attempt >= job.facts.tries:
            self._end(job, "failed")
        else:
            job.state, job.token = "queued", 0

    def _has_room(self, job: ModelJob) -> bool:
        running = [other for other in self.jobs if other.state == "running" and other.facts.queue == "limited"]
        return job.facts.queue != "limited" or len(running) < CAP

    def _take(self, client: Client, queues: tuple[str, ...], most: int, *, may_be_lost: bool = True) -> int:
        is_done, phase = self._call(client, "take", [], may_be_lost=may_be_lost)
        leases: list[JobFacts] = []
        if is_done:
            self._recover()
            waiting = [job for job in self.jobs if job.state == "queued" and job.facts.queue in queues]
            for job in sorted(waiting, key=lambda job: job.position):
                if len(leases) < most and self._has_room(job):
                    leases.append(self._lease(job))
        self._answer(client, "take", phase, leases)
        if phase == "ok":
            client.leases += leases
        return len(leases)

    def _lease(self, job: ModelJob) -> JobFacts:
        self.tokens += 1
        job.state, job.token, job.attempt = "running", self.tokens, job.attempt + 1
        job.until_ms = self.now_ms + LEASE_MS
        return msgspec.structs.replace(
            job.facts, id=job.id, token=job.token, attempt=job.attempt, leased_at_ms=self.now_ms,
            lease_until_ms=job.until_ms, lease_ms=LEASE_MS, expects_callback=False,
        )  # fmt: skip

    def _report(self, worker: Client, call: CallName | None = None, *, may_be_lost: bool = True) -> None:
        lease = worker.leases.pop(self.rng.randrange(len(worker.leases)))
        verbs: tuple[CallName, ...] = ("finish", "finish", "finish", "extend", "fail")
        call = call or self.rng.choice(verbs if worker is self.ordered else (*verbs, "release"))
        is_final = call == "fail" and (lease.attempt == lease.tries > 0 or self.rng.random() < 0.3)
        is_done, phase = self._call(
            worker, call, [JobFacts(key=lease.key, id=lease.id, token=lease.token)], may_be_lost=may_be_lost
        )
        job = self.jobs[int(lease.id, 16) - 1]
        if not is_done:
            self._answer(worker, call, phase, [])
            return
        refusal = self._refusal(job, lease.token)
        if phase == "ok" and refusal:
            self._answer(worker, call, "refused", [], refusal)
            return
        answer = self._apply_report(job, call, is_final) if not refusal else JobFacts()
        self._answer(worker, call, phase, [answer])
        if call == "extend" and phase == "ok":
            worker.leases.append(lease)

    def _refusal(self, job: ModelJob, token: int) -> str:
        if job.state == "running" and job.token == token:
            return ""
        return "stale_lease" if job.state in ("queued", "running") else "already_ended"

    def _apply_report(self, job: ModelJob, call: CallName, is_final: bool) -> JobFacts:
        if call == "extend":
            job.until_ms = max(job.until_ms, self.now_ms + LEASE_MS)
            return JobFacts(lease_until_ms=job.until_ms, lease_ms=LEASE_MS)
        if call == "release":
            job.state, job.token, job.attempt = "queued", 0, job.attempt - 1
            return JobFacts(outcome="queued")
        if call == "fail" and not is_final:
            job.state, job.token, job.position = "queued", 0, (self.now_ms, job.position[1])
            return JobFacts(outcome="retried")
        state = "finished" if call == "finish" else "failed"
        self._end(job, state)
        return JobFacts(outcome=state)

    def _end(self, job: ModelJob, state: str) -> None:
        job.state, job.token = state, 0
        if job.facts.expects_callback:
            self.pending_callbacks[job.id] = f"{job.id} {state}"

    def _cancel(self) -> None:
        open_jobs = [job for job in self.jobs if job.state in ("queued", "running")]
        if not open_jobs:
            return
        job = self.rng.choice(open_jobs)
        is_done, phase = self._call(self.canceller, "cancel", [JobFacts(id=job.id)])
        outcome = "requested"
        if is_done and job.state == "queued":
            outcome = "cancelled"
            self._end(job, "cancelled")
        self._answer(self.canceller, "cancel", phase, [JobFacts(outcome=outcome)])

    def _deliver(self) -> None:
        for job_id, content in list(self.pending_callbacks.items()):
            facts = JobFacts(id=job_id, delivery=f"d {job_id}", digest=content)
            self._call(self.receiver, "callback", [facts], may_be_lost=False)
            if self.rng.random() < 0.5:
                self._answer(self.receiver, "callback", "refused", [], "500")
            else:
                self._answer(self.receiver, "callback", "ok", [])
                del self.pending_callbacks[job_id]

    def _drain(self) -> None:
        last = Client("drain")
        while any(job.state in ("queued", "running") for job in self.jobs):
            self.now_ns += 2 * LEASE_MS * MS
            while self._take(last, ("plain", "limited", "ordered"), 2, may_be_lost=False):
                while last.leases:
                    self._report(last, "finish", may_be_lost=False)
        while self.pending_callbacks:
            self._deliver()

    def final(self) -> FinalState:
        """Return the final state: failed and cancelled jobs stay visible."""
        visible = [_final_job(job) for job in self.jobs if job.state in ("failed", "cancelled")]
        return FinalState(jobs={job.id: job for job in visible})


def _final_job(job: ModelJob) -> FinalJob:
    return FinalJob(id=job.id, key=job.facts.key, queue=job.facts.queue, state=job.state, attempt=job.attempt)
