"""Plans of faults are drawn from a seed; the report says what a run has found; a clock can be moved from outside."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults.mischief import FAULTS
from faults.mischief.fault import EVERYWHERE
from faults.plans import drawn, suiting

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("topology", EVERYWHERE)
def test_the_same_seed_is_the_same_plan(topology: str) -> None:
    assert drawn(topology, 7, 120) == drawn(topology, 7, 120)
    assert drawn(topology, 7, 120) != drawn(topology, 8, 120)


@pytest.mark.parametrize("topology", EVERYWHERE)
def test_every_kind_that_suits_comes_once_before_one_comes_again(topology: str) -> None:
    kinds = suiting(topology)
    names = [step.fault.name for step in drawn(topology, 3, 600).steps]
    assert set(names[: len(kinds)]) == {fault.name for fault in kinds}
    assert len(names) > len(kinds)


def test_steps_follow_each_other_within_the_time() -> None:
    steps = drawn("standalone", 5, 60).steps
    ends = [step.at_s + step.length_s for step in steps]
    assert all(end < step.at_s for end, step in zip(ends, steps[1:], strict=False))
    assert ends[-1] <= 60


def test_only_some_kinds() -> None:
    names = {step.fault.name for step in drawn("cluster", 1, 60, ["worker-kill", "failover"]).steps}
    assert names == {"worker-kill", "failover"}


def test_every_kind_is_done_somewhere() -> None:
    assert {fault.name for topology in EVERYWHERE for fault in suiting(topology)} == set(FAULTS)


def test_a_clock_that_is_moved_from_outside(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_bytes(struct.pack("d", 86_400.0))
    said = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time(), time.time_ns())"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "faults" / "shifted_clock"), "FAULTS_CLOCK": str(clock)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert float(said[0]) > time.time() + 80_000
    assert int(said[1]) > time.time_ns() + 80_000 * 10**9
