"""The asyncio connection against killed and frozen engines; both kinds of connection with passwords and TLS."""

import asyncio
import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.connections import open_connection, open_reconnecting, open_sync_connection
from tests.support.engine_process import EngineProcess
from tests.support.scripted_engine import scripted_engine
from windlass.core.errors import BadSetting, EngineError, EngineUnavailable
from windlass.core.job import NewJob
from windlass.core.operations import Finish, Take, Taken
from windlass.server import build_store
from windlass.service import Service
from windlass.settings import Settings
from windlass.store.connection.connection import Connection, ConnectionLost, EngineReplyError
from windlass.store.connection.endpoint import Endpoint, parse_url
from windlass.store.connection.sync_connection import SyncConnection
from windlass.store.snapshot.replication import receive_snapshot

SOON_S = 0.1
LATE_S = 5.0


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


def test_engine_does_not_outlive_a_killed_test_process() -> None:
    imports = "from tests.support.engine_process import EngineProcess"
    program = f"{imports}; engine = EngineProcess().start(); print(engine.pid, flush=True); input()"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    with child:
        assert child.stdout is not None
        engine_pid = int(child.stdout.readline())
        assert is_running(engine_pid)
        child.kill()
    give_up_at_s = time.monotonic() + LATE_S
    while is_running(engine_pid) and time.monotonic() < give_up_at_s:
        time.sleep(0.005)
    assert not is_running(engine_pid)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# Calls and replies


@pytest.mark.anyio
async def test_ten_thousand_calls_are_answered_in_order(endpoint: Endpoint) -> None:
    async with open_connection(endpoint) as connection:
        futures = [connection.call("ECHO", number) for number in range(10_000)]
        assert await asyncio.gather(*futures) == [b"%d" % number for number in range(10_000)]


@pytest.mark.anyio
async def test_arguments_may_be_bytes_text_and_numbers(endpoint: Endpoint) -> None:
    async with open_connection(endpoint) as connection:
        await connection.call("RPUSH", "kinds", b"\x00\xff\r\n", "é", -7, 1.5)
        assert await connection.call("LRANGE", "kinds", 0, -1) == [
            b"\x00\xff\r\n",
            "é".encode(),
            b"-7",
            b"1.5",
        ]
        await connection.call("DEL", "kinds")
        with pytest.raises(TypeError):
            connection.call("ECHO", None)
        assert await connection.call("PING") == b"PONG"


@pytest.mark.anyio
async def test_cancelled_call_does_not_shift_later_replies(endpoint: Endpoint) -> None:
    async with open_connection(endpoint) as connection:
        futures = [connection.call("ECHO", number) for number in range(100)]
        futures[50].cancel()
        waiting = asyncio.create_task(connection.call_within(LATE_S, "BLPOP", "nothing", 0.05))
        await futures[0]
        waiting.cancel()
        later = connection.call("ECHO", "later")
        replies = await asyncio.gather(*futures[:50], *futures[51:], later)
        assert replies == [b"%d" % number for number in range(100) if number != 50] + [b"later"]


@pytest.mark.anyio
async def test_error_reply_fails_its_own_call_only(endpoint: Endpoint) -> None:
    async with open_connection(endpoint) as connection:
        before, wrong, after = (connection.call(*c) for c in [("ECHO", 1), ("EVALSHA", "0" * 40, 0), ("ECHO", 2)])
        with pytest.raises(EngineReplyError, match="No matching script") as refused:
            await wrong
        assert refused.value.kind == "NOSCRIPT"
        assert (await before, await after) == (b"1", b"2")


@pytest.mark.anyio
async def test_pipeline_keeps_order_among_other_calls(endpoint: Endpoint) -> None:
    async with open_connection(endpoint) as connection:
        before = connection.call("ECHO", "before")
        pipeline = asyncio.create_task(connection.pipeline_within(LATE_S, [("ECHO", 1), ("NONSENSE",), ("ECHO", 3)]))
        await asyncio.sleep(0)
        after = connection.call("ECHO", "after")
        first, wrong, third = await pipeline
        assert (await before, first, third, await after) == (b"before", b"1", b"3", b"after")
        assert isinstance(wrong, EngineReplyError)


