"""Results of blocks: they count while the judged code is unchanged, and their sums and percentiles are in the page."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from faults.report.block_section import describe_blocks
from faults.report.blocks import Block, digest_of_code, next_block, read_blocks, write_block
from faults.results.recovery import Recovery, percentile

BLOCK = Block(
    topology="standalone", seed=1, seconds=480.0, commit="abc", digest=digest_of_code(), began_at="now",
    command="again", faults={"engine-kill": 100, "worker-kill": 70}, acknowledged=9_000, taken=9_100, ended=8_900,
    unknown=50, lost=0, forgotten=None, repeated=40, crossed=700, flows=90, resumed=20, durable={"step": 50},
    drained_in_s=9.0, findings=[],
    recovery=Recovery(acknowledged={"engine-kill": [10, 400]}, ran_again={"worker-process-kill": [900, 1_800]}),
)  # fmt: skip


def _code(root: Path, text: str) -> str:
    for folder in ("src/windlass/store", "faults/report"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "src/windlass/store/a.lua").write_text(text)
    return digest_of_code(root)


def test_a_change_of_the_judged_code_outdates_blocks(tmp_path: Path) -> None:
    first = _code(tmp_path, "one")
    assert _code(tmp_path, "one") == first
    (tmp_path / "faults/report/page.py").write_text("the form of the results is not judged")
    assert digest_of_code(tmp_path) == first
    assert _code(tmp_path, "two") != first


def test_a_block_survives_its_file(tmp_path: Path) -> None:
    write_block(BLOCK, tmp_path)
    assert read_blocks(tmp_path) == [BLOCK]


def test_blocks_of_other_code_are_listed_and_not_counted() -> None:
    old = msgspec.structs.replace(BLOCK, seed=2, digest="0" * 16, commit="old", findings=["lost: it is gone"], lost=1)
    text = describe_blocks([BLOCK, old])
    assert "| standalone | 1 | 170 | 8 | 9,000 | 9,100 | 700 | 40 | 0 | 0 |" in text
    assert "1 blocks with 170 faults on the commits `old`, with 1 lost jobs and 1 findings" in " ".join(text.split())


def test_sums_of_several_topologies_and_findings() -> None:
    cluster = msgspec.structs.replace(BLOCK, topology="cluster", forgotten=7, findings=["lost: it is gone"], lost=1)
    text = describe_blocks([cluster, BLOCK])
    assert "| cluster | 1 | 170 | 8 | 9,000 | 9,100 | 700 | 40 | 1, and 7 in failovers, allowed | 1 |" in text
    assert "| all | 2 | 340 | 16 |" in text
    assert "- cluster, seed 1: lost: it is gone" in text


def test_times_of_recovery_are_shown_by_fault() -> None:
    text = describe_blocks([BLOCK, msgspec.structs.replace(BLOCK, seed=2)])
    assert "| `engine-kill` | 4 | 10 | 400 | 400 |" in text
    assert "| `worker-process-kill` | 4 | 900 | 1,800 | 1,800 |" in text


@pytest.mark.parametrize(("share", "time"), [(0.5, 50), (0.95, 95), (0.99, 99), (1.0, 100)])
def test_percentiles(share: float, time: int) -> None:
    assert percentile(range(1, 101), share) == time
    assert percentile([7], share) == 7


def test_the_next_block_evens_out_the_topologies() -> None:
    digest = BLOCK.digest
    assert next_block(["standalone", "cluster"], [BLOCK], digest) == ("cluster", 1)
    outdated = msgspec.structs.replace(BLOCK, topology="cluster", seed=4, digest="0" * 16)
    assert next_block(["standalone", "cluster"], [BLOCK, outdated], digest) == ("cluster", 5)
