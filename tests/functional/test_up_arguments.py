"""What `lmi up` takes besides one recipe: a model of the Hub, and several recipes at once."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from lmi_deploy.cli.parallel_commands import CommandEnd, ParallelCommands
from lmi_deploy.domain.dataclass_json import dump
from lmi_deploy.domain.events import Event
from lmi_deploy.planning.stale_plan_check import Agreement
from tests.support.cloud_app import RECIPE as CLOUD_RECIPE
from tests.support.cloud_app import CloudApp
from tests.support.fakes import model_files
from tests.support.local_app import MODEL, RECIPE, LocalApp

SMALL = "org/small"


@pytest.fixture
def cloud(app: LocalApp) -> CloudApp:
    return CloudApp(app.root)


@pytest.fixture
def small(app: LocalApp) -> LocalApp:
    app.hub.models[SMALL] = model_files()
    return app


def recipes(text: str, *names: str) -> list[str]:
    for name in names:
        Path(f"{name}.yaml").write_text(text.replace("name: tiny", f"name: {name}"))
    return [f"{name}.yaml" for name in names]


def test_model_of_the_hub_gets_a_recipe_and_is_deployed(small: LocalApp) -> None:
    result = small.lmi("up", SMALL, "--yes")
    assert result.code == 0, result.err
    assert "wrote small.yaml, as `lmi init org/small` does" in result.err
    assert f"model_id: {SMALL}" in Path("small.yaml").read_text()
    assert small.lmi("status", "small").code == 0
    again = small.lmi("up", SMALL, "--yes")
    assert (again.code, "small.yaml: the recipe of org/small is used as it is" in again.err) == (0, True)


def test_refused_question_keeps_the_recipe_and_changes_nothing_else(small: LocalApp) -> None:
    result = small.lmi("up", SMALL, stdin=b"n\n", terminal=True)
    assert (result.code, Path("small.yaml").exists()) == (130, True)
    assert small.artifacts_left("small") == []


def test_recipe_of_another_model_is_never_overwritten(small: LocalApp) -> None:
    Path("small.yaml").write_text(RECIPE.replace(MODEL, "org/other"))
    result = small.lmi("up", SMALL, "--yes")
    assert result.code == 5
    assert "small.yaml: the file exists, and its model is org/other, not org/small" in result.err
    assert "lmi init org/small -o FILE" in result.err


def test_wrong_path_is_no_model(app: LocalApp) -> None:
    Path("recipes").mkdir()
    app.hub.models["recipes/chat"] = model_files()
    for argument in ("recipes/chat", "recipes/chat.yaml", "folder/chat.yaml", "chat"):
        result = app.lmi("up", argument, "--yes")
        assert (result.code, "No such file" in result.err) == (2, True), argument


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("{target: local}", ("the same name: one, this machine", "give each its own name")),
        ("{target: local, port: 9000}", ("the same endpoint.port: 9000", "give each its own endpoint.port")),
    ],
)
def test_two_recipes_that_exclude_each_other_are_refused(
    app: LocalApp, endpoint: str, expected: tuple[str, str]
) -> None:
    text = RECIPE.replace("{target: local}", endpoint)
    paths = recipes(text, "one", "two")
    if "name" in expected[0]:
        Path("two.yaml").write_text(Path("one.yaml").read_text())
    result = app.lmi("up", *paths, "--yes")
    assert result.code == 2
    assert all(words in result.err for words in ("one.yaml and two.yaml", *expected)), result.err


def test_a_mistake_in_one_recipe_deploys_none(app: LocalApp) -> None:
    paths = recipes(RECIPE, "one", "two")
    Path("two.yaml").write_text(RECIPE.replace("engine", "engien"))
    assert app.lmi("up", *paths, "--yes").code == 2
    assert app.artifacts_left("one") == []


def test_mistakes_of_all_recipes_are_listed_together(app: LocalApp) -> None:
    paths = recipes(RECIPE, "one", "two", "three")
    for path in paths[::2]:
        Path(path).write_text(Path(path).read_text() + f"unknown_{Path(path).stem}: 1\n")
    result = app.lmi("up", *paths, "--yes")
    assert result.code == 2
    assert [name in result.err for name in ("unknown_one", "unknown_three", "two.yaml:")] == [
        True,
        True,
        False,
    ]
    assert app.artifacts_left("two") == []


def test_any_other_error_names_its_recipe(app: LocalApp) -> None:
    one, two = recipes(RECIPE, "one", "two")
    Path(two).write_text(Path(two).read_text().replace(MODEL, "org/absent"))
    result = app.lmi("up", one, two, "--yes")
    assert result.code == 1
    assert "error: two.yaml: " in result.err


def test_limit_counts_for_all_together(cloud: CloudApp) -> None:
    paths = recipes(CLOUD_RECIPE.replace(", ml.g6.xlarge", ""), "one", "two")
    result = cloud.lmi("up", *paths, "--yes", "--max-hourly", "2")
    assert (result.code, "2 deployments together may cost $2.82 an hour" in result.err) == (5, True), (
        result.err
    )
    assert cloud.lmi("plan", "one.yaml", "--max-hourly", "2").code == 0


def test_without_a_terminal_a_yes_is_needed(app: LocalApp) -> None:
    result = app.lmi("up", *recipes(RECIPE, "one", "two"))
    assert (result.code, "add --yes" in result.err) == (2, True), result.err
    assert "2 deployments, 2 to create or change" in result.err


def test_plan_with_more_than_was_agreed_is_refused(app: LocalApp) -> None:
    recipes(RECIPE, "one")
    deployment = Agreement(actions=(), changes=(), prices={})
    Path("agreed.json").write_text(json.dumps(dump(deployment)))
    result = app.lmi("up", "one.yaml", "--yes", "--agreed", "agreed.json")
    assert (result.code, "the plan is stale: it would now also" in result.err) == (5, True)
    assert app.artifacts_left("one") == []


def test_all_events_of_a_command_come_before_its_end() -> None:
    notices = [{"event": "notice", "text": str(number)} for number in range(300)]
    lines = "\n".join(json.dumps(line) for line in [*notices, {"event": "result", "ok": True}])
    commands = ParallelCommands({"one": [lines], "two": [lines]}, 2, ("printf", "%s\n"))
    seen: list[tuple[str, str]] = []

    def show(name: str, event: Event) -> None:
        time.sleep(0.001)  # slower than they arrive, so that the command ends before its events are shown
        seen.append((name, "event"))

    commands.run(show, lambda end: seen.append((end.name, "end")))
    for name in ("one", "two"):
        assert [what for one, what in seen if one == name] == ["event"] * 300 + ["end"]


def test_command_that_prints_no_json_or_does_not_exist_ends() -> None:
    for program in (("printf", "%s\n"), ("./no-such-program",)):
        (end,) = ParallelCommands({"one": ["not JSON"]}, 1, program).run(lambda *_: None, lambda _: None)
        assert "could not be run" in end.result["error"]["message"]


def test_commands_in_processes_of_their_own(app: LocalApp) -> None:
    recipes(RECIPE, "one")
    commands = ParallelCommands(
        {"good": ["validate", "one.yaml", "--json"], "bad": ["validate", "none.yaml", "--json"]}, 1
    )
    seen: list[CommandEnd] = []
    ends = commands.run(lambda name, event: None, seen.append)
    assert [(end.name, end.ok) for end in ends] == [("good", True), ("bad", False)]
    assert sorted(end.name for end in seen) == ["bad", "good"]
    assert ends[1].result["error"]["kind"] == "UsageRefused"
