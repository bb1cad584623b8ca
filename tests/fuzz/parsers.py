"""Every parser of outside bytes or texts, with the errors that it may raise."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from tests.fuzz import migration_parsers
from tests.fuzz import search_and_alert_parsers as newer
from tests.fuzz.parser_check import Parser
from tests.web.connection_driver import drive_connection
from windlass.core.access.signal_links import read_link, sign_link
from windlass.core.access.tokens import parse_token
from windlass.core.callbacks.signing import verify_signature
from windlass.core.errors import BadInput, Refusal, WindlassError
from windlass.core.export import lines as export_lines
from windlass.core.ids import format_id, parse_id
from windlass.core.job import Blob, Codec
from windlass.core.limits.limit import Limit, LimitTable, Matcher, display_key
from windlass.core.scheduling import cron, repeat
from windlass.core.text.codecs import as_json, as_msgpack
from windlass.core.text.durations import format_duration, parse_duration_ms
from windlass.core.text.line_splitter import LineSplitter as BodyLines
from windlass.core.text.name_patterns import name_pattern
from windlass.core.validation.callbacks import check_callback
from windlass.core.validation.document_depth import is_too_deep
from windlass.core.validation.jobs import check_new_job
from windlass.core.validation.limits import check_limit
from windlass.core.validation.listings import check_listing
from windlass.core.validation.values import check_glob
from windlass.dashboard import flash
from windlass.dashboard.forms import filters
from windlass.dashboard.forms.schema_form import make_form, read_inputs
from windlass.dashboard.routes import Form
from windlass.dialects.bedrock import data as bedrock_data
from windlass.dialects.bedrock import name_filter, queues, times
from windlass.dialects.bedrock.parameters import Parameters
from windlass.dialects.bedrock.query import sql_parameters, sqlite_query
from windlass.dialects.bedrock.query.extra_columns import EXTRA_COLUMNS, columns_for
from windlass.dialects.bedrock.query.filter_pushdown import push_filter
from windlass.dialects.bedrock.refusals import CommandRefused
from windlass.dialects.bedrock.wire import (
    BedrockReader,
    BedrockRequest,
    ProtocolError,
    Reply,
    encode_reply,
    escape,
    unescape,
)
from windlass.dialects.jobber import JobberJob
from windlass.dialects.lightjq.constraints import NewConstraint
from windlass.dialects.stdio.envelope import Identity
from windlass.dialects.stdio.lines import LineBuffer
from windlass.dialects.stdio.messages import MessageReader as ProcessorReader
from windlass.dialects.stdio.messages import ProcessorOptions
from windlass.downloads.api.files import RangeNotSatisfiable, _parse_range
from windlass.downloads.api.order_form import OrderForm, parse_order
from windlass.downloads.worker.content_type import mime_type_of
from windlass.downloads.worker.failures import RETRY_AFTER_MAX_MS
from windlass.downloads.worker.globs import parse_globs
from windlass.downloads.worker.image_size import NotAnImage, image_size
from windlass.downloads.worker.order import BadOrder, read_order
from windlass.downloads.worker.resume import ResumePoint, continued_length, resume_point
from windlass.outbound import InvalidRedirect, parse_http_url, parse_policy, parse_proxy
from windlass.outbound.redirects import redirect_target
from windlass.outbound.retry_after import retry_after_ms
from windlass.outbound.urls import split_credentials
from windlass.sdk.callbacks import BadSignature, verify_callback
from windlass.server.server import ROUTES
from windlass.settings import load
from windlass.store.connection.endpoint import parse_url
from windlass.web.app import sessions
from windlass.web.app.auth import _hostname, is_loopback
from windlass.web.app.content_negotiation import body_encoding, negotiate_encoding
from windlass.web.app.query_parser import parse_query
from windlass.web.app.router import Router
from windlass.web.listener.bounds import Bounds
from windlass.web.listener.serializer import CONTINUE
from windlass.wire.durable.streams import parse_position
from windlass.wire.encoding import decode
from windlass.wire.new_job import NewJobShape
from windlass.wire.problems import HttpRefusal

NOW_MS = 1_800_000_000_000
_REFUSALS: tuple[type[Exception], ...] = (WindlassError, HttpRefusal)
_ROUTER = Router(ROUTES)
_BODIES = {route.operation: route for route in _ROUTER.routes if route.body is not None}
_QUERIES = [route.query for route in _ROUTER.routes if route.query is not None]
_DATE = re.compile(rb"\r\nDate: [^\r]*")
_KEY = "a key for the signatures of tests"


def _text(data: bytes) -> str:
    """Decode UTF-8, or latin-1 as in a header."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _lines(data: bytes, count: int) -> list[str]:
    """Split into `count` texts, one per line; the last text has the rest."""
    found = _text(data).split("\n", count - 1)
    return found + [""] * (count - len(found))


