"""`lmi schema COMMAND` and `--events`."""

import json

import pytest

from tests.support.local_app import LocalApp


def test_schema_of_one_command_of_all_and_of_the_recipe(app: LocalApp) -> None:
    one, every = (app.lmi("schema", *words, "--json").result["schema"] for words in (["down"], ["--events"]))
    assert one["title"] == "A line that `lmi down --json` prints"
    assert {"$ref": "#/$defs/DownResult"} in one["anyOf"]
    assert {"$ref": "#/$defs/UpResult"} not in one["anyOf"]
    assert {"$ref": "#/$defs/UpResult"} in every["anyOf"]
    assert "model_id" in app.lmi("schema", "--json").result["schema"]["properties"]
    assert json.loads(app.lmi("schema", "weights", "push").out)["version"] == every["version"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["statsu"], "did you mean status?"),
        (["weights"], "name one of weights push, weights ls"),
        (["qqqqqq"], "`lmi --help` lists the commands"),
        (["up", "--events"], "omit one of them"),
    ],
)
def test_schema_of_an_unknown_command_is_refused(app: LocalApp, words: list[str], hint: str) -> None:
    result = app.lmi("schema", *words)
    assert (result.code, hint in result.err) == (2, True), result.err
