"""The Helm chart: rendered with several sets of values, valid for Kubernetes, KEDA and the Prometheus Operator, and
right for a real server and a real worker command.

`make check-deploy` (`WINDLASS_DEEP=1`) renders again; `make test` checks that the rendered manifests belong to the
chart.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import jsonschema_rs
import pytest
import yaml

import windlass
from tests.deploy.chart import (
    CHART,
    CUSTOM,
    DIGEST,
    HERE,
    RENDERED,
    VALUES,
    build_renderer,
    digest_of_sources,
    manifests,
    of_kind,
    render,
)
from tests.deploy.tools import DEPLOY, check, python_program, refusal
from tests.support.engine_process import EngineProcess
from tests.support.profiles import IS_DEEP
from tests.support.stores import make_store
from tests.support.threaded_server import threaded_server
from windlass.cli.commands.worker import worker
from windlass.settings import Settings, load

TOKEN = "token-of-the-test-of-the-chart"  # noqa: S105 (only of this test)
SCHEMA = jsonschema_rs.validator_for(json.loads((CHART / "values.schema.json").read_text()))
SETS = pytest.mark.parametrize("name", VALUES)
KUBERNETES = ("1.25", "1.37")  # the oldest that Chart.yaml allows, and the newest that kubernetes-validate knows
pytestmark = pytest.mark.xdist_group("deploy-chart")  # they share a server


def pods(name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the specification of each pod and its only container."""
    for document in manifests(name):
        if document["kind"] in ("Deployment", "StatefulSet"):
            spec = document["spec"]["template"]["spec"]
            [container] = spec["containers"]
            yield spec, container


@pytest.fixture(scope="module")
def api() -> Iterator[httpx.Client]:
    """A client of a real server with a token."""
    with EngineProcess("valkey", config=("--save", "", "--appendonly", "no")) as engine:
        settings = Settings(port=0, bedrock_port=None, token=TOKEN)
        with threaded_server(make_store(engine), settings) as url, httpx.Client(base_url=url) as client:
            yield client


def test_the_rendered_manifests_belong_to_the_chart() -> None:
    assert DIGEST.read_text().strip() == digest_of_sources(), "run `make rendered-chart`, and look at the difference"
    assert {path.stem for path in RENDERED.glob("*.yaml")} == VALUES.keys()


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == windlass.__version__


@pytest.mark.parametrize("version", KUBERNETES)
@SETS
def test_kubernetes_accepts_the_manifests(name: str, version: str, tmp_path: Path) -> None:
    file = tmp_path / "manifests.yaml"
    builtin = [document for document in manifests(name) if not document["apiVersion"].startswith(CUSTOM)]
    file.write_text(yaml.safe_dump_all(builtin))
    output = check(python_program("kubernetes-validate"), "--strict", "-k", version, file)
    assert output.count("passed") == len(builtin)


def test_keda_and_the_prometheus_operator_accept_their_resources() -> None:
    custom = [document for name in VALUES for document in manifests(name) if document["apiVersion"].startswith(CUSTOM)]
    output = check(python_program("python"), HERE / "custom_resources.py", stdin=yaml.safe_dump_all(custom))
    assert len(output.splitlines()) == len(custom)
    kinds = {document["kind"] for document in custom}
    assert kinds == {"ScaledObject", "TriggerAuthentication", "ServiceMonitor", "PrometheusRule"}


@SETS
def test_names_are_used_once_and_references_lead_somewhere(name: str) -> None:
    documents = manifests(name)
    names = [(document["kind"], document["metadata"]["name"]) for document in documents]
    assert len(names) == len(set(names))
    assert all(len(text) <= 63 for _, text in names)
    for scaled in of_kind(name, "ScaledObject"):
        assert ("Deployment", scaled["spec"]["scaleTargetRef"]["name"]) in names
        for trigger in scaled["spec"]["triggers"]:
            assert ("TriggerAuthentication", trigger["authenticationRef"]["name"]) in names
    for service in of_kind(name, "Service"):
        assert any(
            service["spec"]["selector"].items() <= document["spec"]["template"]["metadata"]["labels"].items()
            for document in documents
            if document["kind"] in ("Deployment", "StatefulSet")
        )


