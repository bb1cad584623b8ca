"""Whom a reason names: other jobs, the worker that has it, steps on its family."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from windlass.core.text.humanize import quote_text, shorten


class Related(msgspec.Struct, frozen=True):
    id: str
    state: str  # or `gone`, or `hidden`: it is in a queue that the caller may not see


HIDDEN = "hidden"


# As states of a parent: it has not handed over, or will do so again.
HANDING_OVER = frozenset({"scheduled", "queued", "dispatched", "running"})


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds it; all but the id is known of registered workers only."""

    id: str
    is_registered: bool = False
    name: str = ""
    host: str = ""
    pid: int = 0
    beat_at_ms: int | None = None  # its last heartbeat
    silent_at_ms: int | None = None  # when it counts as lost unless it beats

    def describe(self) -> str:
        where = f"on {shorten(self.host)}" if self.host else ""
        process = f"(pid {self.pid})" if self.pid else ""
        return " ".join(word for word in (quote_text(self.name) if self.name else self.id, where, process) if word)


Step: TypeAlias = Literal["releasing", "clearing", "looking", "letting_go", "telling"]
STEPS: dict[Step, str] = {
    "releasing": "held children are being released",
    "clearing": "members that it has seen are being cleared away",
    "looking": "somebody has still to see whether its wait is over",
    "letting_go": "members of an ended job are being let go",
    "telling": "the end of a job it waits for is being told to all who wait",
}
