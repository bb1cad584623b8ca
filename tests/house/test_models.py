"""The models of docs/models agree with the mutants and the source. `make models` checks the models themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.models import LIVENESS, MODELS, NO_BUGS, README, Check, bug_table, configurations, with_figures

from tests.house.source_tree import ROOT, SOURCE

MODEL_TEXT = "".join(path.read_text() for path in sorted(MODELS.glob("*.tla")))
PLANTED = {bug["mutant"]: bug for bug in bug_table()["bug"]}
LEFT_OUT = [mutant for group in bug_table()["left_out"] for mutant in group["mutants"]]
PATCHES = {path.name.partition("-")[0]: path for path in (ROOT / "mutants").glob("*.patch")}
LUA = SOURCE / "store" / "lua"


def modelled_files() -> set[Path]:
    """Return the source files that comments of the models name."""
    named = set(re.findall(r"[\w/]*/\w+\.(?:lua|py)\b", MODEL_TEXT))
    return {LUA / name if name.endswith(".lua") else SOURCE / name for name in named}


def changed_files(patch: Path) -> set[Path]:
    return {ROOT / name for name in re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.M)}


def invariants_of(configuration: Path) -> set[str]:
    return set(configuration.read_text().partition("\nINVARIANTS\n")[2].split())


def test_files_that_the_models_name_exist() -> None:
    files = modelled_files()
    assert len(files) > 20
    assert sorted(str(file.relative_to(ROOT)) for file in files if not file.is_file()) == []


def test_files_that_the_readme_names_exist() -> None:
    files = {LUA / name for name in re.findall(r"`((?:\w+/)+\w+\.lua)`", README.read_text())}
    assert len(files) > 15
    assert sorted(str(file.relative_to(ROOT)) for file in files if not file.is_file()) == []


def test_every_planted_bug_is_a_mutant_that_the_model_contains() -> None:
    assert set(PLANTED) == set(re.findall(r'Bug\("(\d+)"\)', MODEL_TEXT))
    assert set(PLANTED) - set(PATCHES) == set()


def test_every_mutant_of_a_modelled_file_is_planted_or_left_out() -> None:
    assert len(LEFT_OUT) == len(set(LEFT_OUT))
    assert set(LEFT_OUT) & set(PLANTED) == set()
    files = modelled_files()
    concerned = {number for number, patch in PATCHES.items() if changed_files(patch) & files}
    assert sorted(concerned - set(PLANTED) - set(LEFT_OUT)) == [], (
        "plant these mutants, or leave them out with a reason"
    )
    assert sorted(set(LEFT_OUT) - set(PATCHES)) == [], "these mutants no longer exist"


@pytest.mark.parametrize("mutant", sorted(PLANTED))
def test_a_planted_bug_breaks_a_promise_of_its_configuration(mutant: str) -> None:
    bug = PLANTED[mutant]
    configuration = configurations()[bug["configuration"]]
    assert NO_BUGS in configuration.read_text()
    assert bug["breaks"] in invariants_of(configuration)


def test_every_promise_is_defined_and_explained() -> None:
    promises = set.union(*(invariants_of(path) for path in configurations().values())) | {LIVENESS}
    assert len(promises) > 10
    assert [name for name in sorted(promises) if f"\n{name} ==" not in MODEL_TEXT] == []
    assert [name for name in sorted(promises) if f"\n| `{name}` |" not in README.read_text()] == []


def test_the_readme_has_the_command_and_the_figures() -> None:
    text = README.read_text()
    assert "$ make models " in text
    assert re.search(r"^models: ", (ROOT / "Makefile").read_text(), re.M)
    checked = re.findall(r"^\| `([\w-]+)` \| [\d,]{3,} \| [\d,]{3,} \| \d+ \| \d+ \|$", text, re.M)
    assert checked == list(configurations())
    found = re.findall(r"^\| `(\d+)-[\w-]+` \| `(\w+)` \| \d+ \| [\d,]+ \|$", text, re.M)
    assert found == [(mutant, bug["breaks"]) for mutant, bug in PLANTED.items()]


def test_figures_of_a_run_replace_the_old_figures() -> None:
    checks = [Check("waiting", "", "", 1234, 567, 8, 9.6, ""), Check("01", "OneLease", "OneLease", 79, 16, 4, 1.0, "")]
    text = with_figures(with_figures(README.read_text(), checks), checks)
    assert text.count("| `waiting` | 1,234 | 567 | 8 | 10 |") == 1
    assert text.count("| `01-finish-without-token-check` | `OneLease` | 4 | 16 |") == 1
    assert text.count("<!-- end of figures -->") == text.count("## Not modelled") == 1
