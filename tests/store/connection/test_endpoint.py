# ruff: noqa: S106 (the passwords are examples)
import pytest

from windlass.core.errors import BadSetting
from windlass.store.connection.endpoint import ClusterSeeds, Endpoint, SentinelGroup, parse_url

SEEDS = (("one", 7000), ("::1", 7001), ("three", 6379))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://", Endpoint()),
        ("redis://db.example.org", Endpoint(host="db.example.org")),
        ("valkey://db:6380/3", Endpoint(host="db", port=6380, db=3)),
        ("redis://db?db=4", Endpoint(host="db", db=4)),
        ("redis://db/4?db=4", Endpoint(host="db", db=4)),
        ("redis://[::1]:7000/1", Endpoint(host="::1", port=7000, db=1)),
        ("redis://:s%40c%2Fr%3At@db", Endpoint(host="db", password="s@c/r:t")),
        ("redis://me%40home:p%25@db", Endpoint(host="db", username="me@home", password="p%")),
        ("redis://me@db", Endpoint(host="db", username="me")),
        (" redis://db\n", Endpoint(host="db")),
        ("rediss://db", Endpoint(host="db", tls=True)),
        ("valkeys://db?ssl_cert_reqs=none", Endpoint(host="db", tls=True, tls_verify=False)),
        (
            "rediss://db?ssl_ca_certs=/ca.pem&ssl_certfile=/c.pem&ssl_keyfile=/k.pem&ssl_cert_reqs=required",
            Endpoint(host="db", tls=True, tls_ca_file="/ca.pem", tls_cert_file="/c.pem", tls_key_file="/k.pem"),
        ),
        ("unix:///run/v.sock", Endpoint(unix_path="/run/v.sock")),
        (
            "unix://me:pw@/run/a%20b.sock?db=2",
            Endpoint(unix_path="/run/a b.sock", username="me", password="pw", db=2),
        ),
    ],
)
def test_url_is_parsed(url: str, expected: Endpoint) -> None:
    assert parse_url(url) == expected


def test_urls_of_several_nodes_are_parsed() -> None:
    assert parse_url("redis+cluster://db") == ClusterSeeds((Endpoint("db"),))
    assert parse_url("valkey+cluster://me:p%2C@one:7000,[::1]:7001,three/0") == ClusterSeeds(
        tuple(Endpoint(host, port, username="me", password="p,") for host, port in SEEDS)
    )
    tls = parse_url("valkeys+cluster://one,two?ssl_ca_certs=/ca.pem")
    assert tls == ClusterSeeds(tuple(Endpoint(host, tls=True, tls_ca_file="/ca.pem") for host in ("one", "two")))
    assert parse_url("redis+sentinel://one/my%2Fmaster") == SentinelGroup(
        (Endpoint("one", 26379),), "my/master", Endpoint("one", 26379)
    )


