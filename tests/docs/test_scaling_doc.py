"""The scaler loop and the manifests of docs/scaling.md: the loop follows the queue up and down with real worker
processes; routes, fields and metrics of the manifests exist."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
import yaml

from tests.support.server_process import ServerProcess, store_options
from windlass.core.access.tokens import NewToken, Role
from windlass.core.job import NewJob
from windlass.service import Service
from windlass.store.store import Store

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)

TEXT = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text()

# A worker as any language has it: it takes a job, runs it, reports it. SIGTERM: it stops after its job.
WORKER = """
import json, os, pathlib, signal, sys, time, urllib.request
api, folder = sys.argv[1], pathlib.Path(sys.argv[2])
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))

def call(path, body):
    request = urllib.request.Request(api + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)

while not asked:
    for job in call("/take", {"queues": ["mail"], "wait_ms": 200})["jobs"]:
        while not (folder / "go").exists():
            time.sleep(0.01)
        call(f"/jobs/{job['id']}/finish", {"token": job["lease_token"]})
(folder / f"stopped-{os.getpid()}").touch()
"""


def wait_until(condition: Callable[[], Any], limit_s: float = 60.0) -> None:
    until = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until, "It did not happen in time."
        time.sleep(0.02)


@pytest.fixture
def server(store: Store) -> Iterator[ServerProcess]:
    with ServerProcess(store_options(store)) as running:
        yield running


def test_the_loop_follows_the_queue_up_and_down(server: ServerProcess, service: Service, tmp_path: Path) -> None:
    [block] = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    api = f"http://localhost:{server.address[1]}/api/v1"
    (tmp_path / "worker.py").write_text(WORKER)
    command = [sys.executable, str(tmp_path / "worker.py"), api, str(tmp_path)]
    code = (
        block.replace("http://localhost:8080/api/v1", api)
        .replace('["./mail-worker"]', repr(command))
        .replace("PAUSE_S = 5.0", "PAUSE_S = 0.05")
    )
    assert repr(command) in code
    service.enqueue([NewJob(queue="mail", name="send") for _ in range(35)]).wait()
    assert httpx.get(f"{api}/queues/mail/scale?target=10&max=4").json()["workers"] == 4

    def counts() -> tuple[int, int]:
        [stats] = service.stats(["mail"]).wait()
        return stats.queued, stats.running

    def stopped() -> int:
        return len(list(tmp_path.glob("stopped-*")))

    with subprocess.Popen([sys.executable, "-c", code]) as scaler:
        try:
            wait_until(lambda: counts() == (31, 4))  # up: four workers, each with a job
            assert stopped() == 0
            (tmp_path / "go").touch()
            wait_until(lambda: counts() == (0, 0))
            wait_until(lambda: stopped() == 4)  # down: nothing is left to do
            assert httpx.get(f"{api}/queues/mail/scale?target=10&max=4").json()["workers"] == 0
            (tmp_path / "go").unlink()
            service.enqueue([NewJob(queue="mail", name="send") for _ in range(12)]).wait()
            wait_until(lambda: counts() == (10, 2))  # up again, to two
            (tmp_path / "go").touch()
            wait_until(lambda: stopped() == 6)
        finally:
            scaler.terminate()


def manifests(number: int) -> list[dict[str, Any]]:
    blocks = re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    return list(yaml.safe_load_all(blocks[number]))


def test_the_keda_manifest_reads_a_number_with_its_token(server: ServerProcess, service: Service) -> None:
    secret, authentication, scaled = manifests(0)
    [parameter] = authentication["spec"]["secretTargetRef"]
    assert (parameter["name"], parameter["parameter"]) == (secret["metadata"]["name"], "token")
    assert parameter["key"] in secret["stringData"]
    [trigger] = scaled["spec"]["triggers"]
    assert trigger["type"] == "metrics-api"
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    metadata = trigger["metadata"]
    assert (metadata["authMode"], metadata["targetValue"]) == ("bearer", "1")
    url = urlsplit(metadata["url"])
    assert int(dict(parse_qsl(url.query))["max"]) == scaled["spec"]["maxReplicaCount"]
    service.enqueue([NewJob(queue="mail", name="send") for _ in range(25)]).wait()
    token = service.create_token(NewToken(name="keda", roles=frozenset({Role.READ}), queues=("mail",))).wait().text
    here = f"http://localhost:{server.address[1]}{url.path}?{url.query}"
    answer = httpx.get(here, headers={"Authorization": f"Bearer {token}"})
    assert answer.json()[metadata["valueLocation"]] == 3
    assert httpx.get(here).status_code == 401


def test_the_hpa_uses_metrics_that_exist(server: ServerProcess, service: Service) -> None:
    adapter, scaler = manifests(1)
    [rule] = adapter["externalRules"]
    [metric] = scaler["spec"]["metrics"]
    assert metric["external"]["metric"]["name"] == rule["name"]["as"]
    labels = metric["external"]["metric"]["selector"]["matchLabels"]
    service.enqueue([NewJob(queue=labels["queue"], name="send") for _ in range(3)]).wait()
    scraped = httpx.get(f"http://localhost:{server.address[1]}/metrics").text
    states = re.search(r'state=~"([^"]+)"', rule["metricsQuery"])
    assert states is not None
    for state in states[1].split("|"):
        assert f'windlass_queue_jobs{{queue="mail",state="{state}"}} {3 if state == "queued" else 0}' in scraped
    assert "windlass_queue_jobs{<<.LabelMatchers>>," in rule["metricsQuery"]
    assert rule["seriesQuery"] == '{__name__="windlass_queue_jobs"}'
    assert 'windlass_queue_oldest_age_seconds{queue="mail"}' in scraped
