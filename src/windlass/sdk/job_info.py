"""A job as `handle.info()` returns it. It prints as a few lines for people."""

from __future__ import annotations

import time

from windlass.core.job import Attempt, Job, Timeline
from windlass.core.text.error_text import error_line
from windlass.core.text.humanize import humanize_instant


class JobInfo(Job, frozen=True, kw_only=True):
    """A stored job, read at one instant, with its unsuccessful attempts."""

    attempts: tuple[Attempt, ...] = ()  # oldest first, the last 20

    def __str__(self) -> str:
        rows = [(title, text) for title, text in self._rows() if text]
        width = max(len(title) for title, _ in rows)
        return "\n".join(
            [f"{self.name} {self.key}: {self.state.label}", *(f"  {title:<{width}}  {text}" for title, text in rows)]
        )

    def _rows(self) -> list[tuple[str, str]]:
        now_ms = int(time.time() * 1000)
        instants = {
            "created": self.created_at_ms,
            "due": self.run_at_ms if self.state.label == "scheduled" else None,
            "started": self.started_at_ms,
            "ended": self.ended_at_ms,
        }
        return [
            ("queue", self.queue),
            ("attempt", f"{self.attempt} of {self.retry.tries}" if self.retry.tries else str(self.attempt)),
            *((title, humanize_instant(at_ms, now_ms)) for title, at_ms in instants.items() if at_ms),
            ("progress", f"{self.progress:.0%}" if self.progress and not self.state.is_ended else ""),
            ("note", self.note),
            ("error", self._last_error()),
        ]

    def _last_error(self) -> str:
        """Return the error of the last attempt that did not succeed. A finished job has none."""
        if not self.attempts or self.state.label == "finished":
            return ""
        last = self.attempts[-1]
        line = error_line(last.reason, last.error).strip().partition("\n")[0]
        return f"attempt {last.attempt}: {line}" if last.attempt else line


def make_info(timeline: Timeline) -> JobInfo:
    job = timeline.job
    fields = {name: getattr(job, name) for name in job.__struct_fields__}
    return JobInfo(**fields, attempts=tuple(timeline.attempts))
