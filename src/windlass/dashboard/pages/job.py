"""One job: its state and the reasons for it, steps, payload, result, failed attempts, log and dependencies."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Literal, NamedTuple

import msgspec
from markupsafe import Markup

from windlass.core.callbacks.callback import PendingCallback
from windlass.core.durable import DurableState, StreamItem
from windlass.core.errors import AlreadyEnded, Forbidden, Refusal, UnknownJob
from windlass.core.explain.reasons import AwaitsMembers, Ended, Explanation, HeldByParent, LimitFull, Reason, Running
from windlass.core.explain.references import Cause, Holder
from windlass.core.ids import format_id
from windlass.core.job import Attempt, Blob, Codec, Job, Member, Timeline
from windlass.core.job_aliases import JobAliases
from windlass.core.limits.limit import LimitState, LimitTable, split_limit_key
from windlass.core.log import Logs
from windlass.core.text.control_characters import escape_control
from windlass.core.text.error_text import blob_line, error_line, error_map
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.rendering import HEADERS
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views import timeline
from windlass.dashboard.views.durable_steps import STREAM_SHOWN, DurableView, SignalDraft, durable_view
from windlass.dashboard.views.formats import count, instants, span
from windlass.dashboard.views.named import redirect_part
from windlass.dashboard.views.timeline import Phase
from windlass.dashboard.views.values import RenderedValue, render_value
from windlass.web.listener.messages import Response

routes = DashboardRoutes()

MEMBERS_SHOWN = 50
_REMOVED = "This job has ended and was removed: it kept no result, and its queue keeps no history."
ANCESTORS_MAX = 5
_ID = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_MEDIA = {
    Codec.JSON: "application/json",
    Codec.MSGPACK: "application/vnd.msgpack",
    Codec.RAW: "application/octet-stream",
}
_FILE_SUFFIXES = {Codec.JSON: "json", Codec.MSGPACK: "msgpack", Codec.RAW: "bin"}


class JobQuery(msgspec.Struct, frozen=True, kw_only=True):
    steps: Literal["", "all"] = ""


class TreeJob(NamedTuple):
    """A job in the tree of parents, children and dependencies."""

    id: str
    name: str
    state: str
    depth: int
    is_this: bool = False
    role: str = ""


class FailedAttempt(NamedTuple):
    """An attempt with its error."""

    attempt: Attempt
    line: str
    text: str  # traceback or full error text; empty: `line` is all there is


class LimitUsage(NamedTuple):
    """A limit that the job counts against."""

    name: str
    key: str
    running: int
    cap: int | None  # None: the limit is on starts per time
    text: str


class JobView(msgspec.Struct, frozen=True):
    job: Job
    aliases: JobAliases
    explanation: Explanation
    phases: list[Phase]
    first_started_at_ms: int | None  # None: unknown, or it never started
    failures: list[FailedAttempt]
    payload: RenderedValue | None
    result: RenderedValue | None
    logs: Logs
    tree: list[TreeJob]
    has_more_members: bool
    limits: list[LimitUsage]
    holder: Holder | None
    callbacks: list[PendingCallback]  # pending, or given up
    durable: DurableView | None  # None: it has no durable state

    @property
    def reasons(self) -> list[str]:
        """Reasons that the summary does not contain."""
        summary = self.explanation.summary
        return [reason.sentence for reason in self.explanation.reasons if reason.sentence[1:-1] not in summary]

    def link_jobs(self, sentence: str, page: PageContext[Any]) -> Markup:
        """Turn the ids of other jobs in a sentence into links, and its instants into those of the viewer's zone."""
        known = {job_id for reason in self.explanation.reasons for job_id in _job_ids_in(reason)}
        parts = [
            Markup('<a href="{}">{}</a>').format(page.link("jobs", part), part) if part in known else instants(part)
            for part in _ID.split(escape_control(sentence))
        ]
        return Markup("").join(parts)

    @property
    def cause(self) -> Cause | None:
        """The job because of which this one could not run. None: it ended by itself, has not ended, or the cause is
        gone or in a queue that the principal may not use."""
        causes = (reason.cause for reason in self.explanation.reasons if isinstance(reason, Ended))
        return next((cause for cause in causes if cause is not None and cause.id), None)

    @property
    def has_started_again(self) -> bool:
        """Whether its first and its last start differ."""
        return self.job.attempt > 1 or bool(self.durable and self.durable.state.suspensions)

    @property
    def lasted_ms(self) -> int | None:
        """Time from its creation to its end. None: it has not ended."""
        return self.job.ended_at_ms - self.job.created_at_ms if self.job.ended_at_ms else None

    @property
    def waited_ms(self) -> int:
        return timeline.waited_ms(self.phases)

    @property
    def ran_ms(self) -> int:
        return timeline.ran_ms(self.phases)

    @property
    def rested_ms(self) -> int:
        return timeline.rested_ms(self.phases)


