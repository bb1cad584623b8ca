"""Base class of all reasons."""

from __future__ import annotations

import re
from typing import ClassVar

import msgspec

TEXT_SHOWN = 300  # characters of a free text that a sentence quotes


def _tag(class_name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()


class ReasonBase(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=_tag):
    """A reason as data, with a sentence for people. The kind is the class name in snake case, and public."""

    sentence: str = ""
    is_blocking: ClassVar[bool] = True  # False: it only states the job's position or holder

    def describe(self, now_ms: int) -> str:
        raise NotImplementedError


def describe_attempt(number: int, of: int) -> str:
    return f"attempt {number} of {of}" if of else f"attempt {number}"
