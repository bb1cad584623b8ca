"""At the end all keys agree with each other."""

from __future__ import annotations

from collections.abc import Iterator

from .final import Final
from .finding import Finding, Promises
from .indexed import Indexed

RULE = "doctor"


def check(_history: Indexed, final: Final, _promises: Promises) -> Iterator[Finding]:
    for words in final.doctor:
        yield Finding(RULE, "", words)
