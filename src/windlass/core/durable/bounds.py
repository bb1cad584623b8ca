"""Largest sizes and numbers of steps, signals and streams."""

from __future__ import annotations

DEADLINE_STEP = "deadline"  # name of the sleep that wakes a suspended job at its deadline
STEP_NAME_MAX = 200  # bytes, with the suffix of a repeated name
STEP_VALUE_MAX = 1024 * 1024  # bytes of one value
STEPS_MAX = 1_000  # per job
STEPS_BYTES_MAX = 16 * 1024 * 1024  # of all values of a job
SUSPENSIONS_MAX = 10_000  # per job
SIGNAL_NAME_MAX = 100  # bytes
SIGNAL_VALUE_MAX = 64 * 1024
SCHEMA_MAX = 16 * 1024  # bytes that describe the value of a signal
SIGNALS_MAX = 100  # unread signals of a job
CHILDREN_MAX = 1_000  # of one wait
WAITS_MAX = 100  # of one suspension
STREAM_VALUE_MAX = 64 * 1024
STREAM_VALUES_MAX = 50_000  # per job
STREAM_BYTES_MAX = 16 * 1024 * 1024  # per job
STREAM_KEPT_MS = 600_000  # after the end of a job whose result is not kept, so that readers get the last values