# Bedrock


def _bedrock(pieces: Sequence[bytes]) -> list[Any]:
    reader = BedrockReader(Bounds(drain_bytes_max=1000))
    found: list[Any] = []
    try:
        for piece in pieces:
            reader.feed(piece)
            while (request := reader.next()) is not None:
                found.append(request)
    except ProtocolError as error:
        found.append((error.status, error.reason))
    return found


def _bedrock_commands(data: bytes) -> Any:
    """Read the framing, then read every parameter in every way."""
    found = _bedrock([data])
    return [_read_parameters(request) for request in found if isinstance(request, BedrockRequest)]


def _read_parameters(request: BedrockRequest) -> list[Any]:
    given = Parameters.from_request(request)
    ways = [given.name, given.priority, given.new_job_priority, given.repeat, given.retry_after, given.job_timeout]
    ways += [given.lease_token, given.wants_lease_token, lambda: given.is_on("unique")]
    ways += [lambda: given.instant("firstRun"), lambda: given.number("jobID"), lambda: given.is_true("mockRequest")]
    ways += [lambda: given.data(1000), lambda: queues.read_named_queues(given), lambda: queues.read_new_queue(given)]
    ways += [lambda: name_filter.filter_for_names(given.get("name"), None, False), lambda: request.timeout_s(1.0)]
    ways += [lambda: request.pause_s(0.0), lambda: request.connection]
    answers = [_call_or_refusal(way) for way in ways]
    assert unescape(escape(request.line)) == request.line
    assert encode_reply(Reply(200, request.line, headers=(("a", request.verb),))).count(b"\r\n") == 4
    return answers


def _call_or_refusal(way: Any) -> Any:
    try:
        return way()
    except (CommandRefused, Refusal) as refusal:
        return str(refusal)


def _bedrock_data(data: bytes) -> Any:
    """Merge two values, one per line: the second into the first."""
    first, second = _lines(data, 2)
    read = bedrock_data.parse_value(first, second)
    bedrock_data.delivery_count_in(read)
    bedrock_data.without_keys(read, "delete", "retryAfterCount")
    patch = bedrock_data.parse_value(second or "{}", "{}")
    merged = bedrock_data.merge_patch(read, patch)
    assert bedrock_data.is_object(merged) == bedrock_data.is_object(patch)
    msgspec.json.decode(merged)
    return merged


_ROW = ("2030-01-01", 1, "QUEUED", "send", "2030-01-01", None, "", '{"a":1}', 500, 0, "")


def _bedrock_query(data: bytes) -> Any:
    given = _text(data).strip()
    text = sqlite_query.schema_query(given) or sqlite_query.check_query(given)
    push_filter(text)
    row = (*_ROW, *[""] * len(EXTRA_COLUMNS))[: len(columns_for(text))]
    return len(sqlite_query.encode_result(sqlite_query.run_query(text, [row]), with_headers=True))


def _bedrock_sql_parameters(data: bytes) -> Any:
    """Read headers, one per line."""
    lines = [line.partition(":") for line in _text(data).split("\n")]
    return sql_parameters.read_parameters({name.strip().lower(): value.strip() for name, _, value in lines})


# The processor


