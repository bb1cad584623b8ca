"""Alert rules and the Grafana dashboard, checked with promtool and by a real Prometheus that scrapes a real server."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.deploy.monitored import TOKEN, Prometheus, monitored_server
from tests.deploy.tools import DEPLOY, check, prometheus_program

ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
ALERT_TESTS = DEPLOY / "prometheus" / "alerts_test.yaml"
DASHBOARD = json.loads((DEPLOY / "grafana" / "windlass.json").read_text())
RULES = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
VARIABLES = {"$__rate_interval": "10s", "$job": "windlass", "$queue": ".*"}
SELECTOR = re.compile(r"\b(?:windlass|process)_\w+(?:\{[^}]*\})?")
ERROR_STATUS = re.compile(r'status=~"[^"]*"')
ADDED_BY_KUBERNETES = {"namespace"}  # labels of an alert that no server writes
pytestmark = pytest.mark.xdist_group("deploy-monitoring")  # they share a Prometheus


@pytest.fixture(scope="module")
def monitored() -> Iterator[tuple[str, Prometheus]]:
    with monitored_server() as found:
        yield found


@pytest.fixture(scope="module")
def prometheus(monitored: tuple[str, Prometheus]) -> Prometheus:
    return monitored[1]


def test_promtool_accepts_the_rules() -> None:
    assert f"{len(RULES)} rules found" in check(prometheus_program("promtool"), "check", "rules", ALERTS)


def test_each_alert_fires_and_is_silent_in_a_healthy_deployment() -> None:
    """promtool runs the tests; this test checks that they leave no alert out."""
    check(prometheus_program("promtool"), "test", "rules", ALERT_TESTS)
    cases = [case for test in yaml.safe_load(ALERT_TESTS.read_text())["tests"] for case in test["alert_rule_test"]]
    names = {rule["alert"] for rule in RULES}
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == names
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} == names


def test_promtool_accepts_the_metrics(monitored: tuple[str, Prometheus]) -> None:
    request = urllib.request.Request(f"{monitored[0]}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})  # noqa: S310
    with urllib.request.urlopen(request) as answer:  # noqa: S310 (the address of this test's server)
        text = answer.read().decode()
    check(prometheus_program("promtool"), "check", "metrics", stdin=text)


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_alerts_use_metrics_and_labels_that_a_server_writes(rule: dict[str, Any], prometheus: Prometheus) -> None:
    for selector in SELECTOR.findall(rule["expr"]):
        written = prometheus.query(ERROR_STATUS.sub('status!=""', selector))  # this server had no errors
        assert written, f"no server writes {selector}"
        grouped = {label for labels in re.findall(r"by \(([^)]*)\)", rule["expr"]) for label in labels.split(", ")}
        assert grouped <= written[0]["metric"].keys() | ADDED_BY_KUBERNETES


def test_prometheus_evaluates_the_rules(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert [rule["name"] for rule in rules] == [rule["alert"] for rule in RULES]
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] == "err"} == {}


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_each_query_of_the_dashboard_gives_data(title: str, expression: str, prometheus: Prometheus) -> None:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    assert prometheus.query(expression), f"{title} shows nothing"


def test_legends_use_labels_that_the_query_gives(prometheus: Prometheus) -> None:
    for target in (target for panel in PANELS for target in panel["targets"]):
        expression = target["expr"]
        for name, value in VARIABLES.items():
            expression = expression.replace(name, value)
        labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert labels <= prometheus.query(expression)[0]["metric"].keys(), target


def test_variables_of_the_dashboard_have_values(prometheus: Prometheus) -> None:
    for variable in DASHBOARD["templating"]["list"]:
        for metric, label in re.findall(r"label_values\((\w+).*, (\w+)\)", variable.get("definition", "")):
            assert prometheus.query(f'{metric}{{{label}!=""}}'), variable["name"]
    assert {name["name"] for name in DASHBOARD["templating"]["list"]} == {"datasource", "job", "queue"}


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
