"""Every command, in process: what goes to which stream, and how it ends."""

from __future__ import annotations

import io
import json
import os
import threading
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.cli.context import DepsFactory
from lmi_deploy.cli.exit_codes import run
from lmi_deploy.cli.group import COMMANDS, lmi
from tests.support.fake_servers import Answer, Behaviour, chat
from tests.support.local_app import MODEL, RECIPE, REF, House

JSON_COMMANDS = [
    ("validate", "tiny.yaml"),
    ("validate", "bad.yaml"),
    ("plan", "tiny.yaml"),
    ("plan", "nowhere.yaml"),
    ("render", "tiny.yaml", "-o", "out"),
    ("status", "tiny"),
    ("status", "nobody"),
    ("ls",),
    ("invoke", "tiny", "hello"),
    ("invoke", "nobody", "hello"),
    ("logs", "tiny"),
    ("logs", "nobody"),
    ("up", "tiny.yaml", "--yes"),
    ("up", "tiny.yaml", "--yes", "--no-probe"),
    ("up", "tiny.yaml", "--set", "options.dtype=fp32"),
    ("schema",),
    ("completion", "bash"),
    ("cache", "ls"),
    ("cache", "rm", "nothing", "--yes"),
    ("cache", "rm", "--all", "--yes"),
    ("cache", "rm"),
    ("down", "--yes"),
    ("down", "nobody", "--yes"),
    ("no-such-command",),
    ("up", "--no-such-option"),
]


def test_validate(house: House) -> None:
    ran = house.lmi("validate", "tiny.yaml")
    assert (ran.code, ran.out, ran.err) == (0, "tiny.yaml: good\n", "")


