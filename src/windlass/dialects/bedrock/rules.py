"""Rule sets: what Bedrock's document allows, and what its current server and PHP client use beyond it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from .parameters import PRIORITIES
from .verbs import UPSTREAM_VERBS, VERBS, Verb


class Rules(NamedTuple):
    verbs: Mapping[str, Verb] = VERBS  # by lower-case name
    priorities: Mapping[str, int] = PRIORITIES
    combines_retry_after: bool = False  # retryAfter may be given with repeat or unique
    refuses_unknown_reruns: bool = False  # rerunIfDataChanged is refused: without it newer data would be lost


DOCUMENT = Rules()
UPSTREAM = Rules(
    verbs=MappingProxyType(VERBS | UPSTREAM_VERBS),
    priorities=MappingProxyType(PRIORITIES | {"250": 250, "750": 750, "850": 850}),
    combines_retry_after=True,
    refuses_unknown_reruns=True,
)
RULES = MappingProxyType({"document": DOCUMENT, "upstream": UPSTREAM})  # by the setting bedrock_rules
