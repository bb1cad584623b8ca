"""Invariants of dependencies: the lists of members and dependents must match the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.service.flag_bits import BITS
from windlass.core.states import ENDED, State

if TYPE_CHECKING:
    from tests.service.machines.invariants import Snapshot, Stored

HELD_BACK = 0.5
PLACEHOLDER = bytes(16)  # stands among the members of a job whose own are not all imported yet
KINDS = (b"r.", b"f0", b"f1", b"el", b"ek", b"ea", b"eo", b"w.", b"d0", b"d6", b"d7", b"d8", b"dx")


def alive(found: Snapshot, job_id: bytes | None) -> Stored | None:
    """Return the job if it exists and has not ended: only then do its members belong to it."""
    one = found.jobs.get(job_id) if job_id else None
    return one if one and one.job.state not in ENDED else None


def linked(found: Snapshot, job_id: bytes | None) -> Stored | None:
    """Return the job if it is linked to what it waits for: it has not ended, or it has kept its links."""
    one = found.jobs.get(job_id) if job_id else None
    return one if one and (one.job.state not in ENDED or one.flags & BITS.HAS_MEMBERS) else None


def is_needed(found: Snapshot, one: Stored) -> bool:
    """Tell whether the job has ended and must be kept for others."""
    if one.job.state not in ENDED:
        return False
    return bool(one.flags & BITS.HAS_DEPENDENTS) or alive(found, one.job.parent) is not None


def _steps(found: Snapshot, first: bytes) -> set[bytes]:
    """Return jobs with pending work of this kind."""
    return {item[2:] for item in found.zset("work") if item.startswith(first)}


def check_dependencies(found: Snapshot) -> None:
    for item in found.zset("work"):
        assert item[:2] in KINDS, f"work of an unknown kind: {item!r}"
    _check_members(found)
    _check_children(found)
    _check_dependents(found)
    for one in found.jobs.values():
        if one.flags & BITS.HELD:
            assert one.job.state is State.WAITING, f"held, but not waiting: {one.job}"
        if one.flags & BITS.JOINS:
            assert one.job.state is State.WAITING or one.job.state in ENDED, f"a group in a queue: {one.job}"
        if one.job.state in ENDED and one.flags & BITS.HAS_MEMBERS:
            is_right = one.flags & BITS.AWAITS_ONLY and one.job.state is not State.FINISHED
            assert is_right, f"links kept without reason: {one.job}"
        if one.flags & BITS.ENDED_BY_MEMBER:
            is_right = one.flags & BITS.HAS_MEMBERS and one.job.state in (State.FAILED, State.CANCELLED)
            assert is_right, f"a consequence without links: {one.job}"


def _check_members(found: Snapshot) -> None:
    leaving = _steps(found, b"e")
    for key, members in found.of_kind("c:"):
        owner_id = key.encode("latin-1")
        owner = linked(found, owner_id)
        if owner is None:
            assert owner_id in leaving, f"members of nobody: {members}"
            continue
        is_placed = PLACEHOLDER not in members or owner_id in found.zset("restoring")
        assert is_placed, f"an import has left a placeholder among the members: {owner.job}"
        assert owner.flags & BITS.HAS_MEMBERS, f"members that their owner does not know of: {owner.job}"
        for member_id in members:
            one = found.jobs.get(member_id)
            dependents = found.zset(f"d:{member_id.decode('latin-1')}")
            belongs = one is None or one.job.parent == owner_id or owner_id in dependents
            assert belongs, f"a member that knows nothing of it: {one}"


def _check_children(found: Snapshot) -> None:
    leaving = _steps(found, b"e")
    for one in found.jobs.values():
        if one.job.parent is None:
            continue
        if alive(found, one.job.parent) is None:
            assert one.job.parent in leaving, f"a link to a parent that is no more: {one.job}"
            continue
        score = found.zset(f"c:{one.job.parent.decode('latin-1')}").get(one.job.id)
        assert score is not None, f"its parent does not list it: {one.job}"
        if one.job.state in ENDED:
            assert int(score) == one.job.state, f"listed as {score}: {one.job}"
        else:
            # Scores of ends are above all others, so a suspended member is listed as one that waits for its time.
            state = State.SCHEDULED if one.job.state is State.SUSPENDED else one.job.state
            assert score == state + HELD_BACK * bool(one.flags & BITS.HELD), f"listed as {score}: {one.job}"


def _check_dependents(found: Snapshot) -> None:
    telling = _steps(found, b"d")
    listed = {key.encode("latin-1"): waiters for key, waiters in found.of_kind("d:")}
    for one in found.jobs.values():
        assert bool(one.flags & BITS.HAS_DEPENDENTS) == (one.job.id in listed), f"dependents: {one.job}"
    for job_id, waiters in listed.items():
        one = found.jobs.get(job_id)
        assert one or job_id in telling, f"dependents of nobody: {waiters}"
        for waiter_id, told in waiters.items():
            if linked(found, waiter_id) is None:
                assert waiter_id in _steps(found, b"e") or job_id in telling, f"nobody waits for {one}"
                continue
            score = found.zset(f"c:{waiter_id.decode('latin-1')}").get(job_id)
            assert score is not None, f"a waiter that does not know for what: {waiter_id!r}"
            assert told == (int(score) if score >= State.FINISHED else 0), f"told {told}, listed as {score}"
            if one and job_id not in telling:
                assert told == (one.job.state if one.job.state in ENDED else 0), f"told {told}: {one.job}"


def check_no_job_waits_for_nothing(found: Snapshot, lost: set[bytes]) -> None:
    """Check, when no step is left, that every waiting job has a reason. `lost`: jobs whose parent or dependency was
    deleted."""
    assert "work" not in found.values
    for job_id, one in found.jobs.items():
        if one.flags & BITS.ENDED_BY_MEMBER and not one.job.unique:  # another job may hold its key
            causes = [score for score in found.zset(f"c:{job_id.decode('latin-1')}").values() if score >= State.FAILED]
            assert causes, f"a consequence without a cause: {one.job}"
        if one.job.state is not State.WAITING:
            continue
        scores = list(found.zset(f"c:{job_id.decode('latin-1')}").values())
        if one.job.on_failure == "fail":
            assert not [score for score in scores if score >= State.FAILED], f"should have ended: {one.job}"
        is_blocked = one.flags & BITS.HELD or [score for score in scores if score < State.FINISHED]
        assert is_blocked or job_id in lost, f"waits for nothing: {one.job}"
        if one.flags & BITS.HELD:
            parent = alive(found, one.job.parent)
            assert parent, f"held by nobody: {one.job}"
            assert parent.job.state is not State.WAITING, f"held, though its parent handed over: {one.job}"
