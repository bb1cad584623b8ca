"""HTTP backend of callbacks: one POST each through the guarded client, signed if there are keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from windlass.core.alerts.targets import is_message
from windlass.core.callbacks.callback import PendingCallback
from windlass.core.callbacks.signing import ID_HEADER, SIGNATURE_HEADER, sign_callback
from windlass.core.errors import Refusal
from windlass.outbound import Outbound, OutboundResponse, RequestFailed

from .backend import Undeliverable

TIMEOUT_S = 30.0
ANSWER_MAX = 64 * 1024  # bytes read of an answer; its content does not matter
SHOWN = 200  # characters of an answer that is not 2xx
_JSON = "application/json"


class HttpBackend:
    """HTTP backend. Each of `keys` adds a signature; without keys there is none. `clock` returns seconds since 1970."""

    def __init__(
        self,
        outbound: Outbound,
        keys: Sequence[str] = (),
        *,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._outbound = outbound
        self._keys = tuple(keys)
        self._timeout_s = timeout_s
        self._clock = clock

    async def deliver(self, pending: PendingCallback, body: bytes) -> None:
        url = pending.callback.url or pending.callback.destination
        try:
            answered = await self._outbound.post(
                url,
                body,
                self._headers(pending, body),
                timeout_s=self._timeout_s,
                answer_max=ANSWER_MAX,
                needs_body=False,
                may_repeat=True,
            )
        except RequestFailed as error:
            raise Undeliverable(str(error), is_silent=True) from error
        except Refusal as error:  # the URL is invalid
            raise Undeliverable(str(error)) from error
        if not 200 <= answered.status < 300:
            raise Undeliverable(_describe_response(answered))

    async def close(self) -> None:
        """Do nothing: the caller owns the HTTP client."""

    def _headers(self, pending: PendingCallback, body: bytes) -> dict[str, str]:
        """Merge headers. Headers of the job may change the content type, but not the headers that identify Windlass."""
        own = {name.lower(): value for name, value in pending.callback.headers}
        ours = {
            ID_HEADER: pending.key,
            "Windlass-Event": "alert" if is_message(pending.callback) else pending.job.state.label,
            "Windlass-Attempt": str(pending.attempt),
        }
        if self._keys:
            ours[SIGNATURE_HEADER] = sign_callback(self._keys, int(self._clock()), pending.key, body)
        kept = {name: value for name, value in own.items() if name not in {name.lower() for name in ours}}
        return {"content-type": _JSON} | kept | ours


def _describe_response(answered: OutboundResponse) -> str:
    text = " ".join(answered.body[: 4 * SHOWN].decode(errors="replace").split())[:SHOWN]
    printable = "".join(char if char.isprintable() else "?" for char in text)
    return f"The receiver answered {answered.status}{': ' if printable else '.'}{printable}"
