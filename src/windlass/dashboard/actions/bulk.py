"""Actions on all jobs that match a list's conditions, in the background."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from windlass.core.bulk_action import Action, Verb
from windlass.core.ids import format_id, parse_id
from windlass.core.text.humanize import shorten
from windlass.dashboard.forms.filters import JobFilter
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.pages.actions import describe_listing, check_visible
from windlass.dashboard.routes import DashboardRoutes, ActionResult, Form

routes = DashboardRoutes()

ASKED_BY_MAX = 255


class MatchingForm(Form, frozen=True, kw_only=True):
    """The fields of the list's address."""

    state: str = ""
    queue: str = ""
    name: str = ""
    tag: str = ""
    error: str = ""
    shape: str = ""
    since: str = ""
    before: str = ""

    @property
    def filter(self) -> JobFilter:
        return JobFilter(**{name: getattr(self, name) for name in JobFilter.__struct_fields__})


def _confirmation(word: str, more: str = "") -> Callable[[MatchingForm], str]:
    return lambda form: f"{word} all {shorten(describe_listing(form.filter.listing(0)), 300)}?{more}"


async def _start(page: PageContext[None], form: MatchingForm, verb: Verb, doing: str) -> ActionResult:
    now_ms = await page.service.now()
    listing = msgspec.structs.replace(form.filter.listing(now_ms), with_errors=False, newest_first=False)
    page.context.audit_target = listing.queue or "all queues"
    page.context.audit_detail = describe_listing(listing)
    check_visible(page, listing)
    begun = await page.service.act(Action(verb=verb, listing=listing, asked_by=page.principal.name[:ASKED_BY_MAX]))
    return ActionResult(f"{doing} in the background.", to=page.link("actions", format_id(begun.id)))


@routes.action("retry-matching", MatchingForm, asks=_confirmation("Retry"))
async def retry_matching(page: PageContext[None], form: MatchingForm) -> ActionResult:
    """Retry all jobs that match."""
    return await _start(page, form, "retry", "Retrying")


@routes.action("cancel-matching", MatchingForm, asks=_confirmation("Cancel", " Those that run are asked to stop."))
async def cancel_matching(page: PageContext[None], form: MatchingForm) -> ActionResult:
    """Cancel all jobs that match."""
    return await _start(page, form, "cancel", "Cancelling")


@routes.action("delete-matching", MatchingForm, asks=_confirmation("Delete", " They are gone for good."))
async def delete_matching(page: PageContext[None], form: MatchingForm) -> ActionResult:
    """Delete all jobs that match."""
    return await _start(page, form, "delete", "Deleting")


@routes.action("requeue-matching", MatchingForm, asks=_confirmation("Requeue", " What was done may be done again."))
async def requeue_matching(page: PageContext[None], form: MatchingForm) -> ActionResult:
    """Put all jobs that match back into their queues."""
    return await _start(page, form, "requeue", "Requeueing")


class CallOffForm(Form, frozen=True, kw_only=True):
    id: str = ""


@routes.action("call-off", CallOffForm, asks="Call it off? What it has done stays done.")
async def call_off(page: PageContext[None], form: CallOffForm) -> ActionResult:
    """End a background action after the step that it is in."""
    action_id = parse_id(form.id)
    page.context.audit_target = form.id
    check_visible(page, (await page.service.action(action_id)).listing)
    await page.service.cancel([action_id]).one()
    return ActionResult("It is called off: what it has done stays done.")
