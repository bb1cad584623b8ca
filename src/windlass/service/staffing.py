"""Workers as such: who they are, whether they live."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..core import validation as check
from ..core.errors import Refusal
from ..core.requests import Worker, WorkerInfo
from ..store.asked import Asked, AskedMany
from ..store.calls import workers
from ..store.calls.call import Flow
from ..store.scatter import scatter
from .asking import Asking, ask


class Staffing(Asking):
    def register(self, worker: bytes, info: WorkerInfo, *, beat_ms: int = 30_000) -> Asked[int]:
        """A worker says what it is, and that it will beat at least every `beat_ms`."""
        check.worker_id(worker)
        check.worker_info(info)
        check.whole("beat_ms", beat_ms, 100, check.DURATION_MAX)
        bell = self.store.bell(0)
        name = bell.name if bell.hears_cancels else ""
        return Asked(self.store, lambda: ask(workers.register(worker, beat_ms, name, info, 0)))

    def hear_cancels(self, handler: Callable[[bytes], None]) -> None:
        """Calls `handler` at once with the id of a job that is asked to stop, when a worker holds it that was
        registered from here afterwards. Needs a running event loop. Heartbeats tell the same, later."""
        self.store.bell(0).hear_cancels(handler)

    def beat(self, ids: Sequence[bytes]) -> AskedMany[None]:
        """Workers say that they are alive."""
        check.items("ids", ids)
        for worker in ids:
            check.worker_id(worker)
        return AskedMany(self.store, lambda: scatter(ids, lambda _: 0, workers.beat))

    def forget(self, worker: bytes) -> Asked[int]:
        """A worker leaves; what it holds goes back. Answers how many jobs that were."""
        check.worker_id(worker)
        return Asked(self.store, lambda: self._forget_flow(worker))

    def _forget_flow(self, worker: bytes) -> Flow[int]:
        given_back, is_gone = 0, False
        while not is_gone:
            answer = yield workers.forget(worker, 0)
            if isinstance(answer, Refusal):
                raise answer
            count, is_gone = answer
            given_back += count
        return given_back

    def workers(self, *, start: int = 0, most: int = 100) -> Asked[list[Worker]]:
        """Registered workers and what each runs."""
        check.whole("start", start, 0, check.UINT32_MAX)
        check.whole("most", most, 1, check.PAGE_MAX)
        return Asked(self.store, lambda: ask(workers.workers(start, most, 0)))
