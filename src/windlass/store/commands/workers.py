"""Worker commands: register, beat, unclaimed, forget, workers, and the figures of tasks that workers report."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from windlass.core.errors import Refusal
from windlass.core.job import Blob
from windlass.core.operations import HeartbeatReply, LeaseRef, Worker, WorkerInfo, WorkerJob
from windlass.core.stats.task_figures import TASKS_KEPT, TaskStep, TaskSums
from windlass.store.records.attempt import pack_blob

from .command import Argument, BatchCommand, Command, parse_reply, reply_parser

GIVEN_BACK_PER_CALL = 500
SHOWN_PER_WORKER = 100
MINUTE_MS = 60_000
_COUNTER = struct.Struct(">BI")  # index and count, see lua/lib/workers/task_figures.lua
_COUNTERS = ("failed", "retried", "cancelled")  # behind them the buckets of run times
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


def connect_worker(worker: bytes, connection: bytes, partition: int) -> Command[int | Refusal]:
    return Command("connect_worker", [worker, connection], reply_parser(int), partition=partition)


def disconnect_worker(
    worker: bytes, connection: bytes, reason: str, error: Blob, partition: int
) -> Command[tuple[int, bool]]:
    """Take jobs back from a worker whose connection dropped. The reply is their number, and whether that were all."""
    return Command(
        "disconnect_worker",
        [worker, connection, GIVEN_BACK_PER_CALL, reason, pack_blob(error)],
        lambda parts: (parts[0], bool(parts[1])),
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


class ReportedTask(NamedTuple):
    queue: str
    name: str
    at_ms: int  # of its last report


def report_tasks(worker: bytes, report: int, tasks: Sequence[TaskSums], partition: int) -> Command[int | Refusal]:
    """Add to the figures of tasks. The reply is how many were not counted, because the partition lists so many others.
    A report that is sent again is not counted again."""
    args: list[Argument] = [worker, report, TASKS_KEPT]
    for sums in tasks:
        args += (sums.queue, sums.name, _pack_counters(sums))
    return Command("report_tasks", args, reply_parser(int), partition=partition)


def _pack_counters(sums: TaskSums) -> bytes:
    counts = {at: getattr(sums, counter) for at, counter in enumerate(_COUNTERS)}
    counts |= {len(_COUNTERS) + bucket: count for bucket, count in sums.runs.items()}
    return b"".join(_COUNTER.pack(index, count) for index, count in counts.items() if count)


def tasks(partition: int) -> Command[list[ReportedTask]]:
    """List the tasks that workers have reported."""
    return Command("tasks", [0], lambda reply: _reported_tasks(reply[1]), partition=partition)


def _reported_tasks(flat: Sequence[Any]) -> list[ReportedTask]:
    found = []
    for member, at in zip(flat[::2], flat[1::2], strict=True):
        queue, _, name = member.decode().partition("\0")
        found.append(ReportedTask(queue, name, int(at)))
    return found


def task_history(names: Sequence[tuple[str, str]], back: int, partition: int) -> Command[list[list[TaskStep]]]:
    """Read the minutes of tasks, given by queue and name, from `back` minutes ago."""
    args: list[Argument] = [back]
    for pair in names:
        args += pair
    return Command("tasks", args, lambda reply: _read_task_histories(reply, back), partition=partition)


def _read_task_histories(reply: Any, back: int) -> list[list[TaskStep]]:
    now_ms, rows = reply
    from_ms = (now_ms // MINUTE_MS - back) * MINUTE_MS
    return [[minute for minute in _read_task_minutes(row) if minute.at_ms >= from_ms] for row in rows]


def _read_task_minutes(hours: Sequence[Any]) -> list[TaskStep]:
    minutes = [
        _task_minute((hour * 60 + int(minute)) * MINUTE_MS, packed)
        for hour, fields in zip(hours[::2], hours[1::2], strict=True)
        for minute, packed in zip(fields[::2], fields[1::2], strict=True)
    ]
    return sorted(minutes, key=lambda minute: minute.at_ms)


def _task_minute(at_ms: int, packed: bytes) -> TaskStep:
    counts = dict(_COUNTER.iter_unpack(packed))
    failed, retried, cancelled = (counts.pop(at, 0) for at in range(len(_COUNTERS)))
    runs = {index - len(_COUNTERS): count for index, count in counts.items()}
    return TaskStep(
        at_ms=at_ms, finished=sum(runs.values()), failed=failed, retried=retried, cancelled=cancelled, runs=runs
    )
