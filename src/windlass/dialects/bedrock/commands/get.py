"""GetJob and GetJobs. Jobs that cannot be delivered are released, and their delivery does not count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.core.errors import Refusal
from windlass.core.ids import number_of_id
from windlass.core.job import Job
from windlass.core.operations import LeaseRef, NumberedJob, Taken, TakenDetails, TakenRef
from windlass.core.queue import FOREVER_MS
from windlass.core.scheduling.repeat import parse_modifiers
from windlass.core.states import State
from windlass.core.validation.bounds import DURATION_MAX, TAKE_MAX
from windlass.dialects.bedrock import data, name_filter, record
from windlass.dialects.bedrock.parameters import NAMES_MAX, Parameters
from windlass.dialects.bedrock.refusals import CommandRefused
from windlass.dialects.bedrock.takes import TrackedTakes
from windlass.dialects.bedrock.verbs import QUEUE
from windlass.dialects.bedrock.wire import BedrockRequest, Reply, encode_json
from windlass.service import Service

TIMEOUT = (303, "Timeout")
NO_JOB_FOUND = (404, "No job found")


class GetCommands:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._takes = TrackedTakes(service)

    def close(self) -> None:
        self._takes.close()

    async def get_job(self, request: BedrockRequest) -> Reply:
        parameters = Parameters.from_request(request)
        name = parameters.bounded_text("name", NAMES_MAX)
        if parameters.is_set("numResults"):
            raise CommandRefused(402, "Cannot use numResults with GetJob; try GetJobs")
        taken = await self._take(parameters, name, 1, request.connection == "wait")
        rows = await self._rows(taken)
        return Reply(200, "OK", encode_json(rows[0] if rows else {}), jobs=_lease_pairs(taken.jobs))

    async def get_jobs(self, request: BedrockRequest) -> Reply:
        parameters = Parameters.from_request(request)
        name = parameters.bounded_text("name", NAMES_MAX)
        if not parameters.get("numResults"):
            raise CommandRefused(402, "Missing numResults")
        most = min(max(parameters.number("numResults"), 1), TAKE_MAX)
        taken = await self._take(parameters, name, most, request.connection == "wait")
        rows = [msgspec.Raw(encode_json(row)) for row in await self._rows(taken)]
        return Reply(200, "OK", encode_json({"jobs": rows}), jobs=_lease_pairs(taken.jobs))

    async def _take(self, parameters: Parameters, name: str, most: int, waits: bool) -> Taken:
        is_mocked = parameters.is_set("mockRequest", "getMockedJobs")
        wants = name_filter.filter_for_names(name, parameters.priority(), is_mocked)
        taken = await self._takes.take(wants, most, _wait_ms(parameters) if waits else 0)
        if not taken.jobs and (waits or not taken.used_up):
            raise CommandRefused(*(TIMEOUT if waits else NO_JOB_FOUND))
        return taken

    async def _rows(self, taken: Taken) -> list[dict[str, Any]]:
        try:
            return [
                record.fields_before_take(job, details.number, taken.started_before.get(job.id))
                | _parent_fields(details.parent)
                | _children_fields(details.children)
                for job, details in zip(taken.jobs, await self._details(taken.jobs), strict=True)
                if not isinstance(details, Refusal)  # deleted in between, and its number is not known
            ]
        except BaseException:  # also cancellation: the client never learns of these jobs
            self._service.store.run_in_background(self.release_jobs(_lease_pairs(taken.jobs)))
            raise

    async def _details(self, jobs: Sequence[Job]) -> list[TakenDetails | Refusal]:
        """Return the details of taken jobs, and set their deadlines. Most jobs need no call."""
        found: dict[bytes, TakenDetails | Refusal] = {}
        requests: list[TakenRef] = []
        for job in jobs:
            number, lease_ms = number_of_id(job.id), _new_lease_ms(job)
            if number is None or lease_ms or job.parent is not None or job.has_members:
                requests.append(TakenRef(job.id, job.lease_token, lease_ms, job.parent or b"", job.has_members))
            else:
                found[job.id] = TakenDetails(number)
        if requests:
            answers = await self._service.taken_details(QUEUE, requests)
            found |= zip([request.id for request in requests], answers, strict=True)
        return [found[job.id] for job in jobs]

    async def release_jobs(self, jobs: Sequence[tuple[bytes, int]]) -> None:
        """Return jobs to their place in the queue without counting the delivery. Skip jobs that were reported on."""
        if jobs:
            await self._service.release([LeaseRef(*lease) for lease in jobs])


def _new_lease_ms(job: Job) -> int:
    """Return the duration that the lease of a taken job must have from now on. 0: it stays as it is.

    Bedrock clients do not extend leases, so a job of another dialect, without retryAfter, must not expire. A lease
    that depends on the calendar is computed here."""
    if not job.retake and job.lease_deadline_at_ms is not None:
        return FOREVER_MS
    if not job.lease_rule or job.started_at_ms is None:
        return 0
    modifiers = parse_modifiers(job.lease_rule)
    if modifiers.fixed_ms is not None:
        return 0
    until_ms = modifiers.apply_ms(job.started_at_ms) or DURATION_MAX
    return min(max(1, until_ms - job.started_at_ms), DURATION_MAX)


def _parent_fields(parent: NumberedJob | None) -> dict[str, Any]:
    if parent is None:
        return {}
    return {"parentJobID": parent.number, "parentData": data.object_for_client(parent.job, parent.job.attempt)}


def _children_fields(children: Sequence[NumberedJob]) -> dict[str, Any]:
    """Return the fields about ended children, for a parent that runs again. Empty: there are none."""
    if not children:
        return {}
    found: dict[State, list[dict[str, Any]]] = {State.FINISHED: [], State.CANCELLED: []}
    for child in sorted(children, key=lambda child: child.job.sequence):
        shown = data.object_for_client(child.job, child.job.attempt)
        found[child.job.state].append({"data": shown, "jobID": child.number})
    return {"finishedChildJobs": found[State.FINISHED], "cancelledChildJobs": found[State.CANCELLED]}


def _lease_pairs(jobs: Sequence[Job]) -> tuple[tuple[bytes, int], ...]:
    return tuple((job.id, job.lease_token) for job in jobs)


def _wait_ms(parameters: Parameters) -> int:
    """Return the time to wait. Without a timeout it is the longest duration, some centuries."""
    text = parameters.get("timeout")
    timeout_ms = int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0
    return min(timeout_ms, DURATION_MAX) if timeout_ms else DURATION_MAX
