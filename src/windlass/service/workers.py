"""Worker operations: registration, heartbeats, stop requests and lists of workers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence, Set

import msgspec

from windlass.core.access.tokens import is_queue_allowed
from windlass.core.errors import Refusal
from windlass.core.job import Blob, Codec
from windlass.core.operations import HeartbeatReply, LeaseRef, Worker, WorkerInfo
from windlass.core.stats.task_figures import TaskSums
from windlass.core.validation.bounds import DURATION_MAX, PAGE_MAX, UINT32_MAX
from windlass.core.validation.tokens import check_queue_patterns
from windlass.core.validation.values import check_id, check_instance, check_integer, check_list
from windlass.core.validation.workers import check_held_ids, check_task_report, check_worker_id, check_worker_info
from windlass.store.batching.partition_split import split_by_partition
from windlass.store.commands import jobs, workers
from windlass.store.commands.command import Flow, split_batch
from windlass.store.operation import BatchOperation, Operation

from .facet import Facet

CRASHED = "crashed"  # reason of attempts that ended with their process
_DISCONNECTED = Blob(
    msgspec.json.encode({"type": "WorkerDisconnected", "message": "The connection of the worker dropped."}), Codec.JSON
)


class WorkerOperations(Facet):
    def register(self, worker: bytes, info: WorkerInfo, *, beat_ms: int = 30_000) -> Operation[int]:
        """Register a worker with its properties. It must send a heartbeat at least every `beat_ms`."""
        check_worker_id(worker)
        check_worker_info(info)
        check_integer("beat_ms", beat_ms, 100, DURATION_MAX)
        return Operation(self.store, lambda: self._register_flow(worker, info, beat_ms))

    def _register_flow(self, worker: bytes, info: WorkerInfo, beat_ms: int) -> Flow[int]:
        """Register in all partitions: each recovers the jobs that a silent worker held there."""
        pushed = self._shares_of(info) if info.url else {}
        answers = yield [
            workers.register(
                worker,
                beat_ms,
                self.store.wakeups.cancel_list(partition),
                info,
                pushed.get(partition),
                partition,
            )
            for partition in range(self.store.partitions)
        ]
        return answers[0]  # type: ignore[no-any-return]

    def _shares_of(self, info: WorkerInfo) -> dict[int, workers.PushShare]:
        """Return the slots and queues of a push worker by partition. The slots are divided, because each partition
        counts only the jobs that it pushed. Partitions beyond the number of slots push nothing."""
        queues: dict[int, list[str]] = {}
        for queue in info.queues:
            queues.setdefault(self.store.partition_of_queue(queue), []).append(queue)
        number = max(1, len(queues))
        slots = [(info.slots + number - 1 - at) // number for at in range(number)]
        return {
            partition: workers.PushShare(own, names)
            for own, (partition, names) in zip(slots, queues.items(), strict=False)
            if own
        }

    def hear_cancels(self, handler: Callable[[bytes], None]) -> None:
        """Call `handler` at once with the id of a job that must stop, if a worker that registers from this process
        later holds it. This needs a running event loop. Heartbeats report the same, later."""
        self.store.wakeups.on_cancel_request(handler)

    def beat(self, ids: Sequence[bytes]) -> BatchOperation[bool]:
        """Send the heartbeats of workers. True means that a worker must stop gracefully, see `stop_worker`."""
        check_list("ids", ids)
        for worker in ids:
            check_worker_id(worker)
        return BatchOperation(self.store, lambda: self._beat_flow(ids))

    def _beat_flow(self, ids: Sequence[bytes]) -> Flow[list[bool | Refusal]]:
        """Send heartbeats to all partitions. If a partition does not know a worker, the worker must register again."""
        partitions = range(self.store.partitions)
        calls = [part for partition in partitions for part in split_batch(workers.beat(ids, partition))]
        replies = yield calls
        flat = [answer for reply in replies for answer in reply]
        return [
            _merge_beat_answers([flat[place] for place in range(at, len(flat), len(ids))]) for at in range(len(ids))
        ]

    def beat_holding(self, worker: bytes, held: Sequence[bytes]) -> Operation[HeartbeatReply]:
        """Send the heartbeat of one worker with the ids of all jobs that it holds. The answer lists leases of the
        worker for other jobs that are at least two seconds old: their take succeeded but its answer was lost. The
        worker must `release` them, and must not start such a job if a late answer still brings it."""
        check_worker_id(worker)
        check_held_ids(held)
        return Operation(self.store, lambda: self._beat_holding_flow(worker, held))

    def _beat_holding_flow(self, worker: bytes, held: Sequence[bytes]) -> Flow[HeartbeatReply]:
        by_home: list[list[bytes]] = [[] for _ in range(self.store.partitions)]
        for job_id in held:
            by_home[self.store.partition_of_job(job_id)].append(job_id)
        replies = yield [workers.beat_holding(worker, ids, partition) for partition, ids in enumerate(by_home)]
        answers = [answer for (answer,) in replies]
        refused = [answer for answer in answers if isinstance(answer, Refusal)]
        if refused:  # a partition does not know the worker: it must register again
            raise refused[0]
        return HeartbeatReply(
            any(answer.is_asked_to_stop for answer in answers),
            [lease for answer in answers for lease in answer.unclaimed],
        )

    def unclaimed(self, holders: Sequence[tuple[bytes, Sequence[bytes]]]) -> Operation[list[LeaseRef]]:
        """Return the unclaimed leases of holders that send no heartbeats. Each holder comes with the ids of all jobs
        that it holds; leases for other jobs are unclaimed once they are two seconds old."""
        check_list("holders", holders)
        for holder, held in holders:
            check_worker_id(holder)
            check_held_ids(held)
        return Operation(self.store, lambda: self._unclaimed_flow(holders))

    def _unclaimed_flow(self, holders: Sequence[tuple[bytes, Sequence[bytes]]]) -> Flow[list[LeaseRef]]:
        partitions = range(self.store.partitions)
        replies = yield [
            part for partition in partitions for part in split_batch(workers.unclaimed(holders, partition))
        ]
        return [lease for reply in replies for leases in reply for lease in leases]

    def stop_worker(self, worker: bytes) -> Operation[bool]:
        """Ask a worker to stop gracefully. Its next heartbeat says so; then it takes no more jobs, completes its
        running jobs and deregisters. A worker that gets its jobs by push gets no more. Return False if it was asked
        before."""
        check_worker_id(worker)
        return Operation(self.store, lambda: self._stop_worker_flow(worker))

    def _stop_worker_flow(self, worker: bytes) -> Flow[bool]:
        answers = yield [workers.stop_worker(worker, partition) for partition in range(self.store.partitions)]
        found = [answer for answer in answers if not isinstance(answer, Refusal)]
        if not found:
            raise answers[0]
        return any(found)

    def forget(self, worker: bytes) -> Operation[int]:
        """Deregister a worker and put its jobs back. Return the number of these jobs."""
        check_worker_id(worker)
        return Operation(self.store, lambda: self._forget_flow(worker))

    def _forget_flow(self, worker: bytes) -> Flow[int]:
        given_back = 0
        partitions: Sequence[int] = range(self.store.partitions)
        refused: list[Refusal] = []
        while partitions:
            answers = yield [workers.forget(worker, partition) for partition in partitions]
            refused += [answer for answer in answers if isinstance(answer, Refusal)]
            counts = {
                partition: answer
                for partition, answer in zip(partitions, answers, strict=True)
                if not isinstance(answer, Refusal)
            }
            given_back += sum(count for count, _ in counts.values())
            partitions = [partition for partition, (_, is_gone) in counts.items() if not is_gone]
        if len(refused) == self.store.partitions:
            raise refused[0]
        return given_back

    def connect_worker(self, worker: bytes) -> Operation[bytes]:
        """Tie a registered worker to a new connection, and return the connection's id. `disconnect_worker` of an
        earlier connection then does nothing."""
        check_worker_id(worker)
        connection = secrets.token_bytes(16)
        return Operation(self.store, lambda: self._connect_flow(worker, connection))

    def _connect_flow(self, worker: bytes, connection: bytes) -> Flow[bytes]:
        partitions = range(self.store.partitions)
        answers = yield [workers.connect_worker(worker, connection, partition) for partition in partitions]
        refused = [answer for answer in answers if isinstance(answer, Refusal)]
        if refused:
            raise refused[0]
        return connection

    def disconnect_worker(self, worker: bytes, connection: bytes) -> Operation[int]:
        """Take the jobs back from a worker that is gone with its connection: each spends its attempt, with the reason
        `crashed`. Return the number of jobs. Nothing happens if the worker has another connection, or has gone."""
        check_worker_id(worker)
        check_id("connection", connection)
        return Operation(self.store, lambda: self._disconnect_flow(worker, connection))

    def _disconnect_flow(self, worker: bytes, connection: bytes) -> Flow[int]:
        taken_back = 0
        partitions: Sequence[int] = range(self.store.partitions)
        while partitions:
            answers = yield [
                workers.disconnect_worker(worker, connection, CRASHED, _DISCONNECTED, partition)
                for partition in partitions
            ]
            taken_back += sum(count for count, _ in answers)
            partitions = [partition for partition, (_, is_gone) in zip(partitions, answers, strict=True) if not is_gone]
        return taken_back

    def report_tasks(self, worker: bytes, number: int, tasks: Sequence[TaskSums]) -> Operation[int]:
        """Add the ends of attempts since a worker's last report to the figures of its tasks. `number` grows with each
        report: a report that is sent again is not counted again. Return how many tasks were not counted, because so
        many others were reported within two days."""
        check_worker_id(worker)
        check_task_report(number, tasks)
        return Operation(self.store, lambda: self._report_tasks_flow(worker, number, tasks))

    def _report_tasks_flow(self, worker: bytes, number: int, tasks: Sequence[TaskSums]) -> Flow[int]:
        parts: dict[int, list[TaskSums]] = {}
        for sums in tasks:
            parts.setdefault(self.store.partition_of_queue(sums.queue), []).append(sums)
        answers = yield [workers.report_tasks(worker, number, own, partition) for partition, own in parts.items()]
        refused = [answer for answer in answers if isinstance(answer, Refusal)]
        if refused:  # a partition does not know the worker: it must register again
            raise refused[0]
        return sum(answers)

    def workers(self, *, start: int = 0, most: int = 100) -> Operation[list[Worker]]:
        """Return registered workers with their running jobs."""
        check_integer("start", start, 0, UINT32_MAX)
        check_integer("most", most, 1, PAGE_MAX)
        return Operation(self.store, lambda: self._workers_flow(start, most))

    def _workers_flow(self, start: int, most: int) -> Flow[list[Worker]]:
        """Read the page from the first partition, and the jobs of these workers from the others."""
        page: list[Worker] = yield workers.workers(start, most, 0)
        if not page or self.store.partitions == 1:
            return page
        ids = [worker.id for worker in page]
        elsewhere = yield [workers.workers(0, 0, partition, ids) for partition in range(1, self.store.partitions)]
        return [workers.merge_worker(same) for same in zip(page, *elsewhere, strict=True)]

    def worker(self, worker: bytes) -> Operation[Worker]:
        """Return one worker with its jobs. For a worker that is not registered only its jobs are known."""
        check_worker_id(worker)
        return Operation(self.store, lambda: self._worker_flow(worker))

    def _worker_flow(self, worker: bytes) -> Flow[Worker]:
        found: list[list[Worker]] = yield [
            workers.workers(0, 0, partition, [worker]) for partition in range(self.store.partitions)
        ]
        return workers.merge_worker([one for (one,) in found])

    def workers_within(self, found: Sequence[Worker], queues: tuple[str, ...]) -> Operation[list[Worker]]:
        """Restrict workers for a caller that may see only the queues that match these patterns (none: all): return the
        workers that serve such a queue, without their other queues and the jobs of those."""
        check_list("found", found)
        for worker in found:
            check_instance("A worker", worker, Worker)
        check_queue_patterns(queues)
        return Operation(self.store, lambda: self._workers_within_flow(found, queues))

    def _workers_within_flow(self, found: Sequence[Worker], queues: tuple[str, ...]) -> Flow[list[Worker]]:
        if not queues:
            return list(found)
        shown = [worker for worker in found if not worker.info.queues or _visible_queues(worker, queues)]
        ids = [job.id for worker in shown for job in worker.running]
        names = yield from split_by_partition(ids, self.store.partition_of_job, jobs.queue_of)
        seen = {
            job_id
            for job_id, name in zip(ids, names, strict=True)
            if isinstance(name, str) and is_queue_allowed(name, queues)
        }
        return [_restrict_worker(worker, queues, seen) for worker in shown]


def _visible_queues(worker: Worker, queues: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(queue for queue in worker.info.queues if is_queue_allowed(queue, queues))


def _restrict_worker(worker: Worker, queues: tuple[str, ...], seen: Set[bytes]) -> Worker:
    running = [job for job in worker.running if job.id in seen]
    served = _visible_queues(worker, queues)
    if served == worker.info.queues and len(running) == len(worker.running):
        return worker
    info = msgspec.structs.replace(worker.info, queues=served)
    return msgspec.structs.replace(worker, info=info, running=running, running_count=len(running))


def _merge_beat_answers(answers: Sequence[bool | Refusal]) -> bool | Refusal:
    """Merge the answers of all partitions about one worker. A refusal means that the worker must register again."""
    refused = [answer for answer in answers if isinstance(answer, Refusal)]
    return refused[0] if refused else any(answers)
