"""Round trip of values through blobs; unstorable values are refused with a sentence."""

from __future__ import annotations

import collections
import contextlib
import datetime as dt
import subprocess
import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntFlag
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.errors import BadInput
from windlass.core.job import NULL_BLOB, Blob, Codec
from windlass.sdk.tasks.codec import Unreadable, decode, encode

T = TypeVar("T")


class Colour(Enum):
    RED = "red"


class Bits(IntFlag):
    A = 1
    B = 2


@dataclass(frozen=True)
class Line:
    sku: str
    count: int = 1


class Order(msgspec.Struct):
    lines: list[Line]
    note: str | None = None


@dataclass
class Tree:
    branches: list[Tree]


class Point(NamedTuple):
    x: int
    y: int


class Address(TypedDict):
    street: str


class User(pydantic.BaseModel):
    name: str
    born: dt.date
    site: pydantic.AnyUrl
    key: bytes = b"\xff"
    alias: str = pydantic.Field("", alias="as")


class Page(pydantic.BaseModel, Generic[T]):
    items: list[T]


class Plain:
    """Class without a known way to store it."""


USER = User(name="Ada", born=dt.date(1815, 12, 10), site="https://example.org/", **{"as": "al"})  # type: ignore[arg-type]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.datetimes(timezones=st.just(dt.UTC)).map(lambda instant: instant.replace(fold=0))  # UTC has no folds
)
json_like = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(-(2**63), 2**64 - 1), inner),
    max_leaves=12,
)


@given(json_like)
def test_json_like_values_come_back_untyped(value: object) -> None:
    back = decode(encode(value))
    assert back == value
    assert repr(back) == repr(value)  # True is not 1, 1.0 is not 1


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (dt.datetime(2026, 3, 4, 5, 6, 7, 8, tzinfo=dt.UTC), dt.datetime),
        (dt.datetime(2026, 3, 4, 5, 6, 7, 8), dt.datetime),
        (dt.date(2026, 3, 4), dt.date),
        (dt.time(5, 6, 7), dt.time),
        (dt.timedelta(days=3, milliseconds=5), dt.timedelta),
        (uuid.UUID(int=5), uuid.UUID),
        (Decimal("1.50"), Decimal),
        (Colour.RED, Colour),
        (Bits.A | Bits.B, Bits),
        ({1, 2}, set[int]),
        (frozenset({1}), frozenset[int]),
        ((1, "a"), tuple[int, str]),
        (b"\xff", bytes),
        (b"\xff", str | bytes),
        ("a", str | bytes | None),
        (Order([Line("a"), Line("b", 2)]), Order),
        ({"x": [Line("a")]}, dict[str, list[Line]]),
        ({Point(1, 2): Line("a")}, dict[Point, Line]),
        ({"street": "a"}, Address),
        ("a", Literal["a", "b"]),
        (Path("/a/b"), Path),
        (PurePosixPath("/a/b"), PurePosixPath),
        ([1, 2], Iterable[int]),
        ([Line("a")], Iterable[Line]),
        (["a"], Iterable),
        (Tree([Tree([])]), Tree),
        (["a"], object),
        (USER, User),
        ([USER, None], list[User | None]),
        (Page[int](items=[1]), Page[int]),
    ],
)
def test_a_type_comes_back(value: object, annotation: Any) -> None:
    back = decode(encode(value), annotation)
    assert back == value
    assert type(back) is type(value)


class Moment(dt.datetime):
    pass


@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize("kind", [dt.datetime, Moment])
def test_an_instant_in_a_zone_is_the_same_instant(kind: type[dt.datetime], fold: int) -> None:
    instant = kind(2026, 10, 25, 2, 30, fold=fold, tzinfo=ZoneInfo("Europe/Berlin"))
    assert decode(encode(instant)).timestamp() == instant.timestamp()


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Text("a"), "a"),
        ({Text("a"): 1}, {"a": 1}),
        (type("Count", (int,), {})(3), 3),
        (type("Size", (float,), {})(1.5), 1.5),
        (type("Key", (bytes,), {})(b"a"), b"a"),
        (Moment(2026, 3, 4, tzinfo=dt.UTC), dt.datetime(2026, 3, 4, tzinfo=dt.UTC)),
        (type("Day", (dt.date,), {})(2026, 3, 4), "2026-03-04"),
        (type("Span", (dt.timedelta,), {})(1), "P1D"),
        (type("Money", (Decimal,), {})("1.5"), "1.5"),
        (collections.OrderedDict(a=1), {"a": 1}),
        (bytearray(b"a"), b"a"),
    ],
)
def test_subclasses_are_stored_as_what_they_are(value: object, plain: object) -> None:
    assert decode(encode(value)) == plain


