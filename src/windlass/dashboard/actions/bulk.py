"""Actions on all jobs that match a list's conditions, in the background."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from windlass.core.bulk_action import Action, Verb
from windlass.core.ids import format_id, parse_id
from windlass.core.text.humanize import shorten
from windlass.dashboard.forms.filters import Filter
from windlass.dashboard.page_context import Visit
from windlass.dashboard.pages.actions import describe_listing, check_visible
from windlass.dashboard.routes import DashboardRoutes, ActionResult, Form

routes = DashboardRoutes()

ASKED_BY_MAX = 255


class Matching(Form, frozen=True, kw_only=True):
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
    def filter(self) -> Filter:
        return Filter(**{name: getattr(self, name) for name in Filter.__struct_fields__})


def _asks(word: str, more: str = "") -> Callable[[Matching], str]:
    return lambda form: f"{word} all {shorten(describe_listing(form.filter.listing(0)), 300)}?{more}"


async def _act(visit: Visit[None], form: Matching, verb: Verb, doing: str) -> ActionResult:
    now_ms = await visit.service.now()
    listing = msgspec.structs.replace(form.filter.listing(now_ms), with_errors=False, newest_first=False)
    visit.context.audit_target = listing.queue or "all queues"
    visit.context.audit_detail = describe_listing(listing)
    check_visible(visit, listing)
    begun = await visit.service.act(Action(verb=verb, listing=listing, asked_by=visit.who.name[:ASKED_BY_MAX]))
    return ActionResult(f"{doing} in the background.", to=visit.link("actions", format_id(begun.id)))


@routes.action("retry-matching", Matching, asks=_asks("Retry"))
async def retry_matching(visit: Visit[None], form: Matching) -> ActionResult:
    """Retry all jobs that match."""
    return await _act(visit, form, "retry", "Retrying")


@routes.action("cancel-matching", Matching, asks=_asks("Cancel", " Those that run are asked to stop."))
async def cancel_matching(visit: Visit[None], form: Matching) -> ActionResult:
    """Cancel all jobs that match."""
    return await _act(visit, form, "cancel", "Cancelling")


@routes.action("delete-matching", Matching, asks=_asks("Delete", " They are gone for good."))
async def delete_matching(visit: Visit[None], form: Matching) -> ActionResult:
    """Delete all jobs that match."""
    return await _act(visit, form, "delete", "Deleting")


@routes.action("requeue-matching", Matching, asks=_asks("Requeue", " What was done may be done again."))
async def requeue_matching(visit: Visit[None], form: Matching) -> ActionResult:
    """Put all jobs that match back into their queues."""
    return await _act(visit, form, "requeue", "Requeueing")


class CallOff(Form, frozen=True, kw_only=True):
    id: str = ""


@routes.action("call-off", CallOff, asks="Call it off? What it has done stays done.")
async def call_off(visit: Visit[None], form: CallOff) -> ActionResult:
    """End a background action after the step that it is in."""
    action_id = parse_id(form.id)
    visit.context.audit_target = form.id
    check_visible(visit, (await visit.service.action(action_id)).listing)
    await visit.service.cancel([action_id]).one()
    return ActionResult("It is called off: what it has done stays done.")
