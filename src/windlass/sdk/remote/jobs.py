"""Job reads over HTTP."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from windlass.core.errors import Refusal
from windlass.core.explain.reasons import Explanation
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Ending, Job, Member, Timeline
from windlass.core.job_aliases import AliasMatches, JobAliases, aliases_of
from windlass.core.log import Logs
from windlass.core.operations import Listing, MemberPage, Page
from windlass.core.states import ENDED, State
from windlass.core.text.codecs import as_json
from windlass.store.operation import BatchOperation, Operation
from windlass.wire.admin import InfoShape
from windlass.wire.fields import WAIT_MAX_MS
from windlass.wire.jobs import AttemptShape, CauseShape, MemberShape, MembersShape, PageShape, TimelineShape, WantedItem

from .facet import RemoteFacet
from .request import RequestFlow, get
from .translation import attempt_of, blob_of, job_of, state_of, timeline_of


class ResultOrState(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an ended job, or only the state of a job that has not ended."""

    state: str
    result: Raw | UnsetType = UNSET
    result_base64: str | UnsetType = UNSET
    result_codec: str | UnsetType = UNSET
    last_attempt: AttemptShape | None = None


class RemoteJobOperations(RemoteFacet):
    def job(self, ids: Sequence[bytes]) -> BatchOperation[Timeline]:
        super().job(ids)
        return self._batch("get", [WantedItem(id=format_id(job_id)) for job_id in ids], TimelineShape, timeline_of)

    def logs(self, job_id: bytes) -> Operation[Logs]:
        super().logs(job_id)
        return self._single(get(f"/jobs/{format_id(job_id)}/logs", Logs), _unchanged)

    def now(self) -> Operation[int]:
        return self._single(get("/info", InfoShape), lambda info: info.now_ms)

    def result(self, job_id: bytes, *, wait_ms: int = 0, consume: bool = False) -> Operation[Ending | None]:
        """Read a result. With `consume` the request is not repeated after a lost answer, as the server has deleted the
        result by then."""
        super().result(job_id, wait_ms=wait_ms, consume=consume)
        return Operation(self.remote, lambda: _wait_for_result(job_id, wait_ms, consume))

    def explain(self, job_id: bytes) -> Operation[Explanation]:
        super().explain(job_id)
        return self._single(get(f"/jobs/{format_id(job_id)}/explain", Explanation), _unchanged)

    def find_cause(self, job_id: bytes) -> Operation[Timeline | None]:
        super().find_cause(job_id)
        return self._single(get(f"/jobs/{format_id(job_id)}/cause", CauseShape), _cause)

    def find_causes(self, ids: Sequence[bytes]) -> Operation[dict[bytes, Timeline]]:
        super().find_causes(ids)
        return Operation(self.remote, lambda: _find_causes(ids))

    def jobs(self, listing: Listing) -> Operation[Page]:
        super().jobs(listing)
        query = {name: value for name, value in msgspec.structs.asdict(listing).items() if value}
        return self._single(
            get("/jobs", PageShape, query=query),
            lambda page: Page(
                [job_of(shape) for shape in page.jobs],
                page.cursor,
                page.looked_at,
                {parse_id(job_id): attempt_of(shape) for job_id, shape in page.last_attempts.items()},
                page.is_complete is not False,
            ),
        )

    def find(self, alias: str, *, queue: str = "") -> Operation[AliasMatches]:
        super().find(alias, queue=queue)
        return self._single(
            get("/jobs", PageShape, query={"alias": alias, "queue": queue or None}),
            _matches,
        )

    def aliases(self, jobs: Sequence[Job]) -> BatchOperation[JobAliases]:
        """Return the names that the jobs themselves contain. Assigned numbers are not among them."""
        super().aliases(jobs)
        return BatchOperation(self.remote, lambda: _aliases_in(jobs))

    def list_members(
        self, job_id: bytes, states: tuple[State, ...] = (), *, most: int = 50, cursor: str = ""
    ) -> Operation[MemberPage]:
        super().list_members(job_id, states, most=most, cursor=cursor)
        query = {"state": [state.label for state in states] or None, "most": most, "cursor": cursor or None}
        return self._single(
            get(f"/jobs/{format_id(job_id)}/members", MembersShape, query=query),
            lambda page: MemberPage([_member(shape) for shape in page.members], page.cursor),
        )


def _matches(page: PageShape) -> AliasMatches:
    is_by_part = page.looked_at > len(page.jobs)  # of an id; a look-up by another name examines the jobs that it finds
    looked_at = page.looked_at if is_by_part else 0
    return AliasMatches([job_of(shape) for shape in page.jobs], page.is_complete is not False, looked_at)


def _aliases_in(jobs: Sequence[Job]) -> RequestFlow[list[JobAliases | Refusal]]:
    return [aliases_of(_with_json_payload(job), None) for job in jobs]
    yield  # a flow without requests


def _with_json_payload(job: Job) -> Job:
    """Return a job with a payload as a processor stores it. Answers of a server have it as MessagePack."""
    payload = as_json(job.payload)
    return job if payload is None else msgspec.structs.replace(job, payload=Blob(bytes(payload)))


def _cause(shape: CauseShape) -> Timeline | None:
    return None if shape.cause is None else timeline_of(shape.cause)


def _find_causes(ids: Sequence[bytes]) -> RequestFlow[dict[bytes, Timeline]]:
    found: dict[bytes, Timeline] = {}
    for job_id in ids:
        try:
            cause = _cause((yield get(f"/jobs/{format_id(job_id)}/cause", CauseShape)))
        except Refusal:  # the job is gone
            continue
        if cause is not None:
            found[job_id] = cause
    return found


def _unchanged(response: Any) -> Any:
    return response


def _wait_for_result(job_id: bytes, wait_ms: int, consume: bool) -> RequestFlow[Ending | None]:
    """Poll for a result. The server answers each poll within WAIT_MAX_MS."""
    give_up_at_s = time.monotonic() + wait_ms / 1000
    left_ms = wait_ms
    while True:
        part_ms = min(left_ms, WAIT_MAX_MS)
        found = yield get(
            f"/jobs/{format_id(job_id)}/result",
            ResultOrState,
            query={"wait_ms": part_ms or None, "consume": consume or None},
            wait_ms=part_ms,
            is_repeatable=not consume,
        )
        if state_of(found.state) in ENDED:
            return _ending(found)
        left_ms = int((give_up_at_s - time.monotonic()) * 1000)
        if left_ms <= 0:
            return None


def _ending(shape: ResultOrState) -> Ending:
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
