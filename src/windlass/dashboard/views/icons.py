"""Icons as SVG outlines on a grid of 16, in the colour of the surrounding text; and the entries of the navigation."""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

_PATHS = {
    "overview": "M2 13V9M6 13V5M10 13V7M14 13V3",
    "queues": "M2 4h12M2 8h12M2 12h7",
    "tasks": "M5.5 4L2 8l3.5 4M10.5 4L14 8l-3.5 4M9 3L7 13",
    "jobs": "M3 3h10v10H3zM5.5 8l2 2 3.5-4",
    "signals": "M2.5 3h11v8h-6l-3 2.5V11h-2zM5.5 6h5M5.5 8.3h3",
    "flows": "M2 6h4v4H2zM10 2h4v4h-4zM10 10h4v4h-4zM6 8h2M10 4H8v8h2",
    "failures": "M8 2l6.5 11.5h-13zM8 6.5v3M8 11.6v.1",
    "workers": "M4 4h8v8H4zM6 1.5V4M10 1.5V4M6 12v2.5M10 12v2.5M1.5 6H4M1.5 10H4M12 6h2.5M12 10h2.5",
    "schedules": "M8 2a6 6 0 100 12A6 6 0 008 2zM8 4.8V8l2.2 1.6",
    "limits": "M2 11a6 6 0 1112 0M8 11l3-4",
    "aggregations": "M2 3h5v4H2zM9 3h5v4H9zM5.5 10h5v4h-5zM4.5 7v1.5h7V7M8 8.5V10",
    "callbacks": "M9 3l5 4-5 4V8.5C5.5 8.5 3.5 10 2 13c.3-4.5 2.8-7.3 7-7.5z",
    "alerts": "M8 2a4 4 0 014 4v3l1.5 2.5h-11L4 9V6a4 4 0 014-4zM6.5 13.5a1.6 1.6 0 003 0",
    "engine": "M3 4c0-3 10-3 10 0v8c0 3-10 3-10 0zM3 4c0 3 10 3 10 0M3 8c0 3 10 3 10 0",
    "audit": "M4 2h6l3 3v9H4zM6.5 7h4M6.5 9.5h4M6.5 12h2.5",
    "search": "M7 2.5a4.5 4.5 0 100 9 4.5 4.5 0 000-9zM10.3 10.3L14 14",
    "menu": "M2 4h12M2 8h12M2 12h12",
    "pause": "M5 3v10M11 3v10",
    "resume": "M4.5 2.5l8 5.5-8 5.5z",
    "run-now": "M9 1.5L3.5 9H8l-1 5.5L12.5 7H8z",
    "more": "M3 8h.1M8 8h.1M13 8h.1",
    "close": "M3.5 3.5l9 9M12.5 3.5l-9 9",
    "check": "M3 8.5l3.5 3.5L13 4.5",
    "warning": "M8 2l6.5 11.5h-13zM8 6.5v3M8 11.6v.1",
    "next": "M6 3l5 5-5 5",
    "previous": "M10 3L5 8l5 5",
    "add": "M8 3v10M3 8h10",
    "retry": "M13 8a5 5 0 11-1.5-3.6M13 2v3h-3",
    "saved": "M4 2.5h8v11l-4-3-4 3z",
    "delete": "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 9h6l.5-9",
    "edit": "M3 13l.7-3L10.5 3.2l2.3 2.3L6 12.3z",
    "logout": "M6 3H3v10h3M7 8h7M11 5l3 3-3 3",
    "copy": "M6 6h7v7H6zM10 6V3H3v7h3",
    "download": "M8 2.5v7M5 7l3 3 3-3M3 13h10",
    "key": "M5 7.5a3 3 0 100 6 3 3 0 000-6zM7.2 8.4L13 2.5M10.5 5l2 2",
    # Job states: each has its own shape
    "queued": "M8 3.5a4.5 4.5 0 100 9 4.5 4.5 0 000-9z",
    "scheduled": "M8 2a6 6 0 100 12A6 6 0 008 2zM8 4.8V8l2.2 1.6",
    "suspended": "M12.6 10A5.6 5.6 0 116 3.4 4.4 4.4 0 0012.6 10z",
    "waiting": "M4 2.5h8M4 13.5h8M5 2.5c0 4 6 7 6 11M11 2.5c0 4-6 7-6 11",
    "dispatched": "M2 8h9M8 4l4 4-4 4",
    "running": "M5 3l8 5-8 5z",
    "finished": "M3 8.5l3.5 3.5L13 4.5",
    "failed": "M4 4l8 8M12 4l-8 8",
    "cancelled": "M8 2.5a5.5 5.5 0 100 11 5.5 5.5 0 000-11zM4.2 4.2l7.6 7.6",
    "paused": "M5.5 3.5v9M10.5 3.5v9",
    "gone": "M3 8h10",
    "consequence": "M4 2.5v6.5h8M9 6l3 3-3 3",  # a step of a flow that could not run
}


class NavigationItem(NamedTuple):
    """Entry of the navigation. `key` is typed after g."""

    section: str
    title: str
    path: str
    key: str
    role: str = "read"  # needed to see it
    is_optional: bool = False  # shown once the deployment uses it, see navigation.py
    heading: str = ""  # above this entry and those that are `under` it
    under: str = ""  # section whose heading it stands under, if that section is shown


NAVIGATION = (
    NavigationItem("overview", "Overview", "", "o"),
    NavigationItem("queues", "Queues", "queues", "q"),
    NavigationItem("tasks", "Tasks", "tasks", "t"),
    NavigationItem("jobs", "Jobs", "jobs", "j"),
    NavigationItem("flows", "Flows", "flows", "d"),
    NavigationItem("signals", "Signals", "signals", "i"),
    NavigationItem("failures", "Failures", "failures", "f"),
    NavigationItem("workers", "Workers", "workers", "w"),
    NavigationItem("schedules", "Schedules", "schedules", "s"),
    NavigationItem("limits", "Limits", "limits", "l"),
    NavigationItem("alerts", "Alerts", "alerts", "n"),
    NavigationItem("aggregations", "Aggregations", "aggregations", "a", is_optional=True, heading="Downloads"),
    NavigationItem("callbacks", "Callbacks", "callbacks", "c", is_optional=True, under="aggregations"),
    NavigationItem("engine", "Engine", "engine", "e"),
    NavigationItem("audit", "Audit", "audit", "u", "admin"),
)


def outline(name: str) -> str:
    """Return the outline of an icon as the data of an SVG path, for drawings that contain icons."""
    return _PATHS[name]


def icon(name: str, title: str = "") -> Markup:
    """Return the SVG element. Without a title it is hidden from assistive technology."""
    label = Markup('role="img" aria-label="{}"').format(title) if title else Markup('aria-hidden="true"')
    return Markup('<svg class="icon icon-{}" viewBox="0 0 16 16" {}><path d="{}"/></svg>').format(
        name, label, _PATHS[name]
    )
