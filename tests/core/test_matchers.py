"""Matchers of limits against a plain evaluation of the same conditions, and the bounds of matchers."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.profiles import examples
from windlass.core.errors import BadInput, TooLarge
from windlass.core.job import Blob, Codec
from windlass.core.limits.condition import Condition
from windlass.core.limits.limit import Limit, LimitState, LimitTable, Matcher
from windlass.core.text.glob import TEXT_MAX, compile_glob
from windlass.core.text.limit_text import describe_matcher
from windlass.core.validation.limits import check_limit
from windlass.core.validation.matchers import CONDITIONS_MAX, IN_MAX, NOT_MAX
from windlass.store.commands.limits import read_limit, set_limit
from windlass.wire.limits import LimitShape, limit_state_shape, matcher_of

ABSENT = object()
QUEUES, NAMES, LANES = ("q", "qq", "r"), ("send", "send_mail", "x"), ("", "a", "ab")
numbers = st.sampled_from([-1, 0, 1, 1.0, 1.5, 2, 2**62])
texts = st.sampled_from(["", "a", "ab", "abc", "ü", "send"])
scalars = st.one_of(numbers, texts, st.sampled_from([True, False, None]))
patterns = st.text(st.sampled_from("ab*?[]^-ü"), min_size=1, max_size=5)
PATHS = ("a", "b", "a.b", "l.0", "a.b.c")
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner)
)
contents = st.fixed_dictionaries({}, optional={"a": values, "b": values, "l": st.lists(scalars, max_size=2)})


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw at least one of the fields, mostly one."""
    one = st.one_of([st.fixed_dictionaries({name: drawn}) for name, drawn in fields.items()])
    return one | st.fixed_dictionaries({}, optional=fields).filter(bool)


of_fields = st.recursive(
    scalars | _some(
        **{"in": st.lists(scalars, min_size=1, max_size=3)}, glob=patterns, prefix=texts.filter(bool), gt=numbers,
        gte=numbers, lt=numbers, lte=numbers, exists=st.booleans(),
    ),
    lambda inner: st.fixed_dictionaries({"not": inner}),
    max_leaves=2,
)  # fmt: skip


def _of_places(known: tuple[str, ...]) -> st.SearchStrategy[Any]:
    words = st.sampled_from([word for word in known if word])
    condition = _some(**{"in": st.lists(words, min_size=1, max_size=3)}, glob=patterns, prefix=words, **{"not": words})
    return words | st.recursive(condition, lambda inner: st.fixed_dictionaries({"not": inner}), max_leaves=2)


matchers = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "queue": _of_places(QUEUES), "name": _of_places(NAMES), "lane": _of_places(LANES),
            "payload": st.dictionaries(st.sampled_from(PATHS), of_fields, min_size=1, max_size=3),
        },
    ).filter(bool),
    lambda inner: st.fixed_dictionaries({"not": inner}, optional={"name": _of_places(NAMES)}),
    max_leaves=3,
)  # fmt: skip


def _holds(wanted: Any, value: Any) -> bool:
    """Evaluate a condition as the documentation words it."""
    if not isinstance(wanted, dict):
        return type(value) in (str, int, float, bool, type(None)) and _same(value, wanted)
    is_number = type(value) in (int, float)
    judged = {
        "in": lambda given: any(_holds(one, value) for one in given),
        "glob": lambda given: type(value) is str and _glob(given, value),
        "prefix": lambda given: type(value) is str and value[: len(given)] == given,
        "gt": lambda given: is_number and value > given,
        "gte": lambda given: is_number and value >= given,
        "lt": lambda given: is_number and value < given,
        "lte": lambda given: is_number and value <= given,
        "exists": lambda given: (value is not ABSENT) is given,
        "not": lambda given: not _holds(given, value),
    }
    return all(judged[kind](given) for kind, given in wanted.items())


def _same(value: Any, wanted: Any) -> bool:
    return (type(value) is bool) == (type(wanted) is bool) and bool(value == wanted)


def _glob(pattern: str, text: str) -> bool:
    with contextlib.closing(sqlite3.connect(":memory:")) as judge:
        ((expected,),) = judge.execute("SELECT ? GLOB ?", (text, pattern))
    return bool(expected)


def _value_at(content: Any, path: str) -> Any:
    for part in path.split("."):
        try:
            content = content[int(part) if isinstance(content, list) else part]
        except (KeyError, IndexError, TypeError, ValueError):
            return ABSENT
        if isinstance(content, str) and part != path.split(".")[-1]:
            return ABSENT
    return content


