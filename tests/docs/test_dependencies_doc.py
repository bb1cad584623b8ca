"""The examples of docs/dependencies.md run as written."""

from __future__ import annotations

import re
from pathlib import Path

from windlass.core.job import NewJob
from windlass.core.operations import Fail, Finish, Take
from windlass.core.states import State
from windlass.service import Service

DOCUMENT = Path(__file__).parents[2] / "docs" / "dependencies.md"


def fail_first(service: Service) -> None:
    (job,) = service.take(Take(queues=("import",))).wait().jobs
    service.fail([Fail(id=job.id, token=job.lease_token)]).wait()
    assert service.stats(["report"]).wait()[0].consequences == 1


def test_the_examples_run(service: Service) -> None:
    service.enqueue([NewJob(queue="orders", name="order")]).wait()
    names = {"service": service, "NewJob": NewJob, "Finish": Finish, "Take": Take, "State": State}
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        if "service.retry" in block:
            fail_first(service)
        exec(block, names)  # noqa: S102
    queues = ["import", "report", "lines", "orders"]
    stats = dict(zip(queues, service.stats(queues).wait(), strict=True))
    assert (stats["import"].queued, stats["import"].waiting) == (52, 1), "the retried job waits with its group again"
    assert (stats["report"].waiting, stats["lines"].queued, stats["orders"].waiting) == (2, 20, 1)
