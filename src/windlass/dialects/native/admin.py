"""The deployment as such: what it is, whether it is well, who may ask it, and who changed what."""

from __future__ import annotations

from windlass import __version__
from windlass.core import errors
from windlass.web.app.request_context import RequestContext
from windlass.web.app.router import ADMIN, KNOWS, Answer, Routes
from windlass.wire.admin import (
    AuditEntryShape,
    AuditPageShape,
    AuditQuery,
    CreatedTokenShape,
    DiagnosisShape,
    DoctorShape,
    EngineShape,
    InfoShape,
    NewTokenShape,
    TokensShape,
    diagnosis_shape,
    token_shape,
)
from windlass.wire.shape import to_shape

routes = Routes("/api/v1", tag="Steering")


@routes.get("/info", roles=KNOWS, response=InfoShape)
async def info(context: RequestContext[None, None]) -> InfoShape:
    """What answers here: its version, its engine, and what time it is there.

    It is about no queue: any token may ask."""
    store = context.service.store
    found = await store.open()
    return InfoShape(
        version=__version__,
        engine=EngineShape(product=found.product, version=found.version, is_embedded=store.is_embedded),
        partitions=found.partitions,
        durability=store.durability,
        now_ms=await context.service.now(),
    )


# The doctor


@routes.post("/doctor", roles=ADMIN, body=DoctorShape, response=DiagnosisShape, is_audited=True)
async def doctor(context: RequestContext[DoctorShape, None]) -> DiagnosisShape:
    """Look for disagreement between records and indexes, and for risks in the engine's settings.

    It reads everything, in bounded steps: with millions of jobs the answer takes its time."""
    context.check_all_queues()
    context.audit_target, context.audit_detail = "", "repair" if context.body.repair else ""
    return diagnosis_shape(await context.service.doctor(context.body.repair))


# Tokens


@routes.get("/tokens", roles=ADMIN, response=TokensShape)
async def tokens(context: RequestContext[None, None]) -> TokensShape:
    """All tokens, by name; without their secrets, which nobody knows any more."""
    context.check_all_queues()
    found = await context.service.tokens()
    return TokensShape(tokens=[token_shape(one) for one in found.tokens])


@routes.post(
    "/tokens", roles=ADMIN, body=NewTokenShape, response=CreatedTokenShape, status=201, is_audited=True,
    refuses=(errors.TooLarge, errors.TokenExists, errors.EngineFull),
)  # fmt: skip
async def create_token(context: RequestContext[NewTokenShape, None]) -> Answer:
    """Make a token.

    The answer has its text, which is kept nowhere and never told again. From the first token on, every request needs
    one."""
    context.audit_target = context.body.name
    context.audit_detail = " ".join((*sorted(context.body.roles), *context.body.queues))
    context.check_all_queues()
    made = await context.service.create_token(context.body.new_token())
    return Answer(
        CreatedTokenShape(token=token_shape(made.token), text=made.text), headers=(("Cache-Control", "no-store"),)
    )


@routes.delete(
    "/tokens/{name}", roles=ADMIN, is_audited=True, refuses=(errors.TooLarge, errors.UnknownToken, errors.EngineFull)
)
async def revoke_token(context: RequestContext[None, None]) -> None:
    """Revoke a token; servers refuse it within a second."""
    context.audit_target = context.path["name"]
    context.check_all_queues()
    await context.service.revoke_token(context.audit_target)


# The audit log


@routes.get("/audit", roles=ADMIN, query=AuditQuery, response=AuditPageShape)
async def audit(context: RequestContext[None, AuditQuery]) -> AuditPageShape:
    """Who changed what, newest first: the last 10,000 entries."""
    context.check_all_queues()
    page = await context.service.audits(most=context.query.most, cursor=context.query.cursor)
    return AuditPageShape(entries=[to_shape(one, AuditEntryShape) for one in page.entries], cursor=page.cursor)
