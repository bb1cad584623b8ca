"""Flags of a record as plain integers: operators of `IntFlag` are slow, and property tests use them often."""

from __future__ import annotations

from types import SimpleNamespace

from windlass.core.job import Flag

BITS = SimpleNamespace(**{name: int(flag) for name, flag in Flag.__members__.items()})
