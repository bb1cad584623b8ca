"""Forms to enqueue a job, to copy a job, and to edit a job that has not started."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.core.errors import BadInput, WindlassError
from windlass.core.ids import parse_id
from windlass.core.job import Blob, Job
from windlass.dashboard.forms.payload import editable_text
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.rendering import render_page
from windlass.dashboard.routes import DashboardRoutes, Form
from windlass.dashboard.views.queue_names import offered_queues
from windlass.web.app.router import ADMINS, PRODUCERS
from windlass.web.listener.messages import Response
from windlass.wire.problems import status_for

from .job import read_job

routes = DashboardRoutes()


class NewQuery(msgspec.Struct, frozen=True, kw_only=True):
    queue: str = ""
    copy: str = ""  # id of the job to copy


class JobForm(Form, frozen=True, kw_only=True):
    """Fields of the form as typed text."""

    id: str = ""  # of the edited or copied job
    revision: int = 0
    queue: str = ""
    name: str = ""
    payload: str | None = None  # None: unchanged
    when: str = ""
    priority: str = ""
    attempts: str = ""
    tags: str = ""
    lane: str = ""


class FormView(msgspec.Struct, frozen=True):
    form: JobForm
    original: Job | None  # of a copy or an edit
    queues: list[str]
    error: str = ""
    payload_note: str = ""  # why the payload cannot be edited; empty: it can

    @property
    def is_about_payload(self) -> bool:
        return "payload" in self.error.lower()


@routes.page("/jobs/new", "job_new.html", section="jobs", roles=PRODUCERS, query=NewQuery)
async def new_job(page: PageContext[NewQuery]) -> FormView:
    """Show the form for a new job, or for a copy of a job."""
    query = page.query
    if not query.copy:
        return FormView(
            JobForm(queue=query.queue, payload="{}", priority="0", attempts="3"), None, await offered_queues(page)
        )
    original = await _original(page, query.copy)
    form = JobForm(
        id=original.key,
        queue=original.queue,
        name=original.name,
        payload=_payload_text(page, original.payload),
        priority=str(original.priority),
        attempts=str(original.retry.tries),
        tags=", ".join(original.tags),
        lane=original.lane,
    )
    return FormView(form, original, await offered_queues(page), payload_note=_why_not_editable(page, original.payload))


@routes.page("/jobs/{id}/edit", "job_edit.html", section="jobs", roles=ADMINS)
async def job_edit(page: PageContext[None]) -> FormView:
    """Show the form for changes of a job that has not started."""
    original = await _original(page, page.path_values["id"])
    form = JobForm(
        id=original.key,
        revision=original.revision,
        name=original.name,
        payload=_payload_text(page, original.payload),
        priority=str(original.priority),
    )
    return FormView(form, original, [], payload_note=_why_not_editable(page, original.payload))


async def redisplay_form(page: PageContext[Any], form: JobForm, error: WindlassError) -> Response:
    """Show the form again, with the typed values and the error."""
    original = await _original(page, form.id) if form.id else None
    is_edit = form.revision > 0
    if is_edit and original is None:  # there is no form to show again
        raise error
    note = _why_not_editable(page, original.payload) if original and form.payload is None else ""
    view = FormView(form, original, [] if is_edit else await offered_queues(page), str(error), note)
    page.section = "jobs"
    return render_page("job_edit.html" if is_edit else "job_new.html", view, page, status=status_for(error))


async def _original(page: PageContext[Any], text: str) -> Job:
    if not page.may("read"):
        raise BadInput("A copy needs the role read, to read the original job.")
    return (await read_job(page, parse_id(text))).job


def _payload_text(page: PageContext[Any], payload: Blob) -> str | None:
    return None if page.hides_payloads else editable_text(payload)


def _why_not_editable(page: PageContext[Any], payload: Blob) -> str:
    if page.hides_payloads:
        return "Payloads are hidden on this server. The payload stays unchanged."
    if editable_text(payload) is None:
        return "The payload is binary, or too long to edit here. It stays unchanged."
    return ""
