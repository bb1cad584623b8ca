"""Body of POST /download, checked field by field. No I/O. Each error names the invalid field."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta

from windlass.core.callbacks.urls import is_http_url
from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import Callback
from windlass.core.validation.callbacks import check_callback
from windlass.core.validation.limits import CAP_NOTE_MAX
from windlass.downloads.worker.order_fields import (
    CONTROL,
    Field,
    check_order_fields,
    required,
    text_of,
    whole_number,
)
from windlass.outbound.urls import parse_http_url

ORDER_MAX = 48 * 1024  # bytes of all fields: a callback holds 64 KiB of payload and report
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
REQUIRED = ("url", "aggr_id", "aggr_limit")
# Types for the OpenAPI document only: any value is decoded, so that an error names the field in the downloader's words.
Text: TypeAlias = Annotated[Any, Meta(extra_json_schema={"type": "string"})]
Number: TypeAlias = Annotated[Any, Meta(extra_json_schema={"type": "number"})]
Boolean: TypeAlias = Annotated[Any, Meta(extra_json_schema={"type": "boolean"})]
TextMap: TypeAlias = Annotated[
    Any, Meta(extra_json_schema={"type": "object", "additionalProperties": {"type": "string"}})
]


class OrderForm(msgspec.Struct, frozen=True, kw_only=True):
    """Request of a download. Unknown fields are ignored."""

    url: Annotated[Text, Meta(description="Required. URL of the file, http or https.")] = UNSET
    aggr_id: Annotated[Text, Meta(description="Required. Aggregation of the download.")] = UNSET
    aggr_limit: Annotated[
        Number, Meta(description="Required. Maximum of concurrent downloads of the aggregation. Its first job sets it.")
    ] = UNSET
    aggr_proxy: Annotated[Text, Meta(description="Proxy of the aggregation. Its first job sets it.")] = UNSET
    callback_url: Annotated[Text, Meta(description="URL of an HTTP callback.")] = UNSET
    callback_type: Annotated[Text, Meta(description="With `callback_dst`, instead of `callback_url`: the backend.")] = (
        UNSET
    )
    callback_dst: Annotated[Text, Meta(description="With `callback_type`: the destination.")] = UNSET
    s3_bucket: Annotated[
        Text, Meta(description="With `s3_region`: the bucket of the file. The callback is optional then.")
    ] = UNSET
    s3_region: Annotated[Text, Meta(description="Region of `s3_bucket`.")] = UNSET
    extra: Annotated[Text, Meta(description="Any text; the callback returns it.")] = UNSET
    mime_type: Annotated[
        Text, Meta(description="Globs that the MIME type must match, separated by commas; `!` negates. Default: any.")
    ] = UNSET
    max_retries: Annotated[Number, Meta(description="Retries after the first attempt. Default: 2; 0: one attempt.")] = (
        UNSET
    )
    extract_image_size: Annotated[Boolean, Meta(description="Report the size of an image. Default: false.")] = UNSET
    download_timeout: Annotated[Number, Meta(description="Seconds for the whole download. Default: no limit.")] = UNSET
    request_headers: Annotated[TextMap, Meta(description="Headers of the request, in addition to the server's.")] = (
        UNSET
    )


class ParsedOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Checked request. `fields` are the fields of the job's payload without its id."""

    aggregation: str
    limit: int
    proxy: str
    callback: Callback | None
    max_retries: int
    fields: dict[str, Any]


def parse_order(form: OrderForm) -> ParsedOrder:
    """Check a request. Raise BadInput if a field is missing or invalid."""
    if not text_of("aggr_id", required("aggr_id", form.aggr_id)):
        raise BadInput("aggr_id must not be empty.")
    callback, callback_fields = _callback(form)
    fields = check_order_fields(msgspec.structs.asdict(form)) | _whole_timeout(form) | callback_fields
    _check_size(fields)
    return ParsedOrder(
        aggregation=fields["aggr_id"],
        limit=limit_of(required("aggr_limit", form.aggr_limit)),
        proxy=proxy_of(form.aggr_proxy),
        callback=callback,
        max_retries=fields["max_retries"],
        fields=fields,
    )


def _whole_timeout(form: OrderForm) -> dict[str, int]:
    value = form.download_timeout
    return {} if value is UNSET else {"download_timeout": whole_number("download_timeout", value, at_least=1)}


def limit_of(value: Field) -> int:
    return whole_number("aggr_limit", value, at_least=1)


def proxy_of(value: Field) -> str:
    text = text_of("aggr_proxy", value)
    if text and (not _is_uri(text) or len(text.encode()) > CAP_NOTE_MAX):
        raise BadInput("aggr_proxy must be an absolute URL.")
    return text


def _is_uri(text: str) -> bool:
    """Tell whether a text is an absolute URI or an absolute path."""
    try:
        urlsplit(text).port  # noqa: B018 (the attribute raises for an invalid port)
    except ValueError:
        return False
    return not CONTROL.search(text) and (text.startswith("/") or _SCHEME.match(text) is not None)


def _callback(form: OrderForm) -> tuple[Callback | None, dict[str, str]]:
    """Return the callback, and its fields for the job's payload."""
    if form.callback_url is not UNSET:
        return _callback_by_url(text_of("callback_url", form.callback_url)), {}
    kind, destination = text_of("callback_type", form.callback_type), text_of("callback_dst", form.callback_dst)
    if not kind and not destination and text_of("s3_bucket", form.s3_bucket):
        return None, {}
    if not kind or not destination:
        raise BadInput("A callback is needed: give callback_url, or callback_type and callback_dst.")
    if destination.startswith("http") and not _is_uri(destination):
        raise BadInput("callback_dst must be an absolute URL.")
    is_plain = kind == "http" and is_http_url(destination)
    made = Callback(url=destination) if is_plain else Callback(type=kind, destination=destination)
    return _check_callback("callback_dst", made), {"callback_type": kind, "callback_dst": destination}


def _callback_by_url(text: str) -> Callback:
    if not _is_uri(text):
        raise BadInput("callback_url must be an absolute http or https URL.")
    try:
        url = text if is_http_url(text) else str(parse_http_url(text))
    except BadInput as error:
        raise BadInput(f"callback_url: {error}") from error
    return _check_callback("callback_url", Callback(url=url))


def _check_callback(name: str, callback: Callback) -> Callback:
    try:
        check_callback(callback)
    except (BadInput, TooLarge) as error:
        raise BadInput(f"{name}: {error}") from error
    return callback


def _check_size(fields: dict[str, Any]) -> None:
    size = len(msgspec.json.encode(fields))
    if size > ORDER_MAX:
        raise BadInput(f"url, extra and the rest have {size} bytes; at most {ORDER_MAX} are allowed.")
