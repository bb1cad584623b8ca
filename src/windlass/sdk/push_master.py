"""Client of a push worker for its master: register, beat, report, deregister."""

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
REPORT_TIMEOUT_S = 300.0  # a later report is useless: the master has timed the job out long before


class MasterClient:
    """Client for one master. It retries while the master is unavailable and logs what the master refuses."""

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
        """Register, and register again whenever the master no longer knows this worker. Runs until cancelled."""
        while True:
            status, answer = await self._request_until_answered("POST", "/worker", description)
            if status != 201:
                log.error(
                    "The master refused to register this worker (%d): %s. Trying again in %g s; check the token and "
                    "the worker's url.",
                    status,
                    answer,
                    LONGEST_PAUSE_S,
                )
                await asyncio.sleep(LONGEST_PAUSE_S)
                continue
            self.worker_id = answer["worker_id"]
            is_registered.set()
            while status != 404:
                await asyncio.sleep(BEAT_S)
                status, _ = await self._request_until_answered("POST", "/worker/beat", None)
            log.warning("The master no longer knows this worker; registering again.")

    async def report(self, worker_id: str, outcome: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(REPORT_TIMEOUT_S):
                status, answer = await self._request_until_answered("POST", "/done", outcome, worker_id)
        except TimeoutError:
            log.error(
                "Could not report the end of job %s within %g s; giving up. The master will time the job out.",
                outcome["job_id"],
                REPORT_TIMEOUT_S,
            )
            return
        if status != 204:
            log.warning("The master refused the report of job %s (%d): %s", outcome["job_id"], status, answer)

    async def deregister(self) -> None:
        try:
            await self._request("DELETE", "/worker", None, self.worker_id)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning(
                "Could not deregister this worker: %r. The master will notice it by its missing heartbeats.", error
            )

    async def _request_until_answered(self, method: str, path: str, body: Any, worker_id: str = "") -> tuple[int, Any]:
        """Repeat the request until the status is neither 5xx nor 429."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                status, answer = await self._request(method, path, body, worker_id or self.worker_id)
                if status < 500 and status != 429:
                    return status, answer
                log.warning("The master answered with status %d; trying again in %g s.", status, pause_s)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                log.warning("Could not reach the master: %r. Trying again in %g s.", error, pause_s)
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
