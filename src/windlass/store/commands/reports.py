"""Commands of a lease holder: accept, extend, update, emit, finish, fail, release, complete_with_children."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from windlass.core.errors import Refusal
from windlass.core.event import Emit
from windlass.core.operations import (
    CompleteWithChildren,
    CompletionOutcome,
    Extended,
    Fail,
    FailOutcome,
    Finish,
    FinishOutcome,
    LeaseRef,
    Update,
    Updated,
)
from windlass.store.records.attempt import pack_blob

from .command import Argument, BatchCommand, Command, decode_text, encode_words, ignore_reply, parse_reply, reply_parser
from .limits import NO_MATCH, ContentMatch


class NextRunNeeded(NamedTuple):
    """Reply that a finished job repeats: the caller must compute its next run. Nothing was changed."""

    rule: str
    planned_at_ms: int
    started_at_ms: int
    now_ms: int
    revision: int


class FinishWithNextRun(NamedTuple):
    """Finish of a repeating job with its next run; None: the rule has no next run."""

    request: Finish
    next_at_ms: int | None
    revision: int

    @property
    def id(self) -> bytes:
        return self.request.id


FinishReport: TypeAlias = Finish | FinishWithNextRun


_NO_NEXT = bytes(5)  # revision, and length of the instant


def finish_item(report: FinishReport) -> tuple[Argument, ...]:
    """Return an item as one argument (lua/lib/leases/reports.lua): each argument costs as much as a short command."""
    if type(report) is Finish:
        then = _NO_NEXT if not report.ignore_repeat else _next("end", 0)
        return (b"".join((report.id, report.token.to_bytes(6, "big"), then, pack_blob(report.result))),)
    request, next_at_ms, revision = cast(FinishWithNextRun, report)
    then = _next("never" if next_at_ms is None else str(next_at_ms), revision)
    return (b"".join((request.id, request.token.to_bytes(6, "big"), then, pack_blob(request.result))),)


def _next(text: str, revision: int) -> bytes:
    return revision.to_bytes(4, "big") + len(text).to_bytes(1, "big") + text.encode()


_END_BYTES = 27  # bytes of an item without a result
_SIZE = b"$%d\r\n" % _END_BYTES
_REST = _NO_NEXT + b"\r\n"
_SIZED = [b"\r\n$%d\r\n" % size for size in range(16)]  # between an id and its token


def encode_finishes(finishes: Sequence[FinishReport]) -> list[bytes] | None:
    """Return the bytes of finishes, or None if any has a next run. Most finishes of a worker have none."""
    parts: list[bytes] = []
    for report in finishes:
        if type(report) is not Finish or report.ignore_repeat:
            return None
        token = report.token.to_bytes(6, "big")
        if report.result is None:
            parts += (_SIZE, report.id, token, _REST)
        else:
            stored = pack_blob(report.result)
            parts += (b"$%d\r\n" % (_END_BYTES + len(stored)), report.id, token, _NO_NEXT, stored, b"\r\n")
    return parts


def read_next_run_needed(reply: Any) -> NextRunNeeded | None:
    return NextRunNeeded(reply[0].decode(), *reply[1:]) if isinstance(reply, list) else None


def read_finished(reply: Any) -> FinishOutcome:
    return None if reply == b"ok" else cast(FinishOutcome, decode_text(reply))


def fail_item(request: Fail) -> tuple[Argument, ...]:
    return (
        request.id,
        request.token,
        request.then,
        request.delay_ms,
        request.reason,
        pack_blob(request.error),
    )


def read_failed(reply: Any) -> FailOutcome:
    return cast(FailOutcome, decode_text(reply))


def finish(finishes: Sequence[FinishReport], partition: int) -> BatchCommand[NextRunNeeded | FinishOutcome | Refusal]:
    items = [finish_item(report) for report in finishes]
    read = reply_parser(lambda reply: read_next_run_needed(reply) or read_finished(reply))
    return BatchCommand("finish", (), items, read, partition=partition)


def fail(requests: Sequence[Fail], partition: int) -> BatchCommand[FailOutcome | Refusal]:
    items = [fail_item(request) for request in requests]
    return BatchCommand("fail", (), items, reply_parser(read_failed), partition=partition)


def _completion_item(request: CompleteWithChildren, match: ContentMatch | None) -> tuple[Argument, ...]:
    payload = request.payload
    revision, limits, tags = match or NO_MATCH
    claims = {"a": request.in_any_state, "p": request.if_parent_waits, "k": request.keeps_members}
    return (
        request.id,
        request.token,
        request.if_revision or revision,
        "".join(letter for letter, is_so in claims.items() if is_so),
        request.then,
        "" if request.run_at_ms is None else request.run_at_ms,
        "" if request.delay_ms is None else request.delay_ms,
        request.name,
        request.unique,
        "" if request.priority is None else request.priority,
        "" if payload is None else int(payload.codec),
        b"" if payload is None else payload.data,
        int(limits is not None),
        limits or "",
        int(tags is not None),
        tags or "",
        "" if request.repeat is None else request.repeat or "-",
        request.attempt,
        request.reason,
    )


def complete_with_children(
    requests: Sequence[tuple[CompleteWithChildren, ContentMatch | None]], version: int, partition: int
) -> BatchCommand[CompletionOutcome | Refusal]:
    """Build the command. Each request comes with what its job matches from now on, if that may have changed."""
    items = [_completion_item(*request) for request in requests]
    read = reply_parser(lambda reply: cast(CompletionOutcome, decode_text(reply)))
    return BatchCommand("complete_with_children", (version,), items, read, partition=partition)


def release(requests: Sequence[LeaseRef], partition: int) -> BatchCommand[str | Refusal]:
    items = [(request.id, request.token) for request in requests]
    return BatchCommand("release", (), items, reply_parser(decode_text), partition=partition)


def accept(requests: Sequence[LeaseRef], lease_ms: int, partition: int) -> BatchCommand[int | Refusal | None]:
    items = [(request.id, request.token) for request in requests]
    return BatchCommand(
        "accept", (lease_ms,), items, reply_parser(lambda reply: int(reply) or None), partition=partition
    )


class _AcceptCommand(Command[int | Refusal | None]):
    """Accept command of one job. Its code starts only after it was sent, so it is encoded directly."""

    __slots__ = ("_job_id", "_token")

    def __init__(self, job_id: bytes, token: int, partition: int) -> None:
        super().__init__("accept", (0, job_id, token), _read_accepted, partition=partition)
        self._job_id = job_id
        self._token = b"%d" % token

    def encode(self, prefix: tuple[Argument, ...]) -> bytes:
        size, token = b"*%d\r\n" % (len(prefix) + len(self.args)), self._token
        words = encode_words((*prefix, 0))
        return b"".join((size, words, b"$16\r\n", self._job_id, _SIZED[len(token)], token, b"\r\n"))


def _read_accepted(reply: Any) -> int | Refusal | None:
    return parse_reply(reply[0], lambda deadline_at_ms: int(deadline_at_ms) or None)


def accept_one(job_id: bytes, token: int, partition: int) -> Command[int | Refusal | None]:
    return _AcceptCommand(job_id, token, partition)


def _read_extended(reply: Any) -> Extended:
    deadline, is_asked_to_stop, *fixed = reply
    return Extended(deadline or None, bool(is_asked_to_stop), fixed[0] if fixed else None)


def extend(requests: Sequence[LeaseRef], lease_ms: int, partition: int) -> BatchCommand[Extended | Refusal]:
    items = [(request.id, request.token) for request in requests]
    return BatchCommand("extend", (lease_ms,), items, reply_parser(_read_extended), partition=partition)


def _update_item(request: Update, match: ContentMatch | None) -> tuple[Argument, ...]:
    progress = "" if request.progress is None else round(request.progress * 1_000_000)
    note = ("", b"") if request.note is None else ("1", request.note.encode())
    if request.payload is None:
        return request.id, request.token, progress, *note, "", 0, b""
    kind = "1" if match is None else b"t" + match.revision.to_bytes(4, "big") + (match.tags or "").encode()
    return request.id, request.token, progress, *note, kind, int(request.payload.codec), request.payload.data


def update(
    requests: Sequence[tuple[Update, ContentMatch | None]], version: int, partition: int
) -> BatchCommand[Updated | Refusal]:
    """Build the command. Each request comes with the tags that its new payload gives the job, if they may change."""
    items = [_update_item(*request) for request in requests]
    read = reply_parser(lambda reply: Updated(reply[0], bool(reply[1])))
    return BatchCommand("update", (version,), items, read, partition=partition)


def emit(requests: Sequence[Emit], partition: int) -> BatchCommand[Refusal | None]:
    items = [(request.id, request.token, pack_blob(request.value)) for request in requests]
    return BatchCommand("emit", (), items, reply_parser(ignore_reply), partition=partition)
