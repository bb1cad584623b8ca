"""Jobs are looked at, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from windlass.core.explain.reasons import Explanation
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Ending, Member, Timeline
from windlass.core.log import Logs
from windlass.core.operations import Listing, MemberPage, Page
from windlass.core.states import ENDED, State
from windlass.store.operation import BatchOperation, Operation
from windlass.wire.admin import InfoShape
from windlass.wire.fields import WAIT_MAX_MS
from windlass.wire.jobs import AttemptShape, MemberShape, MembersShape, PageShape, TimelineShape, WantedItem

from .facet import RemoteAsking
from .request import Requests, get
from .translation import attempt_of, blob_of, job_of, state_of, timeline_of


class EndOrState(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended, or only its state: whichever was answered."""

    state: str
    result: Raw | UnsetType = UNSET
    result_base64: str | UnsetType = UNSET
    result_codec: str | UnsetType = UNSET
    last_attempt: AttemptShape | None = None


class RemoteReading(RemoteAsking):
    def job(self, ids: Sequence[bytes]) -> BatchOperation[Timeline]:
        super().job(ids)
        return self._about("get", [WantedItem(id=format_id(one)) for one in ids], TimelineShape, timeline_of)

    def logs(self, job_id: bytes) -> Operation[Logs]:
        super().logs(job_id)
        return self._one(get(f"/jobs/{format_id(job_id)}/logs", Logs), _same)

    def now(self) -> Operation[int]:
        return self._one(get("/info", InfoShape), lambda found: found.now_ms)

    def result(self, job_id: bytes, *, wait_ms: int = 0, consume: bool = False) -> Operation[Ending | None]:
        """One that is read once is not asked for again after a lost answer: it may be on its way, and nowhere else."""
        super().result(job_id, wait_ms=wait_ms, consume=consume)
        return Operation(self.remote, lambda: _result(job_id, wait_ms, consume))

    def explain(self, job_id: bytes) -> Operation[Explanation]:
        super().explain(job_id)
        return self._one(get(f"/jobs/{format_id(job_id)}/explain", Explanation), _same)

    def jobs(self, listing: Listing) -> Operation[Page]:
        super().jobs(listing)
        query = {name: value for name, value in msgspec.structs.asdict(listing).items() if value}
        return self._one(
            get("/jobs", PageShape, query=query),
            lambda page: Page(
                [job_of(one) for one in page.jobs],
                page.cursor,
                page.looked_at,
                {parse_id(job_id): attempt_of(one) for job_id, one in page.last_attempts.items()},
            ),
        )

    def list_members(
        self, job_id: bytes, states: tuple[State, ...] = (), *, most: int = 50, cursor: str = ""
    ) -> Operation[MemberPage]:
        super().list_members(job_id, states, most=most, cursor=cursor)
        query = {"state": [state.label for state in states] or None, "most": most, "cursor": cursor or None}
        return self._one(
            get(f"/jobs/{format_id(job_id)}/members", MembersShape, query=query),
            lambda page: MemberPage([_member(one) for one in page.members], page.cursor),
        )


def _same(found: Any) -> Any:
    return found


def _result(job_id: bytes, wait_ms: int, consume: bool) -> Requests[Ending | None]:
    """A server answers after a minute at the latest: then it is asked again."""
    give_up_at_s = time.monotonic() + wait_ms / 1000
    left_ms = wait_ms
    while True:
        part_ms = min(left_ms, WAIT_MAX_MS)
        found = yield get(
            f"/jobs/{format_id(job_id)}/result",
            EndOrState,
            query={"wait_ms": part_ms or None, "consume": consume or None},
            wait_ms=part_ms,
            is_repeatable=not consume,
        )
        if state_of(found.state) in ENDED:
            return _ending(found)
        left_ms = int((give_up_at_s - time.monotonic()) * 1000)
        if left_ms <= 0:
            return None


def _ending(shape: EndOrState) -> Ending:
    return Ending(
        state=state_of(shape.state),
        result=blob_of(shape.result, shape.result_base64, shape.result_codec),
        last_attempt=None if shape.last_attempt is None else attempt_of(shape.last_attempt),
    )


def _member(shape: MemberShape) -> Member:
    return Member(
        job=job_of(shape.job),
        result=blob_of(shape.result, shape.result_base64, shape.result_codec),
        last_attempt=None if shape.last_attempt is None else attempt_of(shape.last_attempt),
    )
