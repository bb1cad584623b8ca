"""Background actions and their progress."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.core.bulk_action import ActionStatus
from windlass.core.ids import format_id
from windlass.core.operations import Listing
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes
from windlass.dashboard.views.job_search import check_where

routes = DashboardRoutes()

_PROGRESSIVE = {"retry": "Retrying", "cancel": "Cancelling", "delete": "Deleting", "requeue": "Requeueing"}
_PAST = {"retry": "Retried", "cancel": "Cancelled", "delete": "Deleted", "requeue": "Requeued"}


class ActionRow(msgspec.Struct, frozen=True):
    status: ActionStatus
    id: str
    about: str  # which jobs, in words

    @property
    def is_over(self) -> bool:
        return self.status.ended_at_ms is not None

    @property
    def title(self) -> str:
        return (_PAST if self.is_over else _PROGRESSIVE)[self.status.verb]

    @property
    def share(self) -> float:
        status = self.status
        if status.state == "finished":
            return 1.0
        return min(1.0, status.looked_at / status.total) if status.total else 0.0


class ActionsView(msgspec.Struct, frozen=True):
    rows: list[ActionRow]


@routes.page("/actions", "actions.html", section="jobs")
async def background_actions(page: PageContext[None]) -> ActionsView:
    """List background actions."""
    page.now_ms = await page.service.now()
    return ActionsView([action_row(status) for status in await page.service.actions() if _is_visible(page, status)])


@routes.page("/actions/{id}", "action.html", section="jobs")
async def background_action(page: PageContext[None]) -> ActionRow:
    """Show a background action and its progress."""
    page.now_ms = await page.service.now()
    status = await page.service.action(page.context.job_id)
    check_visible(page, status.listing)
    return action_row(status)


def check_visible(page: PageContext[Any], listing: Listing) -> None:
    """Raise Forbidden if the token may not use the queues of the action, or if its search is not allowed. An action on
    all queues needs a token for all queues."""
    check_where(page, listing)
    page.context.check_found(listing.queue, "this action") if listing.queue else page.context.check_all_queues()


def _is_visible(page: PageContext[Any], status: ActionStatus) -> bool:
    return not page.principal.queues or (bool(status.listing.queue) and page.may_use(status.listing.queue))


def action_row(status: ActionStatus) -> ActionRow:
    return ActionRow(status, format_id(status.id), describe_listing(status.listing))


def describe_listing(listing: Listing) -> str:
    """Describe a listing: failed jobs of mail, named send_*, …"""
    parts = [f"{listing.state} jobs".strip() if listing.state else "jobs"]
    parts[0] += f" of {listing.queue}" if listing.queue else " of all queues"
    for phrase, value in (
        ("tagged", listing.tag), ("with", " and ".join(listing.where)), ("named", listing.name),
        ("with the error text", listing.error), ("with errors like", listing.error_shape),
        ("with the payload text", listing.text),
    ):  # fmt: skip
        parts += [f"{phrase} {value}"] if value else []
    return ", ".join(parts)
