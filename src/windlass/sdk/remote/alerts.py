"""Alert operations over HTTP."""

from __future__ import annotations

from windlass.core.alerts.incident import HISTORY_MAX, Alerts, AlertStatus
from windlass.core.alerts.rule import AlertRule
from windlass.store.operation import Operation
from windlass.wire.alerts.shapes import (
    AlertRuleShape,
    AlertShape,
    AlertsShape,
    MuteAlertShape,
    TestedAlertShape,
    alert_status_of,
    alerts_of,
)

from .facet import RemoteFacet
from .request import ApiRequest, get, post, quote_segment


class RemoteAlertOperations(RemoteFacet):
    def alerts(self, *, past: int = HISTORY_MAX) -> Operation[Alerts]:
        super().alerts(past=past)
        return self._single(get("/alerts", AlertsShape), lambda reply: alerts_of(reply, past))

    def set_alert(self, rule: AlertRule) -> Operation[AlertRule]:
        super().set_alert(rule)
        body = AlertRuleShape(**{name: getattr(rule, name) for name in AlertRuleShape.__struct_fields__})
        request = ApiRequest(method="PUT", path=_path(rule.name), response_type=AlertShape, body=body)
        return self._single(request, lambda reply: alert_status_of(reply).rule)

    def remove_alert(self, name: str) -> Operation[None]:
        super().remove_alert(name)
        request = ApiRequest(method="DELETE", path=_path(name), response_type=None)
        return self._single(request, lambda _nothing: None)

    def mute_alert(self, name: str, *, for_ms: int) -> Operation[AlertStatus]:
        super().mute_alert(name, for_ms=for_ms)
        request = post(f"{_path(name)}/mute", AlertShape, MuteAlertShape(for_ms=for_ms))
        return self._single(request, alert_status_of)

    def test_alert(self, name: str, *, public_url: str = "") -> Operation[int]:
        """Send the messages through the server, which knows its own address."""
        super().test_alert(name, public_url=public_url)
        request = post(f"{_path(name)}/test", TestedAlertShape, is_repeatable=False)
        return self._single(request, lambda reply: reply.targets)


def _path(name: str) -> str:
    return f"/alerts/{quote_segment(name)}"
