"""Outcomes of leased jobs: reported until the engine has answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from windlass.core.durable import Suspend
from windlass.core.errors import EngineError, EngineFull, EngineUnavailable
from windlass.core.operations import CompleteWithChildren, Fail, Finish, LeaseRef
from windlass.retry_loop import RetryLoop
from windlass.service import Service

# The end of an attempt, the suspension of a run, or the release of an unfinished job.
Outcome: TypeAlias = Finish | Fail | CompleteWithChildren | Suspend | LeaseRef

# Errors that pass. The lease is still held, so the report is repeated.
TRANSIENT = (EngineUnavailable, EngineError, EngineFull)


async def report_outcomes(service: Service, outcomes: Sequence[Outcome], retries: RetryLoop) -> list[Any]:
    """Report outcomes and return their answers, refusals among them. `retries` repeats the report while the engine is
    unavailable. Outcomes that have an answer are not repeated."""
    answers: dict[int, Any] = {}

    async def report_rest() -> None:
        for kind, send in (
            (Finish, service.finish),
            (Fail, service.fail),
            (CompleteWithChildren, service.complete_with_children),
            (Suspend, service.suspend),
            (LeaseRef, service.release),
        ):
            places = [at for at, outcome in enumerate(outcomes) if type(outcome) is kind and at not in answers]
            if places:
                part: list[Any] = [outcomes[at] for at in places]
                answers.update(zip(places, await send(part), strict=True))

    await retries.until_done(report_rest)
    return [answers[at] for at in range(len(outcomes))]
