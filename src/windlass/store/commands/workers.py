"""Worker commands: register, beat, unclaimed, forget, workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.core.errors import Refusal
from windlass.core.operations import HeartbeatReply, LeaseRef, Worker, WorkerInfo, WorkerJob

from .command import Argument, BatchCommand, Command, parse_reply, reply_parser

GIVEN_BACK_PER_CALL = 500
SHOWN_PER_WORKER = 100
_encode = msgspec.msgpack.Encoder().encode
_decode_info = msgspec.msgpack.Decoder(WorkerInfo).decode


class PushShare(NamedTuple):
    """Share of one partition in the jobs of a push worker: its queues there, and its slots."""

    slots: int
    queues: list[str]


def register(
    worker: bytes, beat_ms: int, wakeup_list: str, info: WorkerInfo, share: PushShare | None, partition: int
) -> Command[int]:
    """Register a worker. Without a share, this partition pushes it no jobs."""
    push = "\1".join((str(share.slots), *share.queues)) if share else ""
    # Names are apart from the description, because explain reads the same names of many workers only once.
    names = "".join(f"\0{name}" for name in info.names) + "\0" if info.names else ""
    description = _encode(msgspec.structs.replace(info, names=()))
    return Command("register", [worker, beat_ms, wakeup_list, description, push, names], int, partition=partition)


def beat(workers: Sequence[bytes], partition: int) -> BatchCommand[bool | Refusal]:
    """Send heartbeats. The reply per worker is whether it was asked to stop."""
    items = [(worker, b"") for worker in workers]
    return BatchCommand("beat", (), items, reply_parser(lambda reply: bool(reply == b"stop")), partition=partition)


def beat_holding(worker: bytes, held: Sequence[bytes], partition: int) -> BatchCommand[HeartbeatReply | Refusal]:
    """Send a heartbeat with the ids of all jobs of this partition that the worker holds."""
    return BatchCommand(
        "beat", (), [(worker, b"=" + b"".join(held))], reply_parser(_read_heartbeat), partition=partition
    )


def _read_heartbeat(reply: Any) -> HeartbeatReply:
    if isinstance(reply, bytes):
        return HeartbeatReply(reply == b"stop", [])
    return HeartbeatReply(reply[0] == b"stop", _leases(reply[1]))


def unclaimed(holders: Sequence[tuple[bytes, Sequence[bytes]]], partition: int) -> BatchCommand[list[LeaseRef]]:
    """Find leases that their holder does not know. Each holder comes with the ids of all jobs that it holds."""
    items = [(holder, b"".join(held)) for holder, held in holders]
    return BatchCommand("unclaimed", (), items, _leases, partition=partition)


def _leases(flat: Sequence[Any]) -> list[LeaseRef]:
    return [LeaseRef(*pair) for pair in zip(flat[::2], flat[1::2], strict=True)]


def stop_worker(worker: bytes, partition: int) -> Command[bool | Refusal]:
    return Command("stop_worker", [worker], reply_parser(bool), partition=partition)


def forget(worker: bytes, partition: int) -> Command[tuple[int, bool] | Refusal]:
    """Remove a worker. The reply is how many jobs were requeued, and whether the worker is gone (else call again)."""
    return Command(
        "forget",
        [worker, GIVEN_BACK_PER_CALL],
        lambda reply: parse_reply(reply, lambda parts: (parts[0], bool(parts[1]))),
        partition=partition,
    )


def read_info(description: bytes, names: bytes = b"") -> WorkerInfo:
    info = _decode_info(description) if description else WorkerInfo()
    return msgspec.structs.replace(info, names=tuple(names.decode()[1:-1].split("\0"))) if names else info


def _worker(row: Any) -> Worker:
    worker, silent_at, started_at, description, running_count, jobs, stopping_at, beat_ms, names = row
    return Worker(
        id=worker,
        info=read_info(description, names),
        started_at_ms=started_at,
        silent_at_ms=silent_at,
        beat_at_ms=silent_at - beat_ms,
        running_count=running_count,
        running=[WorkerJob(jobs[i], int(jobs[i + 1])) for i in range(0, len(jobs), 2)],
        stopping_since_ms=stopping_at or None,
    )


def workers(start: int, most: int, partition: int, ids: Sequence[bytes] = ()) -> Command[list[Worker]]:
    """Read a page of workers; with ids, these instead."""
    args: list[Argument] = [start, most, SHOWN_PER_WORKER, *ids]
    return Command("workers", args, lambda reply: [_worker(row) for row in reply], partition=partition)


def merge_worker(same: Sequence[Worker]) -> Worker:
    """Merge the entries of one worker from several partitions. They differ only in the jobs that it holds there."""
    return msgspec.structs.replace(
        same[0],
        running_count=sum(worker.running_count for worker in same),
        running=sorted((job for worker in same for job in worker.running), key=lambda job: job.since_ms)[
            :SHOWN_PER_WORKER
        ],
    )