def _processor(pieces: Sequence[bytes]) -> list[Any]:
    lines = LineBuffer(most=8000)
    found = [line for piece in pieces for line in lines.feed(piece)] + lines.close()
    reader = ProcessorReader(Identity(uuid="me", host="here"), ProcessorOptions())
    return [
        _call_or_refusal(lambda line=line: repr(reader.read(line, NOW_MS))) if isinstance(line, bytes) else line
        for line in found
    ]


# Bodies


def _body(data: bytes) -> Any:
    """Read the body of the operation in the first line, or of some route if there is no such operation."""
    name, _, body = data.partition(b"\n")
    route = _BODIES.get(name.decode(errors="replace").strip())
    if route is None:
        route = list(_BODIES.values())[zlib.crc32(name) % len(_BODIES)]
    codec = Codec.MSGPACK if route.body_media.endswith("msgpack") or body[:1] > b"\x7f" else Codec.JSON
    found = decode(body, route.body, codec)
    _interpret(found, codec)
    return type(found)


def _interpret(found: Any, codec: Codec) -> None:
    if isinstance(found, NewJobShape):
        job = found.new_job(codec)  # type: ignore[arg-type]
        check_new_job(job)
        if job.callback is not None:
            check_callback(job.callback)
    elif isinstance(found, OrderForm):
        parse_order(found)
    elif isinstance(found, JobberJob):
        check_new_job(found.new_job())
    elif isinstance(found, NewConstraint):
        check_limit(found.to_limit("a"))


def _values(data: bytes) -> Any:
    """Check the nesting, and transcode a value to both encodings."""
    for codec in (Codec.JSON, Codec.MSGPACK):
        blob = Blob(data, codec)
        is_too_deep(data, codec, 100)
        for way in (as_json, as_msgpack):
            way(blob)
    return LimitTable(1, {1: _LIMIT}).match("q", "n", "", Blob(data, Codec.JSON))


_LIMIT = Limit(name="one each", matches=Matcher(queue="q", payload={"a.b": 1}), running=1, key="a.0.c")


def _matcher(data: bytes) -> Any:
    """Match a limit in JSON with the payload after it."""
    encoded, _, payload = data.partition(b"\n")
    limit = decode(encoded, Limit, Codec.JSON)
    check_limit(limit)
    table = LimitTable(1, {7: limit})
    matches = limit.matches
    place = [wanted if isinstance(wanted, str) else "n" for wanted in (matches.queue, matches.name, matches.lane)]
    for codec in (Codec.JSON, Codec.MSGPACK):
        for text in table.match(*place, Blob(payload, codec)):
            assert len(text.encode()) < 200
            display_key(text)
    return limit


def _body_lines(pieces: Sequence[bytes]) -> Any:
    lines = BodyLines(5000)
    try:
        return [line for piece in pieces for line in lines.feed(piece)] + lines.end()
    except WindlassError as error:
        return type(error)


def _http(pieces: Sequence[bytes]) -> Any:
    """Return the requests and all answers, without 100 Continue, which depends on the bytes that have arrived."""
    heads, written = drive_connection(list(pieces))
    return heads, _DATE.sub(b"", written).replace(CONTINUE, b"")


# Rules


def _repeat(data: bytes) -> Any:
    text = _text(data)
    for way in (lambda: repeat.parse(text), lambda: repeat.parse_modifiers(text)):
        found = _call_or_refusal(way)
        if isinstance(found, repeat.Rule):
            found.next_at_ms(NOW_MS, NOW_MS, NOW_MS)
        elif isinstance(found, repeat.Modifiers):
            _ = found.fixed_ms
            found.apply_ms(NOW_MS)
    return repeat.parse(text)


def _cron(data: bytes) -> Any:
    expression, zone = _lines(data, 2)
    found = cron.parse(expression, zone or "UTC")
    return found.following_ms(NOW_MS)


def _duration(data: bytes) -> int:
    found = parse_duration_ms(_text(data))
    parse_duration_ms(format_duration(found))
    return found


def _glob(data: bytes) -> Any:
    check_glob(_text(data))
    return name_pattern(_text(data))


