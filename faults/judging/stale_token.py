"""A report with an old token is refused. A token is old, beyond doubt, once somebody was told a newer one."""

from __future__ import annotations

from collections.abc import Iterator

from .final import Final
from .finding import Finding, Promises
from .indexed import Indexed

RULE = "stale token"
REPORTS = ("finish", "fail", "release", "extend")


def check(history: Indexed, _final: Final, promises: Promises) -> Iterator[Finding]:
    if promises.may_forget:
        return
    for job in history.jobs.values():
        newest = sorted((one for one in job.leases if one.token), key=lambda one: -one.token)
        for deed in job.of(*REPORTS):  # type: ignore[arg-type]
            if not deed.is_ok or not deed.seen.token:
                continue
            newer = next((one for one in newest if one.given.answered_ns < deed.begun_ns), None)
            if newer is not None and newer.token > deed.seen.token:
                who, holder = deed.call.begun.client, newer.given.call.begun.client
                sentence = (
                    f"{deed.what} by {who} was accepted with token {deed.seen.token}, "
                    f"after {holder} had been given {newer.token}."
                )
                yield Finding(RULE, job.job, sentence, newer.given.call.entries + deed.call.entries)