def _matches(matcher: dict[str, Any], job: dict[str, Any]) -> bool:
    places = all(_holds(matcher[place], job[place]) for place in ("queue", "name", "lane") if place in matcher)
    fields = all(_holds(wanted, _value_at(job["payload"], path)) for path, wanted in matcher.get("payload", {}).items())
    return places and fields and not ("not" in matcher and _matches(matcher["not"], job))


@settings(max_examples=examples(usual=600, deep=20_000), deadline=None)
@given(
    matcher=matchers, queue=st.sampled_from(QUEUES), name=st.sampled_from(NAMES), lane=st.sampled_from(LANES),
    content=contents, codec=st.sampled_from([Codec.JSON, Codec.MSGPACK]),
)  # fmt: skip
@example({"payload": {"a": {"in": [1]}}}, "q", "x", "", {"a": True}, Codec.JSON)
@example({"payload": {"a": {"not": None}}}, "q", "x", "", {}, Codec.JSON)
@example({"queue": {"in": ["q", "q"]}, "lane": {"in": ["a"]}}, "q", "x", "a", {}, Codec.JSON)
def test_a_matcher_agrees_with_a_plain_evaluation(
    matcher: dict[str, Any], queue: str, name: str, lane: str, content: dict[str, Any], codec: Codec
) -> None:
    shape = msgspec.json.decode(msgspec.json.encode({"matches": matcher, "running": 1}), type=LimitShape)
    limit = shape.limit("l")
    check_limit(limit)
    stored = read_limit(bytes(set_limit(limit, 0).args[1]))
    assert stored == limit
    data = msgspec.json.encode(content) if codec is Codec.JSON else msgspec.msgpack.encode(content)
    found = LimitTable(1, {7: stored}).match(queue, name, lane, Blob(data, codec))
    expected = _matches(matcher, {"queue": queue, "name": name, "lane": lane, "payload": content})
    assert found == (("7",) if expected else ())
    assert describe_matcher(limit.matches)


@pytest.mark.parametrize("payload", [Blob(b"\xc1", Codec.MSGPACK), Blob(b"{", Codec.JSON), Blob(b"{}", Codec.RAW)])
def test_a_payload_that_cannot_be_read_has_no_fields(payload: Blob) -> None:
    wanted = {1: Condition(exists=True), 2: Condition(exists=False), 3: Condition(not_=7), 4: 7}
    limits = {at: Limit(name="l", running=1, matches=Matcher(payload={"a": one})) for at, one in wanted.items()}
    assert LimitTable(1, limits).match("q", "n", "", payload) == ("2", "3")


def test_limits_stored_before_there_were_conditions_are_read() -> None:
    stored = msgspec.msgpack.encode({"name": "l", "matches": {"queue": "q", "payload": {"a": 1}}, "running": 1})
    limit = read_limit(b"\1" + bytes(16) + stored)
    assert limit == Limit(name="l", matches=Matcher(queue="q", payload={"a": 1}), running=1)
    assert msgspec.msgpack.encode(limit) == stored


@settings(max_examples=examples(usual=700, deep=20_000), deadline=None)
@given(
    st.text(st.sampled_from("ab-^]*?[ü名🧵z\n"), max_size=9), st.text(st.sampled_from("ab-^]*?[ü名🧵m\n"), max_size=7)
)
def test_globs_agree_with_sqlite(pattern: str, text: str) -> None:
    assert compile_glob(pattern)(text) == _glob(pattern, text)


@pytest.mark.parametrize(
    "pattern", ["*a?" * 16 + "b", "*" + "?" * 1000 + "b", "*" + "[a-y]" * 200 + "z", "*a" * 16 + "b"]
)
def test_no_glob_takes_long(pattern: str) -> None:
    fits = compile_glob(pattern)
    started = time.thread_time()
    assert not fits("a" * TEXT_MAX)
    assert time.thread_time() - started < 0.1


def test_a_long_text_matches_no_glob() -> None:
    assert compile_glob("*")("a" * TEXT_MAX)
    assert not compile_glob("*")("a" * (TEXT_MAX + 1))


def _nested(levels: int) -> Matcher:
    matcher = Matcher(name="n")
    for _ in range(levels):
        matcher = Matcher(not_=matcher)
    return matcher


def _negated(levels: int) -> Condition:
    condition = Condition(exists=True)
    for _ in range(levels):
        condition = Condition(not_=condition)
    return condition


def _of(**fields: Any) -> Matcher:
    return Matcher(payload={"a": Condition(**fields)})