def _filter(data: bytes) -> Any:
    found = parse_query(_text(data), filters.JobsQuery)
    check_listing(found.listing(NOW_MS))
    return found.next_page("x")


# Headers and addresses


def _query(data: bytes) -> Any:
    wanted = _QUERIES[zlib.crc32(data[:4]) % len(_QUERIES)]
    return parse_query(_text(data), wanted)


def _form(data: bytes) -> Any:
    """Read a form of the dashboard, chosen by its first bytes."""
    forms = Form.__subclasses__()
    return parse_query(_text(data), forms[zlib.crc32(data[:6]) % len(forms)], 2000)


def _id(data: bytes) -> bytes:
    found = parse_id(_text(data))
    assert parse_id(format_id(found)) == found
    assert len(found) == 16
    return found


def _headers(data: bytes) -> Any:
    """Read Cookie, Accept, Content-Type, Host and Range, one per line."""
    cookie, accept, content_type, host, span = _lines(data, 5)
    flash.read(sessions.parse_cookies({"cookie": cookie}))
    session = sessions.session_of({"cookie": cookie})
    if session is not None:
        assert not session.is_signed_with(b"digest")
    is_loopback(_hostname(host))
    _call_or_none(RangeNotSatisfiable, lambda: _parse_range(span, 1000))
    return negotiate_encoding(accept, body_encoding(content_type))


def _call_or_none(refusal: type[Exception], way: Any) -> Any:
    try:
        return way()
    except refusal:
        return None


def _signature(data: bytes) -> Any:
    callback_id, signature, body = _lines(data, 3)
    assert verify_signature([_KEY], signature, callback_id, body.encode()) is None
    return verify_callback(body.encode(), {"Windlass-Signature": signature, "Windlass-Callback-Id": callback_id}, _KEY)


def _engine_url(data: bytes) -> Any:
    return str(parse_url(_text(data)))


def _signal_link(data: bytes) -> Any:
    key = b"k" * 32  # of the corpus
    found = read_link(_text(data), key)
    assert found is None or read_link(sign_link(found, key), key) == found
    return found


def _signal_schema(data: bytes) -> Any:
    """The first line is typed into each input of the form, which is made from the other lines."""
    typed, _, schema = data.partition(b"\n")
    form = make_form(Blob(schema))
    if form is None or not form.inputs:
        return None
    texts = [_text(typed)] * len(form.inputs)
    return form.has_buttons, [shown.empty_label for shown in form.inputs], read_inputs(form.schema, texts).data


def _outgoing_url(data: bytes) -> Any:
    text, location = _lines(data, 2)
    split_credentials(text)
    url = parse_http_url(text)
    _call_or_none(InvalidRedirect, lambda: redirect_target(url, location))
    return str(url)


def _settings(data: bytes) -> Any:
    """Read NAME=value, one per line, as in the environment."""
    pairs = [line.partition("=") for line in _text(data).split("\n")]
    return load({}, {name: value for name, _, value in pairs}, Path("/nowhere"))[0]


# Files


def _image(data: bytes) -> Any:
    return [_call_or_none(NotAnImage, lambda kind=kind: image_size(kind, io.BytesIO(data))) for kind in _IMAGES]


_IMAGES = ("image/png", "image/gif", "image/jpeg")


def _globs(data: bytes) -> Any:
    patterns, kind = _lines(data, 2)
    return parse_globs(patterns).mismatch(kind[:100])  # types come from our own table


def _order(data: bytes) -> Any:
    return [_call_or_none(BadOrder, lambda codec=codec: read_order(Blob(data, codec))) for codec in Codec]


_POINT = ResumePoint(url="http://x/", status=200, validator='"v"', is_etag=True, received=7, length=None)


