"""A callback that a job owes arrives at least once, and says the same each time."""

from __future__ import annotations

from collections.abc import Iterator

from .final import Final
from .finding import Finding, Promises
from .indexed import Deed, Indexed

CHANGED, MISSING = "callback changed", "callback missing"
ENDED = ("finished", "failed", "cancelled")


def check(history: Indexed, final: Final, promises: Promises) -> Iterator[Finding]:
    for delivery, deeds in history.deliveries.items():
        if len({deed.seen.digest for deed in deeds}) > 1 and not promises.may_forget:  # then it may have ended twice
            entries = tuple(entry for deed in deeds for entry in deed.call.entries)
            yield Finding(CHANGED, delivery, f"Its {len(deeds)} deliveries did not all say the same.", entries)
    if promises.is_drained and not promises.may_forget:
        for deed in history.enqueues:
            if deed.is_ok and deed.seen.is_callback_owed and not _is_settled(deed, history, final):
                yield _missing(deed)


def _is_settled(deed: Deed, history: Indexed, final: Final) -> bool:
    """It arrived, is still owed where people can see it, or the job has not ended beyond doubt."""
    jobs = history.of_deed(deed)
    known = final.find(deed.job, {deed.seen.key})
    if known is not None and known.id in final.owed:
        return True
    if any(one.job in final.owed or any(came.is_ok for came in one.of("callback")) for one in jobs):
        return True
    return (known is None or known.state not in ENDED) and not any(_was_ended(one.deeds) for one in jobs)


def _was_ended(deeds: list[Deed]) -> bool:
    return any(one.is_ok and one.seen.outcome in ENDED for one in deeds if one.what in ("finish", "fail", "cancel"))


def _missing(deed: Deed) -> Finding:
    sentence = "It has ended and owes a callback; none has arrived, and none is owed any more."
    return Finding(MISSING, deed.job or deed.seen.key, sentence, deed.call.entries)
