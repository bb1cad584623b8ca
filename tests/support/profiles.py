"""Length of the property tests: some seconds in `make test`, minutes with `WINDLASS_DEEP=1`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

IS_DEEP = bool(os.environ.get("WINDLASS_DEEP"))
IS_MUTANT = bool(os.environ.get("WINDLASS_MUTANT"))  # tools/mutants.py needs only a failure, not its steps
ENGINE = os.environ.get("WINDLASS_TEST_ENGINE", "valkey")


def examples(usual: int, deep: int) -> int:
    return deep if IS_DEEP else usual


def machine_settings(usual: int, deep: int, steps: int) -> settings:
    return settings(
        max_examples=examples(usual, deep),
        stateful_step_count=steps,
        deadline=None,
        derandomize=False,
        print_blob=True,
        phases=(Phase.generate,) if IS_MUTANT else (Phase.reuse, Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
