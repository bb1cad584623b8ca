"""All settings. A value comes from the first of: command-line option, environment, windlass.toml, default.

The origin of each value is kept, so that it can be displayed.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from .core.alerts.declared import parse_tables
from .core.alerts.smtp_url import parse_smtp_url
from .core.alerts.targets import check_address
from .core.callbacks.kafka_config import parse_kafka_config
from .core.callbacks.signing import parse_keys
from .core.callbacks.urls import is_base_url
from .core.durability import ENGINE_DURABILITIES, EngineDurability
from .core.errors import BadInput, BadSetting
from .core.ids import PARTITIONS_MAX
from .core.job import Durability
from .core.server_roles import ROLES, parse_roles
from .core.text.durations import format_duration, parse_duration_ms
from .core.text.similar_names import suggest_name
from .core.validation.bounds import DURATION_MAX, PAYLOAD_MAX, PAYLOAD_STORED_MAX
from .setting_words import describe_values, describe_wrong_value, find_unknown_variables, setting_kinds

FILE_NAME = "windlass.toml"
INTEGER_DIGITS_MAX = 18
TOKEN_MIN = 16  # characters: a shorter token could be guessed
BODY_MAX = 16 * 1024 * 1024
_BASE_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)+", re.ASCII)
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off", ""}


def _check_base_url(text: str) -> None:
    if text and not is_base_url(text):
        raise BadInput("it must be an http or https URL to which a path can be appended, without a query.")


def _check_engine_durability(text: str) -> None:
    if text not in ENGINE_DURABILITIES:
        raise BadInput(
            f"{text[:40]!r} is not known; write `auto` to read it from the engine's settings, or `managed` if the "
            "service makes each write durable in a way that the engine cannot show."
        )


def _check_mail_from(text: str) -> None:
    if text:
        check_address(text)


_MAY_BE_OFF = {"bedrock_port", "health_port", "engine_memory_max"}
_CHECKS: dict[str, Callable[[str], object]] = {
    "callback_keys": parse_keys,
    "callback_kafka": parse_kafka_config,
    "smtp_url": parse_smtp_url,
    "mail_from": _check_mail_from,
    "engine_durability": _check_engine_durability,
    "roles": parse_roles,
    "download_url": _check_base_url,
    "public_url": _check_base_url,
}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Values of all settings. A field that ends in `_ms` is set as a duration without that suffix:
    WINDLASS_PATIENCE=30s."""

    url: str = ""  # empty: the embedded engine
    data_dir: str = ""  # of the embedded engine; empty: the user's data directory
    # Memory of the embedded engine in bytes; when it is full, new jobs are refused. 0: half of the machine's memory;
    # None, `off`: unlimited
    engine_memory_max: Annotated[int, msgspec.Meta(ge=0, le=2**53)] | None = 0
    namespace: str = "wl"  # prefix of all keys
    # 0: the number that the engine stores; a new deployment gets 1, a new cluster 16. Fixed after the first start.
    partitions: Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX)] = 0
    durability: Durability | None = None  # None: the durability that the engine provides by itself
    # How the durability of the engine is known: `auto`, from its settings; `managed`, the service makes each write
    # durable in a way that the engine cannot show. The embedded engine is always `auto`
    engine_durability: EngineDurability = "auto"
    allow_eviction: bool = False  # accept an engine that may evict jobs
    patience_ms: int = 30_000  # how long to wait for an engine that cannot be reached
    log_format: Literal["text", "json"] = "text"  # of `windlass serve` and `windlass worker`
    job_log: bool = True  # a worker logs a line for each job that ends without a failure; failures are always logged

    # For `windlass serve`
    roles: str = ",".join(ROLES)  # roles of this server (docs/server.md)
    # Port of the health checks on a server without the role `api`; None, `off`: none
    health_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] | None = None
    host: str = "127.0.0.1"  # address to listen on
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8080  # 0: any free port
    bedrock_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] | None = 8888  # Bedrock::Jobs; None, `off`: not served
    token: str = ""  # admin token, in addition to the tokens in the engine
    tls_certificate: str = ""  # file with the certificate and its chain
    tls_key: str = ""  # file with the key; empty: in the certificate file
    allow_anonymous: bool = False  # listen on addresses other than loopback without any token
    access_log: bool = False  # log a line for each request
    body_max: Annotated[int, msgspec.Meta(ge=1024, le=2**30)] = BODY_MAX  # bytes of a request
    connections_max: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 4096  # HTTP connections per process
    bedrock_connections_max: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 16_384  # they are long-lived
    # Bytes of a job's data in Bedrock
    bedrock_data_max: Annotated[int, msgspec.Meta(ge=1024, le=PAYLOAD_STORED_MAX)] = PAYLOAD_MAX
    bedrock_query_timeout_ms: int = 5_000  # a Bedrock query that takes longer is aborted
    # What Bedrock accepts: the rules of its document, or also what its current server and PHP client use beyond it
    bedrock_rules: Literal["document", "upstream"] = "document"
    # How long a Bedrock client may have a job without a timeout of its own; 0: any time
    bedrock_job_timeout_ms: Annotated[int, msgspec.Meta(ge=0, le=DURATION_MAX)] = 0
    followers_max: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 1000  # event streams per process
    token_followers_max: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 250  # ... and per token
    grace_ms: int = 30_000  # how long requests in progress may take after a stop signal
    # Private networks that the server may push jobs to or fetch files from, or `yes` for all; empty: loopback, if the
    # server listens there and no token exists
    allow_private_addresses: str = ""
    # Callbacks (docs/callbacks.md); concurrency 0: this server delivers none
    callback_concurrency: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 200  # concurrent deliveries
    callback_host_concurrency: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20  # ... to one host and port
    callback_attempts: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 12  # then the callback is given up
    callback_retry_delay_ms: int = 5_000  # after the first attempt; doubled after each further attempt
    callback_keys: str = ""  # one or two signing keys, separated by a comma; empty: callbacks are not signed
    callback_kafka: str = ""  # settings of librdkafka, e.g. bootstrap.servers=one:9092; empty: no Kafka
    # Alerts (docs/alerts.md)
    # Declared rules: a table per rule, in windlass.toml as [alerts.NAME]; or the path of a TOML file with these tables
    alerts: str | dict[str, dict[str, Any]] = ""
    smtp_url: str = ""  # mail server, as smtp://user:password@mail.example.com:587; empty: no mail is sent
    mail_from: str = ""  # address from which mail is sent
    # Downloads (docs/downloader.md)
    download_dir: str = ""  # directory of the files, shared by all processors; empty: `downloads` in the data directory
    download_url: str = ""  # base of `download_url`; empty: this server's /downloader/files
    download_slots: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50  # concurrent downloads per process
    download_retry_delay_ms: int = 5_000  # after the first attempt; doubled after each further attempt
    download_keep_ms: int = 10_800_000  # how long a file is kept after its callback was delivered
    download_max: Annotated[int, msgspec.Meta(ge=1, le=2**53)] = 100 * 2**30  # bytes of one file
    download_headers: str = ""  # headers of every request, as a JSON object of strings
    download_s3_bucket: str = ""  # bucket for all files, instead of the directory; it needs a region
    download_s3_region: str = ""
    download_s3_endpoint: str = ""  # for this bucket and for the buckets that jobs name; empty: Amazon's
    heartbeat_file: str = ""  # while this file exists, GET /downloader/hb returns 503
    lightjq_keep_ms: int = 3_600_000  # how long LightJQ reports a finished job as done
    lightjq_tombstone_ms: int = 2_592_000_000  # how long it then answers nil for a job with keep_result; 0: it does not
    workers: Annotated[int, msgspec.Meta(ge=1, le=256)] = 1  # server processes
    base_path: str = ""  # path below which a proxy serves Windlass, as /jobs; the proxy may strip it or pass it on
    public_url: str = ""  # address of this server for people, for signal URLs; empty: as the request names it
    dashboard: bool = True  # serve the web pages
    dashboard_read_only: bool = False  # the web pages change nothing, for all users
    dashboard_hide_payloads: bool = False  # the web pages do not show payloads, results and log lines


