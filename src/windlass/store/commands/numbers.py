"""Commands for job numbers (reserve_numbers, number, assigned_number, numbered, taken_details), for the holders of
unique keys, and for parts of ids (match_ids)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from windlass.core.errors import Refusal
from windlass.core.ids import IdPart, number_of_id
from windlass.core.operations import NumberedJob, TakenRef
from windlass.store.records.record import unpack

from .command import Argument, BatchCommand, Command, parse_reply, reply_parser

CHILDREN_LOOKED_AT = 500  # per call, of all jobs
DETAILS_BYTES = 4 * 1024 * 1024  # of parents and children in one answer, about


def reserve_numbers(count: int, partition: int) -> BatchCommand[int]:
    return BatchCommand("reserve_numbers", (), [(count,)], int, partition=partition)


def number(ids: Sequence[bytes], partition: int) -> BatchCommand[int | Refusal]:
    return BatchCommand("number", (), [(job_id,) for job_id in ids], reply_parser(int), partition=partition)


def assigned_number(ids: Sequence[bytes], partition: int) -> BatchCommand[int | Refusal | None]:
    read = reply_parser(lambda reply: int(reply) if reply else None)
    return BatchCommand("assigned_number", (), [(job_id,) for job_id in ids], read, partition=partition)


def numbered(ids: Sequence[bytes], partition: int) -> BatchCommand[bytes | Refusal]:
    """Find jobs by number. `ids`: the ids that they have if they were created under their numbers."""
    return BatchCommand("numbered", (), [(job_id,) for job_id in ids], reply_parser(bytes), partition=partition)


def holder(keys: Sequence[tuple[str, str]], partition: int) -> BatchCommand[bytes | Refusal]:
    """Find the oldest holders of unique keys. `keys`: a queue and a key each."""
    return BatchCommand("holder", (), keys, reply_parser(bytes), partition=partition)


FIRST_PAGE = b"0"


class DetailsRequest(NamedTuple):
    """Request for one page of details. The cursor is a score, empty for no children, and a member."""

    lease: TakenRef
    score: bytes
    member: bytes


class DetailsPage(NamedTuple):
    """Details of one job. Pages after the first are about its children only. `following` asks for the next page."""

    number: int
    deadline_at_ms: int | None
    parent: NumberedJob | None
    children: list[NumberedJob]
    following: DetailsRequest | None


def first_page(lease: TakenRef) -> DetailsRequest:
    return DetailsRequest(lease, FIRST_PAGE if lease.has_members else b"", b"")


def taken_details(
    queue: str, requests: Sequence[DetailsRequest], partition: int
) -> Command[list[DetailsPage | Refusal]]:
    """Read one page per job. The answer may lack the last jobs."""
    args: list[Argument] = [CHILDREN_LOOKED_AT, DETAILS_BYTES, queue]
    for lease, score, member in requests:
        args += (lease.id, lease.token, lease.lease_ms, lease.parent, score, member)
    return Command("taken_details", args, lambda reply: _read_details(requests, reply), partition=partition)


def _read_details(requests: Sequence[DetailsRequest], reply: Any) -> list[DetailsPage | Refusal]:
    answers, shown = reply
    parents = {found.job.id: found for found in map(_read_numbered, shown)}

    def read(lease: TakenRef, parts: Any) -> DetailsPage:
        number, deadline, parent_id, score, member, children = parts
        return DetailsPage(
            _read_number(lease.id, number),
            int(deadline) if deadline else None,
            parents.get(parent_id),
            [_read_numbered(child) for child in children],
            DetailsRequest(TakenRef(lease.id, lease.token), score, member) if score else None,
        )

    return [
        parse_reply(answer, lambda parts, lease=request.lease: read(lease, parts))  # type: ignore[misc]
        for request, answer in zip(requests, answers, strict=False)
    ]


def _read_numbered(reply: Any) -> NumberedJob:
    number, entry = reply
    job = unpack(entry)
    return NumberedJob(job, _read_number(job.id, number))


def _read_number(job_id: bytes, reply: bytes) -> int:
    return int(reply) if reply else number_of_id(job_id) or 0


class IdMatches(NamedTuple):
    """Ids that match, among some of the members of the indexes of queues."""

    ids: list[bytes]
    looked_at: int
    positions: list[int | None]  # by queue: where to continue; None: all its members were examined


def match_ids(
    part: IdPart, queues: Sequence[tuple[str, int]], most: int, most_read: int, partition: int
) -> Command[IdMatches]:
    """Find ids by a part of them. `queues`: names, and the position of each. `most_read`: members of each queue."""
    place = "either" if part.is_prefix and part.is_suffix else "begin" if part.is_prefix else "end"
    digits = part.digits
    whole, is_odd = len(digits) // 2 * 2, len(digits) % 2
    args: list[Argument] = [
        place,
        bytes.fromhex(digits[:whole]),
        bytes.fromhex(digits[is_odd:]),
        int(digits[-1], 16) if is_odd else "",
        int(digits[0], 16) if is_odd else "",
        most,
        most_read,
    ]
    for queue, position in queues:
        args += (queue, position)
    return Command("match_ids", args, _read_matches, partition=partition)


def _read_matches(reply: Any) -> IdMatches:
    ids, looked_at, positions = reply
    return IdMatches(ids, looked_at, [None if position == b"" else int(position) for position in positions])
