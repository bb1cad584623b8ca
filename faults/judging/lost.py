"""Every enqueue that was acknowledged has ended, or its job is there for people to see."""

from __future__ import annotations

from collections.abc import Iterator

from .final import Final
from .finding import Finding, Promises
from .indexed import Deed, Indexed, JobHistory

RULE = "lost"
NOT_MADE = ("ended", "replaced", "refused")  # it had been made before, or went into another


def check(history: Indexed, final: Final, promises: Promises) -> Iterator[Finding]:
    if promises.lost_allowed == "any":
        return
    for deed in lost(history, final):
        if promises.lost_allowed == "unconfirmed" and not deed.seen.is_durable:
            continue
        jobs = history.of_deed(deed)
        last = max((one for job in jobs for one in job.deeds), key=lambda one: one.begun_ns, default=deed)
        said = f"{last.what} by {last.call.begun.client} was answered {last.seen.outcome or last.phase}"
        entries = deed.call.entries if last is deed else deed.call.entries + last.call.entries
        sentence = (
            f"{deed.call.begun.client} was told that it was accepted, and it is gone without an end; last, {said}."
        )
        yield Finding(RULE, deed.job or deed.seen.key, sentence, entries)


def lost(history: Indexed, final: Final) -> list[Deed]:
    """Acknowledged enqueues whose jobs are nowhere, whatever was promised: for those who measure a loss."""
    return [
        deed
        for deed in history.enqueues
        if deed.is_ok and deed.seen.outcome not in NOT_MADE and not _is_there(deed, history, final)
    ]


def _is_there(deed: Deed, history: Indexed, final: Final) -> bool:
    if final.find(deed.job, {deed.seen.key}) is not None:
        return True
    return any(job.job in final.jobs or _may_have_gone(job) for job in history.of_deed(deed))


def _may_have_gone(job: JobHistory) -> bool:
    """Only a good end, a cancel and a callback that arrived may leave nothing behind: what failed stays to be seen."""
    for deed in job.deeds:
        if deed.what in ("finish", "cancel") and deed.may_be_done:
            return True
        if deed.what in ("run", "callback") and deed.is_ok:
            return True
    return False
