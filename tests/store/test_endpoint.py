# ruff: noqa: S106 (the passwords are examples)
import pytest

from windlass.core.errors import BadSetting
from windlass.store.endpoint import Endpoint, parse_url


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
def test_url_is_understood(url: str, expected: Endpoint) -> None:
    assert parse_url(url) == expected


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "must begin with"),
        ("hunter2", "must begin with"),
        ("http://hunter2@db", "must begin with"),
        ("redis+sentinel://:hunter2@db/mymaster", "connects to a single engine"),
        ("redis+cluster://:hunter2@db", "connects to a single engine"),
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
        ("redis://:hunter2@db?ssl_ca_certs=/ca.pem", "need rediss://"),
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
    ],
)
def test_endpoint_is_shown_without_its_password(url: str, shown: str) -> None:
    endpoint = parse_url(url)
    assert str(endpoint) == shown
    assert repr(endpoint) == f"Endpoint({shown})"


def test_without_tls_there_is_no_ssl_context() -> None:
    assert parse_url("redis://db").ssl_context() is None


def test_tls_verifies_unless_told_otherwise() -> None:
    careful = parse_url("rediss://db").ssl_context()
    careless = parse_url("rediss://db?ssl_cert_reqs=none").ssl_context()
    assert careful is not None
    assert careless is not None
    assert (careful.verify_mode.name, careful.check_hostname) == ("CERT_REQUIRED", True)
    assert (careless.verify_mode.name, careless.check_hostname) == ("CERT_NONE", False)


def test_missing_certificate_file_is_a_bad_setting() -> None:
    with pytest.raises(BadSetting, match=r"/no/such/ca\.pem"):
        parse_url("rediss://:hunter2@db?ssl_ca_certs=/no/such/ca.pem").ssl_context()
