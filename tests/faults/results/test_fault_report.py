"""The report of a run shows its findings, and growing resources are distinguished from stable ones."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from faults import report
from faults.injection.fault import ALL_TOPOLOGIES
from faults.key_usage import KeyUsage, KindUsage
from faults.loss_windows import Window
from faults.scenario import Result
from faults.soak.run import Growth, Soak, measure_growth


def _result(topology: str = "standalone", findings: tuple[str, ...] = ()) -> Result:
    return Result(
        topology=topology, seed=7, seconds=90.0, command=f"python -m faults --scenario {topology}", began_at="now",
        done={"worker-kill": 3, "engine-kill": 2}, steps=[], clients=["producer-sdk", "worker-http"], calls=5_000,
        acknowledged=1_234, taken=1_300, ended=1_230, refused=9, unknown=17, drained_in_s=4.0, findings=list(findings),
    )  # fmt: skip


WINDOW = Window(
    topology="cluster", event="kill -9 of a primary", durability="memory", rounds=4, acknowledged=4_321, unconfirmed=0,
    lost=12, lost_unconfirmed=0, rounds_with_loss=2, longest_ms=31.4,
)  # fmt: skip
USAGE = KeyUsage(
    used_memory=5 * 2**20, kinds={"j": KindUsage(keys=9, bytes=2**20), "seq": KindUsage(keys=1, bytes=2048)}
)  # fmt: skip
SOAK = Soak(
    seconds=120.0, samples=60, findings=[], acknowledged=987,
    grown=[Growth(who="server-api", what="memory", before=2.0**26, after=2.0**26, is_too_much=False)],
    kept=[USAGE] * 3, states={"failed": 9},
)  # fmt: skip


def test_every_figure_is_in_the_document() -> None:
    text = report.render(report.Report(seed=7, command="again", results=[_result()], windows=[WINDOW], soak=SOAK))
    for words in (
        "5 faults, 1,234 acknowledged jobs, 0 lost, 0 findings",
        "`worker-kill`",
        "| 12 | 31 ms |",
        "64.0 MiB",
        "| `j`: records of jobs | 1,024 KiB |",
        "| all other keys | 2 KiB |",
        "| `used_memory` | 5,120 KiB |",
        "9 failed jobs",
    ):
        assert words in text
    assert "Limits of the guarantees" in text


def test_durable_calls_are_counted() -> None:
    calls = {"step": 50, "sleep": 9, "signal": 8, "read": 7}
    found = report.Report(seed=7, command="again", results=[msgspec.structs.replace(_result(), durable=calls)] * 2)
    assert "50 durable steps, 9 sleeps, 8 signals, 7 pieces of streams" in report.format_summary(found)
    assert "returned from 100 steps and 18 sleeps, received 16" in " ".join(report.render(found).split())


def test_flows_are_counted() -> None:
    with_flows = msgspec.structs.replace(_result(), flows=41, resumed=7)
    found = report.Report(seed=7, command="again", results=[with_flows, with_flows])
    assert "41 flows (7 resumes)" in report.format_summary(found)
    assert "82 flows (chains, groups and diamonds)" in " ".join(report.render(found).split())
    assert "resumed 14 times after" in " ".join(report.render(found).split())
    assert "chains, groups and diamonds" not in report.render(
        report.Report(seed=7, command="again", results=[_result()])
    )


def test_a_finding_is_shown_and_counted() -> None:
    found = report.Report(seed=7, command="again", results=[_result(findings=("lost: some job: It is gone.",))])
    assert found.findings == ["standalone: lost: some job: It is gone."]
    assert "1 lost, 1 findings" in report.render(found)
    assert "1 lost, 1 findings" in report.format_summary(found)


def test_one_report_of_several_runs(tmp_path: Path) -> None:
    report.save(report.Report(seed=7, command="first", results=[_result()]), tmp_path / "a")
    report.save(report.Report(seed=8, command="second", windows=[WINDOW]), tmp_path / "b")
    found = report.merge_reports([tmp_path / "a", tmp_path / "b"])
    assert (found.seed, len(found.results), len(found.windows)) == (7, 1, 1)
    assert found.command == "python -m faults --scenario standalone`, `second"


def test_growth_is_found() -> None:
    def sample(number: int) -> dict[tuple[str, str], float]:
        return {
            ("a", "memory"): 5e7 + 2e6 * number,
            ("b", "memory"): 5e7,
            ("a", "threads"): 9,
            ("b", "descriptors"): number,
        }

    verdicts = {
        (growth.who, growth.what): growth.is_too_much
        for growth in measure_growth([sample(number) for number in range(60)])
    }
    assert verdicts == {
        ("a", "memory"): True,
        ("b", "memory"): False,
        ("a", "threads"): False,
        ("b", "descriptors"): True,
    }


def test_a_result_survives_its_encoding() -> None:
    assert msgspec.json.decode(msgspec.json.encode(_result()), type=Result) == _result()


def test_left_out_faults_are_shown() -> None:
    found = report.Report(seed=7, command="again", results=[_result("namespace")], left_out=["No netem here."])
    assert "\nNo netem here.\n" in report.render(found)
    assert "No netem here." in report.format_summary(found)
    assert "a network namespace of its own" in report.render(found)


@pytest.mark.parametrize("topology", ALL_TOPOLOGIES)
def test_every_topology_is_described(topology: str) -> None:
    assert f"| {topology}: " in report.render(report.Report(seed=7, command="again", results=[_result(topology)]))
