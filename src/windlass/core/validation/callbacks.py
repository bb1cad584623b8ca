"""Checks of callbacks, and of reports about their delivery."""

from __future__ import annotations

import re
from typing import Any

from windlass.core.alerts.targets import RESERVED_TYPE, is_message
from windlass.core.callbacks.callback import CALLBACKS_MAX, DeliveryCapacity, FailedDelivery, LeasedCallback
from windlass.core.callbacks.urls import URL_MAX, is_http_url
from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import ENDS, Callback

from .bounds import DURATION_MAX
from .values import check_blob, check_boolean, check_instance, check_integer, check_text

HEADERS_MAX = 20
HEADER_MAX = 1024
HEADERS_BYTES_MAX = 4096  # in total; all strings of a record share 64 KiB
CALLBACK_DATA_MAX = 8 * 1024
DELIVERY_ERROR_MAX = 1024
TYPE_MAX = 64
DESTINATION_MAX = 2048
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})  # set by the HTTP client


def check_callback(value: Any) -> None:
    check_instance("callback", value, Callback)
    _check_target(value)
    if type(value.events) is not tuple or not value.events or any(event not in ENDS for event in value.events):
        raise BadInput(f"callback.events must be a tuple of some of {', '.join(ENDS)}, not {value.events!r}.")
    _check_headers(value.headers)
    if value.data is not None:
        check_blob("callback.data", value.data, CALLBACK_DATA_MAX)


def _check_target(value: Callback) -> None:
    """Check the target: a URL, or the type and destination of a delivery backend, which checks them at delivery."""
    check_text("callback.type", value.type, TYPE_MAX, may_be_empty=True)
    check_text("callback.destination", value.destination, DESTINATION_MAX, may_be_empty=True)
    if bool(value.type) != bool(value.destination):
        raise BadInput("Give callback.type and callback.destination together; for HTTP give callback.url alone.")
    if is_message(value):
        raise BadInput(f"callback.type must not begin with {RESERVED_TYPE}: these types are for messages of alerts.")
    if not value.type:
        _check_url(value.url)
    elif value.url:
        raise BadInput("A callback has a url, or a type and a destination; not both.")


def _check_url(url: Any) -> None:
    check_text("callback.url", url, URL_MAX)
    if not is_http_url(url):
        raise BadInput("callback.url must be an http or https URL with a host, percent-encoded.")


def _check_headers(headers: Any) -> None:
    if type(headers) is not tuple or any(type(header) is not tuple or len(header) != 2 for header in headers):
        raise BadInput("callback.headers must be a tuple of (name, value) tuples.")
    for name, value in headers:
        check_text("a header's name", name, HEADER_MAX)
        check_text("a header's value", value, HEADER_MAX, may_be_empty=True)
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS or not value.isascii() or "\x7f" in value:
            raise BadInput(f"{name!r} is not allowed as a header of a callback, or its value is not printable ASCII.")
    if len(headers) > HEADERS_MAX or sum(len(name) + len(value) for name, value in headers) > HEADERS_BYTES_MAX:
        raise TooLarge(f"A callback may have {HEADERS_MAX} headers and {HEADERS_BYTES_MAX} bytes of them.")


def check_callback_id(value: Any) -> None:
    if type(value) is not bytes or len(value) != 22:
        raise BadInput("The id of a callback must be 22 bytes, as the engine returned it.")


def check_callback_or_job_id(value: Any) -> None:
    if type(value) is not bytes or len(value) not in (16, 22):
        raise BadInput("The id of a callback must be 22 bytes, as the engine returned it; the id of a job, 16 bytes.")


def check_delivery_capacity(value: Any) -> None:
    check_instance("capacity", value, DeliveryCapacity)
    check_integer("capacity.most", value.most, 0, CALLBACKS_MAX)
    check_integer("capacity.per_destination", value.per_destination, 0, CALLBACKS_MAX)


def check_leased_callback(request: Any, wanted: type = LeasedCallback) -> None:
    check_instance("A request", request, wanted)
    check_callback_id(request.id)
    check_integer("token", request.token, 1, 2**48 - 1)


def check_failed_delivery(request: Any) -> None:
    check_leased_callback(request, FailedDelivery)
    check_integer("delay_ms", request.delay_ms, 0, DURATION_MAX)
    check_boolean("give_up", request.give_up)
    check_boolean("is_unspent", request.is_unspent)
    if request.give_up and request.is_unspent:
        raise BadInput("Give give_up or is_unspent, not both: a callback is given up after an attempt.")
    if type(request.error) is not str or len(request.error.encode(errors="replace")) > DELIVERY_ERROR_MAX:
        raise BadInput(f"error must be text of at most {DELIVERY_ERROR_MAX} bytes.")
