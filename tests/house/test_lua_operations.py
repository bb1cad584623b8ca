"""Every Lua operation has a test file of its name, or is covered by the file of its subject."""

from __future__ import annotations

import pytest

from tests.house.source_tree import ROOT
from windlass.store import scripts

FILES = {path.name: path for path in (ROOT / "tests" / "service").rglob("test_*.py")}
# Test file of a subject -> further operations that it covers.
COVERS = {
    "test_aggregations.py": ("aggregation",),
    "test_alerts.py": ("claim_alerts", "given_up_since", "move_alert", "remove_alert", "set_alert"),
    "test_audit.py": ("audits",),
    "test_callbacks.py": ("redeliver", "retry_callbacks", "settle_callbacks", "take_callbacks"),
    "test_clean.py": ("sweep",),
    "test_configure.py": ("relane",),
    "test_connect_worker.py": ("disconnect_worker",),
    "test_dispatch.py": ("pushed", "redirect"),
    "test_doctor.py": ("examine", "recount", "survey"),
    "test_events.py": ("follow",),
    "test_export.py": ("awaited", "restore", "restored", "walk"),
    "test_fair_share.py": ("set_weights",),
    "test_fire.py": ("due",),
    "test_limit.py": ("holders", "levels", "limits", "rematch", "rematched", "reopen", "unlimit"),
    "test_log.py": ("logs",),
    "test_numbers.py": ("assigned_number", "holder", "number", "numbered", "reserve_numbers"),
    "test_pause.py": ("pauses", "resume"),
    "test_publish_stats.py": ("stats_of",),
    "test_recover.py": ("time_out",),
    "test_report_tasks.py": ("tasks",),
    "test_schedule.py": ("pause_schedule", "resume_schedule", "run_schedule", "schedule_of", "schedules", "unschedule"),
    "test_signal_links.py": ("signing_key",),
    "test_stats.py": ("queues",),
    "test_stop.py": ("stop_worker",),
    "test_survey.py": ("busy_queues",),
    "test_tokens.py": ("create_token", "revoke_token"),
    "test_wakeups.py": ("pass_wakeup",),
    "test_workers.py": ("beat", "forget", "register"),
}
TESTED_IN = {operation: file for file, operations in COVERS.items() for operation in operations}


@pytest.mark.parametrize("operation", scripts.operations())
def test_every_operation_has_a_test_file(operation: str) -> None:
    file = TESTED_IN.get(operation, f"test_{operation}.py")
    assert file in FILES, f"write tests/service/…/test_{operation}.py"


def test_every_covered_operation_exists() -> None:
    assert TESTED_IN.keys() <= set(scripts.operations())
