"""Plans of faults are made from a seed, and a process's clock can be moved from outside."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults.injection import FAULTS
from faults.injection.fault import ALL_TOPOLOGIES
from faults.plan import faults_for, make_plan

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("topology", ALL_TOPOLOGIES)
def test_the_same_seed_gives_the_same_plan(topology: str) -> None:
    assert make_plan(topology, 7, 120) == make_plan(topology, 7, 120)
    assert make_plan(topology, 7, 120) != make_plan(topology, 8, 120)


@pytest.mark.parametrize("topology", ALL_TOPOLOGIES)
def test_every_suitable_fault_comes_once_before_any_is_repeated(topology: str) -> None:
    kinds = faults_for(topology)
    names = [step.fault.name for step in make_plan(topology, 3, 600).steps]
    assert set(names[: len(kinds)]) == {fault.name for fault in kinds}
    assert len(names) > len(kinds)


def test_steps_follow_each_other_within_the_time() -> None:
    steps = make_plan("standalone", 5, 60).steps
    ends = [step.at_s + step.length_s for step in steps]
    assert all(end < step.at_s for end, step in zip(ends, steps[1:], strict=False))
    assert ends[-1] <= 60


def test_a_plan_of_chosen_faults() -> None:
    names = {step.fault.name for step in make_plan("cluster", 1, 60, ["worker-kill", "failover"]).steps}
    assert names == {"worker-kill", "failover"}


def test_certain_faults_come_early() -> None:
    certain = ["worker-kill", "engine-kill"]
    for seed in range(20):
        names = [step.fault.name for step in make_plan("standalone", seed, 60, certain=certain).steps]
        assert set(certain) <= set(names[: 2 * len(certain)])


def test_every_fault_has_a_topology() -> None:
    assert {fault.name for topology in ALL_TOPOLOGIES for fault in faults_for(topology)} == set(FAULTS)


def test_a_clock_is_moved_from_outside(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_bytes(struct.pack("d", 86_400.0))
    output = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time(), time.time_ns())"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "faults" / "shifted_clock"), "FAULTS_CLOCK": str(clock)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert float(output[0]) > time.time() + 80_000
    assert int(output[1]) > time.time_ns() + 80_000 * 10**9
