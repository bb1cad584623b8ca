"""Tests with the `engine` fixture that `make test` does not run on every engine.

`make test-deep` (`WINDLASS_DEEP=1`) runs all of them on all engines. In `make test` the tests of LEFT_TO_DEEP_RUNS run
on Valkey only, and those of RUN_BY_SCRIPTS also on an engine without functions."""

from __future__ import annotations

import pytest

from tests.support.profiles import IS_DEEP

RANDOM = "many examples: they vary our rules, not the engine"
LARGE = "many jobs: smaller tests of the operation run on both engines"

LEFT_TO_DEEP_RUNS = {
    "test_export_property.py": RANDOM,
    "test_doctor_damage.py": RANDOM,
    "test_take.py::test_glob_agrees_with_sqlite": RANDOM,
    "test_take.py::test_glob_ranges_agree_with_sqlite": RANDOM,
    "test_record.py::test_any_job_comes_back_as_it_was_given": RANDOM,
    "test_doctor.py::test_thousands_of_jobs_in_bounded_steps": LARGE,
    "test_many_dependencies.py": LARGE,
    "test_export_partitions.py": LARGE,
    "test_export_size.py": LARGE,
    "test_after.py::test_many_dependents_are_notified_in_steps": LARGE,
    "test_events.py::test_what_was_trimmed_away_is_counted": LARGE,
    "test_fanout.py::test_trimmed_events_are_reported_to_a_follower_that_returns_too_late": LARGE,
    "test_take.py::test_a_pattern_that_only_the_last_of_thousands_of_lanes_matches": LARGE,
    "test_take.py::test_a_big_answer_is_cut_and_the_rest_stays": LARGE,
    "test_promote.py::test_five_thousand_due_jobs_are_promoted_in_steps": LARGE,
    "test_job_search.py::test_a_merged_page_is_full_also_when_one_queue_comes_before_all_others": LARGE,
    "test_import_errors.py": "wrong files: they are refused before the engine is called",
}


# Tests of the most used operations: the code of operations is the same, only the call differs.
RUN_BY_SCRIPTS = {
    "test_finish.py", "test_fail.py", "test_extend.py", "test_after.py", "test_cancel.py", "test_store_steps.py",
    "test_match_ids.py", "test_other_engines.py", "test_payload_index.py", "test_payload_index_property.py",
}  # fmt: skip


def is_left_to_deep_runs(item: pytest.Item) -> bool:
    chosen = getattr(item, "callspec", None)
    engine = chosen.params.get("engine") if chosen is not None else None
    if IS_DEEP or engine not in ("redis", "scripts"):
        return False
    function = item.name.partition("[")[0]
    is_long = not {item.path.name, f"{item.path.name}::{function}"}.isdisjoint(LEFT_TO_DEEP_RUNS)
    return is_long or (engine == "scripts" and item.path.name not in RUN_BY_SCRIPTS)
