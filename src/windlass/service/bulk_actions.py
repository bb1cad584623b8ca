"""Actions on all jobs that match: asked for here, carried out in steps by the servers (background/bulk_runner.py)."""

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
_STATES = ("scheduled", "queued", "running", "failed", "cancelled", "finished")  # as a job goes: none is missed


class BulkActionOperations(FailureGroupOperations, EnqueueOperations):
    def act(self, action: Action) -> Operation[ActionStatus]:
        """Retries, cancels, deletes or requeues all jobs that match, in the background: a server carries it out in
        bounded steps, another goes on when it dies. Jobs that come into the list later are left alone."""
        check_action(action)
        return Operation(self.store, lambda: self._act_flow(action))

    def _act_flow(self, action: Action) -> Flow[ActionStatus]:
        listing = _up_to(action.listing, (yield from self._exactly_now()))
        carried = ActionProgress(
            action=msgspec.structs.replace(action, listing=listing), total=(yield from self._total(listing))
        )
        new = NewJob(
            queue=actions.QUEUE, name=action.verb, payload=actions.encode_progress(carried), result_ttl_ms=KEPT_MS
        )
        (made,) = yield from self._enqueue_flow([prepare_single(new)], [], self.store.durability, False)
        if isinstance(made, Refusal):
            raise made
        assert isinstance(made, Enqueued)  # noqa: S101
        return (yield from self._action_flow(made.id))

    def _exactly_now(self) -> Flow[int]:
        """By the engine's clock itself, the latest of all: what has just ended must not seem to lie ahead."""
        told: list[QueueHistories] = yield [history([], 0, home) for home in range(self.store.partitions)]
        return max(one.now_ms for one in told)

    def _total(self, listing: Listing) -> Flow[int]:
        if listing.tag:
            return 0
        names = [listing.queue] if listing.queue else (yield from self._queues_flow())
        return sum(getattr(one, listing.state) for one in (yield from self._stats_flow(names)))

    def actions(self) -> Operation[list[ActionStatus]]:
        """Those under way, and the last ones that have ended; the newest first."""
        return Operation(self.store, self._actions_flow)

    def _actions_flow(self) -> Flow[list[ActionStatus]]:
        jobs: dict[bytes, Job] = {}  # by id: an action that goes on between two pages is on both
        for state in _STATES:
            listing = Listing(queue=actions.QUEUE, state=state, newest_first=True, most=SHOWN_PER_STATE)
            page: Page = yield from self._jobs_flow(listing)
            jobs |= {job.id: job for job in page.jobs}
        whole = yield from self._job_flow([job.id for job in jobs.values() if not job.payload_is_whole])
        jobs |= {one.job.id: one.job for one in whole if isinstance(one, Timeline)}
        found = [actions.read_status(job) for job in jobs.values()]
        return sorted((one for one in found if one), key=lambda one: (-one.asked_at_ms, one.id))

    def action(self, action_id: bytes) -> Operation[ActionStatus]:
        """One of them, by the id of the job that carries it. It is called off as any job is, by `cancel`."""
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


def _up_to(listing: Listing, now_ms: int) -> Listing:
    """Only what is in the list by now: what an action sends on its way may come back."""
    is_by_end = not listing.tag and listing.state in ("failed", "cancelled", "finished", "history")
    field = "ended_before_ms" if is_by_end else "created_before_ms"
    given: int = getattr(listing, field)
    return msgspec.structs.replace(
        listing, **{field: min(given or now_ms + 1, now_ms + 1)}, cursor="", newest_first=False, with_errors=False
    )
