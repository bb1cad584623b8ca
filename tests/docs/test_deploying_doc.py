"""docs/deploying.md agrees with the files that it describes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema_rs
import yaml

from tests.deploy.tools import DEPLOY, ROOT, check, python_program

TEXT = (ROOT / "docs" / "deploying.md").read_text()
CHART = DEPLOY / "helm" / "windlass"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.M | re.S)


def test_the_values_fit_the_chart() -> None:
    schema = jsonschema_rs.validator_for(json.loads((CHART / "values.schema.json").read_text()))
    [values] = blocks("yaml")
    schema.validate(yaml.safe_load(values))


def test_the_table_of_values_names_values_that_exist() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    table = TEXT.partition("| value | meaning | default |")[2].partition("\n\n")[0]
    names = [name for name in re.findall(r"`([a-z]\w+(?:\.\w+)+)`", table) if not name.startswith("workers.")]
    assert len(names) > 10
    for name in names:
        group, _, value = name.partition(".")
        assert value in values[group], name


def test_the_dockerfile_of_a_worker_is_accepted(tmp_path: Path) -> None:
    [dockerfile] = blocks("dockerfile")
    file = tmp_path / "Dockerfile"
    file.write_text(dockerfile)
    check(python_program("hadolint"), "--ignore=DL3006", file)  # the base has no tag: it was just built


def test_every_alert_is_explained() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"][0]["rules"]
    assert re.findall(r"^\| `(Windlass\w+)` \|", TEXT, re.M) == [rule["alert"] for rule in rules]


def test_files_that_the_page_names_exist() -> None:
    paths = set(re.findall(r"\b(?:deploy|tests)/[\w./-]+\w", TEXT))
    assert {path for path in paths if not (ROOT / path).exists()} == set()
