"""Export of a random namespace: the import creates an equal one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from tests.service.export.example_deployment import HOOK, comparable, export_lines, snapshot
from tests.service.helpers import new, put, take
from tests.service.machines import invariants
from tests.support.engine_process import EngineProcess
from tests.support.profiles import examples
from tests.support.stores import make_store
from windlass.core.job import Blob, Codec, FlowRef
from windlass.core.limits.limit import Limit, Matcher
from windlass.core.operations import Enqueued, Fail, Finish, LeaseRef
from windlass.core.retry import Backoff
from windlass.service import Service

QUEUES = ("a", "b")
Step = tuple[str, int, int]  # what, and two numbers that choose how


class World:
    """Does steps, and remembers the ids it made and the leases it holds."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.ids: list[bytes] = []
        self.leases: list[LeaseRef] = []

    def do(self, step: Step) -> None:
        what, first, second = step
        getattr(self, what)(first, second)

    def _add(self, **kw: Any) -> None:
        (answer,) = self.service.enqueue([new(**kw)], whole="flow" in kw).wait()
        if isinstance(answer, Enqueued) and answer.status not in ("existing", "ended"):
            self.ids.append(answer.id)

    def plain(self, first: int, second: int) -> None:
        payloads = (Blob(b"1"), Blob(b'{"k": "v"}'), Blob(b"\0", Codec.RAW), Blob(b"\x01", Codec.MSGPACK))
        self._add(
            queue=QUEUES[first % 2],
            name=f"n{second % 3}",
            payload=payloads[first % 4],
            lane=("", "l")[second % 2],
            priority=second % 5 - 2,
            unique=("", "u")[first % 3 == 0],
            unique_while_kept=second % 2 == 0,
            result_ttl_ms=(0, 60_000)[first % 2],
            tombstone_ms=(0, 90_000)[second % 2],
            tags=("", "t")[first % 2 : first % 2 + 1] if first % 2 else (),
            retry=Backoff(tries=second % 3),
            delay_ms=(0, 0, 50_000)[first % 3],
            callback=HOOK if second % 4 == 0 else None,
            repeat="FINISHED, +1 HOUR" if first % 7 == 0 else "",
        )

    def child(self, first: int, second: int) -> None:
        if self.leases:
            parent = self.leases[first % len(self.leases)].id
            self._add(queue=QUEUES[second % 2], parent=parent, held=first % 2 == 0)

    def waiter(self, first: int, second: int) -> None:
        if self.ids:
            after = {self.ids[first % len(self.ids)], self.ids[second % len(self.ids)]}
            on_failure = ("fail", "collect", "ignore")[first % 3]
            self._add(queue=QUEUES[second % 2], after=tuple(after), on_failure=on_failure, joins=second % 3 == 0)

    def step(self, first: int, second: int) -> None:
        """Add a flow of one step that may wait for jobs outside of it."""
        after = (self.ids[first % len(self.ids)],) if self.ids and second % 3 else ()
        flow = FlowRef(self.service.store.new_id("a"), f"f{first % 3}", "only")
        self._add(
            queue=QUEUES[second % 2],
            after=after,
            flow=flow,
            result_ttl_ms=(0, 60_000)[first % 2],
            joins=second % 5 == 1,
        )

    def take(self, first: int, second: int) -> None:
        self.leases += [
            LeaseRef(job.id, job.lease_token) for job in take(self.service, QUEUES[first % 2], second % 3 + 1)
        ]

    def _pop(self, at: int) -> list[LeaseRef]:
        return [self.leases.pop(at % len(self.leases))] if self.leases else []

    def finish(self, first: int, _second: int) -> None:
        self.service.finish([Finish(one.id, one.token, Blob(b"[7]")) for one in self._pop(first)]).wait()

    def fail(self, first: int, second: int) -> None:
        then: Any = ("retry", "final", "cancelled")[second % 3]
        self.service.fail([Fail(id=one.id, token=one.token, then=then) for one in self._pop(first)]).wait()

    def on_any(self, first: int, second: int) -> None:
        if self.ids:
            does: Sequence[Callable[[Sequence[bytes]], Any]] = (
                self.service.cancel, self.service.retry, self.service.delete, self.service.wake, self.service.requeue,
            )  # fmt: skip
            does[second % 5]([self.ids[first % len(self.ids)]]).wait()

    def later(self, first: int, _second: int) -> None:
        self.service.store.clock_offset_ms += first * 100
        self.service.promote().wait()
        self.service.recover().wait()


STEPS = (
    "plain",
    "plain",
    "plain",
    "child",
    "waiter",
    "step",
    "step",
    "take",
    "take",
    "finish",
    "fail",
    "on_any",
    "later",
)
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 99), st.integers(0, 99)), min_size=5, max_size=60)


@settings(
    max_examples=examples(usual=15, deep=200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
@given(done=steps, is_limited=st.booleans(), history=st.integers(0, 2))
@example(
    done=[("plain", 30, 0), ("take", 0, 0), ("finish", 0, 0), ("plain", 0, 0), ("waiter", 0, 1)],
    is_limited=False,
    history=1,
)  # an awaited job in the history has released its key
def test_any_namespace_comes_back_equal(
    engine: EngineProcess, done: list[Step], is_limited: bool, history: int
) -> None:
    service, target = Service(make_store(engine)), Service(make_store(engine))
    try:
        service.configure("a", {"history_length": history, "name_lanes": is_limited}).wait()
        if is_limited:
            service.limit(Limit(name="l", matches=Matcher(queue="b"), running=1)).wait()
        world = World(service)
        for step in done:
            world.do(step)
        lines = export_lines(service)
        target.store.clock_offset_ms = service.store.clock_offset_ms
        answer = target.import_jobs(lines).wait()
        assert not answer.reasons
        assert not answer.unknown_awaited or any(step[0] == "on_any" for step in done)
        found = snapshot(target.store)
        invariants.check(found)
        assert "restoring" not in found.values
        if not any(b'"is_cancel_requested":true' in line for line in lines):
            assert comparable(export_lines(target)) == comparable(lines)
    finally:
        service.store.close_sync()
        target.store.close_sync()


def test_a_job_that_is_there_all_the_time_is_exported_once(service: Service) -> None:
    """While others come and go by the thousand, and the engine's table grows and shrinks under the walk."""
    wanted = {one.id for one in put(service, *(new("lasting") for _ in range(1_500)))}
    found: list[str] = []
    for number, line in enumerate(service.export()):
        if b'"queue":"lasting"' in line and b'"kind":"job"' in line:
            found.append(line.decode().partition('"id":"')[2][:36])
        if number % 400 == 100:
            passing = put(service, *(new("passing") for _ in range(3_000)))
            service.delete([one.id for one in passing]).wait()
    assert len(found) == len(set(found)) == len(wanted)