@pytest.mark.anyio
async def test_pipeline_with_a_wrong_argument_sends_nothing(endpoint: Endpoint) -> None:
    async with open_connection(endpoint) as connection:
        with pytest.raises(TypeError):
            await connection.pipeline_within(LATE_S, [("SET", "half", 1), ("ECHO", None)])  # type: ignore[list-item]
        assert await connection.call("EXISTS", "half") == 0


@pytest.mark.anyio
async def test_cancelled_pipeline_does_not_shift_later_replies(endpoint: Endpoint) -> None:
    async with open_connection(endpoint) as connection:
        pipeline = asyncio.create_task(
            connection.pipeline_within(LATE_S, [("BLPOP", "nothing", 0.05), ("ECHO", "late")])
        )
        await asyncio.sleep(0)
        pipeline.cancel()
        assert await connection.call("ECHO", "next") == b"next"
        assert pipeline.cancelled()


@pytest.mark.anyio
async def test_database_and_client_name_are_set(shared_engine: EngineProcess) -> None:
    endpoint = parse_url(shared_engine.url.removesuffix("/0") + "/5")
    async with open_connection(endpoint) as connection:
        about = await connection.call("CLIENT", "INFO")
    with open_sync_connection(endpoint) as sync:
        about_sync = sync.call("CLIENT", "INFO")
    for line in (about, about_sync):
        assert b" name=windlass " in line
        assert b" db=5 " in line


@pytest.mark.anyio
async def test_drain_waits_until_the_engine_reads_again(engine: EngineProcess) -> None:
    async with open_connection(parse_url(engine.unix_url)) as connection:
        engine.freeze()
        futures = [connection.call("ECHO", b"x" * 100_000) for _ in range(50)]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.drain(), SOON_S)
        engine.thaw()
        await asyncio.wait_for(connection.drain(), LATE_S)
        assert len(await asyncio.gather(*futures)) == 50


# Loss


@pytest.mark.anyio
async def test_killed_engine_fails_all_pending_calls(engine: EngineProcess) -> None:
    async with open_connection(parse_url(engine.url)) as connection:
        waiting = [connection.call("BLPOP", "nothing", 0) for _ in range(20)]
        await asyncio.sleep(0)
        engine.kill()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {ConnectionLost}
        assert connection.is_closed
        with pytest.raises(ConnectionLost):
            await connection.call("PING")
        with pytest.raises(ConnectionLost):
            await connection.drain()


@pytest.mark.anyio
async def test_close_fails_pending_calls(endpoint: Endpoint) -> None:
    async with open_connection(endpoint) as connection:
        waiting = connection.call("BLPOP", "nothing", 0)
        connection.close()
        with pytest.raises(ConnectionLost, match="closed by this process"):
            await waiting


@pytest.mark.anyio
async def test_watchdog_ends_a_call_to_a_frozen_engine(engine: EngineProcess) -> None:
    async with open_connection(parse_url(engine.url)) as connection:
        assert await connection.call_within(LATE_S, "BLPOP", "nothing", 0.01) is None
        engine.freeze()
        bystander = connection.call("PING")
        with pytest.raises(ConnectionLost, match=r"no reply within 0\.1 s"):
            await connection.call_within(SOON_S, "BLPOP", "nothing", 0)
        with pytest.raises(ConnectionLost):
            await bystander
        assert connection.is_closed


@pytest.mark.anyio
async def test_connecting_to_a_frozen_engine_has_a_limit(engine: EngineProcess) -> None:
    engine.freeze()
    with pytest.raises(EngineUnavailable, match=r"no answer within 0\.1 s"):
        await Connection.open(parse_url(engine.url), timeout_s=SOON_S)


@pytest.mark.anyio
async def test_garbage_ends_the_connection() -> None:
    with scripted_engine(b"garbage\r\n") as endpoint:
        async with open_connection(endpoint) as connection:
            with pytest.raises(ConnectionLost, match="bytes that are not a reply"):
                await connection.call("PING")


