"""Commands about committed results: run blocks of faults, write their sums into the page, judge histories again."""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from . import scenario
from .report import blocks, write_block_section
from .requirements import supported_scenarios
from .results.archive import LARGEST, describe_verdict, judge, read_archive

COMMANDS = ("block", "blocks", "page", "judge")
BLOCK_S = 480.0  # 150 to 200 faults; the start and the drain take about a minute more
SHORTEST_S = 60.0
OVERHEAD_S = 90.0


def run_command(given: argparse.Namespace, show: scenario.ShowProgress) -> int:
    if given.what == "page":
        print(f"written: {write_block_section()}")
        return 0
    if given.what == "judge":
        return judge_file(given.file)
    supported, without, reasons = supported_scenarios(given.scenario)
    for sentence in reasons:
        show(sentence)
    if given.what == "blocks":
        return run_blocks(supported, without, given.minutes * 60, show)
    has_findings = False
    for topology in supported:
        seed = given.seed or blocks.next_block([topology], blocks.read_blocks(), "")[1]
        block = run_block(topology, seed, given.seconds or BLOCK_S, without, show, given.history, given.only)
        has_findings = has_findings or bool(block.findings)
    return int(has_findings)


def run_blocks(topologies: list[str], without: list[str], seconds: float, show: scenario.ShowProgress) -> int:
    """Run blocks until the time is over, each in the topology with the fewest faults so far."""
    ends_at_s, findings = time.monotonic() + seconds, 0
    while (left_s := ends_at_s - time.monotonic() - OVERHEAD_S) >= SHORTEST_S:
        topology, seed = blocks.next_block(topologies, blocks.read_blocks(), blocks.digest_of_code())
        findings += len(run_block(topology, seed, min(BLOCK_S, left_s), without, show).findings)
    return 1 if findings else 0


def run_block(
    topology: str,
    seed: int,
    seconds: float,
    without: list[str],
    show: scenario.ShowProgress,
    history: Path | None = None,
    only: list[str] | None = None,
) -> blocks.Block:
    """Run one block and write its file, also with findings. Their evidence stays in a temporary folder."""
    folder, digest = Path(tempfile.mkdtemp(prefix="windlass-faults-")), blocks.digest_of_code()
    result = scenario.run_scenario(topology, seed, seconds, folder, show, only or (), without=without)
    block = blocks.block_of(result, digest)
    path = blocks.write_block(block)
    if history is not None:
        publish_history(folder / scenario.ARCHIVE, history)
    evidence = f"; evidence in {folder}" if block.findings else ""
    print(f"{path.name}: {block.fault_count} faults, {block.acknowledged:,} acknowledged, {block.lost} lost, "
          f"{len(block.findings)} findings{evidence}")  # fmt: skip
    for finding in block.findings[:20]:
        print(f"  {finding[:400]}")
    if not block.findings:
        shutil.rmtree(folder)
    return block


def publish_history(written: Path, path: Path) -> None:
    size = written.stat().st_size
    if size > LARGEST:
        raise SystemExit(f"The histories have {size:,} bytes, and may have {LARGEST:,}. Run a shorter block.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(written.read_bytes())
    print(f"{path}: {size:,} bytes")


def judge_file(path: Path | None) -> int:
    """Judge the histories of a file. The exit code is 1 if a guarantee was broken."""
    if path is None:
        raise SystemExit("Name the file: python -m faults judge FILE")
    archive, entries = read_archive(path)
    findings = judge(archive, entries)
    for line in describe_verdict(archive, entries, findings):
        print(line)
    return 1 if findings else 0