def test_sentinels_have_their_own_credentials() -> None:
    url = "rediss+sentinel://me:pw@one:1,two:2/m/3?sentinel_username=s&sentinel_password=spw&ssl_cert_reqs=none"
    found = parse_url(url)
    assert isinstance(found, SentinelGroup)
    assert found.node == Endpoint("one", 1, username="me", password="pw", db=3, tls=True, tls_verify=False)
    assert [(node.host, node.port, node.username, node.password, node.db) for node in found.sentinels] == [
        ("one", 1, "s", "spw", 0),
        ("two", 2, "s", "spw", 0),
    ]
    assert all(node.tls and not node.tls_verify for node in found.sentinels)
    without = parse_url("redis+sentinel://me:pw@one/m")
    assert isinstance(without, SentinelGroup)
    assert without.sentinels[0].password is None, "the sentinels do not receive the nodes' password"


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "must begin with"),
        ("hunter2", "must begin with"),
        ("http://hunter2@db", "must begin with"),
        ("redis+sentinel://:hunter2@db", "name of the service"),
        ("redis+sentinel://:hunter2@db/", "name of the service"),
        ("redis+sentinel://:hunter2@db,/mymaster", "host:port, with commas"),
        ("redis+sentinel://:hunter2@/mymaster", "host:port, with commas"),
        ("redis+sentinel://:hunter2@db:0/mymaster", "port must be a number"),
        ("redis+sentinel://:hunter2@db:1,db:x/mymaster", "port must be a number"),
        ("redis+sentinel://:hunter2@db/mymaster/one", "database must be a whole number"),
        ("redis+sentinel://:hunter2@db/mymaster/1?db=2", "given twice"),
        ("redis+sentinel://:hunter2@db/mymaster?sentinel_username=hunter2", "needs sentinel_password"),
        ("redis+sentinel://:hunter2@db/mymaster?ssl_cert_reqs=none", "need rediss or valkeys"),
        ("redis+sentinel://:1#hunter2@db/m", "%23"),
        ("redis+sentinel://:hunter2%ff@db/mymaster", "UTF-8"),
        ("redis+cluster://:hunter2@", "host:port, with commas"),
        ("redis+cluster://:hunter2@db/1", "a cluster has no path"),
        ("redis+cluster://:hunter2@db?db=1", "may have only"),
        ("redis+cluster://:hunter2@[::1", "brackets"),
        ("redis+other://:hunter2@db", "must begin with"),
        ("redis://:hunter2@db:port", "port must be a number"),
        ("redis://:hunter2@db:0", "port must be a number"),
        ("redis://:hunter2@db:65536", "port must be a number"),
        ("redis://:hunter2/x@db", "port must be a number"),
        ("redis://:1/hunter2@db", "database must be a whole number"),
        ("redis://:1?hunter2@db", "may have only db"),
        ("redis://:1?hunter2=hunter2@db", "may have only db"),
        ("redis://:1#hunter2@db", "%23"),
        ("redis://:hunter2@[::1", "brackets"),
        ("redis://:hunter2@db/-1", "database must be a whole number"),
        ("redis://:hunter2@db/one", "database must be a whole number"),
        ("redis://:hunter2@db/1?db=2", "given twice"),
        ("redis://:hunter2@db?db=", "no value"),
        ("redis://:hunter2%ff@db", "UTF-8"),
        ("redis://:hunter2@db?ssl_ca_certs=/ca.pem", "need rediss or valkeys"),
        ("rediss://:hunter2@db?ssl_keyfile=/k.pem", "needs ssl_certfile"),
        ("rediss://:hunter2@db?ssl_cert_reqs=maybe", "'required' or 'none'"),
        ("unix://:hunter2@host/run/v.sock", "three slashes"),
        ("unix://:hunter2@", "path of the unix socket is missing"),
        ("unix://:hunter2@/run/v.sock?ssl_cert_reqs=none", "may have only db"),
    ],
)
def test_bad_url_is_refused_with_an_example_and_without_the_password(url: str, complaint: str) -> None:
    with pytest.raises(BadSetting, match="Example: ") as refused:
        parse_url(url)
    assert complaint in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__context__ is None, "the original ValueError quotes parts of the URL"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://me%40home:hunter2@db/3", "redis://me%40home@db:6379/3"),
        ("rediss://:hunter2@[::1]:7000", "rediss://[::1]:7000/0"),
        ("unix://:hunter2@/run/v.sock?db=2", "unix:///run/v.sock?db=2"),
        (
            "valkey+sentinel://me:hunter2@a,[::1]:7/m%2F/3?sentinel_password=hunter2",
            "redis+sentinel://me@a:26379,[::1]:7/m%2F/3",
        ),
        ("rediss+cluster://:hunter2@a,b:7", "rediss+cluster://a:6379,b:7"),
    ],
)
def test_endpoint_is_shown_without_its_password(url: str, shown: str) -> None:
    endpoint = parse_url(url)
    assert str(endpoint) == shown
    assert "hunter2" not in repr(endpoint)


def test_without_tls_there_is_no_ssl_context() -> None:
    assert parse_url("redis://db").ssl_context() is None


def test_tls_verifies_by_default() -> None:
    careful = parse_url("rediss://db").ssl_context()
    careless = parse_url("rediss://db?ssl_cert_reqs=none").ssl_context()
    assert careful is not None
    assert careless is not None
    assert (careful.verify_mode.name, careful.check_hostname) == ("CERT_REQUIRED", True)
    assert (careless.verify_mode.name, careless.check_hostname) == ("CERT_NONE", False)


def test_missing_certificate_file_is_a_bad_setting() -> None:
    with pytest.raises(BadSetting, match=r"/no/such/ca\.pem"):
        parse_url("rediss://:hunter2@db?ssl_ca_certs=/no/such/ca.pem").ssl_context()
