"""Both encodings reach a real server, and the service beside it sees what they do."""

from __future__ import annotations

import pytest

from tests.support.api_client import Api
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]


async def test_a_job_is_enqueued_in_either_encoding(api: Api, service: Service) -> None:
    answer = await api.post("/api/v1/jobs", {"queue": "q", "name": "n", "payload": {"a": [1, None]}})
    assert (answer.status, answer.body["status"]) == (201, "queued")
    assert answer.headers["content-type"] == f"application/{api.encoding}"
    assert answer.headers["location"] == f"/api/v1/jobs/{answer.body['id']}"
    assert (await service.stats(["q"]))[0].queued == 1
