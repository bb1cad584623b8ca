"""Signed links to signals: they are valid in every process of a deployment, and in no other."""

from __future__ import annotations

import base64
import os

import pytest

from tests.service.admin.doctor_findings import findings
from tests.service.durable.builders import HOUR_MS, send, start
from tests.service.export.example_deployment import transfer
from windlass.core.access.signal_links import SignalLink, read_link, sign_link
from windlass.core.durable import SIGNAL_NAME_MAX, SIGNALS_MAX, ReceiveSignal, Signal
from windlass.core.errors import AlreadyEnded, UnknownJob
from windlass.core.job import Blob, Job
from windlass.core.operations import Fail, Finish
from windlass.service import Service
from windlass.store.store import Store

KEY = b"k" * 32


def link(**more: object) -> SignalLink:
    fields = {"job_id": b"j" * 16, "occurrence_at_ms": 0, "signal": "approval", "expires_at_ms": 7, "nonce": b"n" * 9}
    return SignalLink(**fields | more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed", [{}, {"signal": "ü" * (SIGNAL_NAME_MAX // 2)}, {"occurrence_at_ms": 2**47, "expires_at_ms": 2**47}]
)
def test_a_link_is_read_as_it_was_signed(changed: dict[str, object]) -> None:
    assert read_link(sign_link(link(**changed), KEY), KEY) == link(**changed)


def test_a_changed_link_or_another_key_is_refused() -> None:
    text = sign_link(link(), KEY)
    signed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert read_link(text, b"x" * 32) is None
    for at in range(len(signed)):
        changed = signed[:at] + bytes([signed[at] ^ 1]) + signed[at + 1 :]
        assert read_link(base64.urlsafe_b64encode(changed).rstrip(b"=").decode(), KEY) is None


@pytest.mark.parametrize("text", ["", "x", "=", "a" * 5, "a" * 10_000, "ü", "a b", "\0", "____", "a" * 120])
def test_other_texts_are_no_links(text: str) -> None:
    assert read_link(text, KEY) is None


def test_each_link_has_its_own_request_id() -> None:
    other = {"job_id": b"k" * 16, "occurrence_at_ms": 1, "signal": "b", "expires_at_ms": 8, "nonce": b"m" * 9}
    links = [link(), *(link(**{name: value}) for name, value in other.items())]
    assert len({made.request_id for made in links}) == len(links)
    assert {len(made.request_id) for made in links} == {16}


def test_a_link_names_the_job_the_signal_and_its_expiry(service: Service) -> None:
    job, now_ms = start(service), service.now().wait()
    made = service.signal_link(job.id, "approval", expires_in_ms=HOUR_MS).wait()
    found = service.read_signal_link(made.token).wait()
    assert found is not None
    assert (found.job_id, found.signal, found.occurrence_at_ms) == (job.id, "approval", 0)
    assert now_ms + HOUR_MS <= found.expires_at_ms == made.expires_at_ms
    assert service.signal_link(job.id, "approval", expires_in_ms=HOUR_MS).wait().token != made.token


def test_another_process_reads_the_link(service: Service, store: Store) -> None:
    made = service.signal_link(start(service).id, "approval").wait()
    with_other_store = Service(store.clone())
    try:
        assert with_other_store.read_signal_link(made.token).wait() is not None
    finally:
        with_other_store.store.close_sync()


def test_another_deployment_does_not_read_it(service: Service) -> None:
    start(service)
    assert service.read_signal_link(sign_link(link(), os.urandom(32))).wait() is None


def test_an_ended_or_unknown_job_gets_no_link(service: Service) -> None:
    job = start(service)
    service.fail([Fail(id=job.id, token=job.lease_token, then="final")]).one().wait()
    with pytest.raises(AlreadyEnded):
        service.signal_link(job.id, "approval").wait()
    with pytest.raises(UnknownJob):
        service.signal_link(service.store.new_id("q"), "approval").wait()


# Signals of links


def signal_of(made: SignalLink, value: bytes = b"1") -> Signal:
    return Signal(
        id=made.job_id,
        name=made.signal,
        value=Blob(value),
        request_id=made.request_id,
        occurrence_at_ms=made.occurrence_at_ms,
        is_one_time=True,
    )


def made_link(service: Service, job: Job) -> SignalLink:
    found = service.read_signal_link(service.signal_link(job.id, "approval").wait().token).wait()
    assert found is not None
    return found


def test_a_link_works_once_however_many_signals_follow(service: Service) -> None:
    job = start(service)
    request = signal_of(made_link(service, job))
    assert service.signal([request]).one().wait() == "kept"
    for number in range(2 * SIGNALS_MAX):
        send(service, job, "other", request_id=number.to_bytes(16, "big"))
        receive = ReceiveSignal(id=job.id, token=job.lease_token, name=f"other#{number}", signal="other")
        service.receive_signals([receive]).one().wait()
    assert service.signal([request]).one().wait() == "repeated"


def test_a_link_is_for_one_occurrence(service: Service) -> None:
    job = start(service, repeat="STARTED, +1 DAY")
    request = signal_of(made_link(service, job))
    assert request.occurrence_at_ms
    service.finish([Finish(job.id, job.lease_token)]).one().wait()
    with pytest.raises(AlreadyEnded):
        service.signal([request]).one().wait()
    next_one = signal_of(made_link(service, job))
    assert service.signal([next_one]).one().wait() == "kept"


def test_a_used_link_is_exported(service: Service, target: Service) -> None:
    job = start(service)
    request = signal_of(made_link(service, job))
    service.signal([request]).one().wait()
    transfer(service, target)
    assert target.signal([request]).one().wait() == "repeated"
    assert findings(target) == {}