def _job_ids_in(reason: Reason) -> list[str]:
    """Return the ids of other jobs that the reason names."""
    if isinstance(reason, LimitFull):
        return reason.holders
    if isinstance(reason, AwaitsMembers):
        return [member.id for member in reason.members]
    if isinstance(reason, Ended):
        return [reason.cause.id] if reason.cause else []
    return [reason.parent.id] if isinstance(reason, HeldByParent) else []


@routes.page("/jobs/{id}", "job.html", section="jobs", query=JobQuery)
async def job(page: PageContext[JobQuery]) -> JobView | Response:
    """Show a job with all its data."""
    if redirect := redirect_part(page):
        return redirect
    try:
        return await view_job(page, page.context.job_id, shows_all_steps=bool(page.query.steps))
    except UnknownJob:
        if not page.is_live:
            raise
        return Response(204, b"", HEADERS)  # an open page keeps its content


async def view_job(
    page: PageContext[Any], job_id: bytes, *, shows_all_steps: bool = False, draft: SignalDraft | None = None
) -> JobView:
    """Read everything that the page of a job shows. `draft` is a typed signal that was refused."""
    service = page.service
    stored = await read_job(page, job_id)
    found = stored.job
    try:
        aliases = await service.aliases([found]).one()
        explanation, logs, result, (tree, has_more), limits, callbacks = await asyncio.gather(
            service.explain_within(job_id, page.principal.queues),
            service.logs(job_id),
            _result(page, found),
            _dependencies(page, found),
            _limits(page, found),
            _pending_callbacks(page, found),
        )
        durable = await _durable(page, found)
    except AlreadyEnded as error:  # since it was read
        raise UnknownJob(_REMOVED) from error
    page.now_ms = explanation.at_ms
    hides = page.hides_payloads
    phases = timeline.phases(stored, explanation.at_ms)
    return JobView(
        found,
        aliases,
        explanation,
        timeline.add_rests(phases, stored, durable[0]) if durable else phases,
        timeline.first_started_at_ms(stored, durable[0] if durable else None),
        [_failed_attempt(attempt) for attempt in reversed(stored.attempts)],
        None if hides else render_value(found.payload),
        None if hides or result is None else render_value(result),
        Logs([]) if hides else logs,
        tree,
        has_more,
        limits,
        next((reason.worker for reason in explanation.reasons if isinstance(reason, Running)), None),
        callbacks,
        durable_view(found, *durable, is_hidden=hides, shows_all=shows_all_steps, draft=draft) if durable else None,
    )


async def read_job(page: PageContext[Any], job_id: bytes) -> Timeline:
    """Read a job with its attempts. Raise if it does not exist, or if the principal may not use its queue."""
    (found,) = await page.service.job([job_id])
    if isinstance(found, AlreadyEnded):
        raise UnknownJob(_REMOVED)
    if isinstance(found, Refusal):
        raise found
    page.context.check_found(found.job.queue)
    return found


async def _result(page: PageContext[None], found: Job) -> Blob | None:
    if not found.state.is_ended:
        return None
    try:
        ending = await page.service.result(found.id)
    except UnknownJob:
        return None
    return ending.result if ending else None


async def _durable(page: PageContext[Any], found: Job) -> tuple[DurableState, list[StreamItem]] | None:
    """Read the steps and the end of the stream. None: it has no durable state."""
    if not found.is_durable:
        return None
    state = await page.service.durable_states([found.id]).one()
    if not state.stream_length:
        return state, []
    after = max(0, state.stream_length - STREAM_SHOWN)
    return state, (await page.service.read_stream(found.id, after=after, most=STREAM_SHOWN)).items


async def _pending_callbacks(page: PageContext[None], found: Job) -> list[PendingCallback]:
    if found.callback is None or not found.state.is_ended:
        return []
    return (await page.service.job_callbacks(found.id)).callbacks


