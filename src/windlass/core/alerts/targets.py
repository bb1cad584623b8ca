"""Targets of alert messages: a webhook, a Slack channel or a mail address, each as one text."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from windlass.core.callbacks.urls import URL_MAX, is_http_url
from windlass.core.errors import BadInput
from windlass.core.job import Callback

# Types of callbacks that only alerts have: a producer could otherwise send mail through the operator's server.
RESERVED_TYPE = "windlass."
WEBHOOK, SLACK, MAIL = f"{RESERVED_TYPE}webhook", f"{RESERVED_TYPE}slack", f"{RESERVED_TYPE}mail"
CallbackType: TypeAlias = Literal["windlass.webhook", "windlass.slack", "windlass.mail"]
ADDRESS_MAX = 254
# One address without a name, a comment or quotes: nothing in it can end a header or add another recipient.
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)*[A-Za-z0-9-]{1,63}", re.ASCII)


class Target(NamedTuple):
    type: str  # of the callback
    destination: str  # URL or address


def parse_target(text: str) -> Target:
    """Parse a target. Raise BadInput if it is none."""
    if text.startswith("mailto:"):
        return Target(MAIL, check_address(text.removeprefix("mailto:")))
    if text.startswith("slack:"):
        return Target(SLACK, _check_url(text.removeprefix("slack:")))
    return Target(WEBHOOK, _check_url(text))


def check_address(text: str) -> str:
    if len(text) > ADDRESS_MAX or not _ADDRESS.fullmatch(text):
        raise BadInput(f"{text[:80]!r} is not a plain mail address, such as ops@example.com.")
    return text


def _check_url(url: str) -> str:
    if len(url) > URL_MAX or not is_http_url(url):
        raise BadInput(
            f"{url[:80]!r} is not a target: write https://… for a webhook, slack:https://… for a Slack channel, or "
            "mailto:ops@example.com."
        )
    return url


def is_message(callback: Callback | None) -> bool:
    """Return whether a callback is a message about an alert."""
    return callback is not None and callback.type.startswith(RESERVED_TYPE)


def hide_secret(target: str) -> str:
    """Return a target for people who may not change it. The path of a webhook's URL is often its secret."""
    prefix, mark, url = target.partition("slack:")
    if not mark:
        prefix, url = "", target
    if not url.startswith(("http://", "https://")):
        return target
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{prefix}{mark}{parts.scheme}://{host}/…" if parts.path.strip("/") or parts.query else target
