"""Bulk actions on all jobs that match the filters of a list. They run in the background."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from windlass.core.bulk_action import Action, Verb
from windlass.core.ids import format_id, parse_id
from windlass.core.text.humanize import shorten
from windlass.dashboard.forms.filters import ListFilter
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.pages.actions import check_visible, describe_listing
from windlass.dashboard.routes import ActionResult, DashboardRoutes, Form

routes = DashboardRoutes()

ASKED_BY_MAX = 255


class MatchingForm(Form, frozen=True, kw_only=True):
    """Filters of the list, as in its address."""

    state: str = ""
    queue: str = ""
    name: str = ""
    tag: str = ""
    where: str = ""
    error: str = ""
    shape: str = ""
    since: str = ""
    before: str = ""
    text: str = ""  # an action refuses it

    @property
    def filter(self) -> ListFilter:
        return ListFilter(**{name: getattr(self, name) for name in ListFilter.__struct_fields__})


def _confirmation(verb: str, consequence: str = "") -> Callable[[MatchingForm], str]:
    return lambda form: f"{verb} all {shorten(describe_listing(form.filter.listing(0)), 300)}?{consequence}"


async def _start(page: PageContext[None], form: MatchingForm, verb: Verb, progressive: str) -> ActionResult:
    now_ms = await page.service.now()
    listing = msgspec.structs.replace(form.filter.listing(now_ms), with_errors=False, newest_first=False)
    page.context.audit_target = listing.queue or "all queues"
    page.context.audit_detail = describe_listing(listing)
    check_visible(page, listing)
    started = await page.service.act(Action(verb=verb, listing=listing, asked_by=page.principal.name[:ASKED_BY_MAX]))
    return ActionResult(f"{progressive} in the background.", to=page.link("actions", format_id(started.id)))


@routes.action("retry-matching", MatchingForm, confirm=_confirmation("Retry"))
async def retry_matching(page: PageContext[None], form: MatchingForm) -> ActionResult:
    """Retry all matching jobs."""
    return await _start(page, form, "retry", "Retrying")


@routes.action("cancel-matching", MatchingForm, confirm=_confirmation("Cancel", " Running jobs are asked to stop."))
async def cancel_matching(page: PageContext[None], form: MatchingForm) -> ActionResult:
    """Cancel all matching jobs."""
    return await _start(page, form, "cancel", "Cancelling")


@routes.action("delete-matching", MatchingForm, confirm=_confirmation("Delete", " This cannot be undone."))
async def delete_matching(page: PageContext[None], form: MatchingForm) -> ActionResult:
    """Delete all matching jobs."""
    return await _start(page, form, "delete", "Deleting")


@routes.action(
    "requeue-matching", MatchingForm, confirm=_confirmation("Requeue", " Work already done may be repeated.")
)
async def requeue_matching(page: PageContext[None], form: MatchingForm) -> ActionResult:
    """Put all matching jobs back into their queues."""
    return await _start(page, form, "requeue", "Requeueing")


class CallOffForm(Form, frozen=True, kw_only=True):
    id: str = ""


@routes.action("call-off", CallOffForm, confirm="Cancel this action? Changes already made remain.")
async def call_off(page: PageContext[None], form: CallOffForm) -> ActionResult:
    """End a background action after its current step."""
    action_id = parse_id(form.id)
    page.context.audit_target = form.id
    check_visible(page, (await page.service.action(action_id)).listing)
    await page.service.cancel([action_id]).one()
    return ActionResult("The action is cancelled. Changes already made remain.")
