"""Doctor operations over HTTP."""

from __future__ import annotations

from windlass.core.diagnosis import Diagnosis
from windlass.core.engine_state import EngineState
from windlass.sdk.remote.facet import RemoteFacet
from windlass.sdk.remote.request import get, post
from windlass.store.doctor import ProgressHandler
from windlass.store.operation import Operation
from windlass.wire.admin import (
    DiagnosisShape,
    DoctorShape,
    EngineNodesShape,
    diagnosis_of,
    engine_state_of,
)

DOCTOR_LIMIT_MS = 6 * 3_600_000  # it reads all data


class RemoteDoctorOperations(RemoteFacet):
    def doctor(self, repair: bool = False, *, on_progress: ProgressHandler | None = None) -> Operation[Diagnosis]:
        """Check the deployment, and repair it. The server reports no progress, so `on_progress` is not called. After a
        lost answer the check is not repeated: the server may still run it."""
        super().doctor(repair, on_progress=on_progress)
        body = DoctorShape(repair=repair)
        request = post("/doctor", DiagnosisShape, body, wait_ms=DOCTOR_LIMIT_MS, is_repeatable=False)
        return self._single(request, diagnosis_of)

    def engines(self) -> Operation[list[EngineState]]:
        return self._single(
            get("/engine", EngineNodesShape), lambda reply: [engine_state_of(node) for node in reply.nodes]
        )
