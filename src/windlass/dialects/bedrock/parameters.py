"""Parameters of a command, and their checks with Bedrock's status lines.

They come from the headers of a request, or from an object in CreateJobs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from windlass.core.errors import BadInput
from windlass.core.scheduling import repeat as rules
from windlass.core.text.control_characters import has_control

from . import data, timeouts, times
from .refusals import CommandRefused
from .wire import BedrockRequest

PRIORITIES = {"0": 0, "500": 500, "1000": 1000}
NAME_MAX, NAMES_MAX = 255, 12_750
MALFORMED_REPEAT = (402, "Malformed repeat")
_INT64 = range(-(2**63), 2**63)
_CANONICAL = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_ZERO = re.compile(r"[+-]?0+(?:\.0*)?", re.ASCII)


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

    def is_on(self, name: str) -> bool:
        """Whether the value is anything but empty, `false` or zero."""
        text = self.get(name).lower()
        return text not in ("", "false", "0") and _ZERO.fullmatch(text) is None

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

    def priority(self, allowed: Mapping[str, int] = PRIORITIES) -> int | None:
        """Return `jobPriority` in Bedrock's numbers, or None."""
        return _priority(self.get("jobPriority"), allowed) if self.get("jobPriority") else None

    def new_job_priority(self, allowed: Mapping[str, int] = PRIORITIES) -> int | None:
        """Return `jobPriority`, or else its old name `priority`.

        `priority` is also a header of any command, so only CreateJob and CreateJobs read it."""
        if "priority" not in self.values and "jobpriority" not in self.values:
            return None
        return _priority(text, allowed) if (text := self.get("jobPriority") or self.get("priority")) else None

    def data(self, most: int) -> bytes | None:
        text = self.get("data")
        return data.check_size(data.parse_value(text, self.raw.get("data", "")), most) if text else None

    def repeat(self) -> str:
        """Return the repeat rule. Empty: none."""
        rule = self.get("repeat")
        if not is_rule(rule):
            raise CommandRefused(*MALFORMED_REPEAT)
        return rule

    def retry_after(self) -> str:
        return self._modifiers("retryAfter")

    def job_timeout(self) -> str:
        """Return the timeout for a job. Empty: none. The header `timeout` is the timeout of the command."""
        text = self._modifiers("jobTimeout")
        if text and not timeouts.is_positive(text):
            raise CommandRefused(402, "Malformed jobTimeout")
        return text

    def _modifiers(self, name: str) -> str:
        text = self.get(name)
        if text:
            try:
                rules.parse_modifiers(text)
            except BadInput:
                raise CommandRefused(402, f"Malformed {name}") from None
        return text

    def lease_token(self) -> int:
        """Return the lease token that a report is to be for. 0: any."""
        if not self.get("leaseToken"):
            return 0
        token = self.number("leaseToken")
        if token <= 0:
            raise CommandRefused(402, "Malformed leaseToken")
        return token

    def wants_lease_token(self) -> bool:
        """Whether a GetJob is to return lease tokens: the parameter is present, and not `false` or zero."""
        return self.is_set("leaseToken") and (self.get("leaseToken") == "" or self.is_on("leaseToken"))

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


def _priority(text: str, allowed: Mapping[str, int]) -> int:
    if text not in allowed:
        raise CommandRefused(402, "Invalid priority value")
    return allowed[text]
