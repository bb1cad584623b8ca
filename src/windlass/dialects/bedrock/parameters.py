"""Parameters of a command, and their checks with Bedrock's status lines.

They come from the headers of a request, or from an object in CreateJobs."""

from __future__ import annotations

import re

from windlass.core.errors import BadInput
from windlass.core.scheduling import repeat as rules
from windlass.core.text.control_characters import has_control

from . import data, times
from .refusals import CommandRefused
from .wire import BedrockRequest

PRIORITIES = {"0": 0, "500": 500, "1000": 1000}
NAME_MAX, NAMES_MAX = 255, 12_750
MALFORMED_REPEAT = (402, "Malformed repeat")
_INT64 = range(-(2**63), 2**63)
_CANONICAL = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)


class Parameters:
    """Values by lower-case name: `values` unescaped, `raw` as they were sent."""

    __slots__ = ("raw", "values")

    def __init__(self, values: dict[str, str], raw: dict[str, str] | None = None) -> None:
        self.values = values
        self.raw = values if raw is None else raw

    @classmethod
    def from_request(cls, request: BedrockRequest) -> Parameters:
        return cls(request.headers, request.raw)

    def get(self, name: str) -> str:
        return self.values.get(name.lower(), "")

    def is_set(self, *names: str) -> bool:
        """Whether any of these parameters is present, even if its value is empty."""
        return any(name.lower() in self.values for name in names)

    def is_true(self, name: str) -> bool:
        """Whether the value is `true` or a number other than zero."""
        text = self.get(name).lower()
        if not text:
            return False
        return text == "true" or (_WHOLE.fullmatch(text) is not None and text.strip("+-0") != "")

    def number(self, name: str) -> int:
        text = self.get(name)
        if not text:
            raise CommandRefused(402, f"Missing {name}")
        if _CANONICAL.fullmatch(text) is None or int(text) not in _INT64:
            raise CommandRefused(402, f"Malformed {name}")
        return int(text)

    def bounded_text(self, name: str, most: int) -> str:
        text = self.get(name)
        if not text:
            raise CommandRefused(402, f"Missing {name}")
        if len(text) > most or (not text.isascii() and len(text.encode(errors="replace")) > most):
            raise CommandRefused(402, f"Malformed {name}")
        return text

    def name(self) -> str:
        """Return the name for a job."""
        name = self.bounded_text("name", NAME_MAX)
        if not name.isprintable() and (has_control(name) or any(char < " " for char in name)):
            raise CommandRefused(402, "Malformed name")
        return name

    def priority(self) -> int | None:
        """Return `jobPriority` in Bedrock's numbers, or None."""
        return _priority(self.get("jobPriority")) if self.get("jobPriority") else None

    def new_job_priority(self) -> int | None:
        """Return `jobPriority`, or else its old name `priority`.

        `priority` is also a header of any command, so only CreateJob and CreateJobs read it."""
        if "priority" not in self.values and "jobpriority" not in self.values:
            return None
        return _priority(text) if (text := self.get("jobPriority") or self.get("priority")) else None

    def data(self, most: int) -> bytes | None:
        text = self.get("data")
        return data.check_size(data.parse_object(text, self.raw.get("data", "")), most) if text else None

    def repeat(self) -> str:
        """Return the repeat rule. Empty: none."""
        rule = self.get("repeat")
        if not is_rule(rule):
            raise CommandRefused(*MALFORMED_REPEAT)
        return rule

    def retry_after(self) -> str:
        text = self.get("retryAfter")
        if text:
            try:
                rules.parse_modifiers(text)
            except BadInput:
                raise CommandRefused(402, "Malformed retryAfter") from None
        return text

    def instant(self, name: str) -> int | None:
        text = self.get(name)
        if not text:
            return None
        at_ms = times.parse_instant(text)
        if at_ms is None:
            raise CommandRefused(402, f"Malformed {name}")
        return at_ms


def is_rule(text: str) -> bool:
    """Return whether the text is a repeat rule or empty."""
    if text:
        try:
            rules.parse(text)
        except BadInput:
            return False
    return True


def _priority(text: str) -> int:
    if text not in PRIORITIES:
        raise CommandRefused(402, "Invalid priority value")
    return PRIORITIES[text]
