"""What callers may give about callbacks, as in validation.py."""

from __future__ import annotations

import re
from typing import Any

from windlass.core.callbacks.callback import CALLBACKS_MAX, HeldDebt, Room, Undelivered
from windlass.core.callbacks.urls import URL_MAX, is_http_url
from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import ENDS, Callback

from . import jobs as check

HEADERS_MAX = 20
HEADER_MAX = 1024
HEADERS_BYTES_MAX = 4096  # all of them; a record's strings have 64 KiB in all
CALLBACK_DATA_MAX = 8 * 1024
DELIVERY_ERROR_MAX = 1024
TYPE_MAX = 64
DESTINATION_MAX = 2048
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})  # whoever delivers sets them


def callback(value: Any) -> None:
    check.instance("callback", value, Callback)
    _target(value)
    if type(value.events) is not tuple or not value.events or any(event not in ENDS for event in value.events):
        raise BadInput(f"callback.events must be a tuple of some of {', '.join(ENDS)}, not {value.events!r}.")
    _headers(value.headers)
    if value.data is not None:
        check.blob("callback.data", value.data, CALLBACK_DATA_MAX)


def _target(value: Callback) -> None:
    """A URL, or a destination in the words of another kind of delivery; whether anybody knows it shows later."""
    check.text("callback.type", value.type, TYPE_MAX, may_be_empty=True)
    check.text("callback.destination", value.destination, DESTINATION_MAX, may_be_empty=True)
    if bool(value.type) != bool(value.destination):
        raise BadInput("callback.type and callback.destination go together; for HTTP give callback.url alone.")
    if not value.type:
        _url(value.url)
    elif value.url:
        raise BadInput("A callback has a url, or a type and a destination; not both.")


def _url(url: Any) -> None:
    check.text("callback.url", url, URL_MAX)
    if not is_http_url(url):
        raise BadInput("callback.url must be an http or https URL with a host, percent-encoded.")


def _headers(headers: Any) -> None:
    if type(headers) is not tuple or any(type(one) is not tuple or len(one) != 2 for one in headers):
        raise BadInput("callback.headers must be a tuple of (name, value) tuples.")
    for name, value in headers:
        check.text("a header's name", name, HEADER_MAX)
        check.text("a header's value", value, HEADER_MAX, may_be_empty=True)
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS or not value.isascii() or "\x7f" in value:
            raise BadInput(f"{name!r} cannot be a header of a callback, or its value is not plain ASCII.")
    if len(headers) > HEADERS_MAX or sum(len(name) + len(value) for name, value in headers) > HEADERS_BYTES_MAX:
        raise TooLarge(f"A callback may have {HEADERS_MAX} headers and {HEADERS_BYTES_MAX} bytes of them.")


def debt_id(value: Any) -> None:
    if type(value) is not bytes or len(value) != 22:
        raise BadInput("The id of a callback must be 22 bytes, as it was given out.")


def debt_or_job_id(value: Any) -> None:
    if type(value) is not bytes or len(value) not in (16, 22):
        raise BadInput("The id of a callback must be 22 bytes, as it was given out; that of a job, 16.")


def room(value: Any) -> None:
    check.instance("room", value, Room)
    check.whole("room.most", value.most, 0, CALLBACKS_MAX)
    check.whole("room.usual", value.usual, 0, CALLBACKS_MAX)


def held_debt(request: Any, wanted: type = HeldDebt) -> None:
    check.instance("A request", request, wanted)
    debt_id(request.id)
    check.whole("token", request.token, 1, 2**48 - 1)


def undelivered(request: Any) -> None:
    held_debt(request, Undelivered)
    check.whole("delay_ms", request.delay_ms, 0, check.DURATION_MAX)
    check.claim("give_up", request.give_up)
    check.claim("is_unspent", request.is_unspent)
    if request.give_up and request.is_unspent:
        raise BadInput("What is given up has been tried: give_up or is_unspent, not both.")
    if type(request.error) is not str or len(request.error.encode(errors="replace")) > DELIVERY_ERROR_MAX:
        raise BadInput(f"error must be text of at most {DELIVERY_ERROR_MAX} bytes.")
