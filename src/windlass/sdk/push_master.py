"""Client of a push worker for its master: register, beat, report, deregister."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec

from windlass.retry_loop import Pauses, RetryLoop

log = logging.getLogger("windlass.push")

MEDIA_TYPE = "application/msgpack"
REQUEST_TIMEOUT_S = 10.0
BEAT_S = 5.0
REPORT_TIMEOUT_S = 300.0  # a later report is useless: the master has timed the job out long before
_UNREACHABLE = (aiohttp.ClientError, OSError, TimeoutError)


class _MasterUnavailable(Exception):
    """The master has answered with 5xx or 429."""


class _RegistrationRefused(Exception):
    """The master does not accept this worker."""


# A call does not try by itself before it fails, and many workers may have one master: pauses grow.
CALLS = RetryLoop(log, "The master is unavailable", (*_UNREACHABLE, _MasterUnavailable), pauses=Pauses(0.2, 10.0))
# An operator has to act.
REGISTRATIONS = RetryLoop(
    log,
    "Could not register this worker; check its token and its url",
    _RegistrationRefused,
    pauses=Pauses(10.0, 10.0),
    level=logging.ERROR,
)


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
            self.worker_id = await REGISTRATIONS.until_done(lambda: self._register(description))
            is_registered.set()
            while await self._beat():
                pass
            log.warning("The master no longer knows this worker; registering again.")

    async def _register(self, description: dict[str, Any]) -> str:
        status, answer = await self._request_until_answered("POST", "/worker", description)
        if status != 201:
            raise _RegistrationRefused(f"the master answered {answer!r} with status {status}.")
        return str(answer["worker_id"])

    async def _beat(self) -> bool:
        """Wait for the time of the next heartbeat and send it. Return False if the master does not know this worker."""
        await asyncio.sleep(BEAT_S)
        status, _ = await self._request_until_answered("POST", "/worker/beat", None)
        return status != 404

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
        except _UNREACHABLE as error:
            log.warning(
                "Could not deregister this worker: %r. The master will notice it by its missing heartbeats.", error
            )

    async def _request_until_answered(self, method: str, path: str, body: Any, worker_id: str = "") -> tuple[int, Any]:
        """Repeat the request until the status is neither 5xx nor 429."""

        async def request() -> tuple[int, Any]:
            status, answer = await self._request(method, path, body, worker_id or self.worker_id)
            if status >= 500 or status == 429:
                raise _MasterUnavailable(f"it answered with status {status}.")
            return status, answer

        return await CALLS.until_done(request)

    async def _request(self, method: str, path: str, body: Any, worker_id: str) -> tuple[int, Any]:
        headers = self._headers | ({"worker-id": worker_id} if worker_id else {})
        data = b"" if body is None else msgspec.msgpack.encode(body)
        async with self._session.request(method, self._url + path, data=data, headers=headers) as response:
            answer = await response.read()
        try:
            return response.status, msgspec.msgpack.decode(answer) if answer else None
        except msgspec.DecodeError:
            return response.status, answer[:200]