class Origin(NamedTuple):
    """A setting: its name, its value, and the source of the value."""

    name: str
    value: Any
    source: str

    @property
    def display_value(self) -> Any:
        return format_duration(self.value) if _FIELDS[self.name].endswith("_ms") else self.value


def _setting_name(field: str) -> str:
    return field.removesuffix("_ms")


_FIELDS = {_setting_name(field): field for field in Settings.__struct_fields__}
_DEFAULTS = {name: getattr(Settings(), field) for name, field in _FIELDS.items()}
_VALUES = {
    name: describe_values(name, kind, may_be_off=name in _MAY_BE_OFF, is_duration=_FIELDS[name].endswith("_ms"))
    for name, kind in ((_setting_name(field), kind) for field, kind in setting_kinds(Settings).items())
}


def load(
    options: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    *,
    option_form: str = "the option {}",
) -> tuple[Settings, list[Origin]]:
    """Return the settings and the origin of each. Options that are None count as not given. `option_form`: how a person
    writes an option, for messages."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    env = os.environ if environment is None else environment
    from_file = _read_file((directory or Path.cwd()) / FILE_NAME)
    origins = [_find(name, given, env, from_file, option_form) for name in _FIELDS]
    return Settings(**{_FIELDS[origin.name]: origin.value for origin in origins}), origins


def _find(
    name: str, given: Mapping[str, Any], env: Mapping[str, str], from_file: Mapping[str, Any], option_form: str
) -> Origin:
    variable = f"WINDLASS_{name.upper()}"
    if name in given:
        return Origin(name, _read(name, given[name], option_form.format(name.replace("_", "-"))), "option")
    if variable in env:
        return Origin(name, _read(name, env[variable], variable), variable)
    if name in from_file:
        return Origin(name, _read(name, from_file[name], f"{name} in {FILE_NAME}"), FILE_NAME)
    return Origin(name, _DEFAULTS[name], "default")


def unknown_variables(environment: Mapping[str, str] | None = None) -> list[str]:
    """Return a sentence about each WINDLASS_… variable that is not a setting."""
    return list(find_unknown_variables(os.environ if environment is None else environment, _FIELDS))


def _read_file(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    try:
        content = tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSetting(f"{FILE_NAME} cannot be read: {error}.") from error
    for name in content:
        if name not in _FIELDS:
            suggestion = suggest_name(str(name), _FIELDS)
            hint = f"did you mean {suggestion!r}? The" if suggestion else "the"
            raise BadSetting(
                f"{FILE_NAME} contains the unknown setting {name!r}; {hint} settings are {', '.join(_FIELDS)}."
            )
    return content


def _read(name: str, given: Any, source: str) -> Any:
    field, value = _FIELDS[name], given
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
            value = _parse_base_path(value)
        elif name == "alerts" and isinstance(value, dict):
            parse_tables(value)
        elif name in _CHECKS and isinstance(value, str):
            _CHECKS[name](value)
        elif isinstance(value, str) and isinstance(_DEFAULTS[name], bool):
            value = _parse_boolean(value)
        elif isinstance(value, str) and (isinstance(_DEFAULTS[name], int) or name == "health_port"):
            value = _parse_integer(value)
        return getattr(msgspec.convert({field: value}, Settings), field)
    except (msgspec.ValidationError, BadInput, AttributeError, TypeError) as error:
        raise BadSetting(_explain(name, given, source, error)) from error


def _explain(name: str, value: Any, source: str, error: Exception) -> str:
    """Say in words what is wrong with a value, and name its source as the person wrote it."""
    expected = _VALUES[name]
    if expected:
        return f"{source} must be {expected}, not {describe_wrong_value(value)}."
    if isinstance(error, BadInput):
        return f"{source} is invalid: {error}"
    return f"{source} must be text, not {describe_wrong_value(value)}."


def _parse_boolean(text: str) -> bool:
    if text.lower() not in _TRUE | _FALSE:
        raise BadInput(f"{text!r} is not a boolean; write 1, true, yes or on, or 0, false, no or off.")
    return text.lower() in _TRUE


def _parse_integer(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= INTEGER_DIGITS_MAX):
        raise BadInput(f"{text[:40]!r} is not a whole number of at most {INTEGER_DIGITS_MAX} digits.")
    return int(text)


def _parse_base_path(text: Any) -> Any:
    """Return the path with a slash at its start and none at its end, or an empty text."""
    if not isinstance(text, str) or not text.strip("/"):
        return "" if isinstance(text, str) else text
    path = f"/{text.strip('/')}"
    if not _BASE_PATH.fullmatch(path):
        raise BadInput("a path may have letters, digits and . _ ~ - between its slashes, such as /ops/jobs.")
    return path


def _check_token(text: Any) -> None:
    """Check that clients can send the token in a header."""
    if not isinstance(text, str) or not text:
        return
    if len(text) < TOKEN_MIN:
        raise BadInput(f"it must have at least {TOKEN_MIN} characters; create one with `openssl rand -hex 32`.")
    if not all("!" <= character <= "~" for character in text):
        raise BadInput("it may have visible ASCII characters only, and no spaces.")