def circle() -> list[Any]:
    there: list[Any] = []
    there.append(there)
    return there


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (Plain(), "a value of type tests.sdk.tasks.test_codec.Plain cannot be stored; convert it, or pass an id"),
        ([{"a": 1j}], "a value of type complex cannot be stored; "),
        (Plain, "a value of type type cannot be stored; "),
        (range(3), "a value of type range cannot be stored; "),
        (pydantic.SecretStr("a"), "SecretStr cannot be stored"),
        (2**64, "more than 64 bits .* pass it as text"),
        ([-(2**63) - 1], "more than 64 bits .* pass it as text"),
        ("\ud800", "lone surrogates cannot be stored; pass it as bytes"),
        (circle(), "contains itself"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_a_sentence(value: object, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        encode(value)


@dataclass
class Holder:
    inner: list[Plain]
    again: Holder | None = None


@pytest.mark.parametrize(
    ("annotation", "sentence"),
    [
        (Plain, "test_codec.Plain cannot be stored; JSON-like"),
        (dict[str, list[Plain]], "test_codec.Plain cannot be stored; JSON-like"),
        (Holder, "test_codec.Plain cannot be stored; JSON-like"),
        (complex, "complex cannot be stored"),
        (int | Plain, "cannot be stored: .*custom type"),
        (list[int] | set[int], "cannot be stored: .*array-like"),
        ("Nowhere", "cannot be stored"),
    ],
)
def test_a_type_that_cannot_be_stored_is_no_question_of_the_value(annotation: Any, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        decode(encode(None), annotation)


@pytest.mark.parametrize(
    ("blob", "annotation", "value"),
    [
        (NULL_BLOB, Any, None),
        (Blob(b' {"lines": [{"sku": "a"}]}'), Order, Order([Line("a")])),
        (Blob(b'"2026-03-04T05:06:07Z"'), dt.datetime, dt.datetime(2026, 3, 4, 5, 6, 7, tzinfo=dt.UTC)),
        (Blob(b"\x00\xff", Codec.RAW), Any, b"\x00\xff"),
        (Blob(b"\x00\xff", Codec.RAW), bytes, b"\x00\xff"),
    ],
)
def test_other_codecs_are_read(blob: Blob, annotation: Any, value: object) -> None:
    assert decode(blob, annotation) == value


@pytest.mark.parametrize(
    ("blob", "annotation", "sentence"),
    [
        (encode({"lines": [{"sku": 3}]}), Order, r"^lines\[0\]\.sku: expected str, got int$"),
        (encode("x"), int, "^expected int, got str$"),
        (encode({"a": 1}), dict[int, int], "^a key: expected int, got str$"),
        (encode(2), Annotated[int, msgspec.Meta(ge=3)], "^expected int >= 3$"),
        (encode({"name": "a"}), User, "^born: Field required; site: Field required$"),
        (encode([{"items": ["a"]}]), list[Page[int]], r"^\[0\]: items: 0: Input should be a valid integer"),
        (Blob(b"[1,"), Any, "^malformed: Input data was truncated$"),
        (Blob(b""), Any, "^malformed: "),
        (Blob(b"\xa1\xff", Codec.MSGPACK), Any, "^malformed: "),
        (Blob(b"\x91" * 1_000_000, Codec.MSGPACK), Any, "recursion|Stack overflow"),  # from Python 3.14 on
        (Blob(b"a", Codec.RAW), str, "^expected str, got bytes$"),
    ],
)
def test_bytes_that_do_not_fit_are_unreadable(blob: Blob, annotation: Any, sentence: str) -> None:
    with pytest.raises(Unreadable, match=sentence):
        decode(blob, annotation)


@given(st.binary(), st.sampled_from(list(Codec)), st.sampled_from([Any, Order, User, dict[str, int], str | bytes]))
def test_any_bytes_are_a_value_or_unreadable(data: bytes, codec: Codec, annotation: Any) -> None:
    with contextlib.suppress(Unreadable):
        decode(Blob(data, codec), annotation)


def test_annotations_with_unhashable_metadata_are_read() -> None:
    assert decode(encode(3), Annotated[int, ["anything"]]) == 3


def test_pydantic_is_not_imported_for_the_sake_of_it() -> None:
    program = (
        "import sys; from windlass.sdk.tasks.codec import encode, decode; "
        "decode(encode({'a': 1}), dict[str, int]); assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
