"""The commands of docs/migrate.md print what the page shows, and the page names every key that is read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.migration.source_redis import SourceRedis
from tests.migration.test_jobber import entry
from tests.support.console import run
from tests.support.engine_process import EngineProcess
from windlass.core.queue import FIXED_LEASE_PREFIX
from windlass.migration import downloader, jobber, processor
from windlass.service import Service

TEXT = (Path(__file__).parents[2] / "docs" / "migrate.md").read_text()


@pytest.mark.parametrize("engine", ["valkey"], indirect=True)
def test_the_commands_print_what_is_shown(service: Service) -> None:
    steps = re.findall(r"^    \$ windlass (migrate .*)\n((?:    [^`$].*\n)+)", TEXT, re.MULTILINE)
    assert len(steps) == 2
    with EngineProcess("redis", tcp=True, config=("--save", "", "--appendonly", "no")) as engine:
        old = SourceRedis(engine.url)
        old.call("LPUSH", "job_queue_mail", *(entry(number) for number in range(1_197)))
        old.call("LPUSH", "in_process_queue", *(entry(number) for number in range(2_000, 2_003)))
        old.call("LPUSH", "job_queue_sms", *(entry(number, type="sms") for number in range(3_000, 3_034)))
        old.close()
        for command, shown in steps:
            words = command.replace(" --url redis://new:6379/0", "").replace("redis://old:6379/0", engine.url).split()
            done = run(service, *words)
            expected = re.sub(r"^    ", "", shown, flags=re.MULTILINE).replace("redis://old:6379/0", engine.url)
            assert (done.code, re.sub(r"(The first: [^,]*, [^,]*,) .*", r"\1 …", done.out + done.err)) == (0, expected)


def test_the_page_names_every_key() -> None:
    names = [*jobber.IN_PROCESS, FIXED_LEASE_PREFIX, jobber.CODE_SUFFIX, processor.QUEUED, *processor.IN_FLIGHT]
    names += [*processor.WORKERS, downloader.AGGREGATION, downloader.JOBS, downloader.JOB, downloader.DELETIONS]
    names += downloader.CALLBACKS
    assert [name for name in names if name not in TEXT] == []
