"""Committed results of fault runs, one file for each block of faults of one seed.

A block counts while the code that it judged is unchanged: the store, the worker, the background loops and the faults
themselves. Its file has a digest of that code."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from ..checkout import ROOT, commit_of_code
from ..results.recovery import Recovery
from ..scenario import Result

FOLDER = ROOT / "docs" / "reliability" / "blocks"
JUDGED = ("src/windlass/store", "src/windlass/sdk/worker", "src/windlass/background", "faults")
NOT_JUDGED = "faults/report"  # the form of the results
CODE = (".py", ".lua", ".c")


class Block(msgspec.Struct, frozen=True, kw_only=True):
    topology: str
    seed: int
    seconds: float
    commit: str
    digest: str  # of the code that was judged
    began_at: str
    command: str  # repeats the block
    faults: dict[str, int]
    acknowledged: int
    taken: int
    ended: int
    unknown: int  # calls without an answer
    lost: int
    forgotten: int | None  # lost in a failover where that is allowed
    repeated: int
    crossed: int
    flows: int
    resumed: int
    durable: dict[str, int]
    drained_in_s: float
    findings: Sequence[str]
    recovery: Recovery

    @property
    def fault_count(self) -> int:
        return sum(self.faults.values())

    @property
    def name(self) -> str:
        return f"{self.topology}-{self.seed:04d}-{self.digest[:8]}.json"


def digest_of_code(root: Path = ROOT) -> str:
    digest = hashlib.sha256()
    for path in sorted(_code_files(root)):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _code_files(root: Path) -> Iterable[Path]:
    for folder in JUDGED:
        for path in (root / folder).rglob("*"):
            if path.suffix in CODE and not path.relative_to(root).is_relative_to(NOT_JUDGED):
                yield path


def block_of(result: Result, digest: str) -> Block:
    """Return the block of a run. `digest`: of the code when the run began."""
    return Block(
        topology=result.topology, seed=result.seed, seconds=result.seconds, commit=commit_of_code(), digest=digest,
        began_at=result.began_at, command=result.command, faults=result.done, acknowledged=result.acknowledged,
        taken=result.taken, ended=result.ended, unknown=result.unknown, lost=result.lost, forgotten=result.forgotten,
        repeated=result.repeated, crossed=result.crossed, flows=result.flows, resumed=result.resumed,
        durable=result.durable, drained_in_s=round(result.drained_in_s, 1), findings=result.findings,
        recovery=result.recovery,
    )  # fmt: skip


def write_block(block: Block, folder: Path = FOLDER) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / block.name
    path.write_bytes(msgspec.json.encode(block) + b"\n")
    return path


def read_blocks(folder: Path = FOLDER) -> list[Block]:
    return [msgspec.json.decode(path.read_bytes(), type=Block) for path in sorted(folder.glob("*.json"))]


def next_block(topologies: Sequence[str], blocks: Sequence[Block], digest: str) -> tuple[str, int]:
    """Return the topology with the fewest faults on the present code, and a seed that it has not had."""
    counts = {
        topology: sum(block.fault_count for block in blocks if block.topology == topology and block.digest == digest)
        for topology in topologies
    }
    topology = min(topologies, key=lambda name: counts[name])
    used = [block.seed for block in blocks if block.topology == topology]
    return topology, max(used, default=0) + 1
