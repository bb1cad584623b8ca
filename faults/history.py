"""The history of a client: one line of JSON when a call begins, and one when its answer is known.

A kill loses nothing that was written. Calls that have begun and have no answer are unknown to the reader."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

CallName: TypeAlias = Literal[
    "enqueue", "take", "extend", "finish", "fail", "release", "cancel", "requeue", "run", "callback", "fire", "note",
    "observe", "suspend", "step", "work", "store", "sleep", "wait", "signal", "write", "read", "state",
]  # fmt: skip
Phase: TypeAlias = Literal["begun", "ok", "refused", "unknown"]


class JobFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts about a job in one line of a history. Unknown facts keep their defaults."""

    key: str = ""  # chosen by the producer before the call, and carried in the payload
    id: str = ""
    queue: str = ""
    name: str = ""
    lane: str = ""
    priority: int = 0
    is_delayed: bool = False  # not ready at once, so its position in the queue is another
    tries: int = 0  # attempts that it may have; 0: any number
    expects_callback: bool = False
    is_durable: bool = True  # False: accepted, but the requested durability was not confirmed
    token: int = 0  # 0: the front end has none
    attempt: int = 0
    sequence: int = 0
    leased_at_ms: int = 0  # by the engine's clock
    lease_until_ms: int = 0  # by the engine's clock; 0: unknown
    lease_ms: int = 0  # length of the lease; 0: unknown, or without end
    limit_keys: tuple[str, ...] = ()
    schedule: str = ""
    planned_at_ms: int = 0
    outcome: str = ""  # queued, existing, finished, retried, failed, cancelled, requested, …
    code: str = ""  # why this job was refused, in a call about many
    delivery: str = ""  # id of a callback, the same in every attempt
    digest: str = ""  # of the content of a callback
    flow: str = ""  # id of the flow that the job belongs to
    after: tuple[str, ...] = ()  # ids of the jobs of its flow that it waits for
    joins: bool = False  # a group: no worker runs it


class StepFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job of a flow, as the record of the flow shows it."""

    id: str
    after: tuple[str, ...] = ()
    joins: bool = False
    state: str = ""  # empty: deleted before it ended
    is_consequence: bool = False
    is_kept: bool = False
    started_at_ms: int = 0  # by the engine's clock; 0: it has not started
    ended_at_ms: int = 0


class FlowFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a flow, read at one instant."""

    id: str
    state: str
    steps: tuple[StepFacts, ...]
    counts: dict[str, int] = {}  # total, and the numbers of steps by their end
    ended_at_ms: int = 0


class DurableFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts about a durable call of a job's code (step, sleep, wait, write), a signal, or a reader of its stream.

    `work` is the function of a step: it has no answer, and its value is the one that the step may store. `store` is the
    report of that value, where the worker makes it itself."""

    job: str
    token: int = 0
    name: str = ""  # of the step or the wait
    value: str = ""  # result of a step, or a signal
    length_ms: int = 0  # of a sleep
    outcome: str = ""  # of a signal
    values: tuple[str | None, ...] = ()  # written to the stream, or read from it; None: a new attempt begins
    after: int = 0  # position behind which they were read


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    at_ns: int  # CLOCK_MONOTONIC: the same for all processes of a machine
    client: str
    n: int  # number of the call within its client
    call: CallName
    phase: Phase
    jobs: tuple[JobFacts, ...] = ()
    code: str = ""  # of a refusal, or the reason of a missing answer
    connection: str = ""  # of a call over a connection that leases are bound to
    flow: FlowFacts | None = None  # that the client has read
    durable: DurableFacts | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


class Recorder:
    """Writer of a client's history. Each line is one write, before the call and before the answer is used.

    A client that starts again continues in the same file."""

    def __init__(self, path: Path, client: str) -> None:
        self.client = client
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._last = self._last_call_number()

    def _last_call_number(self) -> int:
        with open(os.dup(self._file), "rb") as before:
            before.seek(0)
            content = before.read()
        if content and not content.endswith(b"\n"):
            os.write(self._file, b"\n")  # ends a line that a kill has cut
        return max((entry.n for entry in parse_entries(content)), default=0)

    def begin(
        self,
        call: CallName,
        jobs: Iterable[JobFacts] = (),
        *,
        connection: str = "",
        durable: DurableFacts | None = None,
    ) -> PendingCall:
        self._last += 1
        pending = PendingCall(self, self._last, call, connection)
        pending.write("begun", tuple(jobs), durable=durable)
        return pending

    def record_event(self, call: CallName, jobs: Iterable[JobFacts]) -> None:
        """Record something that the client observed without a call."""
        self._last += 1
        PendingCall(self, self._last, call, "").write("ok", tuple(jobs))

    def record_flow(self, flow: FlowFacts) -> None:
        """Record the state of a flow that the client has read."""
        self._last += 1
        self.write(
            Entry(at_ns=time.monotonic_ns(), client=self.client, n=self._last, call="observe", phase="ok", flow=flow)
        )

    def write(self, entry: Entry) -> None:
        os.write(self._file, _encode(entry) + b"\n")

    def close(self) -> None:
        os.close(self._file)


class PendingCall:
    """A call that has begun."""

    def __init__(self, recorder: Recorder, n: int, call: CallName, connection: str) -> None:
        self._recorder = recorder
        self.n = n
        self._call = call
        self._connection = connection

    def write(
        self, phase: Phase, jobs: Sequence[JobFacts], code: str = "", durable: DurableFacts | None = None
    ) -> None:
        entry = Entry(
            at_ns=time.monotonic_ns(), client=self._recorder.client, n=self.n, call=self._call, phase=phase,
            jobs=tuple(jobs), code=code, connection=self._connection, durable=durable,
        )  # fmt: skip
        self._recorder.write(entry)

    def record_ok(self, jobs: Iterable[JobFacts] = (), *, durable: DurableFacts | None = None) -> None:
        """Record the answer. A job that was refused by itself has a `code`."""
        self.write("ok", tuple(jobs), durable=durable)

    def record_refusal(self, code: str) -> None:
        """Record a refusal: the call changed nothing."""
        self.write("refused", (), code)

    def record_unknown(self, code: str) -> None:
        """Record a missing answer: the call may or may not have had an effect."""
        self.write("unknown", (), code)


def parse_entries(content: bytes) -> Iterator[Entry]:
    """Parse a history. Lines cut by a kill or a full disk are skipped: their content is unknown."""
    for line in content.splitlines():
        try:
            yield _decode(line)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            continue


def read_history(paths: Iterable[Path]) -> list[Entry]:
    """Read all entries of all clients, ordered by time."""
    found = [entry for path in paths for entry in parse_entries(path.read_bytes())]
    return sorted(found, key=lambda entry: entry.at_ns)
