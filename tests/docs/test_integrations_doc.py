"""The examples of docs/integrations.md run unchanged."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contrib.sentry_envelopes import ingest_server
from tests.support.engine_process import EngineProcess

on_valkey = pytest.mark.parametrize("engine", ["valkey"], indirect=True)
DOCUMENT = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text()
MANAGE = """
import os, sys
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mysite.settings")
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
DATABASE = 'DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}\nUSE_TZ = True\n'
PRODUCE = """
import django; django.setup()
from shop.tasks import send_mail
{on_commit}
result = send_mail.enqueue(8, subject="Sorry")
from windlass.contrib.django import app
print(app.job(result.id).result(timeout=60)); result.refresh(); print(result.status)
"""
COLLECT = """
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
reader = InMemoryMetricReader()
set_meter_provider(MeterProvider([reader], shutdown_on_exit=False))
"""
RUN = """
import asyncio
from windlass import Worker
@app.task(retry=1)
async def fail(): 1 / 0
fail.enqueue()
asyncio.run(Worker(app, burst=True).run())
"""
SHOW = """
for scope in reader.get_metrics_data().resource_metrics[0].scope_metrics:
    for metric in scope.metrics:
        print(metric.name, metric.unit)
app.close()
"""
SCRAPE = """
import urllib.request
assert app.trace_source is not None and len(app.middlewares) == 2
app.service.configure("mail", {"history_length": 1}).wait()
with urllib.request.urlopen(f"http://127.0.0.1:{serving.port}/metrics") as answer:
    print("".join(line for line in answer.read().decode().splitlines(True) if "windlass" in line))
serving.close()
app.close()
"""


def section(title: str) -> list[str]:
    text = re.split(r"^## ", DOCUMENT, flags=re.MULTILINE)
    (found,) = [part for part in text if part.startswith(f"{title}\n")]
    return re.findall(r"^```python\n(.*?)^```", found, re.MULTILINE | re.DOTALL)


@on_valkey
def test_the_django_project(engine: EngineProcess, tmp_path: Path) -> None:
    *files, on_commit = section("Django")
    for content in files:
        file = tmp_path / content.partition("\n")[0].removeprefix("# ")
        file.parent.mkdir()
        (file.parent / "__init__.py").touch()
        file.write_text(content.replace("redis://localhost:6379/0", engine.unix_url))
    with (tmp_path / "mysite" / "settings.py").open("a") as settings:
        settings.write(DATABASE)
    (tmp_path / "manage.py").write_text(MANAGE)
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "mysite.settings",
        "WINDLASS_NAMESPACE": f"doc{os.getpid()}",
        "PYTHONPATH": str(tmp_path),
    }
    worker = subprocess.Popen([sys.executable, "manage.py", "windlass_worker"], cwd=tmp_path, env=environment)
    try:
        produce = [sys.executable, "-c", PRODUCE.format(on_commit=on_commit)]
        done = subprocess.run(produce, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    finally:
        worker.terminate()
        assert worker.wait(60) == 0
    assert done.stdout == "Sorry (8)\nSUCCESSFUL\n"


@on_valkey
def test_opentelemetry_and_prometheus(engine: EngineProcess, tmp_path: Path) -> None:
    (tracing,), (figures,) = section("OpenTelemetry"), section("Prometheus")
    (tmp_path / "shop.py").write_text(f"{tracing}\n{figures.replace('9100', '0')}\n{SCRAPE}")
    environment = {**os.environ, "WINDLASS_URL": engine.unix_url, "WINDLASS_NAMESPACE": f"figures{os.getpid()}"}
    done = subprocess.run(
        [sys.executable, "shop.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    table = re.findall(r"^\| `(windlass_\w+?)(?:_total)?` \|", DOCUMENT, re.MULTILINE)
    served = re.findall(r"^# TYPE (\w+?)(?:_total)? (?:counter|gauge|histogram)$", done.stdout, re.MULTILINE)
    assert len(table) == 10
    assert {name for name in served if not name.endswith("_created")} == set(table)


@on_valkey
def test_opentelemetry_metrics_and_sentry(engine: EngineProcess, tmp_path: Path) -> None:
    (metrics,), (sentry,) = section("OpenTelemetry metrics"), section("Sentry")
    (tmp_path / "shop.py").write_text(f"{COLLECT}{sentry}{metrics}{RUN}{SHOW}")
    with ingest_server() as server:
        environment = {
            **os.environ,
            "WINDLASS_URL": engine.unix_url,
            "WINDLASS_NAMESPACE": f"meters{os.getpid()}",
            "SENTRY_DSN": server.dsn,
        }
        done = subprocess.run(
            [sys.executable, "shop.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
    table = re.findall(r"^\| `((?:messaging|windlass)\.[a-z._]+)` \| [a-z -]+ \| `?(.*?)`? \|", DOCUMENT, re.MULTILINE)
    assert len(table) == 10
    assert {tuple(line.split()) for line in done.stdout.splitlines()} == set(table)
    (event,) = [payload for kind, payload in server.items if kind == "event"]
    assert event["exception"]["values"][-1]["type"] == "ZeroDivisionError"


SCRIPT = """
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

RESPONSES = [
    ToolCallPart("find_order", {"order": 7}, "a"),
    ToolCallPart("refund", {"order": 7, "amount": 90}, "b"),
    TextPart("Done"),
]
MODEL = FunctionModel(
    lambda messages, info: ModelResponse([RESPONSES[sum(isinstance(message, ModelResponse) for message in messages)]])
)
"""
ASK = """
import asyncio
from windlass import Worker

job = answer.enqueue("I want my money back.")
job.signal("approval", True)
asyncio.run(Worker(app, burst=True).run())
print(job.result(timeout=60), *(step.name for step in job.steps().steps))
"""


@on_valkey
def test_an_agent(engine: EngineProcess, tmp_path: Path) -> None:
    (code,) = section("pydantic-ai")
    assert code.count('"openai:gpt-5.2"') == 1
    (tmp_path / "support.py").write_text(SCRIPT + code.replace('"openai:gpt-5.2"', "MODEL") + ASK)
    environment = {**os.environ, "WINDLASS_URL": engine.unix_url, "WINDLASS_NAMESPACE": f"agent{os.getpid()}"}
    done = subprocess.run(
        [sys.executable, "support.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    steps = "support.request support.find_order:a support.request#2 approval:b refund:b support.request#3"
    assert done.stdout == f"Done {steps}\n", done.stderr


def test_a_custom_handler() -> None:
    names: dict[str, Any] = {}
    exec(section("Logs")[0], names)  # noqa: S102
    record = logging.makeLogRecord({"msg": "sent", "levelname": "INFO"})
    assert names["handler"].filter(record)
    assert names["handler"].format(record).rstrip() == "INFO sent"
