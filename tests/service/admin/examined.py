"""What the doctor says of a namespace, for tests: findings about the engine are left out."""

from __future__ import annotations

from windlass.core.diagnosis import MEANINGS, Finding
from windlass.service import Service


def findings(service: Service, *, repair: bool = False) -> dict[str, Finding]:
    found = service.doctor(repair).wait().findings
    return {one.code: one for one in found if one.code in MEANINGS}


def assert_healthy(service: Service, *but: str) -> None:
    """A false alarm is a bug: of a namespace that agrees with itself nothing is said."""
    ignored = {"loops_behind", *but}  # where time passes and no loop runs, it says so rightly
    found = {code: one.examples for code, one in findings(service).items() if code not in ignored}
    assert not found, f"the doctor finds {found}"
