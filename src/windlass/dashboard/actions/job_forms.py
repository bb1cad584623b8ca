"""Forms that enqueue or edit a job."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from windlass.core.errors import BadInput
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Job, NewJob, copy_of
from windlass.core.operations import Edit
from windlass.core.retry import Backoff
from windlass.core.text.durations import parse_duration_ms
from windlass.dashboard.forms.filters import parse_instant_ms
from windlass.dashboard.forms.payload import read_payload
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.pages.job import read_job
from windlass.dashboard.pages.job_forms import JobForm, redisplay_form
from windlass.dashboard.routes import ActionResult, DashboardRoutes
from windlass.web.app.router import PRODUCERS

routes = DashboardRoutes()

_INTEGER = re.compile(r"[+-]?[0-9]{1,12}", re.ASCII)


@routes.action("enqueue-job", JobForm, roles=PRODUCERS, on_error=redisplay_form)
async def enqueue_job(page: PageContext[None], form: JobForm) -> ActionResult:
    """Enqueue a new job, or a copy of a job."""
    page.context.audit_target, page.context.audit_detail = (
        form.queue,
        f"{form.name}, a copy of {form.id}" if form.id else form.name,
    )
    page.context.check_queue(form.queue)
    original = (await read_job(page, parse_id(form.id))).job if form.id and page.may("read") else None
    # A copy takes from its original the fields that the form does not hold.
    base = copy_of(original) if original else NewJob(queue=form.queue, name=form.name, retry=Backoff())
    new = msgspec.structs.replace(base, **_fields(form, original, base.retry))
    (added,) = await page.service.enqueue([new])
    if isinstance(added, Exception):
        raise added
    page.context.audit_target = format_id(added.id)
    return ActionResult(f"Enqueued {form.name}: it is {added.status}.", to=page.link("jobs", format_id(added.id)))


def _fields(form: JobForm, original: Job | None, retry: Backoff) -> dict[str, Any]:
    return {
        "queue": form.queue.strip(),
        "name": form.name.strip(),
        "payload": _payload(form, original),
        "delay_ms": parse_duration_ms(form.when) if form.when.strip() else 0,
        "priority": _parse_int("priority", form.priority, 0),
        "retry": msgspec.structs.replace(retry, tries=_parse_int("attempts", form.attempts, retry.tries)),
        "tags": tuple(tag.strip() for tag in form.tags.split(",") if tag.strip()),
        "lane": form.lane.strip(),
    }


def _payload(form: JobForm, original: Job | None) -> Any:
    if form.payload is not None:
        return read_payload(form.payload, *((original.payload.codec,) if original else ()))
    if original is None:
        raise BadInput("The payload is missing.")
    return original.payload


def _parse_int(field: str, text: str, default: int) -> int:
    text = text.strip()
    if not text:
        return default
    if not _INTEGER.fullmatch(text):
        raise BadInput(f"{field} must be a whole number, not {text!r}.")
    return int(text)


@routes.action("edit-job", JobForm, on_error=redisplay_form)
async def edit_job(page: PageContext[None], form: JobForm) -> ActionResult:
    """Change the payload, priority, name or time of a job that has not started."""
    job_id = parse_id(form.id)
    page.context.audit_target, page.context.audit_detail = form.id, "payload" if form.payload is not None else ""
    original = (await read_job(page, job_id)).job
    now_ms = await page.service.now()
    when = form.when.strip()
    change = Edit(
        id=job_id,
        name=form.name.strip(),
        priority=_parse_int("priority", form.priority, original.priority),
        run_at_ms=_parse_run_at_ms(when, now_ms) if when else None,
        payload=None if form.payload is None else _payload(form, original),
        if_revision=form.revision,
    )
    (edited,) = await page.service.edit([change])
    if isinstance(edited, Exception):
        raise edited
    return ActionResult(f"Changed {form.name}, revision {edited.revision}.", to=page.link("jobs", original.key))


def _parse_run_at_ms(text: str, now_ms: int) -> int:
    """Parse `now`, a duration from now (10m), or an instant."""
    if text == "now":
        return now_ms
    try:
        return now_ms + parse_duration_ms(text)
    except BadInput:
        return parse_instant_ms(text)
