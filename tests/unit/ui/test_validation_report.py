"""The reports of `lmi validate` for CI systems."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.ui.validation_report import FORMATS

HERE = Path.cwd()
"""The folder of the repository: the recipes of these tests are in it."""

UNKNOWN = Problem(origin="./a,b.yaml", line=3, column=5, key="enigne", what="unknown\n100% <key>")
OF_SET = Problem(origin="--set:2", line=0, column=7, key="options", what="not a number", hint="write one")
FOUND = {"good.yaml": (), "./a,b.yaml": (UNKNOWN, OF_SET)}


def test_github_annotations_escape_what_ends_a_command() -> None:
    assert FORMATS["github"](FOUND, HERE).splitlines() == [
        "::error file=a%2Cb.yaml,line=3,col=5,title=lmi validate::enigne: unknown%0A100%25 <key>",
        "::error file=a%2Cb.yaml,line=1,col=1,title=lmi validate::--set:2: options: not a number, write one",
    ]
    assert FORMATS["github"]({"good.yaml": ()}, HERE) == ""


def test_gitlab_fingerprints_are_unique_and_independent_of_the_line() -> None:
    entries = json.loads(FORMATS["gitlab"]({"a": (UNKNOWN, UNKNOWN, OF_SET)}, HERE))
    marks = [entry["fingerprint"] for entry in entries]
    assert len(set(marks)) == 3
    moved = Problem(origin="a,b.yaml", line=9, column=5, key="enigne", what=UNKNOWN.what)
    assert json.loads(FORMATS["gitlab"]({"a": (moved,)}, HERE))[0]["fingerprint"] == marks[0]
    assert entries[0]["location"] == {"path": "a,b.yaml", "lines": {"begin": 3}}
    assert entries[2]["location"] == {"path": "a", "lines": {"begin": 1}}
    assert json.loads(FORMATS["gitlab"]({"good.yaml": ()}, HERE)) == []


def test_junit_has_a_case_for_each_recipe() -> None:
    control = Problem(origin="c", line=1, column=1, key="", what='"\x00" & ]]>')
    root = ElementTree.fromstring(FORMATS["junit"]({**FOUND, "c": (control,)}, HERE).encode())
    assert (root.get("tests"), root.get("failures")) == ("3", "2")
    failures = [case.find("failure") for case in root.iter("testcase")]
    assert failures[0] is None
    assert failures[1] is not None
    assert "./a,b.yaml:3:5: enigne: unknown\n100% <key>" in (failures[1].text or "")
    assert failures[2] is not None
    assert failures[2].get("message") == '"\N{REPLACEMENT CHARACTER}" & ]]>'


def test_sarif_names_the_place_of_each_mistake() -> None:
    run = json.loads(FORMATS["sarif"](FOUND, HERE))["runs"][0]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert places[0] == {
        "artifactLocation": {"uri": "a%2Cb.yaml"},
        "region": {"startLine": 3, "startColumn": 5},
    }
    assert places[1]["region"] == {"startLine": 1, "startColumn": 1}
    assert {result["ruleId"] for result in run["results"]} == {run["tool"]["driver"]["rules"][0]["id"]}
