"""Round trip of calls through payloads; wrong calls are refused on either side."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.core.errors import BadInput, WindlassError
from windlass.core.job import NULL_BLOB, Blob, Codec
from windlass.sdk.tasks import codec
from windlass.sdk.tasks.arguments import BadArguments, DecodedCall, Signature, WrongCall

if TYPE_CHECKING:
    from nowhere import Nothing  # type: ignore[import-not-found]


@dataclass
class Order:
    id: int
    placed: dt.date = dt.date(2026, 1, 1)


class Cart(msgspec.Struct):
    orders: list[Order]


class User(pydantic.BaseModel):
    name: str


class Address(TypedDict):
    street: str


class Plain:
    pass


def send_mail(order_id: int, subject: str = "Hello", *, urgent: bool = False, ctx: object = None) -> str:
    return f"{order_id} {subject} {urgent}"


MAIL = Signature.of(send_mail, frozenset({"ctx"}))


def round_trip(function: Callable[..., Any], *args: Any, **kwargs: Any) -> DecodedCall:
    signature = Signature.of(function)
    return signature.decode(signature.encode(signature.bind(args, kwargs)))


# Examples.


def test_a_payload_is_a_map_without_defaults() -> None:
    payload = MAIL.encode(MAIL.bind((7,), {"urgent": True}))
    assert payload == codec.encode({"order_id": 7, "urgent": True})
    assert MAIL.decode(payload) == DecodedCall((), {"order_id": 7, "urgent": True}, {})


def test_the_same_call_has_the_same_bytes_however_it_is_written() -> None:
    calls = [MAIL.bind((7, "a"), {}), MAIL.bind((7,), {"subject": "a"}), MAIL.bind((), {"subject": "a", "order_id": 7})]
    assert len({MAIL.encode(call) for call in calls}) == 1

    def loose(**rest: int) -> None: ...

    signature = Signature.of(loose)
    assert list(signature.bind((), {"b": 1, "a": 2})) == ["a", "b"]


def test_book_keeping_travels_beside_the_arguments() -> None:
    payload = MAIL.encode(MAIL.bind((7,), {}), {"v": 2})
    assert codec.decode(payload) == {"order_id": 7, "$windlass": {"v": 2}}
    assert MAIL.decode(payload) == DecodedCall((), {"order_id": 7}, {"v": 2})


@pytest.mark.parametrize(
    ("args", "kwargs", "sentence"),
    [
        ((), {}, "send_mail: missing a required argument: 'order_id'"),
        ((1, "a", True), {}, "send_mail: too many positional arguments"),
        ((1,), {"order_id": 1}, "send_mail: multiple values for argument 'order_id'"),
        ((1,), {"other": 1}, "send_mail: got an unexpected keyword argument 'other'"),
        ((1,), {"ctx": 1}, "send_mail: got an unexpected keyword argument 'ctx'"),
    ],
)
def test_a_wrong_call_is_refused_in_pythons_words(args: tuple[Any, ...], kwargs: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TypeError, match=f"^{sentence}$"):
        MAIL.bind(args, kwargs)


@pytest.mark.parametrize(
    ("bound", "sentence"),
    [
        ({"order_id": "7"}, "send_mail: order_id: expected int, got str"),
        ({"order_id": True}, "send_mail: order_id: expected int, got bool"),
        ({"order_id": 7, "subject": None}, "send_mail: subject: expected str, got None"),
        ({"order_id": 2**64}, "send_mail: order_id: an integer of more than 64 bits cannot be stored; .*"),
        (
            {"order_id": 7, "subject": Plain()},
            "send_mail: subject: a value of type tests.sdk.tasks.test_arguments.Plain cannot .*",
        ),
    ],
)
def test_a_wrong_type_is_refused_before_anything_is_enqueued(bound: dict[str, Any], sentence: str) -> None:
    with pytest.raises(TypeError, match=f"^{sentence}$") as refused:
        MAIL.encode(bound)
    assert isinstance(refused.value, BadInput)


def rich(
    order: Order,
    cart: Cart | None,
    user: User,
    kind: Literal["a", "b"],
    count: Annotated[int, msgspec.Meta(ge=1)],
    address: Address,
    many: list[Order],
    share: float = 0.5,
    key: str | bytes = "",
    anything: Any = None,
    sloppy: int = None,  # type: ignore[assignment] # noqa: RUF013
) -> None: ...


RICH: dict[str, Any] = {
    "order": Order(1),
    "cart": Cart([Order(2, dt.date(2026, 5, 5))]),
    "user": User(name="a"),
    "kind": "a",
    "count": 1,
    "address": {"street": "s"},
    "many": [Order(3)],
    "key": b"\xff",
    "sloppy": None,
}


def test_arguments_arrive_typed() -> None:
    assert round_trip(rich, **RICH).kwargs == RICH
    assert round_trip(rich, **RICH | {"cart": None, "share": 1}).kwargs["share"] == 1.0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"order": {"id": "x"}}, "rich: order.id: expected int, got str"),
        ({"many": [{"id": 1}, {}]}, r"rich: many\[1\]: object missing required field id"),
        ({"kind": "c"}, "rich: kind: invalid enum value 'c'"),
        ({"count": 0}, "rich: count: expected int >= 1"),
        ({"user": {}}, "rich: user: name: Field required"),
        ({"address": {}}, "rich: address: object missing required field street"),
    ],
)
def test_what_annotations_say_is_checked_on_both_sides(change: dict[str, Any], sentence: str) -> None:
    signature = Signature.of(rich)
    with pytest.raises(WrongCall, match=f"^{sentence}$"):
        signature.encode(RICH | change)
    with pytest.raises(BadArguments, match=f"^{sentence}$"):
        signature.decode(codec.encode(RICH | change))


def test_a_changed_default_holds_for_waiting_jobs() -> None:
    def before(a: int, b: int = 1, /, *rest: int) -> tuple[int, ...]:
        return (a, b, *rest)

    def after(a: int, b: int = 2, /, *rest: int) -> tuple[int, ...]:
        return (a, b, *rest)

    signature = Signature.of(before)
    payload = signature.encode(signature.bind((7,), {}))
    assert after(*Signature.of(after).decode(payload).args) == (7, 2)


def test_injected_parameters_get_their_place_before_more_arguments() -> None:
    def ship(first: object, a: int, second: object, *rest: int, third: object, **more: int) -> tuple[Any, ...]:
        return first, a, second, rest, third, more

    signature = Signature.of(ship, frozenset({"first", "second", "third"}))
    decoded = signature.decode(signature.encode(signature.bind((1, 2, 3), {"x": 4})))
    args, kwargs = signature.bind_injected(decoded, {"first": "I", "second": "II", "third": "III"})
    assert ship(*args, **kwargs) == ("I", 1, "II", (2, 3), "III", {"x": 4})


def test_a_type_that_cannot_be_stored_is_refused_when_the_task_is_declared() -> None:
    def ship(order: Order, box: list[Plain]) -> None: ...

    with pytest.raises(
        BadInput,
        match=r"ship: parameter box: tests.sdk.tasks.test_arguments.Plain cannot be stored.*annotate it as Any",
    ):
        Signature.of(ship)
    Signature.of(ship, frozenset({"box"}))


def test_one_annotation_that_cannot_be_resolved_costs_the_others_nothing() -> None:
    def ship(order: Order, nothing: Nothing = None) -> None: ...

    assert round_trip(ship, Order(1), {"a": 1}).kwargs == {"order": Order(1), "nothing": {"a": 1}}
    with pytest.raises(
        WrongCall,
        match=r"ship: nothing: a Order would arrive as a dict, because .*'Nothing' is not defined",
    ):
        round_trip(ship, Order(1), Order(2))


@pytest.mark.parametrize(
    ("args", "kwargs"), [((Order(1),), {}), ((1, Order(1)), {}), ((1,), {"b": Order(1)}), ((User(name="a"),), {})]
)
def test_an_object_for_a_parameter_without_annotation_is_refused(args: Any, kwargs: Any) -> None:
    def ship(a, *rest, **more): ...  # type: ignore[no-untyped-def]

    with pytest.raises(WrongCall, match="would arrive as a dict, because the parameter has no annotation"):
        round_trip(ship, *args, **kwargs)


def test_names_of_the_place_of_declaration_are_found_when_given() -> None:
    class Local(msgspec.Struct):
        x: int

    def ship(local: Local) -> Local:
        return local

    signature = Signature.of(ship, scope=locals())
    assert signature.decode(signature.encode(signature.bind((Local(1),), {}))).kwargs == {"local": Local(1)}
    assert signature.returns is Local
    assert Signature.of(ship).returns is Any


def test_what_a_function_returns() -> None:
    def nothing() -> None: ...

    assert MAIL.returns is str
    assert Signature.of(nothing).returns is type(None)


class Mailer:
    def send(self, order: Order) -> None: ...

    def __call__(self, order: Order) -> None: ...


@functools.cache
def cached(order: Order) -> None: ...


@functools.wraps(send_mail)
def wrapped(*args: Any, **kwargs: Any) -> Any: ...


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (Mailer().send, "send"),
        (Mailer(), "Mailer"),
        (functools.partial(Mailer().send), "partial"),
        (cached, "cached"),
    ],
)
def test_whatever_can_be_called(function: Callable[..., Any], name: str) -> None:
    assert round_trip(function, Order(1)).kwargs == {"order": Order(1)}
    assert Signature.of(function).name == name


def test_a_decorated_function_keeps_its_signature_and_a_task_its_name() -> None:
    signature = Signature.of(wrapped, frozenset({"ctx"}), name="mail.send")
    with pytest.raises(WrongCall, match=r"mail.send: order_id: expected int, got str"):
        signature.encode(signature.bind(("x",), {}))


def test_names_that_suit_no_struct() -> None:
    def odd(self: int, __class__: int, meta: int, p0: int, gröSSe: int) -> None: ...  # noqa: N803

    names = ["self", "__class__", "meta", "p0", "gröSSe"]
    given = dict(zip(names, range(5), strict=True))
    assert round_trip(odd, **given).kwargs == given


def test_a_name_that_is_taken_cannot_be_one_more_keyword() -> None:
    def open_ended(a: int, /, *rest: int, ctx: object = None, **more: int) -> None: ...

    signature = Signature.of(open_ended, frozenset({"ctx"}))
    for name in ("a", "rest", "ctx", "$windlass"):
        with pytest.raises(WrongCall, match="this name is reserved"):
            signature.bind((1,), {name: 2})
    with pytest.raises(BadArguments, match="ctx must not be in the payload"):
        signature.decode(codec.encode({"a": 1, "ctx": 2}))
    with pytest.raises(BadArguments, match="open_ended: b: expected int, got str"):
        signature.decode(codec.encode({"a": 1, "b": "x"}))


# Payloads of other producers.


def no_arguments() -> None: ...


def one_optional(n: int = 3) -> None: ...


def only_positional(n: list[int], /) -> None: ...


def two(a: int, b: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "blob", "args", "kwargs"),
    [
        (send_mail, Blob(b' {"order_id": 7}'), (), {"order_id": 7}),
        (send_mail, Blob(b"7"), (), {"order_id": 7}),
        (send_mail, Blob(b"\x07", Codec.MSGPACK), (), {"order_id": 7}),
        (only_positional, Blob(b" [1, 2]"), ([1, 2],), {}),
        (only_positional, Blob(b'{"n": [1]}'), ([1],), {}),
        (one_optional, Blob(b"7"), (), {"n": 7}),
        (one_optional, NULL_BLOB, (), {}),
        (no_arguments, NULL_BLOB, (), {}),
        (no_arguments, Blob(b""), (), {}),
        (no_arguments, Blob(b"\xc0", Codec.MSGPACK), (), {}),
        (no_arguments, Blob(b"", Codec.RAW), (), {}),
        (no_arguments, Blob(b"{}"), (), {}),
    ],
)
def test_payloads_of_other_producers(
    function: Callable[..., Any], blob: Blob, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    assert Signature.of(function, frozenset({"ctx"})).decode(blob) == DecodedCall(args, kwargs, {})


def test_null_and_raw_bytes_are_arguments_where_one_is_needed() -> None:
    def needs(x: bytes | None) -> None: ...

    assert Signature.of(needs).decode(NULL_BLOB).kwargs == {"x": None}
    assert Signature.of(needs).decode(Blob(b"\xff", Codec.RAW)).kwargs == {"x": b"\xff"}


@pytest.mark.parametrize(
    ("function", "blob", "sentence"),
    [
        (
            send_mail,
            Blob(b'{"order_id": 1, "b": 1, "a": 2}'),
            "unknown arguments: 'a', 'b'; it takes order_id, subject, u",
        ),
        (send_mail, Blob(b'{"order_id": 1, "ctx": 1}'), "unknown arguments: 'ctx'; it takes"),
        (send_mail, Blob(b"{}"), "missing arguments: 'order_id'; it takes order_id"),
        (send_mail, Blob(b'{"order_id": "x"}'), "order_id: expected int, got str"),
        (send_mail, Blob(b'"x"'), "expected int, got str"),
        (send_mail, NULL_BLOB, "expected int, got null"),
        (send_mail, Blob(b'{"order_id": 1'), "malformed: Input data was truncated"),
        (send_mail, Blob(b""), "malformed: Input data was truncated"),
        (send_mail, Blob(b"\x81\x01\x01", Codec.MSGPACK), "a key: expected str, got int"),
        (send_mail, Blob(b'{"order_id": 1, "$windlass": 3}'), r"\$windlass: expected object, got int"),
        (send_mail, codec.encode(dict.fromkeys("abcdefgh", 1)), "'a', 'b', 'c', 'd', 'e' and 3 more; it takes"),
        (two, Blob(b"7"), "the payload is not an object, so it must be the only argument; it takes a, b"),
        (two, NULL_BLOB, "the payload is not an object"),
        (no_arguments, Blob(b"7"), "the payload is not an object, .* it takes no arguments"),
    ],
)
def test_payloads_that_are_no_call(function: Callable[..., Any], blob: Blob, sentence: str) -> None:
    with pytest.raises(BadArguments, match=f"^{function.__name__}: .*{sentence}") as refused:
        Signature.of(function, frozenset({"ctx"})).decode(blob)
    assert isinstance(refused.value, WindlassError)
    assert refused.value.code == "bad_arguments"


@dataclass
class Touchy:
    x: int

    def __post_init__(self) -> None:
        raise KeyError(self.x)


def test_whatever_a_class_raises_while_it_is_made_is_bad_arguments() -> None:
    def touch(it: Touchy) -> None: ...

    with pytest.raises(BadArguments, match="touch: "):
        Signature.of(touch).decode(Blob(b'{"it": {"x": 1}}'))


@pytest.mark.parametrize(
    "blob", [codec.encode({"order": 7, "$windlass": {"v": 3}}), Blob(b'{"order":7,"$windlass":{"v":3}}')]
)
def test_a_payload_is_migrated_before_it_is_typed(blob: Blob) -> None:
    seen: list[Any] = []

    def migrate(raw: dict[str, Any], version: int) -> dict[str, Any]:
        seen.append((dict(raw), version))
        return {"order_id": raw["order"]}

    assert MAIL.decode(blob, migrate) == DecodedCall((), {"order_id": 7}, {"v": 3})
    assert MAIL.decode(Blob(b'{"order": 8}'), migrate).kwargs == {"order_id": 8}
    assert seen == [({"order": 7}, 3), ({"order": 8}, 1)]
    with pytest.raises(
        BadArguments, match="send_mail: the payload of version 1 could not be migrated: KeyError: 'order'"
    ):
        MAIL.decode(Blob(b"{}"), migrate)
    with pytest.raises(BadArguments, match="send_mail: order_id: expected int, got str"):
        MAIL.decode(Blob(b'{"order": "x"}'), migrate)
    with pytest.raises(BadArguments, match="send_mail: unknown arguments: 'new'"):
        MAIL.decode(Blob(b'{"order_id": 1}'), lambda raw, version: raw | {"new": 1})


@pytest.mark.parametrize("meta", [b"3", b'{"v": "x"}'])
def test_a_version_that_is_none_is_bad_arguments(meta: bytes) -> None:
    with pytest.raises(BadArguments, match=r"send_mail: .*expected"):
        MAIL.decode(Blob(b'{"order_id": 1, "$windlass": ' + meta + b"}"), lambda raw, version: raw)


# Any function, any call, with Python's own binding as the reference.


class Parameter(NamedTuple):
    name: str
    kind: inspect._ParameterKind
    is_optional: bool
    is_injected: bool


@st.composite
def parameter_lists(draw: st.DrawFn) -> list[Parameter]:
    names = draw(st.permutations(["a", "b", "c", "d"]))[: draw(st.integers(0, 4))]
    kinds = sorted(draw(st.sampled_from(list(inspect._ParameterKind))) for _ in names)
    kinds = [kind for i, kind in enumerate(kinds) if kind not in (2, 4) or kind not in kinds[:i]]
    parameters: list[Parameter] = []
    for name, kind in zip(names, kinds, strict=False):
        after_default = kind < 2 and any(before.is_optional for before in parameters)
        variable = kind in (2, 4)
        is_optional = not variable and (after_default or draw(st.booleans()))
        parameters.append(Parameter(name, kind, is_optional, not variable and draw(st.booleans())))
    return parameters


def make_function(parameters: list[Parameter]) -> Callable[..., dict[str, Any]]:
    """Make a function with these parameters that returns its arguments."""
    python = inspect.Signature(
        [inspect.Parameter(p.name, p.kind, default="default" if p.is_optional else inspect._empty) for p in parameters]
    )
    space: dict[str, Any] = {}
    exec(f"def made{python}: return dict(locals())", space)  # noqa: S102
    return space["made"]  # type: ignore[no-any-return]


@st.composite
def calls(draw: st.DrawFn) -> tuple[list[Parameter], list[int], dict[str, int]]:
    """Generate calls. About half of them are valid."""
    parameters = draw(parameter_lists())
    args = draw(st.lists(st.integers(0, 9), max_size=5))
    if draw(st.booleans()):
        names = st.sampled_from(["a", "b", "c", "d", "e", "$windlass"])
        return parameters, args, draw(st.dictionaries(names, st.integers(0, 9), max_size=4))
    given = [p for p in parameters if not p.is_injected]
    rest = [p for p in given[len(args) :] if p.kind in (1, 3) and not (p.is_optional and draw(st.booleans()))]
    return parameters, args, {p.name: draw(st.integers(0, 9)) for p in rest}


@settings(max_examples=300)
@given(calls())
def test_what_python_accepts_arrives_and_what_it_refuses_is_refused(
    call: tuple[list[Parameter], list[int], dict[str, int]],
) -> None:
    parameters, args, kwargs = call
    injected = {p.name: "injected" for p in parameters if p.is_injected}
    function = make_function(parameters)
    signature = Signature.of(function, frozenset(injected))
    try:
        expected = make_function([p for p in parameters if not p.is_injected])(*args, **kwargs)
    except TypeError:
        with pytest.raises(TypeError, match=r"^made: "):
            signature.bind(tuple(args), kwargs)
        return
    more = next((expected[p.name] for p in parameters if p.kind is inspect.Parameter.VAR_KEYWORD), {})
    if more.keys() & {"$windlass", *(p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD)}:
        with pytest.raises(WrongCall):  # the only call that a flat map cannot hold
            signature.bind(tuple(args), kwargs)
        return
    decoded = signature.decode(signature.encode(signature.bind(tuple(args), kwargs)))
    placed_args, placed_kwargs = signature.bind_injected(decoded, injected)
    assert function(*placed_args, **placed_kwargs) == expected | injected


@given(parameter_lists(), st.binary() | st.binary().map(lambda data: b"\x81\xa1a" + data), st.sampled_from(list(Codec)))
def test_any_bytes_are_a_call_or_bad_arguments(parameters: list[Parameter], data: bytes, mark: Codec) -> None:
    for function in (make_function(parameters), rich, send_mail):
        with contextlib.suppress(BadArguments):
            Signature.of(function).decode(Blob(data, mark))


def _plain(order: Order, note: str = "-", *_more: int) -> None: ...
def _with_default(order: Order, note: str = "-", when: dt.date | None = None) -> None: ...
def _without(order: Order, note: str, /) -> None: ...
def _by_keyword(order: Order, *, note: str) -> None: ...
def _empty() -> None: ...


ORDER = {"id": 7, "placed": "2026-02-03"}


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (_with_default, {"order": ORDER}),
        (_with_default, {"order": ORDER, "when": "2026-01-01"}),
        (_with_default, {"order": ORDER, "note": "n", "$windlass": {"keys": {}}}),
        (_without, {"order": ORDER, "note": "n"}),
        (_empty, {}),
    ],
)
def test_the_short_way_gives_the_same_arguments(function: Callable[..., None], call: dict[str, Any]) -> None:
    signature = Signature.of(function)
    blob = codec.encode(call)
    values = signature.positional(blob)
    decoded = signature.decode(blob)
    bound = inspect.signature(function).bind(*decoded.args, **decoded.kwargs)
    bound.apply_defaults()
    assert values == tuple(bound.arguments.values())


@pytest.mark.parametrize(
    ("function", "blob"),
    [
        (_plain, codec.encode({"order": ORDER})),
        (_by_keyword, codec.encode({"order": ORDER, "note": "n"})),
        (_without, Blob(b'{"order": {"id": 7}, "note": "n"}', Codec.JSON)),
        (_empty, Blob(b"", Codec.MSGPACK)),
        (_empty, codec.encode(None)),
    ],
    ids=["variadic", "by keyword", "json", "no bytes", "no map"],
)
def test_the_short_way_leaves_the_rest_to_the_general_one(function: Callable[..., None], blob: Blob) -> None:
    assert Signature.of(function).positional(blob) is None
    Signature.of(function).decode(blob)


def test_parameters_that_the_worker_gives_have_no_short_way() -> None:
    assert Signature.of(_without, frozenset({"note"})).positional(codec.encode({"order": ORDER})) is None


@pytest.mark.parametrize(
    "call", [{"order": {"id": "x"}, "note": "n"}, {"note": "n"}, {"order": ORDER, "note": "n", "x": 1}]
)
def test_the_short_way_refuses_in_the_same_words(call: dict[str, Any]) -> None:
    signature, blob = Signature.of(_without), codec.encode(call)
    with pytest.raises(BadArguments) as short:
        signature.positional(blob)
    with pytest.raises(BadArguments) as general:
        signature.decode(blob)
    assert str(short.value) == str(general.value)
