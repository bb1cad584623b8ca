"""Addresses of engine nodes and their URLs: one node, the seed nodes of a cluster, or the sentinels of a primary.

connection.py opens connections; the topology package finds the right node.
"""

import re
import socket
import ssl
from dataclasses import dataclass, replace
from typing import NoReturn, TypeAlias
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from windlass.core.errors import BadSetting

DEFAULT_PORT = 6379
SENTINEL_PORT = 26379
EXAMPLE_URL = "redis://user:password@localhost:6379/0"
EXAMPLE_TLS_URL = "rediss://user:password@db.example.org:6379/0?ssl_ca_certs=/etc/ssl/ca.pem"
EXAMPLE_UNIX_URL = "unix:///run/valkey/valkey.sock?db=0"
EXAMPLE_SENTINEL_URL = "redis+sentinel://user:password@one:26379,two:26379,three:26379/mymaster/0"
EXAMPLE_CLUSTER_URL = "redis+cluster://user:password@one:6379,two:6379,three:6379"

_DB_DIGITS_MAX = 9

_PLAIN_SCHEMES = ("redis", "valkey")
_TLS_SCHEMES = ("rediss", "valkeys")
_SCHEMES = (*_PLAIN_SCHEMES, *_TLS_SCHEMES)
_SENTINEL_SCHEMES = tuple(f"{scheme}+sentinel" for scheme in _SCHEMES)
_CLUSTER_SCHEMES = tuple(f"{scheme}+cluster" for scheme in _SCHEMES)
_SEVERAL_NODES = re.compile(r"(?P<scheme>[^:/?#]+)://(?P<nodes>[^/?#]*)(?P<rest>.*)", re.DOTALL)
_SENTINEL_OPTIONS = ("sentinel_username", "sentinel_password")
_TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs")


@dataclass(frozen=True, slots=True, repr=False)
class Endpoint:
    host: str = "localhost"
    port: int = DEFAULT_PORT
    unix_path: str | None = None  # when set, host and port are ignored
    username: str | None = None
    password: str | None = None
    db: int = 0
    tls: bool = False
    tls_ca_file: str | None = None  # None: the CAs that the operating system trusts
    tls_cert_file: str | None = None
    tls_key_file: str | None = None
    tls_verify: bool = True

    def __str__(self) -> str:
        """Return the URL without its password, for messages and logs."""
        user = f"{quote(self.username, safe='')}@" if self.username else ""
        if self.unix_path is not None:
            return f"unix://{user}{quote(self.unix_path)}?db={self.db}"
        return f"{'rediss' if self.tls else 'redis'}://{user}{host_and_port(self)}/{self.db}"

    def __repr__(self) -> str:
        return f"Endpoint({self})"

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return a new TLS context, or None without TLS. A fresh one per connect picks up a renewed certificate."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.tls_ca_file)
            if self.tls_cert_file:
                # With an empty password an encrypted key is an error; without one, OpenSSL prompts on the terminal.
                context.load_cert_chain(self.tls_cert_file, self.tls_key_file, password="")
        except OSError as error:
            files = ", ".join(filter(None, (self.tls_ca_file, self.tls_cert_file, self.tls_key_file)))
            raise BadSetting(f"The TLS files for {self} cannot be used ({files}): {error}.") from error
        if not self.tls_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True)
class SentinelGroup:
    """Sentinels, and the service name of the primary that they watch."""

    sentinels: tuple[Endpoint, ...]
    service: str
    node: Endpoint  # credentials, database and TLS of the primary; host and port come from the sentinels

    def __str__(self) -> str:
        return f"{_format_nodes(self.node, 'sentinel', self.sentinels)}/{quote(self.service, safe='')}/{self.node.db}"


@dataclass(frozen=True, slots=True)
class ClusterSeeds:
    """Some nodes of a cluster, from which the others are discovered."""

    seeds: tuple[Endpoint, ...]

    def __str__(self) -> str:
        return _format_nodes(self.seeds[0], "cluster", self.seeds)