def test_validate_tells_every_mistake_of_every_recipe(house: House) -> None:
    Path("bad.yaml").write_text(RECIPE.replace("engine:", "enigne:"))
    ran = house.lmi("validate", "tiny.yaml", "bad.yaml", "absent.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert "bad.yaml:3:1: enigne: unknown key, did you mean engine" in ran.err
    assert "absent.yaml:1:1: absent.yaml: No such file" in ran.err
    assert "1 of 3 recipes are good" in ran.err


@pytest.mark.parametrize("argv", [("validate",), ("validate", "tiny.yaml"), ("plan",), ("up", "--yes")])
def test_a_recipe_that_is_not_there_ends_as_a_bad_one(house: House, argv: tuple[str, ...]) -> None:
    for absent in ("absent.yaml", "absent.json"):
        ran = house.lmi(*argv, absent)
        assert (ran.code, ran.out) == (2, "")
        assert (
            f"{absent}: No such file or directory\n  next: " in ran.err
            or "1 of 2 recipes are good" in ran.err
        )


def test_validate_looks_for_the_users_own_files(house: House) -> None:
    Path("sub").mkdir()
    Path("sub/r.yaml").write_text(
        RECIPE + "handler: {file: own.py}\nprobe: {body: '{}'}\nrequirements: ../requirements.txt\n"
    )
    ran = house.lmi("validate", "sub/r.yaml")
    assert (ran.code, ran.out) == (2, "")
    hint = "a path in a recipe starts at the recipe's own folder"
    assert f"sub/r.yaml:5:11: handler.file: own.py: No such file or directory, {hint}\n" in ran.err
    assert (
        f"sub/r.yaml:7:1: requirements: ../requirements.txt: No such file or directory, {hint}\n" in ran.err
    )
    Path("sub/own.py").touch()
    Path("requirements.txt").mkdir()
    assert "requirements.txt: Is a directory" in house.lmi("validate", "sub/r.yaml").err
    Path("requirements.txt").rmdir()
    Path("requirements.txt").touch()
    assert house.lmi("validate", "sub/r.yaml").code == 0


def test_plan_tells_and_writes_nothing(house: House) -> None:
    ran = house.lmi("plan")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("tiny: 7 actions\n  + ")
    assert "+ fetch org/tiny at " in ran.out
    assert "fit: cannot tell: config.json has no model_type" in ran.out
    assert "\n  files: 3 chosen, " in ran.out
    assert house.kept() == []
    house.lmi("up", "--yes")
    assert house.lmi("plan").out.startswith("tiny: nothing to do")


def test_plan_can_end_with_what_is_pending(house: House) -> None:
    assert house.lmi("plan", "--exit-code").code == 4
    house.lmi("up", "--yes")
    assert house.lmi("plan", "--exit-code").code == 0
    assert house.lmi("plan", "--exit-code", "--set", "options.dtype=fp32").code == 4


def test_render_writes_the_artifact_with_its_slot(house: House) -> None:
    ran = house.lmi("render", "-o", "out")
    assert (ran.code, ran.out) == (0, "out\n")
    assert sorted(path.name for path in Path("out").iterdir()) == ["model.py", "serving.properties"]
    assert "option.model_id={{weights}}\n" in Path("out/serving.properties").read_text()
    assert house.kept() == []


def test_render_into_a_folder_with_something_in_it_is_refused(house: House) -> None:
    Path("out").mkdir()
    Path("out/mine").write_text("kept")
    ran = house.lmi("render", "-o", "out")
    assert (ran.code, ran.out) == (5, "")
    assert "next: name a new folder" in ran.err
    assert [path.name for path in Path("out").iterdir()] == ["mine"]


def test_up_prints_the_address_alone(house: House) -> None:
    ran = house.lmi("up", "--yes")
    port = house.observed().servers[0].port
    assert (ran.code, ran.out) == (0, f"http://127.0.0.1:{port}/invocations\n")
    assert "answered: OK then" in ran.err
    assert "lmi down tiny" in ran.err


def test_a_second_up_plans_nothing_and_still_asks(house: House) -> None:
    first = house.lmi("up", "--yes")
    served = house.observed().servers[0].served
    second = house.lmi("up")
    assert (second.code, second.out) == (0, first.out)
    assert "nothing to do" in second.err
    assert "answered: OK then" in second.err
    assert house.observed().servers[0].served == served + 1
    assert len(house.servers.started) == 1


def test_up_without_a_probe_asks_nothing(house: House) -> None:
    ran = house.lmi("up", "--yes", "--no-probe", "--json")
    assert ran.code == 0
    assert house.observed().servers[0].served == 0
    assert not [line for line in ran.lines if line["event"] == "answered"]


def test_up_without_a_terminal_needs_yes_and_changes_nothing(house: House) -> None:
    for argv in (("up",), ("up", "--json")):
        assert house.lmi(*argv).code == 2
    assert house.kept() == []
    house.lmi("up", "--yes")
    before = house.kept()
    ran = house.lmi("down")
    assert (ran.code, ran.out) == (2, "")
    assert "--yes" in ran.err
    assert house.kept() == before


@pytest.mark.parametrize("answer", ["\n", "y\n", "Yes\n"])
def test_on_a_terminal_it_asks_and_stdout_stays_clean(house: House, answer: str) -> None:
    ran = house.lmi("up", stdin=answer.encode(), terminal=True)
    assert ran.code == 0
    assert "Go ahead? [Y/n] " in ran.err
    assert ran.out == f"http://127.0.0.1:{house.observed().servers[0].port}/invocations\n"


@pytest.mark.parametrize("answer", ["n\n", "what?\n", ""])
def test_anything_but_a_yes_changes_nothing(house: House, answer: str) -> None:
    ran = house.lmi("up", stdin=answer.encode(), terminal=True)
    assert (ran.code, ran.out) == (130, "")
    assert "error: you did not agree: nothing was changed\n" in ran.err
    assert house.kept() == []


@pytest.mark.parametrize(
    ("answer", "code"), [("\n", 130), ("", 130), ("n\n", 130), ("y\n", 0), (" YES \n", 0)]
)
def test_what_takes_away_is_not_agreed_to_by_enter_alone(house: House, answer: str, code: int) -> None:
    house.lmi("up", "--yes")
    before = house.kept()
    for argv, question in (
        (("cache", "rm", "--all"), "Free 2 entries (2.00 kB)? [y/N] "),
        (("down",), "Delete tiny (this machine)? [y/N] "),
    ):
        ran = house.lmi(*argv, stdin=answer.encode(), terminal=True)
        assert (ran.code, ran.out) == (code, "")
        assert question in ran.err
        assert ("error: you did not agree: nothing was changed\n" in ran.err) == (code == 130)
    assert (house.kept() == before) == (code == 130)
    assert (len(house.environments.made) == 2) == (code == 130)


def test_status_and_its_exit_codes(house: House) -> None:
    assert house.lmi("status", "tiny").code == 4
    house.lmi("up", "--yes")
    ran = house.lmi("status")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("tiny: in-step\n  address  http://127.0.0.1:")
    assert "requests 1 served" in ran.out
    house.servers.kill(house.state.servers("tiny")[0])
    ran = house.lmi("status")
    assert ran.code == 4
    assert "drifted (its model server is gone" in ran.out


def test_status_of_a_first_up_that_failed(house: House, broken: None) -> None:
    assert house.lmi("up", "--yes").code == 1
    ran = house.lmi("status")
    assert ran.code == 1
    assert ran.out.startswith("tiny: failed (")


def test_ls_is_a_table_on_stdout(house: House) -> None:
    ran = house.lmi("ls")
    assert (ran.code, ran.out) == (0, "")
    assert "no deployments here" in ran.err
    house.lmi("up", "--yes")
    heads, row = house.lmi("ls").out.splitlines()
    assert heads.split()[:4] == ["name", "target", "standing", "address"]
    assert row.split()[:3] == ["tiny", "local", "in-step"]


def test_invoke_gives_the_answer_on_stdout_and_the_figures_on_stderr(house: House) -> None:
    house.lmi("up", "--yes")
    ran = house.lmi("invoke", "tiny", "hello")
    assert (ran.code, ran.out) == (0, "OK then\n")
    assert ran.err == "[0.00 s in all, 2 tokens]\n"


def test_invoke_knows_a_prompt_for_the_only_deployment(house: House) -> None:
    house.lmi("up", "--yes")
    assert house.lmi("invoke", "What is the capital of France?").out == "OK then\n"


@pytest.mark.parametrize(
    ("argv", "stdin"),
    [
        (("--file", "prompt.txt"), b""),
        (("--file", "-"), b"hello"),
        ((), b"hello"),
        (("--body", '{"prompt": "x"}'), b""),
        (("--body", "@prompt.txt"), b""),
        (("--plain", "--stream", "--file", "prompt.txt"), b""),
        (("--system", "be brief", "-p", "max_tokens=8", "-p", "stop=x", "--file", "prompt.txt"), b""),
    ],
)
def test_invoke_takes_its_question_from_anywhere(house: House, argv: tuple[str, ...], stdin: bytes) -> None:
    Path("prompt.txt").write_text("hello")
    house.lmi("up", "--yes")
    ran = house.lmi("invoke", "tiny", *argv, stdin=stdin)
    assert (ran.code, ran.out) == (0, "OK then\n")


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("hi", "--file", "x"), 2, "PROMPT and --file: one of them at a time"),
        (("--file", "absent"), 1, "absent: No such file"),
        (("",), 2, "the prompt is empty"),
        (("hi", "-p", "=1"), 2, "-p =1: not KEY=VALUE"),
        (("hi", "--raw", "--json"), 2, "--raw and --json"),
    ],
)
def test_invoke_says_what_is_wrong_with_the_question(
    house: House, argv: tuple[str, ...], code: int, words: str
) -> None:
    house.lmi("up", "--yes")
    ran = house.lmi("invoke", "tiny", *argv)
    assert ran.code == code
    assert words in ran.err + ran.out


