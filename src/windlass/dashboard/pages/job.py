"""One job: what it is, where it stands and why, what it was given and gave, what went wrong, and to whom it belongs."""

from __future__ import annotations

import asyncio
import re
from typing import Any, NamedTuple

import msgspec
from markupsafe import Markup, escape

from windlass.core.callbacks.callback import PendingCallback
from windlass.core.errors import AlreadyEnded, Forbidden, Refusal, UnknownJob
from windlass.core.explain.reasons import AwaitsMembers, Explanation, HeldByParent, LimitFull, Reason, Running
from windlass.core.explain.references import Holder
from windlass.core.ids import format_id, number_of_id
from windlass.core.job import Attempt, Blob, Codec, Job, Member, Timeline
from windlass.core.limits.limit import LimitState, LimitTable
from windlass.core.log import Logs
from windlass.core.text.control_characters import escape_control
from windlass.core.text.error_text import blob_line, error_line, error_map
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.rendering import HEADERS
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views import timeline
from windlass.dashboard.views.figures import count, span
from windlass.dashboard.views.timeline import Phase
from windlass.dashboard.views.values import RenderedValue, render_value
from windlass.web.listener.messages import Response

routes = DashboardRoutes()

MEMBERS_SHOWN = 50
_GONE = "This job has ended, and is gone: it kept no result, and its queue keeps no history."
ANCESTORS_MAX = 5
_ID = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_MEDIA = {
    Codec.JSON: "application/json",
    Codec.MSGPACK: "application/vnd.msgpack",
    Codec.RAW: "application/octet-stream",
}
_ENDINGS = {Codec.JSON: "json", Codec.MSGPACK: "msgpack", Codec.RAW: "bin"}


class TreeJob(NamedTuple):
    """A job of the family, as it stands in the tree."""

    id: str
    name: str
    state: str
    depth: int
    is_this: bool = False
    role: str = ""


class FailedAttempt(NamedTuple):
    """An attempt that did not end well."""

    attempt: Attempt
    line: str
    text: str  # the traceback, or all that was said; empty: the line is all


class LimitUsage(NamedTuple):
    """A limit that it counts against."""

    name: str
    key: str
    running: int
    cap: int | None  # None: it is about starts per time
    told: str


class JobView(msgspec.Struct, frozen=True):
    job: Job
    number: int | None
    explanation: Explanation
    phases: list[Phase]
    failures: list[FailedAttempt]
    payload: RenderedValue | None
    result: RenderedValue | None
    logs: Logs
    family: list[TreeJob]
    has_more_members: bool
    limits: list[LimitUsage]
    holder: Holder | None
    callbacks: list[PendingCallback]  # what is owed of its callback, or was given up

    @property
    def reasons(self) -> list[str]:
        """Those that the summary does not hold already."""
        summary = self.explanation.summary
        return [one.sentence for one in self.explanation.reasons if one.sentence[1:-1] not in summary]

    def linked(self, sentence: str, page: PageContext[Any]) -> Markup:
        """A sentence in which other jobs are links."""
        known = {one for reason in self.explanation.reasons for one in _job_ids_in(reason)}
        parts = [
            Markup('<a href="{}">{}</a>').format(page.link("jobs", part), part) if part in known else escape(part)
            for part in _ID.split(escape_control(sentence))
        ]
        return Markup("").join(parts)

    @property
    def waited_ms(self) -> int:
        return timeline.waited_ms(self.phases)

    @property
    def ran_ms(self) -> int:
        return timeline.ran_ms(self.phases)


def _job_ids_in(reason: Reason) -> list[str]:
    """Ids of other jobs."""
    if isinstance(reason, LimitFull):
        return reason.holders
    if isinstance(reason, AwaitsMembers):
        return [one.id for one in reason.members]
    return [reason.parent.id] if isinstance(reason, HeldByParent) else []


@routes.page("/jobs/{id}", "job.html", section="jobs")
async def job(page: PageContext[None]) -> JobView | Response:
    """One job with all that is known of it."""
    try:
        return await _view(page)
    except UnknownJob:
        if not page.is_live:
            raise
        return Response(204, b"", HEADERS)  # whoever has it open keeps what they see