# Passwords and TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    directory = tmp_path_factory.mktemp("tls")
    certificate, key = directory / "cert.pem", directory / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += [
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=windlass-test",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


@pytest.fixture(scope="module")
def locked_engine(certificate: tuple[Path, Path]) -> Iterator[EngineProcess]:
    cert_file, key_file = map(str, certificate)
    config = ["--tls-cert-file", cert_file, "--tls-key-file", key_file, "--tls-ca-cert-file", cert_file]
    config += ["--tls-auth-clients", "no"]
    with EngineProcess("redis", tls=True, password="s3cret/@", config=config) as engine:  # noqa: S106
        yield engine


@pytest.mark.anyio
async def test_tls_with_a_password(locked_engine: EngineProcess, certificate: tuple[Path, Path]) -> None:
    endpoint = parse_url(f"{locked_engine.url}?ssl_ca_certs={certificate[0]}")
    async with open_connection(endpoint) as connection:
        large = b"x" * 3_000_000
        assert await asyncio.gather(*(connection.call("ECHO", large) for _ in range(3))) == [large] * 3
    with open_sync_connection(endpoint) as sync:
        assert sync.call("ECHO", large) == large


def test_a_snapshot_comes_over_tls(locked_engine: EngineProcess, certificate: tuple[Path, Path]) -> None:
    endpoint = parse_url(f"{locked_engine.url}?ssl_ca_certs={certificate[0]}")
    file = io.BytesIO()
    assert receive_snapshot(endpoint, file) > 1_000_000_000_000  # type: ignore[arg-type]
    assert file.getvalue().startswith(b"REDIS")


@pytest.mark.anyio
async def test_jobs_go_through_an_engine_with_tls_and_a_password_by_its_url_alone(
    locked_engine: EngineProcess, certificate: tuple[Path, Path]
) -> None:
    settings = Settings(url=f"{locked_engine.url}?ssl_ca_certs={certificate[0]}")
    async with build_store(settings) as store, asyncio.timeout(20):
        service = Service(store)

        async def work() -> Taken:
            return await service.take(Take(queues=("q",), wait_ms=10_000))

        taker = asyncio.create_task(work())
        accepted = await service.enqueue([NewJob(queue="q", name="n")]).one()
        (job,) = (await taker).jobs
        assert job.id == accepted.id
        assert service.finish([Finish(job.id, job.lease_token)]).one().wait() is None


@pytest.mark.anyio
async def test_untrusted_certificate_is_a_bad_setting_unless_allowed(locked_engine: EngineProcess) -> None:
    endpoint = parse_url(locked_engine.url)
    with pytest.raises(BadSetting, match="not trusted"):
        await Connection.open(endpoint)
    with pytest.raises(BadSetting, match="not trusted"):
        SyncConnection.open(endpoint)
    async with open_reconnecting(endpoint) as connection:
        with pytest.raises(BadSetting):
            await connection.call("PING")
    async with open_connection(parse_url(locked_engine.url + "?ssl_cert_reqs=none")) as connection:
        assert await connection.call("PING") == b"PONG"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("credentials", "kind"), [("", "NOAUTH"), (":hunter2@", "WRONGPASS"), ("me:hunter2@", "WRONGPASS")]
)
async def test_wrong_password_is_reported_clearly(locked_engine: EngineProcess, credentials: str, kind: str) -> None:
    endpoint = parse_url(f"unix://{credentials}{locked_engine.socket_path}")
    with pytest.raises(EngineError, match=f"refused .*{kind}") as refused:
        await Connection.open(endpoint)
    with pytest.raises(EngineError) as refused_sync:
        SyncConnection.open(endpoint)
    async with open_reconnecting(endpoint) as connection:
        with pytest.raises(EngineReplyError) as refused_reconnecting:  # without retry: waiting would not help
            await connection.call("PING")
    assert str(refused.value) == str(refused_sync.value) == str(refused_reconnecting.value)
    assert refused_reconnecting.value.kind == kind
    assert "hunter2" not in str(refused.value)
