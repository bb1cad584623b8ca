"""Checks of single values: numbers, text, names, ids, blobs, durations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.errors import BadInput, TooLarge
from windlass.core.ids import PARTITIONS_MAX
from windlass.core.job import Blob, Codec
from windlass.core.queue import FOREVER_MS
from windlass.core.text.codecs import has_unreadable_number
from windlass.core.text.control_characters import has_control

from .bounds import DURATION_MAX, NAME_MAX, WILDCARDS_MAX


def check_integer(what: str, value: Any, low: int, high: int) -> None:
    if type(value) is not int:
        raise BadInput(f"{what} must be a whole number, not {type(value).__name__}.")
    if not low <= value <= high:
        raise BadInput(f"{what} must be between {low} and {high}, not {value}.")


def check_number(what: str, value: Any, low: float, high: float) -> None:
    if type(value) not in (int, float) or not low <= value <= high:
        raise BadInput(f"{what} must be a number from {low:g} to {high:g}, not {value!r}.")


def check_boolean(what: str, value: Any) -> None:
    if type(value) is not bool:
        raise BadInput(f"{what} must be True or False, not {value!r}.")


def check_instance(what: str, value: Any, wanted: type) -> None:
    if not isinstance(value, wanted):
        raise BadInput(f"{what} must be a {wanted.__name__}, not {type(value).__name__}.")


def check_text(what: str, value: Any, most_bytes: int, *, may_be_empty: bool = False) -> None:
    if type(value) is not str:
        raise BadInput(f"{what} must be text, not {type(value).__name__}.")
    if not value and not may_be_empty:
        raise BadInput(f"{what} must not be empty.")
    if len(value) > most_bytes or not value.isascii():
        _check_encoded(what, value, most_bytes)
    if not value.isprintable() and any(char < " " for char in value):
        raise BadInput(f"{what} must not contain control characters.")


def check_new_name(what: str, value: Any, most_bytes: int, *, may_be_empty: bool = False) -> None:
    """Check a name that is going to be stored.

    Names that are only looked up are checked with `check_text`, so that names stored before this rule stay accessible.
    """
    check_text(what, value, most_bytes, may_be_empty=may_be_empty)
    if has_control(value):
        raise BadInput(f"{what} must not contain control characters, including those that change the text direction.")


def check_free_text(what: str, value: Any, most_bytes: int) -> None:
    """Check a text for people. It may be empty and may contain line breaks."""
    if type(value) is not str:
        raise BadInput(f"{what} must be text, not {type(value).__name__}.")
    _check_encoded(what, value, most_bytes)


def _check_encoded(what: str, value: str, most_bytes: int) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise BadInput(f"{what} is not valid Unicode: it contains half a surrogate pair.") from error
    if size > most_bytes:
        raise TooLarge(f"{what} has {size} bytes; at most {most_bytes} are allowed.")


def check_id(what: str, value: Any) -> None:
    if type(value) is not bytes or len(value) != 16:
        raise BadInput(f"{what} must be 16 bytes; windlass.core.ids.parse_id converts the text form.")


def check_blob(what: str, value: Any, most_bytes: int) -> None:
    if not isinstance(value, Blob) or type(value.data) is not bytes or not isinstance(value.codec, Codec):
        raise BadInput(f"{what} must be a Blob of bytes with its codec.")
    if len(value.data) > most_bytes:
        raise TooLarge(
            f"{what} has {len(value.data)} bytes; at most {most_bytes} are allowed. "
            "Store it elsewhere and pass a reference."
        )


def check_new_blob(what: str, value: Any, most_bytes: int) -> None:
    """Check a value that is going to be stored. JSON decoders must be able to read its numbers."""
    check_blob(what, value, most_bytes)
    if value.codec is Codec.JSON and has_unreadable_number(value.data):
        raise BadInput(f"{what} contains a number that is too large, as 1e999; send it as text.")


def check_list(what: str, values: Any) -> None:
    if type(values) is list or type(values) is tuple:  # the usual case, checked fast
        return
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise BadInput(f"{what} must be a list.")


def check_duration_or_forever(what: str, value: Any) -> None:
    if type(value) is not int or value != FOREVER_MS:
        check_integer(what, value, 0, DURATION_MAX)


def check_glob(pattern: Any) -> None:
    check_text("glob", pattern, NAME_MAX, may_be_empty=True)
    if pattern.count("*") > WILDCARDS_MAX:
        raise TooLarge(f"A GLOB may have {WILDCARDS_MAX} stars, not {pattern.count('*')}.")


def check_scan_cursor(cursor: Any) -> None:
    check_text("cursor", cursor, 20)
    if not (cursor.isascii() and cursor.isdigit()) or int(cursor) >= 2**64:
        raise BadInput("The cursor does not come from a previous step; start again without a cursor.")


def check_partition(value: Any) -> None:
    check_integer("partition", value, 0, PARTITIONS_MAX - 1)
