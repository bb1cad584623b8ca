"""Properties of a queue in forms, with durations such as 30s."""

from __future__ import annotations

import msgspec

from windlass.core.errors import BadInput
from windlass.core.queue import FOREVER_MS, Configuration, default_configuration
from windlass.core.text.durations import format_duration, parse_duration_ms

FOREVER = "forever"
_DESCRIPTIONS = {
    "lease_ms": ("Lease", "Duration of a lease without a heartbeat."),
    "max_length": ("Maximum jobs", "Waiting jobs; 0: no limit."),
    "max_bytes": ("Maximum bytes", "Size of jobs that have not ended; 0: no limit."),
    "history_length": ("History", "Number of finished jobs to keep for inspection."),
    "history_bytes": ("History, bytes", "Size of that history; the oldest jobs are removed first."),
    "retention_ms": ("Retention", "How long failed and cancelled jobs are kept."),
    "aging_ms": ("Aging", "Waiting time that counts as one step of priority; 0: strict priority."),
    "name_lanes": ("Name lanes", "One lane per job name, so that jobs can be taken by name."),
    "fair_share": ("Fair share", "Lanes of equal priority take turns by weight."),
    "index": ("Indexed fields", "Payload fields by which later jobs are found: order_id, customer.email."),
    "lease_renewal": ("Lease renewal", "Heartbeats extend leases; without it, a worker has a fixed time for a job."),
}


class Property(msgspec.Struct, frozen=True, kw_only=True):
    field: str
    title: str
    about: str
    value: int | bool | tuple[str, ...]
    default: int | bool | tuple[str, ...]

    @property
    def is_choice(self) -> bool:
        return isinstance(self.value, bool)

    @property
    def is_list(self) -> bool:
        return isinstance(self.value, tuple)

    @property
    def is_changed(self) -> bool:
        return self.value != self.default

    @property
    def text(self) -> str:
        return format_value(self.field, self.value)

    @property
    def default_text(self) -> str:
        return format_value(self.field, self.default) or "none"


def properties(queue: str, configuration: Configuration) -> list[Property]:
    defaults = default_configuration(queue)
    return [
        Property(
            field=field,
            title=title,
            about=about,
            value=getattr(configuration, field),
            default=getattr(defaults, field),
        )
        for field, (title, about) in _DESCRIPTIONS.items()
    ]


def format_value(field: str, value: int | bool | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.endswith("_ms"):
        return FOREVER if value == FOREVER_MS else format_duration(value) if value else "0"
    return str(value)


def parse_value(field: str, text: str) -> int | bool | tuple[str, ...]:
    """Parse a typed value. Raise BadInput if it is invalid."""
    text, title = text.strip(), _DESCRIPTIONS[field][0]
    if isinstance(getattr(Configuration(), field), bool):
        return text == "yes"
    if field == "index":
        return tuple(path for part in text.split(",") if (path := part.strip()))
    if field.endswith("_ms"):
        return FOREVER_MS if text == FOREVER else 0 if text == "0" else parse_duration_ms(text)
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadInput(f"{title} must be a whole number, not {text!r}.")
    return int(text)
