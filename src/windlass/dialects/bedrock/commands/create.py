"""CreateJob and CreateJobs.

New jobs are enqueued in a single step, all or none. Jobs that exist already are edited, guarded by their revision."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy
from typing import Any

import msgspec

from windlass.core.access.tokens import Principal
from windlass.core.errors import AlreadyEnded, Refusal, RevisionConflict, UnknownJob
from windlass.core.job import Blob, Job
from windlass.core.operations import Edit, Enqueued
from windlass.core.states import State
from windlass.dialects.bedrock import data
from windlass.dialects.bedrock.client import BedrockClient
from windlass.dialects.bedrock.jobs import NumberedJobs, decide_with_retries
from windlass.dialects.bedrock.parameters import Parameters
from windlass.dialects.bedrock.queues import check_queues, set_default_queue
from windlass.dialects.bedrock.record import DEFAULT_PRIORITY
from windlass.dialects.bedrock.refusals import REFUSED, CommandRefused, reply_to_refusal
from windlass.dialects.bedrock.wire import BedrockRequest, Reply, encode_json
from windlass.service.batcher import RequestBatcher
from windlass.web.listener.deferred import DeferredAnswer

from .create_parameters import CreateParameters, prepare_job, read_create_parameters, read_jobs

OTHER_PARENT = (404, "Trying to create a child that already exists, but it is tied to a different parent")
SEVERAL_PARTITIONS = (405, "The jobs of a command must lie in one partition")
PARENT_STATE = (405, "Can only create child job when parent is RUNNING, RUNQUEUED or PAUSED")


class JobContent(msgspec.Struct, frozen=True):
    data: bytes
    repeat: str
    priority: int


class CreateCommands:
    def __init__(self, jobs: NumberedJobs, batcher: RequestBatcher) -> None:
        self._jobs = jobs
        self._service = jobs.service
        self._batcher = batcher

    def start(self, request: BedrockRequest, client: BedrockClient) -> DeferredAnswer[Any, Reply]:
        """Start a CreateJob. Raise a refusal of its parameters.

        A job that is not unique and has no parent needs no task: the call that enqueues it assigns its number."""
        jobs, principal = self._jobs, client.principal
        item = read_create_parameters(Parameters.from_request(request), jobs.data_max, jobs.rules)
        if principal.queues:
            check_queues(principal, (item.queue,))
        is_mocked = "mockrequest" in request.headers
        if item.is_unique or item.parent_number:
            return DeferredAnswer(
                asyncio.ensure_future(self._create((item,), is_mocked, principal)), _reply_for_numbers
            )
        item.is_mocked = is_mocked or item.is_mocked_in_data
        item.decide_repeat()
        return DeferredAnswer(self._batcher.enqueue_numbered(prepare_job(item)), self._reply_for_enqueued)

    def _reply_for_enqueued(self, future: asyncio.Future[Enqueued]) -> Reply:
        try:
            return _reply_for_number(self._service.number_in_id(future.result().id) or 0)
        except REFUSED as refused:
            return reply_to_refusal(refused)

    async def create_job(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        pending = self.start(request, client)
        await pending.future
        return pending.to_answer(pending.future)

    async def create_jobs(self, request: BedrockRequest, client: BedrockClient) -> Reply:
        jobs, headers = self._jobs, Parameters.from_request(request)
        given = read_jobs(headers)
        set_default_queue(given, headers.get("queue"))
        items = [read_create_parameters(parameters, jobs.data_max, jobs.rules) for parameters in given]
        self._check_queues({item.queue for item in items}, client.principal)
        numbers = await self._create(items, "mockrequest" in request.headers, client.principal)
        return Reply(200, "OK", encode_json({"jobIDs": numbers}))

    def _check_queues(self, queues: set[str], principal: Principal) -> None:
        """Refuse queues that the token is not for, or that cannot get their jobs in a single step."""
        check_queues(principal, sorted(queues))
        if len(queues) > 1 and len({self._service.store.partition_of_queue(queue) for queue in queues}) > 1:
            raise CommandRefused(*SEVERAL_PARTITIONS, "Send one CreateJobs for each queue, or use one partition.")

    async def _create(self, items: Sequence[CreateParameters], is_mocked: bool, principal: Principal) -> list[int]:
        """Enqueue or edit jobs that may be unique or have a parent. Return their numbers, in order."""
        reserved_ids: list[bytes] = []  # kept for the next attempt

        async def decide() -> list[bytes]:
            attempted = [copy(item) for item in items]
            await self._find_parents(attempted, is_mocked, principal)
            return await self._make(attempted, reserved_ids, principal)

        ids = await decide_with_retries(decide)
        numbers = [self._service.number_in_id(job_id) for job_id in ids]
        others = [job_id for job_id, number in zip(ids, numbers, strict=True) if number is None]
        their_numbers = await self._jobs.numbers(others) if others else {}
        return [number or their_numbers[job_id] for job_id, number in zip(ids, numbers, strict=True)]

    async def _find_parents(self, items: Sequence[CreateParameters], is_mocked: bool, principal: Principal) -> None:
        parents: dict[int, Job] = {}
        for item in items:
            if item.parent_number and item.parent_number not in parents:
                parents[item.parent_number] = await self._parent(item.parent_number, principal)
        is_mocked = is_mocked or any(parent.is_hidden for parent in parents.values())
        for item in items:
            item.is_mocked = is_mocked or item.is_mocked_in_data
            if item.parent_number:
                parent = parents[item.parent_number]
                item.parent, item.is_mocked = parent.id, parent.is_hidden
                item.parent_has_parent = parent.parent is not None

    async def _parent(self, number: int, principal: Principal) -> Job:
        parent = await self._jobs.by_number(number, principal)
        if parent is None:
            raise CommandRefused(404, "parentJobID does not exist")
        if not parent.state.is_leased and parent.state is not State.WAITING:
            raise CommandRefused(*PARENT_STATE)
        return parent

    async def _make(
        self, items: Sequence[CreateParameters], reserved_ids: list[bytes], principal: Principal
    ) -> list[bytes]:
        """Enqueue or edit the jobs. Return their ids, in order."""
        found: list[Job | None] = []
        first_by_place: dict[tuple[str, str], CreateParameters] = {}
        for item in items:
            is_first = item.is_unique and item.place not in first_by_place
            existing = await self._existing(item, principal) if is_first else None
            found.append(existing)
            item.decide_repeat()
            if item.parent_has_parent:
                raise CommandRefused(405, "Cannot create grandchildren")
            if existing is None:
                _merge_into_earlier(first_by_place, item, self._jobs.data_max)
        ids = await self._enqueue(items, found, reserved_ids)
        for item, existing in zip(items, found, strict=True):
            if existing is not None:
                await self._change(existing.id, item, principal)
        return ids

    async def _existing(self, item: CreateParameters, principal: Principal) -> Job | None:
        job_id = await self._service.holder(*item.place)
        holder = None if job_id is None else await self._jobs.by_id(job_id, principal)
        if holder is not None and holder.parent is not None and holder.parent != item.parent:
            raise CommandRefused(*OTHER_PARENT)
        return holder

    async def _enqueue(
        self, items: Sequence[CreateParameters], found: Sequence[Job | None], reserved_ids: list[bytes]
    ) -> list[bytes]:
        """Enqueue the jobs that were not found. Of several with the same unique name, only the first."""
        index_by_place: dict[tuple[str, str], int] = {}
        new: list[CreateParameters] = []
        for item, existing in zip(items, found, strict=True):
            if existing is None and not (item.is_unique and item.place in index_by_place):
                index_by_place.setdefault(item.place, len(new))
                item.index = len(new)
                new.append(item)
            elif existing is None:
                item.index = index_by_place[item.place]
        if len(new) > len(reserved_ids):
            reserved_ids += await self._service.reserve_numbers(new[0].queue, len(new) - len(reserved_ids))
        jobs = [prepare_job(item, job_id) for item, job_id in zip(new, reserved_ids, strict=False)]
        if jobs:
            for answer in await self._service.enqueue(jobs, whole=True):
                if isinstance(answer, Refusal):
                    raise answer
        return [reserved_ids[item.index] if job is None else job.id for item, job in zip(items, found, strict=True)]

    async def _change(self, job_id: bytes, item: CreateParameters, principal: Principal) -> None:
        """Apply the parameters to a job that exists. Repeat when the job has changed in between."""
        while True:
            job = await self._jobs.by_id(job_id, principal)
            content = None if job is None else _content_after_update(job, item)
            if job is None or content is None:
                return
            edit = Edit(
                id=job.id,
                payload=Blob(data.check_size(content.data, self._jobs.data_max)),
                priority=DEFAULT_PRIORITY - content.priority,
                repeat=content.repeat,
                if_revision=job.revision,
                in_any_state=True,
            )
            try:
                await self._service.edit([edit]).one()
            except RevisionConflict:
                continue
            except (UnknownJob, AlreadyEnded):
                pass
            return


def _reply_for_numbers(future: asyncio.Future[list[int]]) -> Reply:
    try:
        return _reply_for_number(*future.result())
    except REFUSED as refused:
        return reply_to_refusal(refused)


def _reply_for_number(number: int) -> Reply:
    return Reply(200, "OK", b'{"jobID":%d}' % number, (("jobID", str(number)),))


def _merge_into_earlier(
    first_by_place: dict[tuple[str, str], CreateParameters], item: CreateParameters, data_max: int
) -> None:
    """Merge the content into the first job of the same command that has the same unique name."""
    first = first_by_place.setdefault(item.place, item)
    if first is item or not item.is_unique:
        return
    if first.parent and first.parent != item.parent:
        raise CommandRefused(*OTHER_PARENT)
    content = _merge_content(
        JobContent(first.data, first.repeat, DEFAULT_PRIORITY if first.priority is None else first.priority), item
    )
    if content is not None:
        first.data = data.check_size(content.data, data_max)
        first.repeat, first.priority = content.repeat, content.priority


def _content_after_update(job: Job, item: CreateParameters) -> JobContent | None:
    return _merge_content(JobContent(data.stored_value(job.payload), job.repeat, DEFAULT_PRIORITY - job.priority), item)


def _merge_content(known: JobContent, item: CreateParameters) -> JobContent | None:
    """Return the content of an existing job after CreateJob. None: nothing changes."""
    if item.keeps_existing:
        return None
    if item.data != known.data:
        priority = DEFAULT_PRIORITY if item.priority is None else item.priority
        merged = data.merge_patch(known.data, item.data) if item.has_data else known.data
        return JobContent(merged, item.repeat, priority)
    content = JobContent(
        known.data,
        item.repeat if item.has_repeat else known.repeat,
        known.priority if item.priority is None else item.priority,
    )
    return None if content == known else content
