"""Doctor run from the engine page, with a time limit. Its result is a page."""

from __future__ import annotations

import asyncio

import msgspec

from windlass.core.diagnosis import Diagnosis, Progress
from windlass.dashboard.page_context import PageContext
from windlass.dashboard.routes import DashboardRoutes, Form, PageResult

routes = DashboardRoutes()

LIMIT_S = 20.0


class DoctorForm(Form, frozen=True, kw_only=True):
    repair: bool = False


class DoctorView(msgspec.Struct, frozen=True):
    """Result of a doctor run. `diagnosis` is None if the time limit was reached first."""

    diagnosis: Diagnosis | None
    reached: Progress
    repair: bool
    limit_s: int

    @property
    def can_be_repaired(self) -> bool:
        findings = () if self.diagnosis is None else self.diagnosis.findings
        return any(finding.is_open and "--repair" in finding.remedy for finding in findings)


def _confirmation(form: DoctorForm) -> str:
    return "Repair the findings that need no decision? Jobs can keep running." if form.repair else ""


@routes.action("doctor", DoctorForm, confirm=_confirmation, timeout_s=LIMIT_S + 5)
async def doctor(page: PageContext[None], form: DoctorForm) -> PageResult:
    """Compare all records and indexes. With `repair`, fix the findings that need no decision."""
    page.section = "engine"
    page.context.audit_target, page.context.audit_detail = "engine", "repair" if form.repair else "look"
    reached = Progress(keys=0, jobs=0, findings=0)

    def follow(progress: Progress) -> None:
        nonlocal reached
        reached = progress

    diagnosis: Diagnosis | None = None
    try:
        async with asyncio.timeout(LIMIT_S):
            diagnosis = await page.service.doctor(form.repair, on_progress=follow)
    except TimeoutError:
        page.context.audit_detail += ", stopped at the time limit"
    return PageResult("doctor.html", DoctorView(diagnosis, reached, form.repair, round(LIMIT_S)))
