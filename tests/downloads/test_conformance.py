"""Random requests generated from the downloader's document: no 5xx, and no answer outside of the document."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import checks

from tests.support.engine_process import EngineProcess
from tests.support.profiles import examples
from tests.support.stores import make_store
from tests.support.threaded_server import threaded_server
from windlass.downloads.api.openapi_document import self_description
from windlass.server.server import ROUTES
from windlass.settings import Settings
from windlass.web.app.router import Router

TOKEN = "a-token-that-opens-everything"  # noqa: S105 (an example)
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
FILE = "abcdefghij-_12"
ORDERS = [
    {"url": f"http://example.com/{n}", "aggr_id": f"a{n % 3}", "aggr_limit": 1, "callback_url": "http://example.com/"}
    for n in range(20)
]
CHECKED = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
api = schemathesis.openapi.from_dict(self_description(Router(ROUTES).routes))
api.config.phases.coverage.enabled = False  # every edge of every field: minutes


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """Run a server with orders and a file, so that ids exist."""
    files = tmp_path_factory.mktemp("files")
    (files / FILE[:3]).mkdir()
    (files / FILE[:3] / FILE).write_bytes(Path(__file__).read_bytes())
    chosen = Settings(port=0, bedrock_port=None, roles="api", token=TOKEN, download_dir=str(files))
    with EngineProcess("valkey") as engine, threaded_server(make_store(engine), chosen) as url:
        base = f"{url}/downloader"
        answers = [httpx.post(f"{base}/download", json=order, headers=HEADERS) for order in ORDERS]
        yield base, [str(answer.json()["id"]) for answer in answers]


@api.parametrize()
@settings(
    max_examples=examples(usual=15, deep=150),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    database=None,
    derandomize=True,
)
def test_every_answer_is_described(case: schemathesis.Case, served: tuple[str, list[str]]) -> None:
    url, orders = served
    chosen = random.Random(repr(case.path_parameters) + repr(case.body))
    path = case.path_parameters or {}
    if "folder" in path and chosen.random() < 0.5:
        path |= {"folder": FILE[:3], "name": FILE}
    elif chosen.random() < 0.5:
        path |= {key: chosen.choice(orders) for key in ("id", "name") if key in path}
    case.call_and_validate(base_url=url, checks=CHECKED, headers=HEADERS, timeout=20)
