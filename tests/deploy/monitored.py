"""A server with some jobs, and a real Prometheus that scrapes it with our configuration and our alert rules."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.tools import DEPLOY, prometheus_program
from tests.support.engine_process import EngineProcess, free_port
from tests.support.stores import discard, make_store
from tests.support.threaded_server import threaded_server
from windlass.core.job import NewJob
from windlass.core.operations import Fail, Finish, Take
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.connection.endpoint import parse_url
from windlass.store.store import Store

TOKEN = "token-of-the-monitoring-test"  # noqa: S105 (only of this test)
READY_LIMIT_S = 20.0
QUEUE = "mail"


class Prometheus:
    """Client of a running Prometheus."""

    def __init__(self, url: str) -> None:
        self._url = url

    def get(self, path: str, **parameters: str) -> Any:
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url) as answer:  # noqa: S310 (a loopback address)
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[Mapping[str, Any]]:
        """Return the series that an expression gives now."""
        found: list[Mapping[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def wait_for(self, expression: str) -> None:
        give_up_at_s = time.monotonic() + READY_LIMIT_S
        while not self._has(expression):
            assert time.monotonic() < give_up_at_s, f"Prometheus has no {expression} after {READY_LIMIT_S:g} s"
            time.sleep(0.05)

    def _has(self, expression: str) -> bool:
        with contextlib.suppress(OSError):  # it is starting
            return bool(self.query(expression))
        return False


@contextlib.contextmanager
def monitored_server() -> Iterator[tuple[str, Prometheus]]:
    """Yield the URL of a server and its Prometheus, when Prometheus can compute rates."""
    with EngineProcess("valkey", config=("--save", "", "--appendonly", "no")) as engine:
        store = make_store(engine)
        with threaded_server(store, Settings(port=0, bedrock_port=None, token=TOKEN)) as url:
            run_jobs(engine, store)
            with running_prometheus(url, engine.directory) as prometheus:
                prometheus.wait_for("count_over_time(windlass_server_info[1m]) > 2")
                yield url, prometheus


def run_jobs(engine: EngineProcess, server_store: Store) -> None:
    """Finish, fail and leave jobs in the minute before the server's clock."""
    store = Store(parse_url(engine.unix_url), namespace=server_store.namespace, is_test=True)
    try:
        service = Service(store)
        store.clock_offset_ms = 61_000 - service.now().wait() % 60_000  # early in a minute
        service.enqueue([NewJob(queue=QUEUE, name="send")] * 4).wait()
        jobs = service.take(Take(queues=(QUEUE,), most=3)).wait().jobs
        service.finish([Finish(jobs[0].id, jobs[0].lease_token)]).wait()
        service.fail([Fail(id=jobs[1].id, token=jobs[1].lease_token)]).wait()
        server_store.clock_offset_ms = store.clock_offset_ms + 60_000
    finally:
        discard(store)


@contextlib.contextmanager
def running_prometheus(server_url: str, directory: Path) -> Iterator[Prometheus]:
    port, program = free_port(), prometheus_program("prometheus")
    command = [
        program,
        f"--config.file={_configuration(server_url, directory)}",
        f"--storage.tsdb.path={directory}/tsdb",
    ]
    process = subprocess.Popen(
        [*command, f"--web.listen-address=127.0.0.1:{port}"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(READY_LIMIT_S)


def _configuration(server_url: str, directory: Path) -> Path:
    """Write our configuration with the address, the token and a short interval of this test."""
    configuration = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
    configuration["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
    configuration["rule_files"] = [str(DEPLOY / "prometheus" / "alerts.yaml")]
    token, [job] = directory / "token", configuration["scrape_configs"]
    token.write_text(TOKEN)
    job["authorization"]["credentials_file"] = str(token)
    job["static_configs"] = [{"targets": [urllib.parse.urlsplit(server_url).netloc]}]
    file = directory / "prometheus.yaml"
    file.write_text(yaml.safe_dump(configuration))
    return file
