"""Findings of the doctor about a namespace. Findings about the engine are left out."""

from __future__ import annotations

from windlass.core.diagnosis import MEANINGS, Finding
from windlass.service import Service


def findings(service: Service, *, repair: bool = False) -> dict[str, Finding]:
    found = service.doctor(repair).wait().findings
    return {one.code: one for one in found if one.code in MEANINGS}


def assert_healthy(service: Service, *but: str) -> None:
    """Assert that the doctor has no findings: a false alarm about a consistent namespace is a bug."""
    ignored = {"loops_behind", *but}  # correct where time passes and no loop runs
    found = {code: one.examples for code, one in findings(service).items() if code not in ignored}
    assert not found, f"the doctor finds {found}"
