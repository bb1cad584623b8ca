"""All settings, each read in one place: a command-line option, then the environment, then windlass.toml, then the
default. What came from where can be shown."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from .core.callbacks.kafka_config import parse_kafka_config
from .core.callbacks.signing import parse_keys
from .core.callbacks.urls import is_base_url
from .core.errors import BadInput, BadSetting
from .core.ids import PARTITIONS_MAX
from .core.job import Durability
from .core.server_roles import ROLES, parse_roles
from .core.text.durations import format_duration, parse_duration_ms
from .core.validation.bounds import PAYLOAD_MAX, PAYLOAD_STORED_MAX

FILE_NAME = "windlass.toml"
WHOLE_DIGITS_MAX = 18
TOKEN_MIN = 16  # characters: a shorter one could be guessed
BODY_MAX = 16 * 1024 * 1024
_BASE_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)+", re.ASCII)
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


def _check_base(text: str) -> None:
    if text and not is_base_url(text):
        raise BadInput("it must be an http or https URL without a query, to which a path can be appended.")


_MAY_BE_OFF = {"bedrock_port", "health_port", "engine_memory_max"}
_CHECKS: dict[str, Callable[[str], object]] = {
    "callback_keys": parse_keys,
    "callback_kafka": parse_kafka_config,
    "roles": parse_roles,
    "download_url": _check_base,
}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """A field that ends in `_ms` is written as a duration, without that ending: WINDLASS_PATIENCE=30s."""

    url: str = ""  # empty: the embedded engine
    data_dir: str = ""  # of the embedded engine; empty: the user's data directory
    # Bytes of the embedded engine; beyond, new jobs are refused. 0: half of the machine's; None, `off`: no bound
    engine_memory_max: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = 0
    namespace: str = "wl"  # prefix of all keys
    # 0: as the engine has them; a new deployment gets 1, a new cluster 16. Fixed from then on.
    partitions: Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX)] = 0
    durability: Durability | None = None  # None: what the engine gives by itself
    allow_eviction: bool = False  # accept an engine that may throw jobs away
    patience_ms: int = 30_000  # how long an engine that is away is waited for
    log_format: Literal["text", "json"] = "text"  # of `windlass serve` and `windlass worker`

    # Of `windlass serve`
    roles: str = ",".join(ROLES)  # what this server does (docs/server.md)
    # Of a server without the role `api`: where it tells how it is; None, `off`: nowhere
    health_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] | None = None
    host: str = "127.0.0.1"  # the address it listens on
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8080  # 0: any that is free
    bedrock_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] | None = (
        8888  # of Bedrock::Jobs; None, `off`: not served
    )
    token: str = ""  # of an admin, beside the tokens that the engine keeps
    tls_certificate: str = ""  # file with the certificate and its chain
    tls_key: str = ""  # file with its key; empty: in the same file
    allow_anonymous: bool = False  # listen on other addresses than loopback without any token
    access_log: bool = False  # a line for each request
    body_max: Annotated[int, msgspec.Meta(ge=1024, le=2**30)] = BODY_MAX  # bytes of a request
    connections_max: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 4096  # of HTTP, of each process
    bedrock_connections_max: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 16_384  # they are kept for long
    # Bytes of a job's data
    bedrock_data_max: Annotated[int, msgspec.Meta(ge=1024, le=PAYLOAD_STORED_MAX)] = PAYLOAD_MAX
    bedrock_query_timeout_ms: int = 5_000  # of a query of Bedrock's; then it is aborted
    followers_max: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1000  # streams of events, of each process
    token_followers_max: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 250  # ... and of one token
    grace_ms: int = 30_000  # how long requests under way may take when it stops
    # Networks that jobs may be pushed to, or files fetched from, though they are not public, or `yes`; empty: loopback,
    # when it listens there and no token exists
    allow_private_addresses: str = ""
    # Callbacks (docs/callbacks.md); concurrency 0: this server delivers none
    callback_concurrency: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 200  # under way at once, in all
    callback_host_concurrency: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20  # ... to one host and port
    callback_attempts: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 12  # then it is given up
    callback_retry_delay_ms: int = 5_000  # after the first attempt; it doubles with each
    callback_keys: str = ""  # one or two, with a comma between: each signs; empty: callbacks are not signed
    callback_kafka: str = ""  # settings of librdkafka, e.g. bootstrap.servers=one:9092; empty: nothing goes to Kafka
    # Downloads (docs/downloader.md)
    download_dir: str = ""  # where files are kept, shared by all processors; empty: `downloads` in the data directory
    download_url: str = ""  # base of `download_url`; empty: this server's /downloader/files
    download_slots: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50  # at once, in each process
    download_retry_delay_ms: int = 5_000  # after the first attempt, twice as much after the second, and so on
    download_keep_ms: int = 10_800_000  # how long a file stays when its callback has arrived
    download_max: Annotated[int, msgspec.Meta(ge=1, le=2**53)] = 100 * 2**30  # bytes of one
    download_headers: str = ""  # of every request, as a JSON object of strings
    download_s3_bucket: str = ""  # all files go there instead, and must have a region
    download_s3_region: str = ""
    download_s3_endpoint: str = ""  # of these and of the buckets that jobs name; empty: Amazon's
    heartbeat_file: str = ""  # while it exists, GET /downloader/hb answers 503
    lightjq_keep_ms: int = 3_600_000  # how long it is told that a job of LightJQ's is done
    workers: Annotated[int, msgspec.Meta(ge=1, le=256)] = 1  # processes that answer
    base_path: str = ""  # a proxy serves us below this path: /jobs; with or without it in what it passes on
    dashboard: bool = True  # the web pages
    dashboard_read_only: bool = False  # they show, and change nothing, whoever looks at them
    dashboard_hide_payloads: bool = False  # payloads, results and lines of logs are not shown


class Origin(NamedTuple):
    """A setting as it is written, its value, and where it came from."""

    name: str
    value: Any
    source: str

    @property
    def display_value(self) -> Any:
        return format_duration(self.value) if _FIELDS[self.name].endswith("_ms") else self.value


def _written_name(field: str) -> str:
    return field.removesuffix("_ms")


_FIELDS = {_written_name(field): field for field in Settings.__struct_fields__}
_DEFAULTS = {name: getattr(Settings(), field) for name, field in _FIELDS.items()}


def load(
    options: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> tuple[Settings, list[Origin]]:
    """Settings and the origin of each. Options that are None count as not given."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    env = os.environ if environment is None else environment
    from_file = _read_file((directory or Path.cwd()) / FILE_NAME)
    origins = [_find(name, given, env, from_file) for name in _FIELDS]
    return Settings(**{_FIELDS[one.name]: one.value for one in origins}), origins


