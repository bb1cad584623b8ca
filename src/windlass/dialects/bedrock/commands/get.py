"""GetJob and GetJobs. Jobs that cannot be delivered are released, and their delivery does not count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.access.tokens import Principal
from windlass.core.errors import NamesNeedLanes, Refusal
from windlass.core.job import Job
from windlass.core.operations import Filter, LeaseRef, NumberedJob, Taken, TakenDetails, TakenRef
from windlass.core.states import State
from windlass.core.validation.bounds import DURATION_MAX, TAKE_MAX
from windlass.dialects.bedrock import data, name_filter, record, timeouts
from windlass.dialects.bedrock.client import BedrockClient
from windlass.dialects.bedrock.parameters import NAMES_MAX, Parameters
from windlass.dialects.bedrock.queues import ensure_name_lanes, read_queues
from windlass.dialects.bedrock.refusals import CommandRefused
from windlass.dialects.bedrock.rules import DOCUMENT, Rules
from windlass.dialects.bedrock.takes import TrackedTakes
from windlass.dialects.bedrock.wire import BedrockRequest, Reply, encode_json
from windlass.service import Service

from .crash import CrashCommands

TIMEOUT = (303, "Timeout")
NO_JOB_FOUND = (404, "No job found")


class GetCommands:
    def __init__(
        self, service: Service, crash: CrashCommands, rules: Rules = DOCUMENT, job_timeout_ms: int = 0
    ) -> None:
        self._service = service
        self._crash = crash
        self._rules = rules
        self._job_timeout_ms = job_timeout_ms
        self._takes = TrackedTakes(service, job_timeout_ms)

    def close(self) -> None:
        self._takes.close()

    async def get_job(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        parameters = Parameters.from_request(request)
        name = parameters.bounded_text("name", NAMES_MAX)
        if parameters.is_set("numResults"):
            raise CommandRefused(402, "Cannot use numResults with GetJob; try GetJobs")
        taken = await self._take(parameters, name, 1, request.connection == "wait", client.principal)
        rows = await self._rows(taken, client.principal, parameters.wants_lease_token())
        return Reply(200, "OK", encode_json(rows[0] if rows else {}), jobs=_lease_pairs(taken.jobs))

    async def get_jobs(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        parameters = Parameters.from_request(request)
        name = parameters.bounded_text("name", NAMES_MAX)
        if not parameters.get("numResults"):
            raise CommandRefused(402, "Missing numResults")
        most = min(max(parameters.number("numResults"), 1), TAKE_MAX)
        taken = await self._take(parameters, name, most, request.connection == "wait", client.principal)
        found = await self._rows(taken, client.principal, parameters.wants_lease_token())
        rows = [msgspec.Raw(encode_json(row)) for row in found]
        return Reply(200, "OK", encode_json({"jobs": rows}), jobs=_lease_pairs(taken.jobs))

    async def _take(self, parameters: Parameters, name: str, most: int, waits: bool, principal: Principal) -> Taken:
        queues = read_queues(parameters, principal)
        is_mocked = parameters.is_set("mockRequest", "getMockedJobs")
        wants = name_filter.filter_for_names(name, parameters.priority(self._rules.priorities), is_mocked)
        taken = await self._take_by_name(queues, wants, most, _wait_ms(parameters) if waits else 0)
        if not taken.jobs and (waits or not taken.used_up):
            raise CommandRefused(*(TIMEOUT if waits else NO_JOB_FOUND))
        return await self._without_crashed(taken) if self._crash.has_patterns else taken

    async def _take_by_name(self, queues: tuple[str, ...], wants: Filter, most: int, wait_ms: int) -> Taken:
        try:
            return await self._takes.take(queues, wants, most, wait_ms)
        except NamesNeedLanes:
            await ensure_name_lanes(self._service, queues)
        return await self._takes.take(queues, wants, most, wait_ms)

    async def _rows(self, taken: Taken, principal: Principal, with_token: bool) -> list[dict[str, Any]]:
        try:
            leases_ms = [timeouts.new_lease_ms(job, self._job_timeout_ms) for job in taken.jobs]
            rows: list[dict[str, Any]] = []
            found = await self._details(taken.jobs, leases_ms)
            for job, details in zip(taken.jobs, found, strict=True):
                if isinstance(details, Refusal):
                    continue  # deleted in between, and its number is not known
                row = record.fields_before_take(job, details.number, taken.started_before.get(job.id))
                row |= _parent_fields(details.parent, principal)
                row |= _children_fields(details.children, principal)
                if job.lease_rule or self._job_timeout_ms:
                    expires_at_ms = timeouts.expiry_after_take(job, details.deadline_at_ms)
                    row |= timeouts.fields(job, self._job_timeout_ms, expires_at_ms)
                if with_token:
                    row["leaseToken"] = job.lease_token
                rows.append(row)
            return rows
        except BaseException:  # also cancellation: the client never learns of these jobs
            self._release_in_background(taken)
            raise

    async def _without_crashed(self, taken: Taken) -> Taken:
        try:
            return await self._crash.without_crashed(taken)
        except BaseException:
            self._release_in_background(taken)
            raise

    def _release_in_background(self, taken: Taken) -> None:
        self._service.store.run_in_background(self.release_jobs(_lease_pairs(taken.jobs)))

    async def _details(self, jobs: Sequence[Job], leases_ms: Sequence[int]) -> list[TakenDetails | Refusal]:
        """Return the details of taken jobs, and set their deadlines. Most jobs need no call."""
        found: dict[bytes, TakenDetails | Refusal] = {}
        requests: list[TakenRef] = []
        for job, lease_ms in zip(jobs, leases_ms, strict=True):
            number = self._service.number_in_id(job.id)
            if number is None or lease_ms or job.parent is not None or job.has_members:
                requests.append(TakenRef(job.id, job.lease_token, lease_ms, job.parent or b"", job.has_members))
            else:
                found[job.id] = TakenDetails(number)
        if requests:
            answers = await self._service.taken_details("", requests)
            found |= zip([request.id for request in requests], answers, strict=True)
        return [found[job.id] for job in jobs]

    async def release_jobs(self, jobs: Sequence[tuple[bytes, int]]) -> None:
        """Return jobs to their place in the queue without counting the delivery. Skip jobs that were reported on."""
        if jobs:
            await self._service.release([LeaseRef(*lease) for lease in jobs])


def _parent_fields(parent: NumberedJob | None, principal: Principal) -> dict[str, Any]:
    """Return the fields about the parent, if there is one in a queue of the token."""
    if parent is None or not principal.may_use(parent.job.queue):
        return {}
    return {"parentJobID": parent.number, "parentData": data.value_for_client(parent.job, parent.job.attempt)}


def _children_fields(children: Sequence[NumberedJob], principal: Principal) -> dict[str, Any]:
    """Return the fields about ended children in queues of the token, for a parent that runs again. Empty: none."""
    children = [child for child in children if principal.may_use(child.job.queue)] if children else ()
    if not children:
        return {}
    found: dict[State, list[dict[str, Any]]] = {State.FINISHED: [], State.CANCELLED: [], State.FAILED: []}
    for child in sorted(children, key=lambda child: child.job.sequence):
        shown = data.value_for_client(child.job, child.job.attempt)
        found[child.job.state].append({"data": shown, "jobID": child.number})
    fields = {"finishedChildJobs": found[State.FINISHED], "cancelledChildJobs": found[State.CANCELLED]}
    return fields | ({"failedChildJobs": found[State.FAILED]} if found[State.FAILED] else {})


def _lease_pairs(jobs: Sequence[Job]) -> tuple[tuple[bytes, int], ...]:
    return tuple((job.id, job.lease_token) for job in jobs)


def _wait_ms(parameters: Parameters) -> int:
    """Return the time to wait. Without a timeout it is the longest duration, some centuries."""
    text = parameters.get("timeout")
    timeout_ms = int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0
    return min(timeout_ms, DURATION_MAX) if timeout_ms else DURATION_MAX
