"""Checks of queue configurations, of the requested part of a queue's history, and of the goals of scalers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.core.errors import BadInput, TooLarge
from windlass.core.limits.payload_index import INDEX_FIELDS_MAX, INDEX_PATH_MAX
from windlass.core.queue import Configuration
from windlass.core.scale import SLOTS_MAX, TARGET_MAX, WORKERS_MAX, ScaleTarget

from .bounds import DURATION_MAX
from .values import check_boolean, check_duration_or_forever, check_instance, check_integer, check_new_name

HISTORY_HOURS_MAX = 48
HISTORY_STEPS_MAX = 200  # per queue and request
AGING_MAX = 2**20  # about 17 minutes; its product with an int32 must be exact in a float


def check_history_window(step_minutes: Any, steps: Any) -> None:
    check_integer("step_minutes", step_minutes, 1, 60)
    if 60 % step_minutes:
        raise BadInput(f"step_minutes must divide an hour evenly, as 1, 5, 15 or 60 do, not {step_minutes}.")
    check_integer("steps", steps, 1, HISTORY_STEPS_MAX)
    if step_minutes * steps > HISTORY_HOURS_MAX * 60:
        raise BadInput(f"The history goes back {HISTORY_HOURS_MAX} hours; ask for fewer or shorter steps.")


def check_configuration(changes: Any) -> None:
    check_instance("changes", changes, Mapping)
    for field, value in changes.items():
        if field not in Configuration.__struct_fields__:
            fields = ", ".join(Configuration.__struct_fields__)
            raise BadInput(f"A queue has no setting {field!r}; its settings are {fields}.")
        if field in ("name_lanes", "fair_share", "lease_renewal"):
            if value is not None:
                check_boolean(field, value)
        elif field == "index":
            if value is not None:
                check_index(value)
        elif field == "aging_ms":
            if value is not None:
                check_integer(field, value, 0, AGING_MAX)
        elif value is not None:
            check_duration_or_forever(field, value)
            if field == "lease_ms" and value == 0:
                raise BadInput("lease_ms of a queue must be at least 1; None restores the default.")


def check_index(paths: Any) -> None:
    if type(paths) is not tuple:
        raise BadInput("index must be a tuple of paths of payload fields.")
    if len(paths) > INDEX_FIELDS_MAX:
        raise TooLarge(f"index may have {INDEX_FIELDS_MAX} fields, not {len(paths)}.")
    for path in paths:
        check_new_name("a field of index", path, INDEX_PATH_MAX)
        if "=" in path or "#" in path or not all(path.split(".")):
            raise BadInput(
                f"index must have names of payload fields, with dots for fields inside of fields, as customer.email; "
                f"not {path!r}."
            )


def check_scale_target(goal: Any) -> None:
    check_instance("goal", goal, ScaleTarget)
    check_integer("slots", goal.slots, 1, SLOTS_MAX)
    check_integer("target", goal.target, 0, TARGET_MAX)
    check_integer("target_age_ms", goal.target_age_ms, 0, DURATION_MAX)
    check_integer("min", goal.min, 0, WORKERS_MAX)
    check_integer("max", goal.max, 0, WORKERS_MAX)
    if goal.min > goal.max:
        raise BadInput(f"min must not be greater than max, but {goal.min} > {goal.max}.")
