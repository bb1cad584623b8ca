"""Names of the durable calls of one run. A name is fixed when the call is made."""

from __future__ import annotations

from windlass.core.durable import DEADLINE_STEP, STEP_NAME_MAX
from windlass.core.errors import BadInput
from windlass.core.validation.durable import check_step_name

from .failures import DuplicateStep


class StepNames:
    """Names that a run has used. A repeated name gets `#2`, `#3` in the order of the calls."""

    def __init__(self) -> None:
        self._used: set[str] = {DEADLINE_STEP}
        self._open: dict[str, str] = {}  # by name without suffix: the name of the call that has not ended

    def open(self, name: str, key: str = "") -> str:
        """Return the name under which the call is stored. Raises DuplicateStep while a call of this name is open."""
        base = self._check(name, key)
        if base in self._open:
            raise DuplicateStep(
                f"Two calls named {base!r} are open at the same time, so their order is not fixed. Tell them apart "
                "with key=."
            )
        full = self._next(base)
        self._open[base] = full
        return full

    def take(self, name: str) -> str:
        """Return a name for a call that has no end of its own."""
        return self._next(self._check(name, ""))

    def _next(self, base: str) -> str:
        number, full = 1, base
        while full in self._used:
            number += 1
            full = f"{base}#{number}"
        check_step_name("name", full)
        self._used.add(full)
        return full

    def close(self, full: str) -> None:
        base = full if self._open.get(full) == full else full.rpartition("#")[0]
        if self._open.get(base) == full:
            del self._open[base]

    def _check(self, name: str, key: str) -> str:
        if not isinstance(name, str) or not isinstance(key, str):
            raise BadInput("The name and the key of a durable call must be strings.")
        base = f"{name}:{key}" if key else name
        if not name or len(base.encode(errors="replace")) > STEP_NAME_MAX:
            raise BadInput(f"The name of a durable call, with its key, has 1 to {STEP_NAME_MAX} bytes; not {base!r}.")
        return base
