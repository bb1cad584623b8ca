"""Signed links to signals: creating and reading them. A key that the engine keeps signs them, so every server of the
deployment accepts them."""

from __future__ import annotations

import secrets

from windlass.core.access.signal_links import (
    EXPIRES_IN_MS,
    KEY_BYTES,
    NONCE_BYTES,
    SignalLink,
    SignedLink,
    occurrence_of,
    read_link,
    sign_link,
)
from windlass.core.errors import AlreadyEnded, Refusal
from windlass.core.validation.bounds import DURATION_MAX
from windlass.core.validation.durable import check_signal_name
from windlass.core.validation.values import check_id, check_instance, check_integer
from windlass.service.facet import Facet
from windlass.store.commands import jobs
from windlass.store.commands.admin import tokens
from windlass.store.commands.command import EngineTime, Flow
from windlass.store.operation import Operation


class SignalLinkOperations(Facet):
    def signal_link(self, job_id: bytes, signal: str, *, expires_in_ms: int = EXPIRES_IN_MS) -> Operation[SignedLink]:
        """Create a link by which a person sends this signal to a job, once. It needs no token and no login."""
        check_id("id", job_id)
        check_signal_name(signal)
        check_integer("expires_in_ms", expires_in_ms, 1, DURATION_MAX)
        return Operation(self.store, lambda: self._signal_link_flow(job_id, signal, expires_in_ms))

    def _signal_link_flow(self, job_id: bytes, signal: str, expires_in_ms: int) -> Flow[SignedLink]:
        timeline = jobs.timeline(job_id, (yield jobs.job([job_id], self.store.partition_of_job(job_id)))[0])
        if isinstance(timeline, Refusal):
            raise timeline
        if timeline.job.state.is_ended:
            raise AlreadyEnded
        link = SignalLink(
            job_id=job_id,
            occurrence_at_ms=occurrence_of(timeline.job),
            signal=signal,
            expires_at_ms=(yield EngineTime()) + expires_in_ms,
            nonce=secrets.token_bytes(NONCE_BYTES),
        )
        key = yield tokens.signing_key(secrets.token_bytes(KEY_BYTES))
        return SignedLink(token=sign_link(link, key), expires_at_ms=link.expires_at_ms)

    def read_signal_link(self, token: str) -> Operation[SignalLink | None]:
        """Return the content of a link, or None if it is not one of this deployment."""
        check_instance("token", token, str)
        return Operation(self.store, lambda: self._read_signal_link_flow(token))

    def _read_signal_link_flow(self, token: str) -> Flow[SignalLink | None]:
        return read_link(token, (yield tokens.signing_key(secrets.token_bytes(KEY_BYTES))))
