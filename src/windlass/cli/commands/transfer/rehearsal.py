"""Rehearsal of a restore: into a private engine, which the doctor then checks."""

from __future__ import annotations

from windlass.core.diagnosis import Diagnosis, Severity
from windlass.core.export.lines import HeaderLine
from windlass.sdk.deployment import make_service
from windlass.store.embedded.private_engine import private_engine
from windlass.store.store import Store

from .exports import import_file

ABOUT_THE_ENGINE = "engine"


def rehearse(file: str, header: HeaderLine) -> list[str]:
    """Return what is wrong with the restored deployment."""
    with private_engine() as engine:
        store = Store(engine.endpoint(), namespace=header.namespace, partitions=header.partitions)
        try:
            service = make_service(store)
            problems = [] if import_file(service, file, None) else ["Some entries could not be restored, see above."]
            return problems + _errors(service.doctor(False).wait())
        finally:
            store.close_sync()


def _errors(diagnosis: Diagnosis) -> list[str]:
    return [
        f"{finding.code}: {finding.what}"
        for finding in diagnosis.findings
        if finding.severity is Severity.ERROR and finding.is_open
    ]
