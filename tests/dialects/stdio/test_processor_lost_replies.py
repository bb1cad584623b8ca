"""An assignment whose reply from the engine was lost: the job is released and assigned to an idle worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dialects.stdio.processor_client import OPTIONS, add, idle, job_uuid, running_session, worker_uuid
from tests.support.engine_process import EngineProcess
from tests.support.lossy_connection import LossyConnection, open_lossy_connection
from windlass.service import Service
from windlass.store.store import Store

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


@pytest.fixture
def lossy_connection(engine: EngineProcess) -> Iterator[LossyConnection]:
    with open_lossy_connection(engine) as found:
        yield found


async def test_an_assignment_that_was_never_printed_goes_to_the_next_idle_worker(
    store: Store, lossy_connection: LossyConnection
) -> None:
    async with lossy_connection.store_like(store) as found, running_session(Service(found)) as processor:
        await processor.list_jobs_after(add(1))
        lossy_connection.lose("assign")
        listed = await processor.list_jobs_after(idle())
        await lossy_connection.wait_lost()
        assert listed["payload"]["jobs"] == []  # none is queued, and none was printed before this answer
        store.clock_offset_ms += OPTIONS.accept_ms
        processor.send(idle(worker_uuid(2)))
        assert await processor.assignments(1) == [(worker_uuid(2), job_uuid(1))]