def _find(name: str, given: Mapping[str, Any], env: Mapping[str, str], from_file: Mapping[str, Any]) -> Origin:
    variable = f"WINDLASS_{name.upper()}"
    if name in given:
        return Origin(name, _read(name, given[name], "the option"), "option")
    if variable in env:
        return Origin(name, _read(name, env[variable], variable), variable)
    if name in from_file:
        return Origin(name, _read(name, from_file[name], FILE_NAME), FILE_NAME)
    return Origin(name, _DEFAULTS[name], "default")


def _read_file(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        content = tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSetting(f"{FILE_NAME} cannot be read: {error}.") from error
    for name in content:
        if name not in _FIELDS:
            raise BadSetting(f"{FILE_NAME} has no setting {name!r}; it may have {', '.join(_FIELDS)}.")
    return content


def _read(name: str, value: Any, source: str) -> Any:
    field = _FIELDS[name]
    try:
        if field.endswith("_ms"):
            value = parse_duration_ms(value)
        elif name == "durability":
            value = value or None
        elif (name in ("bedrock_port", "health_port") and value == "") or (name in _MAY_BE_OFF and value == "off"):
            value = None
        elif name == "token":
            _check_token(value)
        elif name == "base_path":
            value = _base_path(value)
        elif name in _CHECKS and isinstance(value, str):
            _CHECKS[name](value)
        elif isinstance(value, str) and isinstance(_DEFAULTS[name], bool):
            value = _boolean(value)
        elif isinstance(value, str) and (isinstance(_DEFAULTS[name], int) or name == "health_port"):
            value = _whole(value)
        return getattr(msgspec.convert({field: value}, Settings), field)
    except (msgspec.ValidationError, BadInput, AttributeError) as error:
        raise BadSetting(f"The setting {name}, from {source}, is wrong: {error}") from error


def _boolean(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise BadInput(f"{text!r} is neither 1, true, yes or on nor 0, false, no or off.")
    return text.lower() in _TRUE


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= WHOLE_DIGITS_MAX):
        raise BadInput(f"{text[:40]!r} is not a whole number, or too large a one.")
    return int(text)


def _base_path(text: Any) -> Any:
    """Begins with a slash and does not end with one; empty: none."""
    if not isinstance(text, str) or not text.strip("/"):
        return "" if isinstance(text, str) else text
    path = f"/{text.strip('/')}"
    if not _BASE_PATH.fullmatch(path):
        raise BadInput("a path has letters, digits, and the signs . _ ~ - between its slashes, such as /ops/jobs.")
    return path


def _check_token(text: Any) -> None:
    """It goes through a header: what cannot be sent there could never be shown."""
    if not isinstance(text, str) or not text:
        return
    if len(text) < TOKEN_MIN:
        raise BadInput(f"it must have at least {TOKEN_MIN} characters; `openssl rand -hex 32` makes a good one.")
    if not all("!" <= character <= "~" for character in text):
        raise BadInput("it may have visible ASCII characters only, and no blanks.")
