"""Bulk actions on all matching jobs: requested here, executed in steps by the servers (background/bulk_runner.py)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.core import bulk_action as actions
from windlass.core.bulk_action import Action, ActionProgress, ActionStatus
from windlass.core.errors import Refusal, UnknownJob
from windlass.core.job import Job, NewJob, Timeline
from windlass.core.job_template import prepare_single
from windlass.core.operations import Enqueued, Listing, Page
from windlass.core.queue import DAY_MS
from windlass.core.validation.bulk_actions import check_action
from windlass.core.validation.values import check_id
from windlass.store.commands.command import Flow
from windlass.store.commands.queues import QueueHistories, history
from windlass.store.operation import Operation

from .enqueue import EnqueueOperations
from .failure_groups import FailureGroupOperations

SHOWN_PER_STATE = 50
KEPT_MS = 7 * DAY_MS
_STATES = (
    "scheduled",
    "queued",
    "running",
    "failed",
    "cancelled",
    "finished",
)  # in the order of a job's life: none is missed


class BulkActionOperations(FailureGroupOperations, EnqueueOperations):
    def act(self, action: Action) -> Operation[ActionStatus]:
        """Retry, cancel, delete or requeue all matching jobs in the background. A server does this in bounded steps; if
        it dies, another one continues. Jobs that enter the list later are left alone."""
        check_action(action)
        return Operation(self.store, lambda: self._act_flow(action))

    def _act_flow(self, action: Action) -> Flow[ActionStatus]:
        listing = _limit_to_present(action.listing, (yield from self._engine_now()))
        if listing.where:  # a field that is not indexed is refused now, not by the server that runs the action
            yield from self._jobs_flow(msgspec.structs.replace(listing, most=1))
        progress = ActionProgress(
            action=msgspec.structs.replace(action, listing=listing), total=(yield from self._total(listing))
        )
        new = NewJob(
            queue=actions.QUEUE, name=action.verb, payload=actions.encode_progress(progress), result_ttl_ms=KEPT_MS
        )
        (made,) = yield from self._enqueue_flow([prepare_single(new)], [], self.store.durability, False)
        if isinstance(made, Refusal):
            raise made
        assert isinstance(made, Enqueued)  # noqa: S101
        return (yield from self._action_flow(made.id))

    def _engine_now(self) -> Flow[int]:
        """Return the latest time of all partitions, read from the engine: a job that has just ended must not seem to
        end in the future."""
        histories: list[QueueHistories] = yield [
            history([], 0, partition) for partition in range(self.store.partitions)
        ]
        return max(history_page.now_ms for history_page in histories)

    def _total(self, listing: Listing) -> Flow[int]:
        if listing.tag or listing.where:
            return 0
        names = [listing.queue] if listing.queue else (yield from self._queues_flow())
        return sum(getattr(stats, listing.state) for stats in (yield from self._stats_flow(names)))

    def actions(self) -> Operation[list[ActionStatus]]:
        """Return running actions and the last ended ones, newest first."""
        return Operation(self.store, self._actions_flow)

    def _actions_flow(self) -> Flow[list[ActionStatus]]:
        jobs: dict[bytes, Job] = {}  # by id: an action that changes its state between two pages is on both
        for state in _STATES:
            listing = Listing(queue=actions.QUEUE, state=state, newest_first=True, most=SHOWN_PER_STATE)
            page: Page = yield from self._jobs_flow(listing)
            jobs |= {job.id: job for job in page.jobs}
        whole = yield from self._job_flow([job.id for job in jobs.values() if not job.payload_is_whole])
        jobs |= {timeline.job.id: timeline.job for timeline in whole if isinstance(timeline, Timeline)}
        found = [actions.read_status(job) for job in jobs.values()]
        return sorted((status for status in found if status), key=lambda status: (-status.asked_at_ms, status.id))

    def action(self, action_id: bytes) -> Operation[ActionStatus]:
        """Return one action by the id of its job. `cancel` of that job stops the action."""
        check_id("id", action_id)
        return Operation(self.store, lambda: self._action_flow(action_id))

    def _action_flow(self, action_id: bytes) -> Flow[ActionStatus]:
        answers: Sequence[Timeline | Refusal] = yield from self._job_flow([action_id])
        (found,) = answers
        if isinstance(found, Refusal):
            raise found
        status = actions.read_status(found.job) if found.job.queue == actions.QUEUE else None
        if status is None:
            raise UnknownJob("There is no action with this id.")
        return status


def _limit_to_present(listing: Listing, now_ms: int) -> Listing:
    """Restrict a listing to jobs that are in it now: jobs that the action requeues may return to the list."""
    is_by_end = not (listing.tag or listing.where) and listing.state in ("failed", "cancelled", "finished", "history")
    field = "ended_before_ms" if is_by_end else "created_before_ms"
    given: int = getattr(listing, field)
    return msgspec.structs.replace(
        listing, **{field: min(given or now_ms + 1, now_ms + 1)}, cursor="", newest_first=False, with_errors=False
    )
