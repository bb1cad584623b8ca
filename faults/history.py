"""A history: what one client asked and was told, a line of JSON when a call begins and one when its answer is known.
The writer loses nothing to a kill; whoever reads it finds calls that were begun and whose answer nobody knows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

CallName: TypeAlias = Literal[
    "enqueue", "take", "extend", "finish", "fail", "release", "cancel", "requeue", "run", "callback", "fire", "note"
]
Phase: TypeAlias = Literal["begun", "ok", "refused", "unknown"]


class Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job as one line knows it; what is not known is left out."""

    key: str = ""  # chosen by the producer before the call, and carried in the payload
    id: str = ""
    queue: str = ""
    name: str = ""
    lane: str = ""
    priority: int = 0
    is_delayed: bool = False  # not ready at once: its place in the order is another
    tries: int = 0  # attempts it may have; 0: any number
    is_callback_owed: bool = False
    is_durable: bool = True  # False: accepted, but the asked-for durability was not confirmed
    token: int = 0  # 0: the front end has none
    attempt: int = 0
    sequence: int = 0
    leased_at_ms: int = 0  # by the engine's clock
    lease_until_ms: int = 0  # by the engine's clock; 0: not known
    lease_ms: int = 0  # how long the lease holds from its beginning; 0: not known, or without end
    limit_keys: tuple[str, ...] = ()
    schedule: str = ""
    planned_at_ms: int = 0
    outcome: str = ""  # queued, existing, finished, retried, failed, cancelled, requested, …
    code: str = ""  # why this one was refused, in a call about many
    delivery: str = ""  # of a callback: its id, the same in every attempt
    digest: str = ""  # of what a callback said


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    at_ns: int  # CLOCK_MONOTONIC: one for all processes of a machine
    client: str
    n: int  # of the call, within its client
    call: CallName
    phase: Phase
    jobs: tuple[Seen, ...] = ()
    code: str = ""  # of a refusal, or what kept the answer away
    link: str = ""  # of a call over a connection that leases are bound to


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


class Recorder:
    """Writes the history of one client. Each line is one write, made before the call and before anything is done with
    its answer. A client that starts again goes on in the same file."""

    def __init__(self, path: Path, client: str) -> None:
        self.client = client
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._last = self._where_we_were()

    def _where_we_were(self) -> int:
        with open(os.dup(self._file), "rb") as before:
            before.seek(0)
            content = before.read()
        if content and not content.endswith(b"\n"):
            os.write(self._file, b"\n")  # a line that was cut stands for itself
        return max((entry.n for entry in entries_of(content)), default=0)

    def begin(self, call: CallName, jobs: Iterable[Seen] = (), *, link: str = "") -> Pending:
        self._last += 1
        pending = Pending(self, self._last, call, link)
        pending.write("begun", tuple(jobs))
        return pending

    def happened(self, call: CallName, jobs: Iterable[Seen]) -> None:
        """Something that was seen, rather than asked."""
        self._last += 1
        Pending(self, self._last, call, "").write("ok", tuple(jobs))

    def write(self, entry: Entry) -> None:
        os.write(self._file, _encode(entry) + b"\n")

    def close(self) -> None:
        os.close(self._file)


class Pending:
    """A call that was begun."""

    def __init__(self, recorder: Recorder, n: int, call: CallName, link: str) -> None:
        self._recorder = recorder
        self.n = n
        self._call = call
        self._link = link

    def write(self, phase: Phase, jobs: Sequence[Seen], code: str = "") -> None:
        entry = Entry(
            at_ns=time.monotonic_ns(), client=self._recorder.client, n=self.n, call=self._call, phase=phase,
            jobs=tuple(jobs), code=code, link=self._link,
        )  # fmt: skip
        self._recorder.write(entry)

    def ok(self, jobs: Iterable[Seen] = ()) -> None:
        """The answer is known; a job that was refused for itself has a `code`."""
        self.write("ok", tuple(jobs))

    def refused(self, code: str) -> None:
        """Nothing was changed."""
        self.write("refused", (), code)

    def unknown(self, code: str) -> None:
        """No answer came: it may or may not have been done."""
        self.write("unknown", (), code)


def entries_of(content: bytes) -> Iterator[Entry]:
    """Lines that were cut, by a kill or a full disk, are passed over: what they would have said is unknown."""
    for line in content.splitlines():
        try:
            yield _decode(line)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            continue


def read_history(paths: Iterable[Path]) -> list[Entry]:
    """All entries of all clients, in the order of time."""
    found = [entry for path in paths for entry in entries_of(path.read_bytes())]
    return sorted(found, key=lambda entry: entry.at_ns)