BAD: dict[str, tuple[Matcher, type[Exception], str]] = {
    "no condition": (_of(), BadInput, "The condition on a is empty"),
    "a list": (_of(in_=["x"]), BadInput, "in of a must be a tuple"),
    "too many values": (_of(in_=tuple(range(IN_MAX + 1))), BadInput, "may have 100 values, not 101"),
    "bytes": (_of(in_=(b"x",)), BadInput, "must be compared with text"),
    "not a number": (_of(gt=float("nan")), BadInput, "gt of a must be a finite number"),
    "infinite": (_of(lte=float("inf")), BadInput, "lte of a must be a finite number"),
    "text as a bound": (_of(lt="7"), BadInput, "lt of a must be a finite number"),
    "true as a bound": (_of(lt=True), BadInput, "lt of a must be a finite number"),
    "too large a bound": (_of(gte=2**63), BadInput, "gte of a must be between"),
    "exists is no boolean": (_of(exists=1), BadInput, "exists of a must be True or False"),
    "too many stars": (_of(glob="*a" * 17), TooLarge, "16 stars"),
    "a long prefix": (_of(prefix="a" * 1025), TooLarge, "prefix of a"),
    "not of a list": (_of(not_=["x"]), BadInput, "must be compared with text"),
    "not too deep": (Matcher(payload={"a": _negated(NOT_MAX + 1)}), BadInput, "4 levels of not"),
    "matchers too deep": (_nested(NOT_MAX + 1), BadInput, "4 levels of not"),
    "not of nothing": (Matcher(not_=Matcher()), BadInput, "needs a condition"),
    "range of a name": (Matcher(name=Condition(gt=1)), BadInput, "gt is a condition on fields, not on the name"),
    "existence of a queue": (Matcher(queue=Condition(exists=True)), BadInput, "exists is a condition on fields"),
    "a number as a name": (Matcher(name=Condition(in_=(1,))), BadInput, "a value of in for the name must be text"),
    "an empty queue": (Matcher(queue=Condition(in_=("",))), BadInput, "must not be empty"),
    "not of a number": (Matcher(name=Condition(not_=7)), BadInput, "not of the name must be text"),
    "an empty condition on a name": (Matcher(name=Condition()), BadInput, "The condition on name is empty"),
    "too many conditions": (
        Matcher(payload={str(n): Condition(gt=1, lt=2) for n in range(CONDITIONS_MAX // 2)}, name="n"),
        BadInput,
        "32 conditions, not 33",
    ),
    "too large": (_of(in_=tuple(f"{n:0900}" for n in range(50))), TooLarge, "32768 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_matchers_are_refused(case: str) -> None:
    matcher, error, message = BAD[case]
    with pytest.raises(error, match=message):
        check_limit(Limit(name="l", matches=matcher, running=1))


def test_the_largest_matchers_are_accepted() -> None:
    for matcher in (_nested(NOT_MAX), Matcher(payload={"a": _negated(NOT_MAX)}), _of(in_=tuple(range(IN_MAX)))):
        check_limit(Limit(name="l", matches=matcher, running=1))


def test_the_queues_of_a_matcher() -> None:
    some = Matcher(queue=Condition(in_=("a", "b")))
    assert (some.named_queues(), Matcher(queue="a").named_queues()) == (("a", "b"), ("a",))
    assert Matcher(queue=Condition(glob="a*")).named_queues() == Matcher().named_queues() == ()
    assert [Matcher(queue=Condition(glob="a*")).may_match_queue(queue) for queue in ("ab", "b")] == [True, False]
    assert [some.may_match_queue(queue) for queue in ("a", "c")] == [True, False]
    assert Matcher().may_match_queue("a")


def test_conditions_in_words() -> None:
    inner = Matcher(name="x", payload={"b": Condition(not_=Condition(prefix="p"))})
    payload = {"age": Condition(gte=18, lt=65), "k": Condition(exists=False), "p": Condition(not_="free"), "v": True}
    matcher = Matcher(queue=Condition(in_=("a", "b")), name=Condition(glob="s*"), payload=payload, not_=inner)
    assert describe_matcher(matcher) == (
        'queue in ["a","b"] name~s* age>=18 age<65 k is absent p!="free" v=true not (name=x not (b~p*))'
    )


def test_shapes_keep_conditions() -> None:
    matcher = Matcher(queue="q", name=Condition(not_="n"), payload={"a": Condition(gt=1)}, not_=Matcher(lane="l"))
    shape = limit_state_shape(LimitState(limit=Limit(name="l", matches=matcher, running=1), levels=[]))
    assert matcher_of(shape.matches) == matcher
