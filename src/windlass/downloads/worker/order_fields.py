"""Fields of an order that say what to download and how: one check for POST /download and for jobs from elsewhere. No
I/O. Each error names the invalid field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import UNSET

from windlass.core.errors import BadInput
from windlass.outbound.urls import FETCHED_MAX, parse_http_url, split_credentials

from .globs import parse_globs

AGGREGATION_MAX = 1024  # bytes
MAX_RETRIES = 2
NUMBER_MAX = 2**31 - 1  # larger numbers are cut to this
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")

Field: TypeAlias = Any


def check_order_fields(given: Mapping[str, Field]) -> dict[str, Any]:
    """Return the checked fields, without those that have no value. Raise BadInput if one is missing or invalid. A field
    that is absent, or UNSET, has its default."""

    def get(name: str) -> Field:
        return given.get(name, UNSET)

    max_retries = get("max_retries")
    return {
        "url": _url(get("url")),
        "aggr_id": aggregation_of(get("aggr_id")),
        "extra": given["extra"] if isinstance(get("extra"), str) else "",
        "mime_type": _mime_type(get("mime_type")),
        "max_retries": MAX_RETRIES if max_retries is UNSET else whole_number("max_retries", max_retries, at_least=0),
        "extract_image_size": _boolean("extract_image_size", get("extract_image_size")),
        **_timeout(get("download_timeout")),
        **_headers(get("request_headers")),
        **_bucket(get("s3_bucket"), get("s3_region")),
    }


def required(name: str, value: Field) -> Field:
    if value is UNSET:
        raise BadInput(f"{name} is missing.")
    return value


def text_of(name: str, value: Field) -> str:
    if value is UNSET:
        return ""
    if not isinstance(value, str):
        raise BadInput(f"{name} must be a string.")
    return value


def _number(name: str, value: Field) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # NaN equals nothing
        raise BadInput(f"{name} must be a number.")
    return min(value, NUMBER_MAX)


def whole_number(name: str, value: Field, *, at_least: int) -> int:
    """Return the whole part of a number."""
    number = _number(name, value)
    if number < 0 or int(number) < at_least:
        raise BadInput(f"{name} must be at least {at_least}.")
    return int(number)


def _boolean(name: str, value: Field) -> bool:
    if value is UNSET:
        return False
    if not isinstance(value, bool):
        raise BadInput(f"{name} must be true or false.")
    return value


def _url(value: Field) -> str:
    text = text_of("url", required("url", value))
    try:
        # Read the URL as the worker does.
        parse_http_url(split_credentials(text.partition("#")[0].replace(" ", "%20"))[0], FETCHED_MAX)
    except BadInput as error:
        raise BadInput(f"url must be an absolute http or https URL: {error}") from error
    return text


def aggregation_of(value: Field) -> str:
    """Return the name of an aggregation; empty if there is none."""
    text = text_of("aggr_id", value)
    if len(text.encode()) > AGGREGATION_MAX:
        raise BadInput(f"aggr_id may have {AGGREGATION_MAX} bytes.")
    return text


def _mime_type(value: Field) -> str:
    text = text_of("mime_type", value)
    try:
        parse_globs(text)
    except BadInput as error:
        raise BadInput(f"mime_type: {error}") from error
    return text


def _timeout(value: Field) -> dict[str, int | float]:
    if value is UNSET:
        return {}
    number = _number("download_timeout", value)
    if number <= 0:
        raise BadInput("download_timeout must be more than 0.")
    return {"download_timeout": number}


def _headers(value: Field) -> dict[str, dict[str, str]]:
    if value is UNSET:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(part, str) for pair in value.items() for part in pair):
        raise BadInput("request_headers must be an object of strings.")
    for name, content in value.items():
        if not _HEADER_NAME.fullmatch(name) or CONTROL.search(content.replace("\t", " ")):
            raise BadInput(f"request_headers: {name!r} cannot be a header, or has a value that cannot be one's.")
        if not content.isascii():
            raise BadInput(f"request_headers: the value of {name!r} is not plain ASCII.")
    return {"request_headers": dict(value)}


def _bucket(bucket_value: Field, region_value: Field) -> dict[str, str]:
    bucket, region = text_of("s3_bucket", bucket_value), text_of("s3_region", region_value)
    if bool(bucket) != bool(region):
        raise BadInput("s3_bucket and s3_region go together.")
    return {"s3_bucket": bucket, "s3_region": region} if bucket else {}
