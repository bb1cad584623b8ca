"""windlass filters, and windlass jobs ls --filter."""

from __future__ import annotations

import pytest

from tests.support.console import run, run_ok
from windlass.core.filters.saved_filter import SavedFilter
from windlass.core.job import NewJob
from windlass.service import Service

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


def save(service: Service, title: str, page: str = "jobs", **fields: str) -> None:
    service.save_filter(SavedFilter(name=title, page=page, fields=fields)).wait()


def names(service: Service, *options: str) -> list[str]:
    return sorted(line["name"] for line in run_ok(service, "jobs", "ls", "--json", *options).lines)


def test_ls_and_rm(service: Service) -> None:
    assert run_ok(service, "filters", "ls").rows == []
    save(service, "late mail", queue="mail", state="failed")
    assert run_ok(service, "filters", "ls").rows == [["late mail", "jobs", "state=failed queue=mail"]]
    (line,) = run_ok(service, "filters", "ls", "--json").lines
    assert line == {"name": "late mail", "page": "jobs", "fields": {"state": "failed", "queue": "mail"}}
    assert run_ok(service, "filters", "rm", "late mail").out == "The filter late mail is removed.\n"
    again = run(service, "filters", "rm", "late mail")
    assert (again.code, again.err) == (1, "windlass: There is no saved filter 'late mail'.\n")


def test_jobs_of_a_saved_filter(service: Service) -> None:
    service.enqueue(
        [
            NewJob(queue="mail", name="send_mail", tags=("vip",)),
            NewJob(queue="mail", name="resend_mail"),
            NewJob(queue="shop", name="send_mail"),
            NewJob(queue="mail", name="later", delay_ms=60_000),
        ]
    ).wait()
    save(service, "mail", queue="mail")
    save(service, "sends", name="=send_mail")
    save(service, "any send", name="send")
    save(service, "vips", tag="vip")
    save(service, "delayed", state="scheduled", since="1h", order="newest")
    assert names(service, "--filter", "mail") == ["resend_mail", "send_mail"]  # queued, as on the page
    assert names(service, "--filter", "sends") == ["send_mail", "send_mail"]
    assert names(service, "--filter", "any send") == ["resend_mail", "send_mail", "send_mail"]
    assert names(service, "--filter", "vips") == ["send_mail"]
    assert names(service, "--filter", "delayed") == ["later"]
    assert names(service, "--filter", "any send", "--queue", "shop") == ["send_mail"]
    assert names(service, "--filter", "mail", "--state", "scheduled") == ["later"]


@pytest.mark.parametrize(
    ("page", "fields", "part"),
    [
        ("flows", {"state": "failed"}, "about the page flows"),
        ("jobs", {"state": "failed", "error": "declined"}, "cannot filter by error"),
        ("jobs", {"state": "failed", "since": "1h"}, "cannot filter by since"),
        ("jobs", {"state": "bogus"}, "cannot filter by this state"),
        ("jobs", {"since": "2026-01-31"}, "2026-01-31"),
    ],
)
def test_a_filter_that_the_command_cannot_follow_is_refused(
    service: Service, page: str, fields: dict[str, str], part: str
) -> None:
    save(service, "f", page, **fields)
    done = run(service, "jobs", "ls", "--filter", "f")
    assert done.code == 1
    assert part in done.err


def test_an_unknown_filter_is_refused(service: Service) -> None:
    done = run(service, "jobs", "ls", "--filter", "none")
    assert (done.code, done.out) == (1, "")
    assert "windlass filters ls" in done.err