Address: TypeAlias = Endpoint | SentinelGroup | ClusterSeeds


def host_and_port(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"


def _format_nodes(node: Endpoint, kind: str, nodes: tuple[Endpoint, ...]) -> str:
    user = f"{quote(node.username, safe='')}@" if node.username else ""
    return f"{'rediss' if node.tls else 'redis'}+{kind}://{user}{','.join(map(host_and_port, nodes))}"


def parse_url(url: str) -> Address:
    several = _SEVERAL_NODES.fullmatch(url.strip())
    scheme = several["scheme"].lower() if several else ""
    if several and scheme in _SENTINEL_SCHEMES:
        return _sentinel_group(several["nodes"], _split(f"{scheme.partition('+')[0]}://{several['rest']}"))
    if several and scheme in _CLUSTER_SCHEMES:
        return _cluster_seeds(several["nodes"], _split(f"{scheme.partition('+')[0]}://{several['rest']}"))
    parts = _split(url)
    _check_fragment(parts, EXAMPLE_URL)
    if parts.scheme == "unix":
        return _unix_endpoint(parts)
    if parts.scheme not in _SCHEMES:
        _refuse(
            "it must begin with redis://, rediss://, valkey://, valkeys:// or unix://, "
            "or with one of the first four and +sentinel or +cluster, as in redis+cluster:// "
            "(http:// and https:// are for applications and workers that connect through a server)"
        )
    return _tcp_endpoint(parts)


def _check_fragment(parts: SplitResult, example: str) -> None:
    if parts.fragment:
        _refuse("it contains a '#'; in a password, write it as %23", example)


def _sentinel_group(nodes: str, parts: SplitResult) -> SentinelGroup:
    _check_fragment(parts, EXAMPLE_SENTINEL_URL)
    tls = parts.scheme in _TLS_SCHEMES
    allowed = ("db", *_SENTINEL_OPTIONS, *(_TLS_OPTIONS if tls else ()))
    options = _options(parts, allowed)
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        _refuse("the name of the service that the sentinels watch is missing from its path", EXAMPLE_SENTINEL_URL)
    found = _endpoints(nodes, options, tls, SENTINEL_PORT, EXAMPLE_SENTINEL_URL)
    username, password = options.get("sentinel_username"), options.get("sentinel_password")
    if username and not password:
        _refuse("sentinel_username needs sentinel_password beside it", EXAMPLE_SENTINEL_URL)
    return SentinelGroup(
        tuple(replace(node, username=username, password=password) for node in found),
        _decoded(service),
        replace(found[0], db=_db(options.get("db"), db)),
    )


def _cluster_seeds(nodes: str, parts: SplitResult) -> ClusterSeeds:
    _check_fragment(parts, EXAMPLE_CLUSTER_URL)
    tls = parts.scheme in _TLS_SCHEMES
    options = _options(parts, _TLS_OPTIONS if tls else ())
    if parts.path not in ("", "/", "/0"):
        _refuse("a cluster has no path: it has one database, and Windlass has namespaces", EXAMPLE_CLUSTER_URL)
    return ClusterSeeds(_endpoints(nodes, options, tls, DEFAULT_PORT, EXAMPLE_CLUSTER_URL))


def _endpoints(nodes: str, options: dict[str, str], tls: bool, default_port: int, example: str) -> tuple[Endpoint, ...]:
    """Return one endpoint per host, all with the same credentials and TLS options."""
    credentials, _, hosts = nodes.rpartition("@")
    username, password = _credentials(_split(f"redis://{credentials}@host" if credentials else "redis://"))
    found = []
    for text in hosts.split(","):
        parts = _split(f"redis://{text}")
        if not parts.hostname or parts.username is not None:
            _refuse("it must name its nodes as host:port, with commas between them", example)
        port = _port(parts, default_port)
        found.append(_with_options(Endpoint(parts.hostname, port, None, username, password, 0, tls), options))
    return tuple(found)


def _with_options(endpoint: Endpoint, options: dict[str, str]) -> Endpoint:
    return replace(
        endpoint,
        tls_ca_file=options.get("ssl_ca_certs"),
        tls_cert_file=_cert_file(options),
        tls_key_file=options.get("ssl_keyfile"),
        tls_verify=_must_verify(options),
    )


def _tcp_endpoint(parts: SplitResult) -> Endpoint:
    tls = parts.scheme in _TLS_SCHEMES
    options = _options(parts, allowed=("db", *_TLS_OPTIONS) if tls else ("db",))
    username, password = _credentials(parts)
    endpoint = Endpoint(
        host=parts.hostname or "localhost",
        port=_port(parts),
        username=username,
        password=password,
        db=_db(options.get("db"), parts.path.strip("/")),
        tls=tls,
    )
    return _with_options(endpoint, options)


def _unix_endpoint(parts: SplitResult) -> Endpoint:
    if not hasattr(socket, "AF_UNIX"):
        _refuse("this system has no unix sockets: give the engine a TCP port", EXAMPLE_URL)
    if parts.hostname:
        _refuse("a unix socket has no host: write three slashes before its path", EXAMPLE_UNIX_URL)
    path = _decoded(parts.path)
    if path in ("", "/"):
        _refuse("the path of the unix socket is missing", EXAMPLE_UNIX_URL)
    options = _options(parts, allowed=("db",))
    username, password = _credentials(parts)
    return Endpoint(unix_path=path, username=username, password=password, db=_db(options.get("db"), ""))


def _refuse(problem: str, example: str = EXAMPLE_URL) -> NoReturn:
    """Raise BadSetting without quoting the URL: after an unescaped delimiter any part may hold the password."""
    raise BadSetting(f"The engine's URL is not usable: {problem}. Example: {example}")


def _split(url: str) -> SplitResult:
    # Raise after the except block: the ValueError quotes the URL and must not become the context of our error.
    try:
        return urlsplit(url.strip())
    except ValueError:
        pass
    _refuse("its host is malformed; an IPv6 address is written in brackets, as in redis://[::1]:6379/0")


def _port(parts: SplitResult, default: int = DEFAULT_PORT) -> int:
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port is None:
        return default
    if port == 0:
        _refuse(
            "the port must be a number from 1 to 65535 "
            "(in a password, write '/', '?', '#' and '@' as %2F, %3F, %23 and %40)"
        )
    return port


def _credentials(parts: SplitResult) -> tuple[str | None, str | None]:
    return (
        _decoded(parts.username) if parts.username else None,
        _decoded(parts.password) if parts.password else None,
    )


def _decoded(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        pass
    _refuse("its percent-encoded parts must be UTF-8")


def _options(parts: SplitResult, allowed: tuple[str, ...]) -> dict[str, str]:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if not options.keys() <= set(allowed):
        hint = "" if "ssl_ca_certs" in allowed else " (ssl_… options need rediss or valkeys at its beginning)"
        _refuse(f"after the '?' it may have only {', '.join(allowed) or 'options of TLS'}{hint}")
    if "" in options.values():
        _refuse("an option after the '?' has no value")
    return options


def _db(option: str | None, path: str) -> int:
    if option is not None and path and option != path:
        _refuse("the database number is given twice, in the path and as ?db=")
    number = option or path or "0"
    if not (number.isascii() and number.isdigit() and len(number) <= _DB_DIGITS_MAX):
        _refuse("the database must be a whole number, 0 or greater, as the engine has it")
    return int(number)


def _cert_file(options: dict[str, str]) -> str | None:
    if "ssl_keyfile" in options and "ssl_certfile" not in options:
        _refuse("ssl_keyfile needs ssl_certfile beside it", EXAMPLE_TLS_URL)
    return options.get("ssl_certfile")


def _must_verify(options: dict[str, str]) -> bool:
    requirement = options.get("ssl_cert_reqs", "required")
    if requirement not in ("required", "none"):
        _refuse("ssl_cert_reqs must be 'required' or 'none'", EXAMPLE_TLS_URL)
    return requirement == "required"
