"""The properties of a queue as a form shows and reads them: durations as people write them."""

from __future__ import annotations

import msgspec

from windlass.core.errors import BadInput
from windlass.core.queue import FOREVER_MS, Configuration
from windlass.core.text.durations import format_duration, parse_duration_ms

FOREVER = "for ever"
_DESCRIPTIONS = {
    "lease_ms": ("Lease", "How long a lease holds without a heartbeat."),
    "max_length": ("Most jobs", "Waiting ones; 0: no bound."),
    "max_bytes": ("Most bytes", "Of jobs that have not ended; 0: no bound."),
    "history_length": ("History", "Finished jobs kept to be looked at."),
    "history_bytes": ("History, bytes", "The oldest go first."),
    "retention_ms": ("Retention", "How long failed and cancelled jobs stay."),
    "aging_ms": ("Aging", "Waiting that is worth one step of priority; 0: strict priority."),
    "name_lanes": ("Name lanes", "One lane per name, so that jobs can be taken by name."),
    "fair_share": ("Fair share", "Lanes of equal priority take turns by weight."),
}


class Property(msgspec.Struct, frozen=True, kw_only=True):
    field: str
    title: str
    about: str
    value: int | bool
    usually: int | bool

    @property
    def is_choice(self) -> bool:
        return isinstance(self.value, bool)

    @property
    def is_changed(self) -> bool:
        return self.value != self.usually

    @property
    def written(self) -> str:
        return format_value(self.field, self.value)

    @property
    def usual(self) -> str:
        return format_value(self.field, self.usually)


def properties(configuration: Configuration) -> list[Property]:
    usual = Configuration()
    return [
        Property(
            field=field,
            title=title,
            about=about,
            value=getattr(configuration, field),
            usually=getattr(usual, field),
        )
        for field, (title, about) in _DESCRIPTIONS.items()
    ]


def format_value(field: str, value: int | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.endswith("_ms"):
        return FOREVER if value == FOREVER_MS else format_duration(value) if value else "0"
    return str(value)


def parse_value(field: str, text: str) -> int | bool:
    """Raises when it cannot be one."""
    text, title = text.strip(), _DESCRIPTIONS[field][0]
    if isinstance(getattr(Configuration(), field), bool):
        return text == "yes"
    if field.endswith("_ms"):
        return FOREVER_MS if text == FOREVER else 0 if text == "0" else parse_duration_ms(text)
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadInput(f"{title} is a whole number, not {text!r}.")
    return int(text)
