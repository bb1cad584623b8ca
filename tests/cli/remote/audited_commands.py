"""Audit entries of the command of each case: operation, target and detail. Ids are replaced. Other cases have none."""

from __future__ import annotations

import re

from windlass.core.access.audit import AuditEntry
from windlass.service import Service

ID = "<id>"
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Entries = list[tuple[str, str, str]]
_DOWNLOADS_LIMIT = (
    '{"matches":{"queue":"downloads"},"running":4,"per_ms":1000,"key":"aggr_id","own_caps":true}'  # as in the settings
)
AUDITED: dict[str, Entries] = {
    "alerts mute": [("mute_alert", "slow", "7200000 ms")],
    "alerts rm": [("remove_alert", "slow", "")],
    "alerts set": [("set_alert", "slow", "failures q")],
    "alerts test": [("test_alert", "slow", "")],
    "backup restore": [("import_lines", "", "1 added, 0 existing, 0 refused")],
    "callbacks redeliver": [("redeliver", "", "1 callbacks")],
    "doctor": [("doctor", "", "repair")],
    "failed delete": [("delete_many", ID, "")],
    "failed retry": [("retry_many", ID, "")],
    "filters rm": [("remove_filter", "late mail", "")],
    "flows resume": [("resume_flow", ID, "")],
    "import": [("import_lines", "", "0 added, 2 existing, 0 refused")],
    "jobs delete": [("delete_many", ID, "")],
    "jobs edit": [("edit_many", ID, "")],
    "jobs requeue": [("requeue_many", ID, "")],
    "jobs retry": [("retry_many", ID, "")],
    "jobs rewind": [("rewind_many", ID, "charge")],
    "jobs signal": [("signal_many", ID, "approval")],
    "jobs signal-url": [("signal_url", ID, "approval")],
    "jobs wake": [("wake_many", ID, "")],
    "limits cap": [("set_cap", "customers", '{"running":2,"key":"anna"}')],
    "limits rm": [("remove_limit", "customers", "")],
    "limits set": [("set_limit", "mail", '{"matches":{"queue":"q"},"running":2,"per_ms":1000}')],
    "migrate downloader": [
        ("set_limit", "downloads per aggregation", _DOWNLOADS_LIMIT),
        ("configure_queue", "downloads", '{"fair_share":true}'),
        ("edit_many", ID, ""),
        ("import_lines", "", "2 added, 0 existing, 0 refused"),
        ("redeliver", "", "1 callbacks"),
    ],
    "migrate jobber": [("edit_many", ID, "")],
    "migrate processor": [("edit_many", ID, "")],
    "queues configure": [("configure_queue", "q", '{"lease_ms":60000}'), ("weigh_lanes", "q", '{"gold":3}')],
    "queues pause": [("pause_queue", "q", "down")],
    "queues purge": [("delete_many", ID, "")],
    "queues resume": [("resume_queue", "q", "")],
    "queues rm": [("remove_queue", "unused", "")],
    "schedules add": [("set_schedule", "poll", "jobs n in q")],
    "schedules edit": [("set_schedule", "nightly", "jobs n in q")],
    "schedules pause": [("pause_schedule", "nightly", "holidays")],
    "schedules resume": [("resume_schedule", "nightly", "")],
    "schedules rm": [("remove_schedule", "nightly", "")],
    "schedules run": [("run_schedule", "nightly", "")],
    "tokens create": [("create_token", "shop", "produce")],
    "tokens rm": [("revoke_token", "shop", "")],
    "workers stop": [("stop_worker", ID, "")],
}
# A server also records who reads all data. On the engine itself nothing could record that for certain.
READ_OVER_A_SERVER: dict[str, Entries] = {"backup create": [("export", "", "")], "export": [("export", "", "")]}


def read_entries(service: Service) -> list[AuditEntry]:
    """Return the audit log, oldest entry first."""
    return service.audits(most=100).wait().entries[::-1]


def described(entries: list[AuditEntry]) -> Entries:
    """Return what entries say about an action. A server gets an import in parts, with the numbers of their lines."""
    return [
        (entry.what, _ID.sub(ID, entry.target), entry.detail.rpartition(" lines, ")[2] or entry.detail)
        for entry in entries
        if entry.what != "complete_import"
    ]
