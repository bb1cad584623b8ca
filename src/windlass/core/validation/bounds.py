"""Largest sizes, counts and durations that requests may have."""

from __future__ import annotations

MIB = 1024 * 1024
PAYLOAD_MAX = MIB
PAYLOAD_STORED_MAX = 4 * MIB  # largest bound that a setting may allow instead, so the largest stored payload
RESULT_MAX = MIB
ERROR_MAX = 16 * 1024  # stored for each of the last attempts
EMITTED_MAX = 16 * 1024  # thousands of values are kept for followers
QUEUE_MAX = 255
NAME_MAX = 1020
LANE_MAX = 255
UNIQUE_MAX = 512
TAG_MAX = 128
TAGS_MAX = 20
TRACE_MAX = 1024
REASON_MAX = 64
NOTE_MAX = 256
LOG_LEVEL_MAX = 16
LOG_LINE_MAX = 4 * 1024
LOG_LINES_MAX = 200  # per request
TAKE_MAX = 1000
HELD_MAX = 10_000  # jobs that a worker names in one heartbeat
AFTER_MAX = 1000
WHOLE_MAX = 2000  # jobs in one atomic enqueue
FLOW_NAME_MAX = 255  # also of a step
FLOW_AFTER_MAX = 20_000  # dependencies of all jobs of a flow
QUEUES_PER_TAKE = 100
NAMES_PER_FILTER = 100
NAMES_PER_WORKER = 1000
VERSION_MAX = 64  # text of a worker about its version, its interpreter or its component
MEMORY_MAX = 2**53  # bytes; every JSON reader keeps it exact
WILDCARDS_MAX = 16
PAGE_MAX = 500
SOUGHT_MAX = 255  # search text in errors
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
DURATION_MAX = 2**43  # 278 years
PAUSE_MAX = DURATION_MAX // 2  # retry delay; its jitter may double it
UINT32_MAX = 2**32 - 1
TOKEN_MAX = 2**48 - 1  # of a lease
CURSOR_MAX = 1024
POSITION_MAX = 256 * 1024  # about 40 bytes for each of up to 4096 partitions