async def _view(page: PageContext[None]) -> JobView:
    service, job_id = page.service, page.context.job_id
    timeline = await read_job(page, job_id)
    found = timeline.job
    try:
        explanation, logs, ending, (family, has_more), limits, debts = await asyncio.gather(
            service.explain_within(job_id, page.principal.queues),
            service.logs(job_id),
            _result(page, found),
            _dependencies(page, found),
            _limits(page, found),
            _pending_callbacks(page, found),
        )
    except AlreadyEnded as error:  # meanwhile
        raise UnknownJob(_GONE) from error
    page.now_ms = explanation.at_ms
    hides = page.hides_payloads
    return JobView(
        found,
        number_of_id(found.id),
        explanation,
        timeline.phases(timeline, explanation.at_ms),
        [_failed_attempt(one) for one in reversed(timeline.attempts)],
        None if hides else render_value(found.payload),
        None if hides or ending is None else render_value(ending),
        Logs([]) if hides else logs,
        family,
        has_more,
        limits,
        next((one.worker for one in explanation.reasons if isinstance(one, Running)), None),
        debts,
    )


async def read_job(page: PageContext[None], job_id: bytes) -> Timeline:
    """Raises when it is not there, or of a queue that is none of theirs."""
    (found,) = await page.service.job([job_id])
    if isinstance(found, AlreadyEnded):
        raise UnknownJob(_GONE)
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


# Its family


async def _dependencies(page: PageContext[None], found: Job) -> tuple[list[TreeJob], bool]:
    ancestors = await _ancestors(page, found)
    members: list[Member] = []
    has_more = False
    if found.has_members:
        result = await page.service.list_members(found.id, most=MEMBERS_SHOWN)
        members, has_more = [one for one in result.members if page.may_use(one.job.queue)], bool(result.cursor)
    if not ancestors and not members:
        return [], has_more
    depth = len(ancestors)
    tree = [TreeJob(one.id, one.name, one.state, at, role="parent") for at, one in enumerate(ancestors)]
    tree.append(TreeJob(found.key, found.name, found.state.label, depth, is_this=True))
    tree += [
        TreeJob(one.job.key, one.job.name, one.job.state.label, depth + 1, role=_role(found, one)) for one in members
    ]
    return tree, has_more


def _role(found: Job, member: Member) -> str:
    return "child" if member.job.parent == found.id else "before it"


async def _ancestors(page: PageContext[None], found: Job) -> list[TreeJob]:
    line: list[TreeJob] = []
    above = found.parent
    while above is not None and len(line) < ANCESTORS_MAX:
        (one,) = await page.service.job([above])
        if isinstance(one, Refusal) or not page.may_use(one.job.queue):
            gone = "gone" if isinstance(one, Refusal) else "of another queue"
            line.append(TreeJob(format_id(above), gone, "gone", 0))
            break
        line.append(TreeJob(one.job.key, one.job.name, one.job.state.label, 0))
        above = one.job.parent
    return line[::-1]


# Limits


async def _limits(page: PageContext[None], found: Job) -> list[LimitUsage]:
    if not found.limits or found.state.is_ended:
        return []
    known = dict(enumerate(await page.service.limits()))
    table = LimitTable(0, {number: one.limit for number, one in known.items()})
    bounds = []
    for word in table.match(found.queue, found.name, found.lane, found.payload):
        number, _, key = word.partition(":")
        bounds.append(_limit_usage(known[int(number)], key))
    return bounds


def _limit_usage(known: LimitState, key: str) -> LimitUsage:
    limit = known.limit
    running = sum(level.running for level in known.levels if not key or level.key == key)
    if limit.running is None:
        return LimitUsage(limit.name, key, running, None, f"{count(limit.rate)} per {span(limit.per_ms)}")
    return LimitUsage(limit.name, key, running, limit.running, f"{count(running)} of {count(limit.running)}")


# Downloads


@routes.page("/jobs/{id}/payload", "job.html", section="jobs")
async def job_payload(page: PageContext[None]) -> Response:
    """All of a payload, as it is stored."""
    timeline = await read_job(page, page.context.job_id)
    return _download(page, timeline.job, timeline.job.payload, "payload")


@routes.page("/jobs/{id}/result", "job.html", section="jobs")
async def job_result(page: PageContext[None]) -> Response:
    """All of a result, as it is stored."""
    timeline = await read_job(page, page.context.job_id)
    result = await _result(page, timeline.job)
    if result is None:
        raise UnknownJob("This job has no result, or it is kept no more.")
    return _download(page, timeline.job, result, "result")


def _download(page: PageContext[None], found: Job, blob: Blob, what: str) -> Response:
    if page.hides_payloads:
        raise Forbidden("Payloads and results are hidden here: the server was started with dashboard_hide_payloads.")
    name = f"{found.key}-{what}.{_ENDINGS[blob.codec]}"
    disposition = ("Content-Disposition", f'attachment; filename="{name}"')
    return Response(200, blob.data, (*HEADERS, disposition), _MEDIA[blob.codec])
