"""The master as a push worker sees it: register, say that one is there, report, leave."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

log = logging.getLogger("windlass.push")

MEDIA_TYPE = "application/msgpack"
REQUEST_TIMEOUT_S = 10.0
BEAT_S = 5.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0
REPORT_TIMEOUT_S = 300.0  # after this a report is given up: the job's timeout has long decided


class MasterClient:
    """Its trouble is waited out; what it refuses is told."""

    def __init__(self, url: str, token: str = "") -> None:
        self._url = url.rstrip("/")
        self._headers = {"content-type": MEDIA_TYPE, "accept": MEDIA_TYPE}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self.worker_id = ""
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def keep_registered(self, description: dict[str, Any], is_registered: asyncio.Event) -> None:
        """Until cancelled: registers, and again whenever the master does not know this worker any more."""
        while True:
            status, answer = await self._request_until_answered("POST", "/worker", description)
            if status != 201:
                log.error("The master refuses this worker (%d): %s", status, answer)
                await asyncio.sleep(LONGEST_PAUSE_S)
                continue
            self.worker_id = answer["worker_id"]
            is_registered.set()
            while status != 404:
                await asyncio.sleep(BEAT_S)
                status, _ = await self._request_until_answered("POST", "/worker/beat", None)
            log.warning("The master does not know this worker any more; registering anew.")

    async def report(self, worker_id: str, outcome: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(REPORT_TIMEOUT_S):
                status, answer = await self._request_until_answered("POST", "/done", outcome, worker_id)
        except TimeoutError:
            log.error("The end of job %s could not be reported.", outcome["job_id"])
            return
        if status != 204:
            log.warning("The end of job %s was not taken (%d): %s", outcome["job_id"], status, answer)

    async def deregister(self) -> None:
        try:
            await self._request("DELETE", "/worker", None, self.worker_id)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning("The master could not be told that this worker leaves: %r", error)

    async def _request_until_answered(self, method: str, path: str, body: Any, worker_id: str = "") -> tuple[int, Any]:
        """Until the master answers with something else than its own trouble."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                status, answer = await self._request(method, path, body, worker_id or self.worker_id)
                if status < 500 and status != 429:
                    return status, answer
                log.warning("The master is in trouble (%d); trying again.", status)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                log.warning("The master cannot be reached (%r); trying again.", error)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _request(self, method: str, path: str, body: Any, worker_id: str) -> tuple[int, Any]:
        headers = self._headers | ({"worker-id": worker_id} if worker_id else {})
        data = b"" if body is None else msgspec.msgpack.encode(body)
        async with self._session.request(method, self._url + path, data=data, headers=headers) as response:
            answer = await response.read()
        try:
            return response.status, msgspec.msgpack.decode(answer) if answer else None
        except msgspec.DecodeError:
            return response.status, answer[:200]