@SETS
def test_pods_have_no_rights_and_a_read_only_file_system(name: str) -> None:
    for spec, container in pods(name):
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 10001
        assert spec["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip


@SETS
def test_variables_are_settings_that_a_server_accepts(name: str, tmp_path: Path) -> None:
    for _, container in pods(name):
        given = {entry["name"]: entry.get("value", "rediss://engine/0") for entry in container["env"]}
        given["WINDLASS_TOKEN"] = TOKEN
        _, origins = load(environment=given, directory=tmp_path)
        known = {f"WINDLASS_{origin.name.upper()}" for origin in origins}
        assert {variable for variable in given if variable.startswith("WINDLASS_")} <= known


@SETS
def test_services_give_no_program_a_setting(name: str) -> None:
    """Kubernetes sets variables such as NAME_PORT for each Service, in all pods of the namespace."""
    settings = {f"WINDLASS_{field.removesuffix('_ms').upper()}" for field in Settings.__struct_fields__}
    for service in of_kind(name, "Service"):
        prefix = service["metadata"]["name"].upper().replace("-", "_")
        assert not {f"{prefix}_{ending}" for ending in ("PORT", "SERVICE_HOST", "SERVICE_PORT")} & settings


@SETS
def test_workers_have_arguments_that_the_command_accepts(name: str) -> None:
    for spec, container in pods(name):
        command, *arguments = container["args"]
        if command == "worker":
            options = worker.make_context("worker", arguments).params
            assert spec["terminationGracePeriodSeconds"] * 1000 == options["grace"] + 20_000
    assert {container["args"][0] for _, container in pods(name)} <= {"serve", "worker"}


def test_probes_and_the_stop_of_a_server(api: httpx.Client) -> None:
    for name in VALUES:
        [(spec, server)] = [pod for pod in pods(name) if pod[1]["name"] == "server"]
        paths = {server[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
        assert [api.get(path).status_code for path in sorted(paths)] == [200, 200]
        assert server["livenessProbe"]["httpGet"]["path"] == "/healthz"  # an engine that is away restarts no server
        [grace] = [entry["value"] for entry in server["env"] if entry["name"] == "WINDLASS_GRACE"]
        assert spec["terminationGracePeriodSeconds"] > int(grace.removesuffix("s")) + 5  # and the pause before


@pytest.mark.parametrize("name", ["external", "secrets"])
def test_keda_asks_for_numbers_that_a_server_gives(name: str, api: httpx.Client) -> None:
    triggers = [trigger for scaled in of_kind(name, "ScaledObject") for trigger in scaled["spec"]["triggers"]]
    queues = [queue for values in _workers(name) for queue in values["queues"] if "autoscaling" in values]
    answers = []
    for trigger in triggers:
        metadata, parts = trigger["metadata"], urlsplit(trigger["metadata"]["url"])
        assert parts.netloc == f"{of_kind(name, 'Service')[0]['metadata']['name']}.jobs.svc:{_port(name)}"
        answer = api.get(f"{parts.path}?{parts.query}", headers={"Authorization": f"Bearer {TOKEN}"})
        assert (answer.status_code, metadata["authMode"]) == (200, "bearer")
        assert isinstance(answer.json()[metadata["valueLocation"]], int)
        answers.append(answer.json()["queue"])
    assert answers == queues


def _workers(name: str) -> list[dict[str, Any]]:
    values = yaml.safe_load(VALUES[name][0].read_text())
    return [worker_values for worker_values in values["workers"].values() if "queues" in worker_values]


def _port(name: str) -> int:
    port: int = of_kind(name, "Service")[0]["spec"]["ports"][0]["port"]
    return port


def test_workers_of_an_embedded_engine_use_the_server_and_others_the_engine() -> None:
    for name, is_remote in (("secrets", True), ("external", False), ("engine_secret", False)):
        for _, container in pods(name):
            env = {entry["name"]: entry for entry in container["env"]}
            if container["name"] == "worker":
                assert ("WINDLASS_TOKEN" in env) is is_remote
                assert ("value" in env["WINDLASS_URL"]) is is_remote


def test_an_embedded_engine_has_a_volume_and_a_server_with_an_engine_has_none() -> None:
    [stateful] = of_kind("default", "StatefulSet")
    assert stateful["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] == "8Gi"
    assert of_kind("external", "StatefulSet") == of_kind("engine_secret", "StatefulSet") == []
    [server] = [container for _, container in pods("default")]
    assert {mount["mountPath"] for mount in server["volumeMounts"]} == {"/var/lib/windlass", "/tmp"}  # noqa: S108


def test_secrets_are_not_in_other_resources() -> None:
    values = yaml.safe_load(VALUES["external"][0].read_text())
    [secret] = of_kind("external", "Secret")
    assert base64.b64decode(secret["data"]["url"]).decode() == values["engine"]["url"]
    others = json.dumps([document for document in manifests("external") if document["kind"] != "Secret"])
    assert values["engine"]["url"] not in others
    assert values["auth"]["token"] not in others
    assert of_kind("secrets", "Secret") == []


def test_alerts_and_dashboard_are_those_of_the_other_folders() -> None:
    [rule] = of_kind("external", "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())
    [dashboard] = [document for document in of_kind("external", "ConfigMap") if "windlass.json" in document["data"]]
    assert json.loads(dashboard["data"]["windlass.json"]) == json.loads(
        (DEPLOY / "grafana" / "windlass.json").read_text()
    )


def test_the_schema_accepts_our_values() -> None:
    for path in (CHART / "values.yaml", *(path for paths in VALUES.values() for path in paths)):
        SCHEMA.validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    "values",
    [
        {"server": {"replica": 2}},
        {"auth": {"token": "too short"}},
        {"engine": {"url": "http://engine"}},
        {"workers": {"mail": {"image": "i", "app": "a", "queue": ["mail"]}}},
        {"workers": {"Mail": {"image": "i", "app": "a"}}},
    ],
)
def test_the_schema_refuses_typing_errors(values: dict[str, Any]) -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        SCHEMA.validate(values)


if IS_DEEP:

    @pytest.fixture(scope="module")
    def renderer(tmp_path_factory: pytest.TempPathFactory) -> Path:
        return build_renderer(tmp_path_factory.mktemp("renderer"))

    @SETS
    def test_rendering_gives_the_manifests(name: str, renderer: Path) -> None:
        assert render(renderer, name) == (RENDERED / f"{name}.yaml").read_text()

    @pytest.mark.parametrize(
        ("values", "sentence"),
        [
            ({"server": {"replicas": 2}}, "Set engine.url or engine.existingSecret for server.replicas > 1."),
            ({"workers": {"mail": {"app": "a"}}}, "Set workers.mail.image to an image with your code"),
            ({"workers": {"mail": {"image": "i"}}}, "Set workers.mail.app to the module of your app"),
            (
                {"workers": {"mail": {"image": "i", "app": "a", "autoscaling": {"enabled": True}}}},
                "Set workers.mail.queues: autoscaling asks for the number of workers of each queue.",
            ),
        ],
    )
    def test_missing_values_get_a_sentence(
        values: dict[str, Any], sentence: str, renderer: Path, tmp_path: Path
    ) -> None:
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        assert sentence in refusal(renderer, CHART, "windlass", "default", os.fspath(file))
