"""Reading: job, result, jobs, members."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.core.errors import BadInput, Refusal
from windlass.core.job import Attempt, Ending, Job, Member, Timeline
from windlass.core.operations import Listing, MemberPage, Page
from windlass.core.states import State
from windlass.core.text.error_text import error_contains, error_shape, literal_parts
from windlass.store.records.attempt import unpack_attempt, unpack_blob
from windlass.store.records.record import unpack

from .command import Argument, BatchCommand, Command, parse_read_reply, reply_parser

LOOKED_AT = 500  # jobs that one page reads, however few of them match
ERRORS_LOOKED_AT = 200  # the same for a page that searches their errors
MEMBERS_BYTES = 4 * 1024 * 1024  # of payloads and results on one page, about
PEEK_BYTES = 1024  # as in lua/lib/jobs/record.lua
_SCORE = re.compile(rb"-?(inf|\d+(\.\d+)?(e[-+]?\d+)?)")


def job(ids: Sequence[bytes], partition: int) -> BatchCommand[Any]:
    """Read (record, attempts) per id; `timeline` joins an id and its answer."""
    return BatchCommand("job", (), [(job_id,) for job_id in ids], lambda reply: reply, partition=partition)


def timeline(job_id: bytes, reply: Any) -> Timeline | Refusal:
    return parse_read_reply(
        reply, lambda parts: Timeline(unpack(job_id + parts[0]), [unpack_attempt(entry) for entry in parts[1]])
    )


def queue_of(ids: Sequence[bytes], partition: int) -> BatchCommand[str | Refusal]:
    read = reply_parser(lambda parts: str(parts[0], "utf-8"))
    return BatchCommand("queue_of", (), [(job_id,) for job_id in ids], read, partition=partition)


def tombstone(ids: Sequence[bytes], partition: int) -> BatchCommand[str | Refusal]:
    read = reply_parser(lambda parts: str(parts[0], "utf-8"))
    return BatchCommand("tombstone", (), [(job_id,) for job_id in ids], read, partition=partition)


def _read_ending(reply: Any) -> Ending:
    state, result, attempt = reply
    return Ending(
        state=State(state),
        result=unpack_blob(result),
        last_attempt=unpack_attempt(attempt) if attempt else None,
    )


def result(
    job_id: bytes, consume: bool, wakeup_list: str, partition: int, *, leaves: bool = False
) -> Command[Ending | Refusal]:
    """Read the result. If the job has not ended, its end wakes `wakeup_list`; `leaves` removes that registration."""
    args: list[Argument] = [job_id, int(consume), wakeup_list, int(leaves)]
    return Command("result", args, lambda reply: parse_read_reply(reply, _read_ending), partition=partition)


def encode_cursor(score: bytes, member: bytes) -> str:
    return base64.urlsafe_b64encode(score + b" " + member).decode() if score else ""


def decode_cursor(cursor: str) -> tuple[bytes, bytes]:
    try:
        score, _, member = base64.b64decode(cursor.encode(), b"-_", validate=True).partition(b" ")
    except ValueError:
        score, member = b"", b""
    if not _SCORE.fullmatch(score):
        raise BadInput("The cursor does not come from a page; start again without it.")
    return score, member


class IndexPosition(NamedTuple):
    """Position of an entry in the order of an index."""

    score: float
    member: bytes
    text: bytes  # the score as the engine writes it

    @property
    def cursor(self) -> str:
        return encode_cursor(self.text, self.member)


class IndexPage(NamedTuple):
    """Page of one index. `until` is the last position read; None: the end."""

    jobs: list[Job]
    positions: list[IndexPosition]  # of these jobs
    until: IndexPosition | None
    looked_at: int
    last_attempts: dict[bytes, Attempt]
    read_again: int = 0  # jobs that were read and are left to the next page

    @property
    def page(self) -> Page:
        return Page(self.jobs, self.until.cursor if self.until else "", self.looked_at, self.last_attempts)


def position_of(score: bytes, member: bytes) -> IndexPosition:
    return IndexPosition(float(score), member, score)


def _read_page(listing: Listing, reply: Any) -> IndexPage:
    score, member, entries, places, looked_at, stored_attempts = reply
    jobs = [unpack(entry, is_whole=len(entry) < 16 + PEEK_BYTES) for entry in entries]
    positions = [position_of(places[i], places[i + 1]) for i in range(0, len(places), 2)]
    attempts = {
        job.id: unpack_attempt(entry)
        for job, entry in zip(jobs, stored_attempts, strict=bool(stored_attempts))
        if entry
    }
    if listing.error or listing.error_shape:
        kept = [at for at, job in enumerate(jobs) if _matches_error(listing, attempts.get(job.id))]
        jobs, positions = [jobs[at] for at in kept], [positions[at] for at in kept]
        attempts = {job.id: attempts[job.id] for job in jobs} if listing.with_errors else {}
    return IndexPage(jobs, positions, position_of(score, member) if score else None, looked_at, attempts)


def _matches_error(listing: Listing, attempt: Attempt | None) -> bool:
    if listing.error and not error_contains(attempt, listing.error):
        return False
    return not listing.error_shape or error_shape(attempt) == listing.error_shape


def _error_texts(listing: Listing) -> list[bytes]:
    """Return texts that a stored error must contain for its line to match.

    The line is joined from parts that JSON may write in two ways, so this is a prefilter; the page is then filtered by
    the line itself.
    """
    texts = [listing.error, *literal_parts(listing.error_shape)]
    parts = [part for text in texts for part in text.split(": ") if part]
    forms = [{part.encode(), json.dumps(part)[1:-1].encode(), msgspec.json.encode(part)[1:-1]} for part in parts]
    return [b"\1".join(sorted(form.lower() for form in some)) for some in forms]


# The time by which an index is ordered, so that a page starts and ends at the requested times.
_TIMED = {"t": "created", "waiting": "created"} | dict.fromkeys(("finished", "failed", "cancelled", "history"), "ended")


def jobs(index: str, owner: str, listing: Listing, partition: int, looked_at: int = 0) -> Command[IndexPage]:
    """Read a page. `index` and `owner` name the sorted set: a state and its queue, or "t" and a tag."""
    score, member = decode_cursor(listing.cursor) if listing.cursor else (b"", b"")
    is_by_tag = index == "t"
    sought = _error_texts(listing)
    state = State[listing.state.upper()] if is_by_tag and listing.state else 0
    args: list[Argument] = [
        index,
        owner,
        listing.most,
        min(looked_at or LOOKED_AT, ERRORS_LOOKED_AT if sought else LOOKED_AT),
        "down" if listing.newest_first else "up",
        score,
        member,
        listing.queue if is_by_tag else "",
        listing.name,
        int(state),
        listing.created_from_ms,
        listing.created_before_ms,
        listing.ended_from_ms,
        listing.ended_before_ms,
        _TIMED.get(index, ""),
        int(listing.with_errors or bool(listing.error or listing.error_shape)),
        *sought,
    ]
    return Command("jobs", args, lambda reply: _read_page(listing, reply), partition=partition)


def _read_member(reply: Any) -> Member:
    entry, result, attempt = (*reply, None, None)[:3]
    return Member(
        job=unpack(entry),
        result=unpack_blob(result),
        last_attempt=unpack_attempt(attempt) if attempt else None,
    )


def _read_members(reply: Any) -> MemberPage:
    score, member, found = reply
    return MemberPage([_read_member(row) for row in found], encode_cursor(score, member))


def list_members(
    job_id: bytes, states: Sequence[State], most: int, cursor: str, partition: int
) -> Command[MemberPage | Refusal]:
    score, member = decode_cursor(cursor) if cursor else (b"", b"")
    args: list[Argument] = [job_id, most, LOOKED_AT, MEMBERS_BYTES, score, member, *(int(state) for state in states)]
    return Command("list_members", args, lambda reply: parse_read_reply(reply, _read_members), partition=partition)