def test_invoke_raw_is_the_body_as_it_came(house: House) -> None:
    house.lmi("up", "--yes")
    ran = house.lmi("invoke", "tiny", "hello", "--raw")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out)["choices"][0]["message"]["content"] == "OK then"


def test_invoke_tells_the_servers_own_words_when_it_refuses(house: House, answering: list[Answer]) -> None:
    house.lmi("up", "--yes")
    answering[:] = [(400, "application/json", b'{"error": {"message": "max_tokens must be positive"}}')]
    ran = house.lmi("invoke", "tiny", "hello")
    assert (ran.code, ran.out) == (1, "")
    assert "max_tokens must be positive" in ran.err
    assert "400 Bad Request" in ran.err
    raw = house.lmi("invoke", "tiny", "hello", "--raw")
    assert raw.code == 1
    assert "max_tokens must be positive" in raw.out


def test_invoke_names_the_limit_that_was_hit(house: House) -> None:
    at_last = threading.Event()

    def late(body: dict[str, Any]) -> Answer:
        at_last.wait(30)
        return chat(body)

    house.servers.next.append(Behaviour(answer=late))
    house.lmi("up", "--yes", "--no-probe")
    ran = house.lmi("invoke", "tiny", "hello", "--timeout", "0.2")
    at_last.set()
    assert (ran.code, ran.out) == (1, "")
    assert "said nothing for 0.2 s, and no longer was to be waited\n" in ran.err
    assert "`lmi logs tiny` shows what it does; `lmi invoke --timeout SECONDS` waits longer" in ran.err
    assert "timeouts.predict" not in ran.err


