"""Point of a backup: the instant that its data are of, and their origin."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from windlass.core.text.durations import INSTANT_MAX


class BackupPoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    at_ms: Annotated[
        int, Meta(ge=0, le=INSTANT_MAX)
    ]  # by the engine's clock: all that was acknowledged before is in it
    until_ms: Annotated[int, Meta(ge=0, le=INSTANT_MAX)] = 0  # of the last shard of a cluster; 0: one instant
    engine: str  # product, version and address
    is_live: bool = False  # read from the running engine: not of one instant
    states: dict[str, int] = {}  # jobs in each state
