"""windlass tokens and windlass audit."""

from __future__ import annotations

import pytest

from tests.support.console import run, run_ok
from windlass.core.access.audit import AuditEntry
from windlass.core.access.tokens import NewToken, Role, parse_token
from windlass.service import Service

pytestmark = pytest.mark.parametrize("engine", ["valkey"], indirect=True)


def root(service: Service) -> None:
    """Create an admin token, so that others may be created."""
    service.create_token(NewToken(name="root", roles=frozenset({Role.ADMIN}))).wait()


def test_create_prints_only_the_token(service: Service) -> None:
    root(service)
    options = "--role produce --role read --queue mail --queue video-* --rate 7 --expires 30d --note ours"
    done = run_ok(service, "tokens", "create", "shop", *options.split())
    shown = parse_token(done.out.removesuffix("\n"))
    (token,) = [token for token in service.tokens().wait().tokens if token.name == "shop"]
    assert token.verifies(shown.secret)
    assert (token.id, token.name, token.roles) == (shown.id, "shop", {Role.PRODUCE, Role.READ})
    assert (token.queues, token.rate, token.note) == (("mail", "video-*"), 7, "ours")
    assert token.expires_at_ms == token.created_at_ms + 30 * 86_400_000
    assert "not shown again" in done.err
    assert "Authorization: Bearer" in done.err
    assert "WINDLASS_TOKEN" in done.err
    assert shown.secret not in done.err


def test_ls_shows_no_secret_and_no_digest(service: Service) -> None:
    root(service)
    made = run_ok(service, "tokens", "create", "shop", "--role", "work", "--rate", "5").out
    service.create_token(NewToken(name="old", roles=frozenset({Role.READ}), expires_in_ms=1)).wait()
    listed = run_ok(service, "tokens", "ls")
    assert parse_token(made.strip()).secret not in listed.out
    rows = {row[0]: row for row in listed.rows}
    assert rows["shop"][1:4] == ["work", "", "5/s"]
    assert rows["old"][5] == "expired"
    objects = {line["name"]: line for line in run_ok(service, "tokens", "ls", "--json").lines}
    assert (objects["shop"]["roles"], objects["shop"]["queues"]) == (["work"], [])
    assert "digest" not in objects["shop"]


def test_rm(service: Service) -> None:
    root(service)
    run_ok(service, "tokens", "create", "shop", "--role", "admin")
    assert run_ok(service, "tokens", "rm", "shop", "-y").out == "Token shop is revoked.\n"
    assert [token.name for token in service.tokens().wait().tokens] == ["root"]
    again = run(service, "tokens", "rm", "shop")
    assert (again.code, again.err) == (1, "windlass: There is no token 'shop'.\n")


def test_rm_warns_if_the_last_admin_token_will_expire(service: Service) -> None:
    root(service)
    run_ok(service, "tokens", "create", "guest", "--role", "admin", "--expires", "1h")
    run_ok(service, "tokens", "create", "shop", "--role", "work")
    assert run_ok(service, "tokens", "rm", "shop").err == ""
    assert "Warning: the last admin token expires at" in run_ok(service, "tokens", "rm", "root").err


def test_rm_takes_the_id_that_the_list_shows(service: Service) -> None:
    root(service)
    run_ok(service, "tokens", "create", "shop", "--role", "work")
    (token_id,) = [row[6] for row in run_ok(service, "tokens", "ls").rows if row[0] == "shop"]
    assert run_ok(service, "tokens", "rm", token_id).out == "Token shop is revoked.\n"


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["x"], 2, "--role"),
        (["x", "--role", "root"], 2, "root"),
        (["x", "--role", "read", "--expires", "soon"], 2, "not a duration"),
        (["x", "--role", "admin", "--queue", "a"], 1, "give an admin token no queues"),
        (["taken", "--role", "read"], 1, "The token 'taken' exists already"),
    ],
)
def test_invalid_options_create_no_token(service: Service, options: list[str], code: int, sentence: str) -> None:
    service.create_token(NewToken(name="taken", roles=frozenset({Role.READ}))).wait()
    done = run(service, "tokens", "create", *options)
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err
    assert [token.name for token in service.tokens().wait().tokens] == ["taken"]


def test_the_first_token_must_be_an_admin_token(service: Service) -> None:
    done = run(service, "tokens", "create", "shop", "--role", "produce")
    assert (done.code, done.out) == (1, "")
    assert "'shop' would be the only one, and it is no admin token" in done.err
    assert "--force" in done.err
    assert service.tokens().wait().tokens == []
    first = run_ok(service, "tokens", "create", "operator", "--role", "admin")
    assert "From now on every request to a server needs a token" in first.err
    assert "It may do everything" in first.err
    second = run_ok(service, "tokens", "create", "shop", "--role", "produce", "--role", "read", "--queue", "mail-*")
    assert "From now on" not in second.err
    assert "It has the roles produce and read for the queues mail-*." in second.err


def test_force_creates_a_first_token_for_servers_with_a_token_of_their_own(service: Service) -> None:
    run_ok(service, "tokens", "create", "shop", "--role", "produce", "--force")
    assert [token.name for token in service.tokens().wait().tokens] == ["shop"]


def test_the_last_admin_token_is_kept(service: Service) -> None:
    root(service)
    service.create_token(NewToken(name="old", roles=frozenset({Role.ADMIN}), expires_in_ms=1)).wait()
    service.store.clock_offset_ms = 1_000  # type: ignore[attr-defined]
    done = run(service, "tokens", "rm", "root")
    assert (done.code, done.out) == (1, "")
    assert "'root' is the last admin token" in done.err
    assert {token.name for token in service.tokens().wait().tokens} == {"old", "root"}
    run_ok(service, "tokens", "rm", "root", "--force")
    assert [token.name for token in service.tokens().wait().tokens] == ["old"]


def test_an_admin_token_that_expires_warns(service: Service) -> None:
    done = run_ok(service, "tokens", "create", "operator", "--role", "admin", "--expires", "1d")
    assert "Warning: the last admin token expires at" in done.err
    assert "(in 1 day" in done.err
    assert "Warning" not in run_ok(service, "tokens", "create", "spare", "--role", "admin").err
    assert "Warning" not in run_ok(service, "tokens", "create", "shop", "--role", "read", "--expires", "1d").err


def test_audit_lists_the_newest_entries_first_and_notes_omitted_rows(service: Service) -> None:
    entries = [AuditEntry(who="anna", what="pause_queue", target=f"q{number}", peer="::1") for number in range(3)]
    service.audit(entries).wait()
    done = run_ok(service, "audit", "--limit", "2")
    assert [row[1:] for row in done.rows] == [["anna", "pause_queue", f"q{n}", "done", "::1", ""] for n in (2, 1)]
    assert "--limit 0" in done.err
    everything = run_ok(service, "audit", "--limit", "3")
    assert (len(everything.rows), everything.err) == (3, "")


def test_audit_with_json_reads_all_pages(service: Service) -> None:
    service.audit([AuditEntry(who="a", what="b", target=str(number)) for number in range(501)]).wait()
    lines = run_ok(service, "audit", "--limit", "0", "--json").lines
    assert [line["target"] for line in lines] == [str(number) for number in range(500, -1, -1)]
    assert lines[0]["at_ms"] > 0


def test_an_empty_audit_log(service: Service) -> None:
    assert run_ok(service, "audit").out == ""