def test_logs(house: House) -> None:
    house.lmi("up", "--yes")
    ran = house.lmi("logs", "tiny")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("started ")


def test_down_leaves_nothing_of_the_deployment(house: House) -> None:
    house.lmi("up", "--yes")
    assert house.kept() != []
    ran = house.lmi("down", "tiny", "--yes")
    assert (ran.code, ran.out) == (0, "")
    assert house.kept() == []
    assert house.servers.alive() == []
    assert not house.observed().exists


def test_down_with_yes_deletes_only_what_is_named(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder it ended the only deployment that this machine knew."""
    house.lmi("up", "--yes")
    Path("empty").mkdir()
    for folder in (".", "empty"):
        monkeypatch.chdir(folder)
        ran = house.lmi("down", "--yes")
        assert (ran.code, "--yes deletes only what is named" in ran.err) == (2, True)
        assert house.observed().serving
    assert house.lmi("down", stdin=b"y\n", terminal=True).code == 0
    assert house.kept() == []


def test_down_without_a_deployment_is_no_error(house: House) -> None:
    ran = house.lmi("down", "tiny")
    assert (ran.code, ran.out, ran.err) == (0, "", "tiny: nothing of it is here\n")


def test_cache(house: House) -> None:
    assert house.lmi("cache", "ls").out == ""
    house.lmi("up", "--yes")
    assert house.lmi("cache", "ls").out.splitlines()[0].split() == ["name", "kind", "size", "path"]
    assert house.lmi("cache", "rm", "--all").code == 2
    assert len(house.environments.made) == 2
    assert house.lmi("cache", "rm", "--all", "--yes").code == 0
    assert house.environments.made == set()
    house.lmi("up", "--yes", "--set", "options.dtype=fp32")
    made = sorted(house.environments.made)
    for argv in (("gone",), ("gone", "--yes"), (*made, "gone", "--yes")):
        ran = house.lmi("cache", "rm", *argv)
        assert (ran.code, ran.out) == (1, "")
        assert "error: gone: nothing of that name is kept here\n  next: `lmi cache ls`" in ran.err
    assert sorted(house.environments.made) == made, "all of them or none"


def test_schema_and_completion_are_whole_results(house: House) -> None:
    assert "model_id" in json.loads(house.lmi("schema").out)["properties"]
    for shell in ("bash", "zsh", "fish"):
        assert "_LMI_COMPLETE" in house.lmi("completion", shell).out


@pytest.mark.parametrize("argv", JSON_COMMANDS, ids=" ".join)
def test_json_is_nothing_but_json_lines_on_stdout(house: House, argv: tuple[str, ...]) -> None:
    Path("bad.yaml").write_text("name: X\n")
    house.lmi("up", "--yes")
    ran = house.lmi(*argv, "--json")
    assert ran.err == ""
    assert [line["event"] for line in ran.lines].count("result") == 1
    result = ran.result
    assert result["ok"] is (ran.code in (0, 4))
    if not result["ok"]:
        assert result["error"]["exit_code"] == ran.code
        assert result["error"]["message"]


BUILT = [name for name, entry in COMMANDS.items() if find_spec(f"lmi_deploy.cli.commands.{entry.module}")]


@pytest.mark.parametrize("name", BUILT)
def test_every_command_has_help(house: House, name: str) -> None:
    ran = house.lmi(name, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Usage: lmi {name}")
    assert "--json" in ran.out or "COMMAND [ARGS]" in ran.out


def test_a_mistyped_command_is_put_right(house: House) -> None:
    ran = house.lmi("stauts")
    assert (ran.code, ran.out) == (2, "")
    assert "did you mean 'status'?" in ran.err


def test_nothing_at_all_shows_the_help(house: House) -> None:
    ran = house.lmi()
    assert ran.code == 2
    assert "lmi up RECIPE" in ran.err


def test_a_reader_who_went_away_is_no_error(house: House) -> None:
    house.lmi("up", "--yes")
    reading, writing = os.pipe()
    os.close(reading)
    story = io.StringIO()
    with os.fdopen(writing, "w") as out, redirect_stdout(out):
        code = run(lmi, ["logs", "tiny"], given=DepsFactory(house.deps))
    assert code == 128 + 13
    assert story.getvalue() == ""


def test_names_of_deployments(house: House) -> None:
    assert house.lmi("status", "No_Name").code == 2
    assert house.lmi("logs", "nobody").code == 1
    ran = house.lmi("invoke", "nobody", "hi")
    assert ran.code == 1
    assert "next: `lmi ls`" in ran.err


def test_the_only_recipe_names_the_deployment_where_none_is_up(house: House) -> None:
    assert house.lmi("status").out.startswith("tiny: absent")
    Path("tiny.yaml").unlink()
    ran = house.lmi("status")
    assert ran.code == 2
    assert "none is known here" in ran.err


def test_several_deployments_must_be_told_apart(house: House) -> None:
    house.lmi("up", "--yes")
    Path("other.yaml").write_text(RECIPE.replace("name: tiny", "name: other"))
    assert house.lmi("up", "other.yaml", "--yes").code == 0
    for argv in (("status",), ("down",), ("logs",), ("invoke",)):
        ran = house.lmi(*argv)
        assert ran.code == 2, argv
        assert "2 are known here: other, tiny" in ran.err
    assert house.lmi("down", "other.yaml", "--yes").code == 0
    assert house.observed(REF).serving
    first, second = (launch.port for launch in house.servers.started)
    assert first != second


def test_several_recipes_must_be_told_apart(house: House) -> None:
    Path("other.yaml").write_text(RECIPE)
    ran = house.lmi("plan")
    assert ran.code == 2
    assert "other.yaml, tiny.yaml" in ran.err
    assert "recipes here: other.yaml, tiny.yaml" in house.lmi("plan", "absent.yaml").err


def test_an_overlay_is_another_deployment(house: House) -> None:
    Path("tiny.yaml").write_text(RECIPE + "overlays: {prod: {options: {dtype: fp32}}}\n")
    house.lmi("up", "--yes")
    assert house.lmi("up", "--yes", "--overlay", "prod").code == 0
    assert [line.split()[0] for line in house.lmi("ls").out.splitlines()[1:]] == ["tiny", "tiny-prod"]


def test_a_recipe_may_come_from_a_pipe(house: House) -> None:
    ran = house.lmi("plan", "-", stdin=RECIPE.encode())
    assert ran.code == 0
    assert MODEL in ran.out
