"""Doctor operations: check and repair a deployment, and read the state of its engine."""

from __future__ import annotations

from windlass.core.diagnosis import Diagnosis
from windlass.core.engine_state import EngineState
from windlass.core.errors import BadInput
from windlass.core.validation.values import check_boolean
from windlass.service.facet import Facet
from windlass.store.commands.command import Flow
from windlass.store.doctor import ProgressHandler, doctor_flow
from windlass.store.operation import Operation
from windlass.store.topology.node_states import engines_flow


class DoctorOperations(Facet):
    def doctor(self, repair: bool = False, *, on_progress: ProgressHandler | None = None) -> Operation[Diagnosis]:
        """Compare all records with all indexes and check the engine's configuration. `repair` corrects everything that
        needs no human decision. Jobs may run at the same time. `on_progress` is called after each bounded step."""
        check_boolean("repair", repair)
        if on_progress is not None and not callable(on_progress):
            raise BadInput("on_progress must be callable.")
        return Operation(self.store, lambda: self._doctor_flow(repair, on_progress))

    def _doctor_flow(self, repair: bool, follow: ProgressHandler | None) -> Flow[Diagnosis]:
        partitions = range(self.store.partitions)  # known when the store is open: when the flow runs
        store = self.store
        return (
            yield from doctor_flow(
                partitions, repair, store.durability, follow, store.cuts,
                is_managed=store.is_managed, scripts_because=store.scripts_because,
            )
        )  # fmt: skip

    def engines(self) -> Operation[list[EngineState]]:
        """Return the state of each node of the engine: memory, persistence, round trip, and risky settings. No job is
        read."""
        return Operation(self.store, self._engines_flow)

    def _engines_flow(self) -> Flow[list[EngineState]]:
        store = self.store
        return engines_flow(
            range(store.partitions), store.durability, store.cuts,
            is_managed=store.is_managed, scripts_because=store.scripts_because,
        )  # fmt: skip
