"""Reading: job, result, jobs, members."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any

from ...core.errors import BadInput, Refusal
from ...core.job import Ending, Member, Timeline
from ...core.requests import Listing, Members, Page
from ...core.states import State
from ..record import unpack, unpack_attempt, unpack_blob
from .call import Argument, Call, ItemsCall, answer

LOOKED_AT = 500  # jobs one page looks at, however few of them match
MEMBERS_BYTES = 4 * 1024 * 1024  # of payloads and results on one page, about
PEEK_BYTES = 1024  # as in lua/lib/record.lua
_SCORE = re.compile(rb"-?(inf|\d+(\.\d+)?(e[-+]?\d+)?)")


def job(ids: Sequence[bytes], partition: int) -> ItemsCall[Any]:
    """Answers (record, attempts) per id; `timeline` puts id and answer together."""
    return ItemsCall("job", (), [(job_id,) for job_id in ids], lambda reply: reply, partition=partition)


def timeline(job_id: bytes, reply: Any) -> Timeline | Refusal:
    return answer(reply, lambda parts: Timeline(unpack(job_id + parts[0]), [unpack_attempt(one) for one in parts[1]]))


def _read_ending(reply: Any) -> Ending:
    state, result, attempt = reply
    return Ending(
        state=State(state),
        result=unpack_blob(result),
        last_attempt=unpack_attempt(attempt) if attempt else None,
    )


def result(job_id: bytes, consume: bool, bell: str, partition: int, *, leaves: bool = False) -> Call[Ending | Refusal]:
    """`bell` is rung at the end of a job that has not ended yet; `leaves` takes it away again."""
    args: list[Argument] = [job_id, int(consume), bell, int(leaves)]
    return Call("result", args, lambda reply: answer(reply, _read_ending), partition=partition)


def _cursor(score: bytes, member: bytes) -> str:
    return base64.urlsafe_b64encode(score + b" " + member).decode() if score else ""


def _uncursor(cursor: str) -> tuple[bytes, bytes]:
    try:
        score, _, member = base64.b64decode(cursor.encode(), b"-_", validate=True).partition(b" ")
    except ValueError:
        score, member = b"", b""
    if not _SCORE.fullmatch(score):
        raise BadInput("The cursor is not one that a page gave out; start again without it.")
    return score, member


def _read_page(reply: Any) -> Page:
    score, member, entries = reply
    jobs = [unpack(entry, is_whole=len(entry) < 16 + PEEK_BYTES) for entry in entries]
    return Page(jobs, _cursor(score, member))


def jobs(index: str, owner: str, listing: Listing, partition: int) -> Call[Page]:
    """`index` and `owner` name the sorted set: a state's of a queue, or a tag's."""
    score, member = _uncursor(listing.cursor) if listing.cursor else (b"", b"")
    is_by_tag = index == "t"
    state = State[listing.state.upper()] if is_by_tag and listing.state else 0
    args: list[Argument] = [
        index,
        owner,
        listing.most,
        LOOKED_AT,
        "down" if listing.newest_first else "up",
        score,
        member,
        listing.queue if is_by_tag else "",
        listing.name,
        int(state),
        listing.created_from_ms,
        listing.created_before_ms,
    ]
    return Call("jobs", args, _read_page, partition=partition)


def _read_member(reply: Any) -> Member:
    entry, result, attempt = (*reply, None, None)[:3]
    return Member(
        job=unpack(entry),
        result=unpack_blob(result),
        last_attempt=unpack_attempt(attempt) if attempt else None,
    )


def _read_members(reply: Any) -> Members:
    score, member, found = reply
    return Members([_read_member(one) for one in found], _cursor(score, member))


def members(job_id: bytes, states: Sequence[State], most: int, cursor: str, partition: int) -> Call[Members | Refusal]:
    score, member = _uncursor(cursor) if cursor else (b"", b"")
    args: list[Argument] = [job_id, most, LOOKED_AT, MEMBERS_BYTES, score, member, *(int(state) for state in states)]
    return Call("members", args, lambda reply: answer(reply, _read_members), partition=partition)
