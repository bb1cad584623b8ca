"""The deployment is looked over, and put right."""

from __future__ import annotations

from collections.abc import Callable

from ..core import validation as check
from ..core.diagnosis import Diagnosis, Progress
from ..core.errors import BadInput
from ..store.asked import Asked
from ..store.doctoring import doctor_flow
from .asking import Asking


class Doctoring(Asking):
    def doctor(
        self, repair: bool = False, *, on_progress: Callable[[Progress], object] | None = None
    ) -> Asked[Diagnosis]:
        """Compares all records and indexes, and looks at the engine's configuration; `repair` puts right what needs no
        judgement. Jobs may flow meanwhile. `on_progress` is called after each of its many bounded steps."""
        check.claim("repair", repair)
        if on_progress is not None and not callable(on_progress):
            raise BadInput("on_progress must be something that can be called.")
        return Asked(self.store, lambda: doctor_flow((0,), repair, self.store.durability, on_progress))