def _failed_attempt(attempt: Attempt) -> FailedAttempt:
    line = error_line(attempt.reason, attempt.error).strip()
    first, _, _ = line.partition("\n")
    error = error_map(attempt.error) if attempt.error else {}
    text = str(error.get("traceback") or "").rstrip()
    if not text and attempt.error and (first != line or len(first) > 300):
        text = line if error else blob_line(attempt.error)
    return FailedAttempt(attempt, first[:600], text)


# Parents, children and dependencies


async def _dependencies(page: PageContext[None], found: Job) -> tuple[list[TreeJob], bool]:
    ancestors = await _ancestors(page, found)
    members: list[Member] = []
    has_more = False
    if found.has_members:
        result = await page.service.list_members(found.id, most=MEMBERS_SHOWN)
        members = [member for member in result.members if page.may_use(member.job.queue)]
        has_more = bool(result.cursor)
    if not ancestors and not members:
        return [], has_more
    depth = len(ancestors)
    tree = [ancestor._replace(depth=at, role="parent") for at, ancestor in enumerate(ancestors)]
    tree.append(TreeJob(found.key, found.name, found.state.label, depth, is_this=True))
    tree += [
        TreeJob(member.job.key, member.job.name, member.job.state.label, depth + 1, role=_role(found, member))
        for member in members
    ]
    return tree, has_more


def _role(found: Job, member: Member) -> str:
    return "child" if member.job.parent == found.id else "runs before"


async def _ancestors(page: PageContext[None], found: Job) -> list[TreeJob]:
    """Return the chain of parents, the topmost first."""
    ancestors: list[TreeJob] = []
    parent_id = found.parent
    while parent_id is not None and len(ancestors) < ANCESTORS_MAX:
        (parent,) = await page.service.job([parent_id])
        if isinstance(parent, Refusal) or not page.may_use(parent.job.queue):
            name = "removed" if isinstance(parent, Refusal) else "in another queue"
            ancestors.append(TreeJob(format_id(parent_id), name, "gone", 0))
            break
        ancestors.append(TreeJob(parent.job.key, parent.job.name, parent.job.state.label, 0))
        parent_id = parent.job.parent
    return ancestors[::-1]


# Limits


async def _limits(page: PageContext[None], found: Job) -> list[LimitUsage]:
    if not found.limits or found.state.is_ended:
        return []
    states = dict(enumerate(await page.service.limits()))
    table = LimitTable(0, {number: state.limit for number, state in states.items()})
    usages = []
    for match in table.match(found.queue, found.name, found.lane, found.payload):
        number, key = split_limit_key(match)
        usages.append(_limit_usage(states[number], key or ""))
    return usages


def _limit_usage(state: LimitState, key: str) -> LimitUsage:
    limit = state.limit
    levels = [level for level in state.levels if not key or level.key == key]
    running = sum(level.running for level in levels)
    if limit.running is None:
        return LimitUsage(limit.name, key, running, None, f"{count(limit.rate)} per {span(limit.per_ms)}")
    most = limit.running
    if limit.own_caps and levels and levels[0].room is not None:
        most = running + levels[0].room  # the key's own cap
    return LimitUsage(limit.name, key, running, most, f"{count(running)} of {count(most)}")


# Downloads


@routes.page("/jobs/{id}/payload", "job.html", section="jobs")
async def job_payload(page: PageContext[None]) -> Response:
    """Send the whole payload, as it is stored."""
    stored = await read_job(page, page.context.job_id)
    return send_file(page, stored.job, stored.job.payload, "payload")


@routes.page("/jobs/{id}/result", "job.html", section="jobs")
async def job_result(page: PageContext[None]) -> Response:
    """Send the whole result, as it is stored."""
    stored = await read_job(page, page.context.job_id)
    result = await _result(page, stored.job)
    if result is None:
        raise UnknownJob("This job has no result, or its result is no longer kept.")
    return send_file(page, stored.job, result, "result")


def send_file(page: PageContext[Any], found: Job, blob: Blob, what: str) -> Response:
    """Send a value of a job as a file, as it is stored."""
    if page.hides_payloads:
        raise Forbidden("Payloads and results are hidden on this server (setting dashboard_hide_payloads).")
    name = f"{found.key}-{what}.{_FILE_SUFFIXES[blob.codec]}"
    disposition = ("Content-Disposition", f'attachment; filename="{name}"')
    return Response(200, blob.data, (*HEADERS, disposition), _MEDIA[blob.codec])
