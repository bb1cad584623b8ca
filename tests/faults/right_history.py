"""Histories that a right engine could have left: a small model of one, driven by chance, with clients whose calls
overlap, whose answers get lost, and who report too late."""

from __future__ import annotations

import random

import msgspec

from faults.history import CallName, Entry, Phase, Seen
from faults.judging import Final, Promises
from faults.judging.final import FinalJob

MS = 1_000_000
CAP, CAPPED = 2, "limited/g"
LEASE_MS = 50
PROMISES = Promises(caps={CAPPED: CAP}, ordered=frozenset(("ordered",)), slack_ms=5)


class ModelJob:
    def __init__(self, number: int, seen: Seen, at_ms: int) -> None:
        self.id = f"{number:032x}"
        self.seen = seen
        self.place = (at_ms, number)
        self.state = "queued"
        self.attempt = self.token = self.until_ms = 0


class Client:
    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.free_at_ns = 0
        self.held: list[Seen] = []


class Model:
    def __init__(self, seed: int, steps: int) -> None:
        self.draw = random.Random(seed)
        self.now_ns = 1_000 * MS
        self.entries: list[Entry] = []
        self.jobs: list[ModelJob] = []
        self.tokens = 0
        self.owed: dict[str, str] = {}  # job id -> what is to be said
        self.producer, self.canceller, self.receiver, self.ordered = map(
            Client, ("producer", "canceller", "receiver", "ordered")
        )
        self.workers = [Client(f"worker-{number}") for number in range(3)]
        for _ in range(steps):
            self._step()
        self._drain()

    # Calls

    def _call(
        self, client: Client, call: CallName, asked: list[Seen], *, may_be_lost: bool = True
    ) -> tuple[bool, Phase]:
        """Time goes on to the instant at which the call takes effect. Whether it does, and what its caller knows."""
        begun_ns = max(client.free_at_ns, self.now_ns - self.draw.randrange(5 * MS)) + 1
        self.now_ns = max(self.now_ns, begun_ns) + self.draw.randrange(1, 3 * MS)
        client.calls += 1
        self._write(client, call, "begun", begun_ns, asked)
        is_lost = may_be_lost and self.draw.random() < 0.08
        return not is_lost or self.draw.random() < 0.5, "unknown" if is_lost else "ok"

    def _answer(self, client: Client, call: CallName, phase: Phase, jobs: list[Seen], code: str = "") -> None:
        client.free_at_ns = self.now_ns + self.draw.randrange(1, 5 * MS)
        if phase != "unknown":
            self._write(client, call, phase, client.free_at_ns, jobs, code)
        elif self.draw.random() < 0.5:  # else it was killed
            self._write(client, call, phase, client.free_at_ns, [], "cut")

    def _write(
        self, client: Client, call: CallName, phase: Phase, at_ns: int, jobs: list[Seen], code: str = ""
    ) -> None:
        entry = Entry(
            at_ns=at_ns, client=client.name, n=client.calls, call=call, phase=phase, jobs=tuple(jobs), code=code
        )  # fmt: skip
        self.entries.append(entry)

    @property
    def now_ms(self) -> int:
        return self.now_ns // MS

    # What clients do

    def _step(self) -> None:
        chance = self.draw.random()
        if chance < 0.25:
            self._enqueue()
        elif chance < 0.3:
            self._cancel()
        elif chance < 0.4:
            self._deliver()
        elif chance < 0.55:
            self._take(self.ordered, ("ordered",), 2)
        elif chance < 0.6:
            self.now_ns += self.draw.randrange(2 * LEASE_MS * MS)
        else:
            worker = self.draw.choice([*self.workers, self.ordered])
            if worker.held and self.draw.random() < 0.8:
                self._report(worker)
            elif worker is not self.ordered:
                self._take(worker, ("plain", "limited"), 2)

    def _enqueue(self) -> None:
        asked = [self._wish() for _ in range(self.draw.randint(1, 3))]
        is_done, phase = self._call(self.producer, "enqueue", asked)
        made = [ModelJob(len(self.jobs) + at + 1, seen, self.now_ms) for at, seen in enumerate(asked)]
        if is_done:
            self.jobs += made
        answers = [Seen(id=job.id, outcome="queued") for job in made]
        self._answer(self.producer, "enqueue", phase, answers)

    def _wish(self) -> Seen:
        queue = self.draw.choice(("plain", "limited", "ordered"))
        key = f"key-{self.producer.calls}-{self.draw.getrandbits(60)}"
        return Seen(
            key=key, queue=queue, tries=self.draw.choice((0, 2)) if queue == "plain" else 0,
            is_callback_owed=self.draw.random() < 0.3, limit_keys=(CAPPED,) if queue == "limited" else (),
        )  # fmt: skip

    def _recover(self) -> None:
        for job in self.jobs:
            if job.state == "running" and job.until_ms <= self.now_ms:
                self._lose(job)

    def _lose(self, job: ModelJob) -> None:
        if job.seen.tries and job.attempt >= job.seen.tries:
            self._end(job, "failed")
        else:
            job.state, job.token = "queued", 0

    def _has_room(self, job: ModelJob) -> bool:
        running = [one for one in self.jobs if one.state == "running" and one.seen.queue == "limited"]
        return job.seen.queue != "limited" or len(running) < CAP

    def _take(self, client: Client, queues: tuple[str, ...], most: int, *, may_be_lost: bool = True) -> int:
        is_done, phase = self._call(client, "take", [], may_be_lost=may_be_lost)
        given: list[Seen] = []
        if is_done:
            self._recover()
            waiting = [job for job in self.jobs if job.state == "queued" and job.seen.queue in queues]
            for job in sorted(waiting, key=lambda one: one.place):
                if len(given) < most and self._has_room(job):
                    given.append(self._lease(job))
        self._answer(client, "take", phase, given)
        if phase == "ok":
            client.held += given
        return len(given)

    def _lease(self, job: ModelJob) -> Seen:
        self.tokens += 1
        job.state, job.token, job.attempt = "running", self.tokens, job.attempt + 1
        job.until_ms = self.now_ms + LEASE_MS
        return msgspec.structs.replace(
            job.seen, id=job.id, token=job.token, attempt=job.attempt, leased_at_ms=self.now_ms,
            lease_until_ms=job.until_ms, lease_ms=LEASE_MS, is_callback_owed=False,
        )  # fmt: skip

    def _report(self, worker: Client, call: CallName | None = None, *, may_be_lost: bool = True) -> None:
        held = worker.held.pop(self.draw.randrange(len(worker.held)))
        verbs: tuple[CallName, ...] = ("finish", "finish", "finish", "extend", "fail")
        call = call or self.draw.choice(verbs if worker is self.ordered else (*verbs, "release"))
        is_final = call == "fail" and (held.attempt == held.tries > 0 or self.draw.random() < 0.3)
        is_done, phase = self._call(
            worker, call, [Seen(key=held.key, id=held.id, token=held.token)], may_be_lost=may_be_lost
        )
        job = self.jobs[int(held.id, 16) - 1]
        if not is_done:
            self._answer(worker, call, phase, [])
            return
        refusal = self._refusal(job, held.token)
        if phase == "ok" and refusal:
            self._answer(worker, call, "refused", [], refusal)
            return
        told = self._done(job, call, is_final) if not refusal else Seen()
        self._answer(worker, call, phase, [told])
        if call == "extend" and phase == "ok":
            worker.held.append(held)

    def _refusal(self, job: ModelJob, token: int) -> str:
        if job.state == "running" and job.token == token:
            return ""
        return "stale_lease" if job.state in ("queued", "running") else "already_ended"

    def _done(self, job: ModelJob, call: CallName, is_final: bool) -> Seen:
        if call == "extend":
            job.until_ms = max(job.until_ms, self.now_ms + LEASE_MS)
            return Seen(lease_until_ms=job.until_ms, lease_ms=LEASE_MS)
        if call == "release":
            job.state, job.token, job.attempt = "queued", 0, job.attempt - 1
            return Seen(outcome="queued")
        if call == "fail" and not is_final:
            job.state, job.token, job.place = "queued", 0, (self.now_ms, job.place[1])
            return Seen(outcome="retried")
        state = "finished" if call == "finish" else "failed"
        self._end(job, state)
        return Seen(outcome=state)

    def _end(self, job: ModelJob, state: str) -> None:
        job.state, job.token = state, 0
        if job.seen.is_callback_owed:
            self.owed[job.id] = f"{job.id} {state}"

    def _cancel(self) -> None:
        open_jobs = [job for job in self.jobs if job.state in ("queued", "running")]
        if not open_jobs:
            return
        job = self.draw.choice(open_jobs)
        is_done, phase = self._call(self.canceller, "cancel", [Seen(id=job.id)])
        outcome = "requested"
        if is_done and job.state == "queued":
            outcome = "cancelled"
            self._end(job, "cancelled")
        self._answer(self.canceller, "cancel", phase, [Seen(outcome=outcome)])

    def _deliver(self) -> None:
        for job, words in list(self.owed.items()):
            self._call(self.receiver, "callback", [Seen(id=job, delivery=f"d {job}", digest=words)], may_be_lost=False)
            if self.draw.random() < 0.5:
                self._answer(self.receiver, "callback", "refused", [], "500")
            else:
                self._answer(self.receiver, "callback", "ok", [])
                del self.owed[job]

    def _drain(self) -> None:
        last = Client("drain")
        while any(job.state in ("queued", "running") for job in self.jobs):
            self.now_ns += 2 * LEASE_MS * MS
            while self._take(last, ("plain", "limited", "ordered"), 2, may_be_lost=False):
                while last.held:
                    self._report(last, "finish", may_be_lost=False)
        while self.owed:
            self._deliver()

    def final(self) -> Final:
        """What failed or was cancelled stays to be seen."""
        kept = [_shown(job) for job in self.jobs if job.state in ("failed", "cancelled")]
        return Final(jobs={job.id: job for job in kept})


def _shown(job: ModelJob) -> FinalJob:
    return FinalJob(id=job.id, key=job.seen.key, queue=job.seen.queue, state=job.state, attempt=job.attempt)
