"""CreateJob and CreateJobs. Jobs are made in one step, all or none; of those that exist already the content is changed
under the guard of their revision."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from windlass.core.errors import AlreadyEnded, Refusal, RevisionConflict, UnknownJob
from windlass.core.ids import number_of_id
from windlass.core.job import Blob, Job
from windlass.core.job_template import PreparedJob
from windlass.core.operations import Edit, Enqueued
from windlass.core.states import State
from windlass.dialects.bedrock import data
from windlass.dialects.bedrock.jobs import NumberedJobs, decide_with_retries
from windlass.dialects.bedrock.parameters import Parameters
from windlass.dialects.bedrock.record import DEFAULT_PRIORITY, encode_fields
from windlass.dialects.bedrock.refusals import CommandRefused
from windlass.dialects.bedrock.verbs import QUEUE
from windlass.dialects.bedrock.wire import BedrockRequest, Reply
from windlass.service.batcher import Gathering

from .create_parameters import CreateParameters, prepare_job, read_create_parameters, read_jobs

OTHER_PARENT = (404, "Trying to create a child that already exists, but it is tied to a different parent")
PARENT_STATE = (405, "Can only create child job when parent is RUNNING, RUNQUEUED or PAUSED")


class JobContent(msgspec.Struct, frozen=True):
    data: bytes
    repeat: str
    priority: int


class CreateCommands:
    def __init__(self, jobs: NumberedJobs, batcher: Gathering) -> None:
        self._jobs = jobs
        self._service = jobs.service
        self._batcher = batcher

    def start(self, request: BedrockRequest) -> asyncio.Future[Enqueued] | None:
        """Of a job that has to do with no other one, and gets its number as it comes in; None: it is not such a one."""
        one = read_create_parameters(Parameters(request.headers, request.raw), self._jobs.data_max)
        if one.is_unique or one.parent_number:
            return None
        return self._batcher.enqueue_numbered(_prepare_independent_job(one, "mockrequest" in request.headers))

    async def create_job(self, request: BedrockRequest) -> Reply:
        begun = self.start(request)
        if begun is not None:
            return reply_for_enqueued(await begun)
        (number,) = await self._create([Parameters.from_request(request)], request)
        return _reply_for_number(number)

    async def create_jobs(self, request: BedrockRequest) -> Reply:
        numbers = await self._create(read_jobs(Parameters.from_request(request)), request)
        return Reply(200, "OK", encode_fields({"jobIDs": numbers}))

    async def _create(self, given: Sequence[Parameters], request: BedrockRequest) -> list[int]:
        reserved_ids: list[bytes] = []  # ids that no job was made under yet
        is_mocked = "mockrequest" in request.headers

        async def decide() -> list[bytes]:
            wishes = [read_create_parameters(one, self._jobs.data_max) for one in given]
            await self._find_parents(wishes, is_mocked)
            return await self._make(wishes, reserved_ids)

        ids = await decide_with_retries(decide)
        numbers = [number_of_id(one) for one in ids]
        later = [one for one, number in zip(ids, numbers, strict=True) if number is None]
        given_later = await self._jobs.numbers(later) if later else {}
        return [number or given_later[one] for one, number in zip(ids, numbers, strict=True)]

    async def _find_parents(self, wishes: Sequence[CreateParameters], is_mocked: bool) -> None:
        parents: dict[int, Job] = {}
        for one in wishes:
            if one.parent_number and one.parent_number not in parents:
                parents[one.parent_number] = await self._parent(one.parent_number)
        is_mocked = is_mocked or any(parent.is_hidden for parent in parents.values())
        for one in wishes:
            one.is_mocked = is_mocked or one.is_mocked_in_data
            if one.parent_number:
                parent = parents[one.parent_number]
                one.parent, one.is_mocked = parent.id, parent.is_hidden
                one.parent_has_parent = parent.parent is not None

    async def _parent(self, number: int) -> Job:
        parent = await self._jobs.by_number(number)
        if parent is None:
            raise CommandRefused(404, "parentJobID does not exist")
        if not parent.state.is_leased and parent.state is not State.WAITING:
            raise CommandRefused(*PARENT_STATE)
        return parent

    async def _make(self, wishes: Sequence[CreateParameters], reserved_ids: list[bytes]) -> list[bytes]:
        """The id of each; of jobs that exist already, theirs."""
        found: list[Job | None] = []
        made: dict[str, CreateParameters] = {}
        for one in wishes:
            existing = await self._existing(one) if one.is_unique and one.key not in made else None
            found.append(existing)
            one.repeat = "" if one.is_mocked else one.given.repeat()
            if one.parent_has_parent:
                raise CommandRefused(405, "Cannot create grandchildren")
            if existing is None:
                _merge_into_earlier(made, one, self._jobs.data_max)
        ids = await self._enqueue(wishes, found, reserved_ids)
        for one, existing in zip(wishes, found, strict=True):
            if existing is not None:
                await self._change(existing.id, one)
        return ids

    async def _existing(self, one: CreateParameters) -> Job | None:
        job_id = await self._service.holder(QUEUE, one.key)
        holder = None if job_id is None else await self._jobs.by_id(job_id)
        if holder is not None and holder.parent is not None and holder.parent != one.parent:
            raise CommandRefused(*OTHER_PARENT)
        return holder

    async def _enqueue(
        self, wishes: Sequence[CreateParameters], found: Sequence[Job | None], reserved_ids: list[bytes]
    ) -> list[bytes]:
        """Makes those that were not found, the first of each unique name."""
        places: dict[str, int] = {}
        new: list[CreateParameters] = []
        for one, existing in zip(wishes, found, strict=True):
            if existing is None and not (one.is_unique and one.key in places):
                places.setdefault(one.key, len(new))
                one.index = len(new)
                new.append(one)
            elif existing is None:
                one.index = places[one.key]
        if len(new) > len(reserved_ids):
            reserved_ids += await self._service.reserve_numbers(QUEUE, len(new) - len(reserved_ids))
        jobs = [prepare_job(one, job_id) for one, job_id in zip(new, reserved_ids, strict=False)]
        if len(jobs) == 1:
            await self._batcher.enqueue(jobs[0])
        elif jobs:
            for answer in await self._service.enqueue(jobs, whole=True):
                if isinstance(answer, Refusal):
                    raise answer
        return [reserved_ids[one.index] if job is None else job.id for one, job in zip(wishes, found, strict=True)]

    async def _change(self, job_id: bytes, one: CreateParameters) -> None:
        """What a wish changes in the job that it found; again, when that was changed meanwhile."""
        while True:
            job = await self._jobs.by_id(job_id)
            content = None if job is None else _content_after_update(job, one)
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


def reply_for_enqueued(made: Enqueued) -> Reply:
    return _reply_for_number(number_of_id(made.id) or 0)


def _reply_for_number(number: int) -> Reply:
    return Reply(200, "OK", b'{"jobID":%d}' % number, (("jobID", str(number)),))


def _prepare_independent_job(one: CreateParameters, is_mocked: bool) -> PreparedJob:
    one.is_mocked = is_mocked or one.is_mocked_in_data
    one.repeat = "" if one.is_mocked else one.given.repeat()
    return prepare_job(one)


def _merge_into_earlier(made: dict[str, CreateParameters], one: CreateParameters, data_max: int) -> None:
    """A job of the same command that has the name already takes the content in."""
    first = made.setdefault(one.key, one)
    if first is one or not one.is_unique:
        return
    if first.parent and first.parent != one.parent:
        raise CommandRefused(*OTHER_PARENT)
    content = _merge_content(
        JobContent(first.data, first.repeat, DEFAULT_PRIORITY if first.priority is None else first.priority), one
    )
    if content is not None:
        first.data = data.check_size(content.data, data_max)
        first.repeat, first.priority = content.repeat, content.priority


def _content_after_update(job: Job, one: CreateParameters) -> JobContent | None:
    return _merge_content(JobContent(data.stored_object(job.payload), job.repeat, DEFAULT_PRIORITY - job.priority), one)


def _merge_content(known: JobContent, one: CreateParameters) -> JobContent | None:
    """The content after a wish for a job that is there already; None: nothing changes."""
    if one.keeps_existing:
        return None
    if one.data != known.data:
        priority = DEFAULT_PRIORITY if one.priority is None else one.priority
        return JobContent(data.merge_patch(known.data, one.data), one.repeat, priority)
    content = JobContent(
        known.data,
        one.repeat if one.has_repeat else known.repeat,
        known.priority if one.priority is None else one.priority,
    )
    return None if content == known else content