def _origin_headers(data: bytes) -> Any:
    """Read what an origin says of a part of a file, and of the time to come back."""
    names = ("Content-Range", "ETag", "Last-Modified", "Date", "Retry-After", "Accept-Ranges")
    headers = dict(zip(names, _lines(data, len(names)), strict=True))
    whole: Any = SimpleNamespace(status=200, headers=headers, length=None)
    part: Any = SimpleNamespace(status=206, headers=headers, length=None)
    found = [_POINT, resume_point("http://x/", whole, 7)]
    lengths = [continued_length(point, part) for point in found if point]
    return lengths, retry_after_ms({"retry-after": headers["Retry-After"]}, 0.0, most_ms=RETRY_AFTER_MAX_MS)


def _import(data: bytes) -> Any:
    head, *lines = data.split(b"\n")
    export_lines.decode_header(head)
    return [export_lines.decode_line(line, number) for number, line in enumerate(lines, 2) if line]


PARSERS: dict[str, Parser] = {
    "bedrock_framing": Parser(lambda data: _bedrock([data]), (), _bedrock),
    "bedrock_commands": Parser(_bedrock_commands, ()),
    "bedrock_data": Parser(_bedrock_data, (CommandRefused,)),
    "bedrock_query": Parser(_bedrock_query, (CommandRefused, sqlite_query.BadQuery), grows=False),
    "bedrock_sql_parameters": Parser(_bedrock_sql_parameters, (CommandRefused,)),
    "bedrock_times": Parser(lambda data: times.parse_instant(_text(data)), ()),
    "processor_lines": Parser(lambda data: _processor([data]), (), _processor),
    "bodies": Parser(_body, _REFUSALS),
    "body_lines": Parser(lambda data: _body_lines([data]), (), _body_lines),
    "values": Parser(_values, ()),
    "matchers": Parser(_matcher, _REFUSALS),
    "repeat_rules": Parser(_repeat, (BadInput,), grows=False),
    "cron": Parser(_cron, (BadInput,), grows=False),
    "durations": Parser(_duration, (BadInput,)),
    "glob_patterns": Parser(_glob, _REFUSALS),
    "dashboard_filters": Parser(_filter, _REFUSALS),
    "dashboard_forms": Parser(_form, _REFUSALS),
    "query_strings": Parser(_query, _REFUSALS),
    "http_requests": Parser(lambda data: _http([data]), (), _http, grows=False),
    "http_headers": Parser(_headers, _REFUSALS),
    "ids": Parser(_id, (BadInput,)),
    "tokens": Parser(lambda data: parse_token(_text(data)), _REFUSALS),
    "signal_links": Parser(_signal_link, ()),
    "signal_schemas": Parser(_signal_schema, (BadInput,)),
    "stream_positions": Parser(lambda data: parse_position(_text(data)), (BadInput,)),
    "signatures": Parser(_signature, (BadSignature,)),
    "engine_urls": Parser(_engine_url, _REFUSALS),
    "outgoing_urls": Parser(_outgoing_url, (BadInput,)),
    "proxies": Parser(lambda data: parse_proxy(_text(data)).authorization, (BadInput,)),
    "allowed_networks": Parser(lambda data: parse_policy(_text(data), is_local=False), _REFUSALS),
    "settings": Parser(_settings, _REFUSALS),
    "images": Parser(_image, ()),
    "beginnings_of_files": Parser(mime_type_of, (), grows=False),
    "mime_globs": Parser(_globs, (BadInput,)),
    "download_orders": Parser(_order, ()),
    "origin_headers": Parser(_origin_headers, ()),
    "exports": Parser(_import, _REFUSALS),
    "migrated_jobber": Parser(migration_parsers.jobber, ()),
    "migrated_processor": Parser(migration_parsers.processor, ()),
    "migrated_downloader": Parser(migration_parsers.downloader, ()),
    "alert_rules": Parser(newer.alert_rules, _REFUSALS),
    "alert_targets": Parser(newer.alert_targets, ()),
    "alert_mails": Parser(newer.alert_mails, (), grows=False),
    "saved_filters": Parser(newer.saved_filters, _REFUSALS),
    "payload_searches": Parser(newer.payload_searches, _REFUSALS),
    "event_streams": Parser(lambda data: newer.event_streams([data]), (), newer.event_streams),
    "terminal_texts": Parser(newer.terminal_texts, ()),
}
