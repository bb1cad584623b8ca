"""What this machine must have for the scenarios and faults, and what is left out where it does not."""

from __future__ import annotations

from collections.abc import Sequence

from . import cable, previous_version
from .power_loss import volatile_disk


def supported_scenarios(scenarios: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the scenarios that this machine supports, the faults that it does not, and the reasons for the report."""
    reasons, faults, missing = list[str](), list[str](), list[str]()
    if "namespace" in scenarios:
        reason = cable.unavailable_reason()
        unsupported = {} if reason else cable.unsupported_faults()
        reasons += [reason] if reason else unsupported.values()
        missing += ["namespace"] if reason else []
        faults += unsupported
    if "versions" in scenarios and (reason := previous_version.unavailable_reason()):
        reasons.append(reason)
        missing.append("versions")
    if {"standalone", "embedded"} & set(scenarios) and (reason := volatile_disk.unavailable_reason()):
        reasons.append(reason)
        faults.append("power-loss")
    return [name for name in scenarios if name not in missing], faults, reasons
