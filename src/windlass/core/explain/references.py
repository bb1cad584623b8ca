"""Objects that reasons refer to: other jobs, the holder of a lease, steps on dependencies."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from windlass.core.text.humanize import quote_text, shorten

from .reason import TEXT_SHOWN


class Related(msgspec.Struct, frozen=True):
    id: str
    state: str  # or `gone`, or `hidden` for a job in a queue that the caller may not see


HIDDEN = "hidden"


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Job that caused the end of another job. For a job in a queue that the caller may not see, only the state is set:
    to `hidden`."""

    id: str = ""
    queue: str = ""
    name: str = ""
    state: str
    error: str = ""  # its last error in one line

    def describe(self) -> str:
        if self.state == HIDDEN:
            return "because of a job of another queue"
        how = "failed" if self.state == "failed" else "was cancelled" if self.state == "cancelled" else "did not finish"
        error = f": {shorten(self.error, TEXT_SHOWN)}" if self.error else ""
        return f"because {quote_text(self.name)} (job {self.id}) {how}{error}"


# States of a parent that has not handed over, or will hand over again.
HANDING_OVER = frozenset({"scheduled", "queued", "dispatched", "running"})


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Holder of a lease. All fields except the id are known for registered workers only."""

    id: str
    is_registered: bool = False
    name: str = ""
    host: str = ""
    pid: int = 0
    beat_at_ms: int | None = None  # its last heartbeat
    silent_at_ms: int | None = None  # when it counts as lost without another heartbeat

    def describe(self) -> str:
        where = f"on {shorten(self.host)}" if self.host else ""
        process = f"(pid {self.pid})" if self.pid else ""
        return " ".join(word for word in (quote_text(self.name) if self.name else self.id, where, process) if word)


Step: TypeAlias = Literal["releasing", "clearing", "looking", "letting_go", "telling"]
STEPS: dict[Step, str] = {
    "releasing": "held children are being released",
    "clearing": "members whose outcomes it has read are being removed",
    "looking": "the end of its wait has still to be checked",
    "letting_go": "members of an ended job are being released",
    "telling": "the end of a job it waits for is being passed to all waiting jobs",
}
