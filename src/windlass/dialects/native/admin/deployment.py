"""Routes of the deployment: info, engine, doctor, tokens, saved filters and audit log."""

from __future__ import annotations

from typing import Any

from windlass import __version__
from windlass.core import errors
from windlass.core.filters.saved_filter import SavedFilter
from windlass.core.namespace.format import KNOWN
from windlass.store.topology.namespace_format import stored_format
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMINS, JOB_READERS, PRODUCERS, READERS, Answer, Routes
from windlass.web.app.saved_filters import remove_visible_filter, save_visible_filter, visible_filters
from windlass.wire.admin import (
    AuditEntryShape,
    AuditPageShape,
    CreatedTokenShape,
    DiagnosisShape,
    DoctorShape,
    EngineNodesShape,
    EngineShape,
    InfoShape,
    ListAuditQuery,
    NamespaceFormatShape,
    NewTokenShape,
    RevokeTokenQuery,
    SavedFilterShape,
    SavedFiltersShape,
    SaveFilterShape,
    TokensShape,
    diagnosis_shape,
    engine_node_shape,
    token_shape,
)
from windlass.wire.shape import to_shape

routes = Routes("/api/v1", tag="Steering")


@routes.get("/info", roles=JOB_READERS, response=InfoShape)
async def info(context: RequestContext[None, None]) -> InfoShape:
    """Read the version of the server, its engine, and the time of the engine.

    Any token may read it, as it concerns no queue."""
    store = context.service.store
    deployment = await store.open()
    stored = await store.run(stored_format(store.roots))
    return InfoShape(
        version=__version__,
        engine=EngineShape(product=deployment.product, version=deployment.version, is_embedded=store.is_embedded),
        partitions=deployment.partitions,
        durability=store.durability,
        now_ms=await context.service.now(),
        namespace_format=NamespaceFormatShape(number=stored.number, needs_version=stored.needs_version, known=KNOWN),
    )


@routes.get("/engine", roles=READERS, response=EngineNodesShape)
async def engine(context: RequestContext[None, None]) -> EngineNodesShape:
    """Read the state of each node of the engine: memory, persistence, durability in force and risky settings."""
    context.check_all_queues()
    return EngineNodesShape(nodes=[engine_node_shape(state) for state in await context.service.engines()])


@routes.post("/doctor", roles=ADMINS, body=DoctorShape, response=DiagnosisShape, is_audited=True)
async def doctor(context: RequestContext[DoctorShape, None]) -> DiagnosisShape:
    """Check that records and indexes agree, and that the settings of the engine are safe.

    It reads all data, in bounded steps. With millions of jobs it takes a long time."""
    context.check_all_queues()
    context.audit_target, context.audit_detail = "", "repair" if context.body.repair else ""
    return diagnosis_shape(await context.service.doctor(context.body.repair))


@routes.get("/tokens", roles=ADMINS, response=TokensShape)
async def tokens(context: RequestContext[None, None]) -> TokensShape:
    """List all tokens by name, without their secrets, which are not stored."""
    context.check_all_queues()
    stored = await context.service.tokens()
    return TokensShape(tokens=[token_shape(token) for token in stored.tokens])


@routes.post(
    "/tokens", roles=ADMINS, body=NewTokenShape, response=CreatedTokenShape, status=201, is_audited=True,
    refuses=(errors.TooLarge, errors.TokenExists, errors.LastAdminToken, errors.EngineFull),
)  # fmt: skip
async def create_token(context: RequestContext[NewTokenShape, None]) -> Answer:
    """Create a token.

    Only this answer contains the text of the token, which is not stored. Once a token exists, every request needs
    a token."""
    context.audit_target = context.body.name
    context.audit_detail = " ".join((*sorted(context.body.roles), *context.body.queues))
    context.check_all_queues()
    needs_admin = _needs_admin(context, context.body.force)
    created = await context.service.create_token(context.body.new_token(), needs_admin=needs_admin)
    return Answer(
        CreatedTokenShape(token=token_shape(created.token), text=created.text), headers=(("Cache-Control", "no-store"),)
    )


@routes.delete(
    "/tokens/{name}", roles=ADMINS, query=RevokeTokenQuery, is_audited=True,
    refuses=(errors.TooLarge, errors.UnknownToken, errors.LastAdminToken, errors.EngineFull),
)  # fmt: skip
async def revoke_token(context: RequestContext[None, RevokeTokenQuery]) -> None:
    """Revoke a token. Servers refuse it within a second."""
    context.audit_target = context.path["name"]
    context.check_all_queues()
    needs_admin = _needs_admin(context, context.query.force)
    await context.service.revoke_token(context.audit_target, needs_admin=needs_admin)


def _needs_admin(context: RequestContext[Any, Any], is_forced: bool) -> bool:
    """Whether an admin token must remain in the engine. This server's own token (WINDLASS_TOKEN) is one, too."""
    return not is_forced and not context.state.settings.token


@routes.get("/audit", roles=ADMINS, query=ListAuditQuery, response=AuditPageShape)
async def audit(context: RequestContext[None, ListAuditQuery]) -> AuditPageShape:
    """List the last 10,000 audited requests, newest first."""
    context.check_all_queues()
    page = await context.service.audits(most=context.query.most, cursor=context.query.cursor)
    return AuditPageShape(entries=[to_shape(entry, AuditEntryShape) for entry in page.entries], cursor=page.cursor)


@routes.get("/filters", roles=READERS, response=SavedFiltersShape)
async def saved_filters(context: RequestContext[None, None]) -> SavedFiltersShape:
    """List the saved filters of the dashboard by name.

    Filters that name a queue are listed for tokens of this queue only."""
    visible = await visible_filters(context)
    return SavedFiltersShape(filters=[to_shape(saved, SavedFilterShape) for saved in visible])


@routes.get("/filters/{name}", roles=READERS, response=SavedFilterShape, refuses=(errors.UnknownFilter,))
async def saved_filter(context: RequestContext[None, None]) -> SavedFilterShape:
    """Read a saved filter."""
    name = context.path["name"]
    for saved in await visible_filters(context):
        if saved.name == name:
            return to_shape(saved, SavedFilterShape)
    raise errors.UnknownFilter(f"There is no saved filter {name!r}.")


@routes.put(
    "/filters/{name}", roles=PRODUCERS, body=SaveFilterShape, response=SavedFilterShape, is_audited=True,
    refuses=(errors.TooLarge, errors.UnknownFilter, errors.IdConflict, errors.EngineFull),
)  # fmt: skip
async def save_filter(context: RequestContext[SaveFilterShape, None]) -> SavedFilterShape:
    """Save the filters of a page under a name, for all users; or rename a saved filter.

    A filter of this name is replaced, but a renamed filter never replaces another one."""
    body = context.body
    saved = SavedFilter(name=context.path["name"], page=body.page, fields=body.fields)
    await save_visible_filter(context, saved, body.former)
    return to_shape(saved, SavedFilterShape)


@routes.delete(
    "/filters/{name}", roles=PRODUCERS, is_audited=True,
    refuses=(errors.TooLarge, errors.UnknownFilter, errors.EngineFull),
)  # fmt: skip
async def remove_filter(context: RequestContext[None, None]) -> None:
    """Remove a saved filter, for all users."""
    await remove_visible_filter(context, context.path["name"])
