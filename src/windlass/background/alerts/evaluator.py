"""Evaluator of alert rules: measures them every few seconds and stores what changed. Any number of processes may run
it; each interval one of them evaluates, and each move of an incident is stored once, with its messages."""

from __future__ import annotations

import asyncio
import logging

from windlass.core.alerts.incident import decide
from windlass.core.errors import WindlassError
from windlass.retry_loop import RetryLoop
from windlass.service import Service

from .figures import Measurement

log = logging.getLogger("windlass.background")

INTERVAL_S = 10.0
# Shorter than the interval, so that the process that evaluated last is not a little too early for the next time.
CLAIM_MS = 9_000


class AlertEvaluator:
    """Evaluator. `run` runs until it is cancelled; `run_once` is one evaluation. `public_url`: address of the server,
    for links in messages."""

    def __init__(self, public_url: str = "", *, claim_ms: int = CLAIM_MS) -> None:
        self._public_url = public_url
        self._claim_ms = claim_ms

    async def run(self, service: Service) -> None:
        async def turn() -> None:
            await self.run_once(service)
            await asyncio.sleep(INTERVAL_S)

        await RetryLoop(log, "Could not evaluate alert rules", WindlassError).forever(turn)

    async def run_once(self, service: Service) -> int:
        """Evaluate the rules, unless another process has just done so. Return the number of stored changes."""
        found = await service.claim_alerts(interval_ms=self._claim_ms)
        if not found.rules:
            return 0
        statuses = [one.status for one in found.rules]
        figures = await Measurement(service, statuses, found.now_ms).figures()
        moves = 0
        for one in found.rules:
            rule, state = one.status.rule, one.status.state
            transition = decide(rule, figures.get(rule.name), state, found.now_ms)
            if transition is None:
                continue
            if transition.event is not None:
                log.info("Alert %s: %s", rule.name, transition.event)
            moves += await service.move_alert(one, transition, found.now_ms, public_url=self._public_url)
        return moves
