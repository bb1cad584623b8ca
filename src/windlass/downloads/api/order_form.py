"""Body of POST /download, checked field by field. No I/O. Each error names the invalid field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta

from windlass.core.callbacks.urls import is_http_url
from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import Callback
from windlass.core.validation.callbacks import check_callback
from windlass.core.validation.limits import CAP_NOTE_MAX
from windlass.downloads.worker import parse_globs
from windlass.outbound.urls import FETCHED_MAX, parse_http_url, split_credentials

AGGREGATION_MAX = 1024  # bytes
MAX_RETRIES = 2
ORDER_MAX = 48 * 1024  # bytes of all fields: a callback holds 64 KiB of payload and report
NUMBER_MAX = 2**31 - 1  # larger numbers are cut to this
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


Field: TypeAlias = Any
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
    aggregation = _aggregation(form.aggr_id)
    callback, callback_fields = _callback(form)
    max_retries = MAX_RETRIES if form.max_retries is UNSET else _number("max_retries", form.max_retries, at_least=0)
    fields = {
        "url": _url(form.url),
        "aggr_id": aggregation,
        "extra": form.extra if isinstance(form.extra, str) else "",
        "mime_type": _mime_type(form.mime_type),
        "max_retries": max_retries,
        "extract_image_size": _boolean("extract_image_size", form.extract_image_size),
        **_timeout(form.download_timeout),
        **_headers(form.request_headers),
        **_bucket(form),
        **callback_fields,
    }
    _check_size(fields)
    limit = _number("aggr_limit", _required("aggr_limit", form.aggr_limit), at_least=1)
    return ParsedOrder(
        aggregation=aggregation,
        limit=limit,
        proxy=_proxy(form.aggr_proxy),
        callback=callback,
        max_retries=max_retries,
        fields=fields,
    )


def _required(name: str, value: Field) -> Field:
    if value is UNSET:
        raise BadInput(f"{name} is missing.")
    return value


def _text(name: str, value: Field, *, otherwise: str = "") -> str:
    if value is UNSET:
        return otherwise
    if not isinstance(value, str):
        raise BadInput(f"{name} must be a string.")
    return value


def _number(name: str, value: Field, *, at_least: int) -> int:
    """Return the whole part of a number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # NaN equals nothing
        raise BadInput(f"{name} must be a number.")
    if value < 0 or int(min(value, NUMBER_MAX)) < at_least:
        raise BadInput(f"{name} must be at least {at_least}.")
    return int(min(value, NUMBER_MAX))


def _boolean(name: str, value: Field) -> bool:
    if value is UNSET:
        return False
    if not isinstance(value, bool):
        raise BadInput(f"{name} must be true or false.")
    return value


def _url(value: Field) -> str:
    text = _text("url", _required("url", value))
    try:
        # Read the URL as the worker does.
        parse_http_url(split_credentials(text.partition("#")[0].replace(" ", "%20"))[0], FETCHED_MAX)
    except BadInput as error:
        raise BadInput(f"url must be an absolute http or https URL: {error}") from error
    return text


def _aggregation(value: Field) -> str:
    text = _text("aggr_id", _required("aggr_id", value))
    if not text:
        raise BadInput("aggr_id must not be empty.")
    if len(text.encode()) > AGGREGATION_MAX:
        raise BadInput(f"aggr_id may have {AGGREGATION_MAX} bytes.")
    return text


def _proxy(value: Field) -> str:
    text = _text("aggr_proxy", value)
    if text and (not _is_uri(text) or len(text.encode()) > CAP_NOTE_MAX):
        raise BadInput("aggr_proxy must be an absolute URL.")
    return text


def _is_uri(text: str) -> bool:
    """Tell whether a text is an absolute URI or an absolute path."""
    try:
        urlsplit(text).port  # noqa: B018 (the attribute raises for an invalid port)
    except ValueError:
        return False
    return not _CONTROL.search(text) and (text.startswith("/") or _SCHEME.match(text) is not None)


def _mime_type(value: Field) -> str:
    text = _text("mime_type", value)
    try:
        parse_globs(text)
    except BadInput as error:
        raise BadInput(f"mime_type: {error}") from error
    return text


def _timeout(value: Field) -> dict[str, int]:
    return {} if value is UNSET else {"download_timeout": _number("download_timeout", value, at_least=1)}


def _headers(value: Field) -> dict[str, dict[str, str]]:
    if value is UNSET:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(header, str) for header in value.values()):
        raise BadInput("request_headers must be an object of strings.")
    for name, content in value.items():
        if not _HEADER_NAME.fullmatch(name) or _CONTROL.search(content.replace("\t", " ")):
            raise BadInput(f"request_headers: {name!r} cannot be a header, or has a value that cannot be one's.")
        if not content.isascii():
            raise BadInput(f"request_headers: the value of {name!r} is not plain ASCII.")
    return {"request_headers": dict(value)}


def _bucket(form: OrderForm) -> dict[str, str]:
    bucket, region = _text("s3_bucket", form.s3_bucket), _text("s3_region", form.s3_region)
    if bool(bucket) != bool(region):
        raise BadInput("s3_bucket and s3_region go together.")
    return {"s3_bucket": bucket, "s3_region": region} if bucket else {}


def _callback(form: OrderForm) -> tuple[Callback | None, dict[str, str]]:
    """Return the callback, and its fields for the job's payload."""
    if form.callback_url is not UNSET:
        return _callback_by_url(_text("callback_url", form.callback_url)), {}
    kind, destination = _text("callback_type", form.callback_type), _text("callback_dst", form.callback_dst)
    if not kind and not destination and _text("s3_bucket", form.s3_bucket):
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
