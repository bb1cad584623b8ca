"""Native routes of saved filters."""

from __future__ import annotations

import pytest

from tests.dialects.http_requests import NativeApi
from tests.support.api_client import NOTHING
from windlass.core.access.tokens import NewToken, Role
from windlass.core.filters.saved_filter import SavedFilter
from windlass.service import Service

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ["valkey"], indirect=True)]

FAILED = {"page": "jobs", "fields": {"state": "failed", "queue": "mail"}}


async def test_a_filter_is_saved_read_renamed_and_removed(native_api: NativeApi, service: Service) -> None:
    assert await native_api.ok("PUT", "/filters/late%20mail", FAILED) == {"name": "late mail", **FAILED}
    assert await native_api.get("/filters") == {"filters": [{"name": "late mail", **FAILED}]}
    assert await native_api.get("/filters/late%20mail") == {"name": "late mail", **FAILED}
    await native_api.ok("PUT", "/filters/late", {**FAILED, "former": "late mail"})
    assert [saved.name for saved in await service.filters()] == ["late"]
    assert (await native_api("DELETE", "/filters/late")).status == 204
    assert await service.filters() == []
    done = [(entry.what, entry.target, entry.detail) for entry in (await service.audits()).entries]
    assert done == [
        ("remove_filter", "late", ""),
        ("save_filter", "late", "renamed from late mail: jobs state=failed queue=mail"),
        ("save_filter", "late mail", "jobs state=failed queue=mail"),
    ]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/filters/none", NOTHING, 404, "unknown_filter"),
        ("DELETE", "/filters/none", NOTHING, 404, "unknown_filter"),
        ("PUT", "/filters/x", {**FAILED, "former": "none"}, 404, "unknown_filter"),
        ("PUT", "/filters/b", {**FAILED, "former": "a"}, 409, "id_conflict"),
        ("PUT", "/filters/x", {"page": "engine", "fields": {"q": "x"}}, 400, "bad_input"),
        ("PUT", "/filters/x", {"page": "jobs", "fields": {}}, 400, "bad_input"),
        ("PUT", "/filters/x", {"page": "jobs", "fields": {"cursor": "x"}}, 400, "bad_input"),
        ("PUT", f"/filters/{'x' * 65}", FAILED, 413, "too_large"),
    ],
)
async def test_what_is_refused_changes_nothing(
    native_api: NativeApi, service: Service, method: str, path: str, body: object, status: int, code: str
) -> None:
    for name in ("a", "b"):
        await native_api.ok("PUT", f"/filters/{name}", FAILED)
    answer = await native_api(method, path, body)
    assert (answer.status, answer.code) == (status, code)
    assert [saved.name for saved in await service.filters()] == ["a", "b"]


async def test_a_token_for_some_queues_neither_sees_nor_changes_filters_of_others(
    native_api: NativeApi, service: Service
) -> None:
    hidden = SavedFilter(name="payments stuck", page="jobs", fields={"queue": "payments"})
    await service.save_filter(hidden)
    await service.save_filter(SavedFilter(name="all", page="jobs", fields={"state": "failed"}))
    new = NewToken(name="mail", roles=frozenset({Role.READ, Role.PRODUCE}), queues=("mail",))
    mail = (await service.create_token(new)).text
    listed = await native_api.get("/filters", token=mail)
    assert [saved["name"] for saved in listed["filters"]] == ["all"]
    payments = {"page": "jobs", "fields": {"queue": "payments"}}
    for method, path, body, status in (
        ("GET", "/filters/payments%20stuck", NOTHING, 404),
        ("DELETE", "/filters/payments%20stuck", NOTHING, 403),
        ("PUT", "/filters/payments%20stuck", FAILED, 403),
        ("PUT", "/filters/mine", {**FAILED, "former": "payments stuck"}, 403),
        ("PUT", "/filters/mine", payments, 403),
        ("PUT", "/filters/mine", {"page": "audit", "fields": {"q": "ada"}}, 403),
    ):
        assert (await native_api(method, path, body, token=mail)).status == status, (method, path)
    assert hidden in await service.filters()
    assert (await native_api("PUT", "/filters/mine", FAILED, token=mail)).status == 200
