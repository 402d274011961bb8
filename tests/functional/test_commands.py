"""Every command, in process: its output per stream, and its exit code."""

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

from lmi_deploy.cli.command_group import COMMANDS, lmi
from lmi_deploy.cli.context import DependenciesFactory
from lmi_deploy.cli.error_boundary import run
from tests.support.fake_servers import Behaviour, FakeResponse, chat
from tests.support.local_app import MODEL, RECIPE, REF, LocalApp

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


def test_validate_reports_a_valid_recipe(app: LocalApp) -> None:
    result = app.lmi("validate", "tiny.yaml")
    assert (result.code, result.out, result.err) == (0, "tiny.yaml: valid\n", "")


def test_validate_reports_every_error_of_every_recipe(app: LocalApp) -> None:
    Path("bad.yaml").write_text(RECIPE.replace("engine:", "enigne:"))
    result = app.lmi("validate", "tiny.yaml", "bad.yaml", "absent.yaml")
    assert (result.code, result.out) == (2, "")
    assert "bad.yaml:3:1: enigne: unknown key, did you mean engine" in result.err
    assert "absent.yaml:1:1: absent.yaml: No such file" in result.err
    assert "1 of 3 recipes are valid" in result.err


def test_validate_prints_a_report_on_stdout_and_the_words_on_stderr(app: LocalApp) -> None:
    Path("bad.yaml").write_text(RECIPE.replace("engine:", "enigne:"))
    result = app.lmi("validate", "tiny.yaml", "bad.yaml", "absent.yaml", "--format", "github")
    assert result.code == 2
    lines = result.out.splitlines()
    assert any(
        line.startswith("::error file=bad.yaml,line=3,col=1,title=lmi validate::enigne: ") for line in lines
    )
    assert lines[-1].startswith(
        "::error file=absent.yaml,line=1,col=1,title=lmi validate::absent.yaml: No such"
    )
    assert "bad.yaml:3:1: enigne: unknown key" in result.err


@pytest.mark.parametrize(("output", "empty"), [("github", ""), ("gitlab", "[]\n")])
def test_validate_reports_no_mistake(app: LocalApp, output: str, empty: str) -> None:
    result = app.lmi("validate", "tiny.yaml", "--format", output)
    assert (result.code, result.out) == (0, empty)


def test_validate_refuses_two_outputs(app: LocalApp) -> None:
    result = app.lmi("validate", "tiny.yaml", "--json", "--format", "sarif")
    assert result.code == 2
    assert "--json and --format sarif are two outputs" in result.out + result.err


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("scale", "tiny", "-1"), "'COUNT': '-1' is negative: use a whole number, 0 or more"),
        (
            ("extend", "tiny", "-5h", "--json"),
            "'DURATION': '-5h' is negative: use a value without the minus sign",
        ),
        (("scale", "tiny", "--yess"), "No such option '--yess'"),
        (("gc", "-1"), "No such option '-1'"),
    ],
)
def test_negative_number_is_no_unknown_option(app: LocalApp, argv: tuple[str, ...], text: str) -> None:
    result = app.lmi(*argv)
    assert (result.code, text in result.out + result.err) == (2, True), result.err


@pytest.mark.parametrize("argv", [("validate",), ("validate", "tiny.yaml"), ("plan",), ("up", "--yes")])
def test_missing_recipe_file_ends_with_2(app: LocalApp, argv: tuple[str, ...]) -> None:
    for absent in ("absent.yaml", "absent.json"):
        result = app.lmi(*argv, absent)
        assert (result.code, result.out) == (2, "")
        assert (
            f"{absent}: No such file or directory\n  next: " in result.err
            or "1 of 2 recipes are valid" in result.err
        )


def test_validate_checks_that_own_files_exist(app: LocalApp) -> None:
    Path("sub").mkdir()
    Path("sub/r.yaml").write_text(
        RECIPE + "handler: {file: own.py}\nprobe: {body: '{}'}\nrequirements: ../requirements.txt\n"
    )
    result = app.lmi("validate", "sub/r.yaml")
    assert (result.code, result.out) == (2, "")
    hint = "write the path relative to the recipe's folder"
    assert f"sub/r.yaml:5:11: handler.file: own.py: No such file or directory, {hint}\n" in result.err
    assert (
        f"sub/r.yaml:7:1: requirements: ../requirements.txt: No such file or directory, {hint}\n"
        in result.err
    )
    Path("sub/own.py").write_text("def handle(inputs): ...\n")
    Path("requirements.txt").mkdir()
    assert "requirements.txt: Is a directory" in app.lmi("validate", "sub/r.yaml").err
    Path("requirements.txt").rmdir()
    Path("requirements.txt").touch()
    assert app.lmi("validate", "sub/r.yaml").code == 0


def test_plan_prints_the_actions_and_writes_nothing(app: LocalApp) -> None:
    result = app.lmi("plan")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("tiny: 7 actions\n  + ")
    assert "+ download org/tiny at " in result.out
    assert "fit: cannot tell: config.json has no model_type" in result.out
    assert "\n  files: 3 chosen, " in result.out
    assert app.artifacts_left() == []
    app.lmi("up", "--yes")
    assert app.lmi("plan").out.startswith("tiny: nothing to do")


def test_plan_refuses_an_environment_that_the_disk_cannot_hold(app: LocalApp) -> None:
    app.environments.disk_is_full = True
    ran = app.lmi("plan", "tiny.yaml")
    assert ran.code == 1
    assert "the serving environment needs about 1 GB" in ran.err


def test_plan_exit_code_shows_whether_changes_are_pending(app: LocalApp) -> None:
    assert app.lmi("plan", "--exit-code").code == 4
    app.lmi("up", "--yes")
    assert app.lmi("plan", "--exit-code").code == 0
    assert app.lmi("plan", "--exit-code", "--set", "options.dtype=fp32").code == 4


def test_render_writes_the_artifact_with_its_placeholder(app: LocalApp) -> None:
    result = app.lmi("render", "-o", "out")
    assert (result.code, result.out) == (0, "out\n")
    assert sorted(path.name for path in Path("out").iterdir()) == ["model.py", "serving.properties"]
    assert "option.model_id={{weights}}\n" in Path("out/serving.properties").read_text()
    assert app.artifacts_left() == []


def test_render_into_a_non_empty_folder_is_refused(app: LocalApp) -> None:
    Path("out").mkdir()
    Path("out/mine").write_text("kept")
    result = app.lmi("render", "-o", "out")
    assert (result.code, result.out) == (5, "")
    assert "next: nothing was written. Name a new folder" in result.err
    assert [path.name for path in Path("out").iterdir()] == ["mine"]


def test_up_prints_only_the_address_to_stdout(app: LocalApp) -> None:
    result = app.lmi("up", "--yes")
    port = app.observed().servers[0].port
    assert (result.code, result.out) == (0, f"http://127.0.0.1:{port}/invocations\n")
    assert "answered: OK then" in result.err
    assert "lmi down tiny" in result.err


def test_second_up_plans_nothing_and_still_probes(app: LocalApp) -> None:
    first = app.lmi("up", "--yes")
    served = app.observed().servers[0].served
    second = app.lmi("up")
    assert (second.code, second.out) == (0, first.out)
    assert "nothing to do" in second.err
    assert "answered: OK then" in second.err
    assert app.observed().servers[0].served == served + 1
    assert len(app.servers.started) == 1


def test_up_with_no_probe_sends_no_request(app: LocalApp) -> None:
    result = app.lmi("up", "--yes", "--no-probe", "--json")
    assert result.code == 0
    assert app.observed().servers[0].served == 0
    assert not [line for line in result.lines if line["event"] == "answered"]


def test_up_and_down_without_a_terminal_need_yes(app: LocalApp) -> None:
    for argv in (("up",), ("up", "--json")):
        assert app.lmi(*argv).code == 2
    assert app.artifacts_left() == []
    app.lmi("up", "--yes")
    before = app.artifacts_left()
    result = app.lmi("down")
    assert (result.code, result.out) == (2, "")
    assert "--yes" in result.err
    assert app.artifacts_left() == before


@pytest.mark.parametrize("text", ["\n", "y\n", "Yes\n"])
def test_up_on_a_terminal_asks_for_confirmation_on_stderr(app: LocalApp, text: str) -> None:
    result = app.lmi("up", stdin=text.encode(), terminal=True)
    assert result.code == 0
    assert "Go ahead? [Y/n] " in result.err
    assert result.out == f"http://127.0.0.1:{app.observed().servers[0].port}/invocations\n"


@pytest.mark.parametrize("text", ["n\n", "what?\n", ""])
def test_any_answer_but_yes_changes_nothing(app: LocalApp, text: str) -> None:
    result = app.lmi("up", stdin=text.encode(), terminal=True)
    assert (result.code, result.out) == (130, "")
    assert "error: not confirmed: nothing was changed\n" in result.err
    assert app.artifacts_left() == []


@pytest.mark.parametrize(("text", "code"), [("\n", 130), ("", 130), ("n\n", 130), ("y\n", 0), (" YES \n", 0)])
def test_enter_alone_does_not_confirm_a_deletion(app: LocalApp, text: str, code: int) -> None:
    app.lmi("up", "--yes")
    before = app.artifacts_left()
    for argv, prompt in (
        (("cache", "rm", "--all"), "Remove 2 entries (2.00 kB)? [y/N] "),
        (("down",), "Delete tiny (this machine)? [y/N] "),
    ):
        result = app.lmi(*argv, stdin=text.encode(), terminal=True)
        assert (result.code, result.out) == (code, "")
        assert prompt in result.err
        assert ("error: not confirmed: nothing was changed\n" in result.err) == (code == 130)
    assert (app.artifacts_left() == before) == (code == 130)
    assert (len(app.environments.created) == 2) == (code == 130)


def test_status_exit_code_follows_the_state(app: LocalApp) -> None:
    assert app.lmi("status", "tiny").code == 4
    app.lmi("up", "--yes")
    result = app.lmi("status")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("tiny: in-step\n  address  http://127.0.0.1:")
    assert "requests 1 served" in result.out
    app.servers.kill(app.state.servers("tiny")[0])
    result = app.lmi("status")
    assert result.code == 4
    assert "drifted (its model server has ended" in result.out


def test_status_of_a_failed_first_up_is_failed(app: LocalApp, broken: None) -> None:
    assert app.lmi("up", "--yes").code == 1
    result = app.lmi("status")
    assert result.code == 1
    assert result.out.startswith("tiny: failed (")


def test_ls_prints_a_table_to_stdout(app: LocalApp) -> None:
    result = app.lmi("ls")
    assert (result.code, result.out) == (0, "")
    assert "no deployments on this machine" in result.err
    app.lmi("up", "--yes")
    heads, row = app.lmi("ls").out.splitlines()
    assert heads.split()[:4] == ["name", "target", "standing", "address"]
    assert row.split()[:3] == ["tiny", "local", "in-step"]


def test_invoke_prints_the_response_to_stdout_and_figures_to_stderr(app: LocalApp) -> None:
    app.lmi("up", "--yes")
    result = app.lmi("invoke", "tiny", "hello")
    assert (result.code, result.out) == (0, "OK then\n")
    assert result.err == "[0.00 s in total, 2 tokens]\n"


def test_invoke_with_only_a_prompt_uses_the_only_deployment(app: LocalApp) -> None:
    app.lmi("up", "--yes")
    assert app.lmi("invoke", "What is the capital of France?").out == "OK then\n"


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
def test_invoke_reads_the_prompt_from_file_stdin_or_body(
    app: LocalApp, argv: tuple[str, ...], stdin: bytes
) -> None:
    Path("prompt.txt").write_text("hello")
    app.lmi("up", "--yes")
    result = app.lmi("invoke", "tiny", *argv, stdin=stdin)
    assert (result.code, result.out) == (0, "OK then\n")


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("hi", "--file", "x"), 2, "PROMPT and --file cannot be combined"),
        (("--file", "absent"), 1, "absent: No such file"),
        (("",), 2, "the prompt is empty"),
        (("hi", "-p", "=1"), 2, "-p =1: not KEY=VALUE"),
        (("hi", "--raw", "--json"), 2, "--raw and --json"),
    ],
)
def test_invoke_reports_an_invalid_request(
    app: LocalApp, argv: tuple[str, ...], code: int, words: str
) -> None:
    app.lmi("up", "--yes")
    result = app.lmi("invoke", "tiny", *argv)
    assert result.code == code
    assert words in result.err + result.out


def test_invoke_raw_prints_the_response_body_unchanged(app: LocalApp) -> None:
    app.lmi("up", "--yes")
    result = app.lmi("invoke", "tiny", "hello", "--raw")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out)["choices"][0]["message"]["content"] == "OK then"


def test_invoke_prints_the_error_message_of_the_server(app: LocalApp, answering: list[FakeResponse]) -> None:
    app.lmi("up", "--yes")
    answering[:] = [(400, "application/json", b'{"error": {"message": "max_tokens must be positive"}}')]
    result = app.lmi("invoke", "tiny", "hello")
    assert (result.code, result.out) == (1, "")
    assert "max_tokens must be positive" in result.err
    assert "400 Bad Request" in result.err
    raw = app.lmi("invoke", "tiny", "hello", "--raw")
    assert raw.code == 1
    assert "max_tokens must be positive" in raw.out


def test_invoke_names_the_time_limit_it_hit(app: LocalApp) -> None:
    at_last = threading.Event()

    def late(body: dict[str, Any]) -> FakeResponse:
        at_last.wait(30)
        return chat(body)

    app.servers.next.append(Behaviour(answer=late))
    app.lmi("up", "--yes", "--no-probe")
    result = app.lmi("invoke", "tiny", "hello", "--timeout", "0.2")
    at_last.set()
    assert (result.code, result.out) == (1, "")
    assert "sent no data for 0.2 s (the limit)\n" in result.err
    assert "check `lmi logs tiny`, or wait longer with `lmi invoke --timeout SECONDS`" in result.err
    assert "timeouts.predict" not in result.err


def test_logs_prints_the_server_log(app: LocalApp) -> None:
    app.lmi("up", "--yes")
    result = app.lmi("logs", "tiny")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("started ")


def test_down_deletes_everything_of_the_deployment(app: LocalApp) -> None:
    app.lmi("up", "--yes")
    assert app.artifacts_left() != []
    result = app.lmi("down", "tiny", "--yes")
    assert (result.code, result.out) == (0, "")
    assert app.artifacts_left() == []
    assert app.servers.alive() == []
    assert not app.observed().exists


def test_down_with_yes_requires_the_deployment_name(app: LocalApp, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, `--yes` ended the only deployment of this machine."""
    app.lmi("up", "--yes")
    Path("empty").mkdir()
    for folder in (".", "empty"):
        monkeypatch.chdir(folder)
        result = app.lmi("down", "--yes")
        assert (result.code, "--yes needs the name of the deployment" in result.err) == (2, True)
        assert app.observed().serving
    assert app.lmi("down", stdin=b"y\n", terminal=True).code == 0
    assert app.artifacts_left() == []


def test_down_of_several_asks_once_and_goes_on_after_a_failure(app: LocalApp) -> None:
    Path("other.yaml").write_text(RECIPE.replace("name: tiny", "name: other"))
    for name in ("tiny", "other"):
        assert app.lmi("up", f"{name}.yaml", "--yes").code == 0
    result = app.lmi("down", "tiny", "absent.yaml", "other.yaml", stdin=b"y\n", terminal=True)
    assert result.err.count("[y/N]") == 1, result.err
    assert "Delete tiny (this machine) and other (this machine)?" in result.err
    assert "1 of 3 not deleted: absent.yaml. absent.yaml: No such file" in result.err
    assert [line.split()[:2] for line in result.out.splitlines()[1:]] == [
        ["tiny", "ok"],
        ["absent.yaml", "failed"],
        ["other", "ok"],
    ]
    assert (result.code, app.servers.alive(), app.artifacts_left()) == (2, [], [])


def test_down_of_several_as_json(app: LocalApp) -> None:
    assert app.lmi("up", "--yes").code == 0
    results = app.lmi("down", "tiny", "nobody", "--yes", "--json").result["deployments"]
    assert [(one["deployment"], one["removed"] > 0) for one in results] == [("tiny", True), ("nobody", False)]


def test_down_without_a_deployment_is_no_error(app: LocalApp) -> None:
    result = app.lmi("down", "tiny")
    assert (result.code, result.out, result.err) == (
        0,
        "",
        "tiny: not found here; not looked at: AWS (no credentials)\n",
    )


def test_cache_lists_and_removes_entries(app: LocalApp) -> None:
    assert app.lmi("cache", "ls").out == ""
    app.lmi("up", "--yes")
    assert app.lmi("cache", "ls").out.splitlines()[0].split() == ["name", "kind", "size", "path"]
    assert app.lmi("cache", "rm", "--all").code == 2
    assert len(app.environments.created) == 2
    assert app.lmi("cache", "rm", "--all", "--yes").code == 0
    assert app.environments.created == set()
    app.lmi("up", "--yes", "--set", "options.dtype=fp32")
    created = sorted(app.environments.created)
    for argv in (("gone",), ("gone", "--yes"), (*created, "gone", "--yes")):
        result = app.lmi("cache", "rm", *argv)
        assert (result.code, result.out) == (1, "")
        assert "error: gone: not in the cache\n  next: `lmi cache ls`" in result.err
    assert sorted(app.environments.created) == created, "all of them or none"


def test_schema_and_completion_print_complete_results(app: LocalApp) -> None:
    assert "model_id" in json.loads(app.lmi("schema").out)["properties"]
    for shell in ("bash", "zsh", "fish"):
        assert "_LMI_COMPLETE" in app.lmi("completion", shell).out


@pytest.mark.parametrize("argv", JSON_COMMANDS, ids=" ".join)
def test_json_output_is_json_lines_only(app: LocalApp, argv: tuple[str, ...]) -> None:
    Path("bad.yaml").write_text("name: X\n")
    app.lmi("up", "--yes")
    completed = app.lmi(*argv, "--json")
    assert completed.err == ""
    assert [line["event"] for line in completed.lines].count("result") == 1
    result = completed.result
    assert result["ok"] is (completed.code in (0, 4))
    if not result["ok"]:
        assert result["error"]["exit_code"] == completed.code
        assert result["error"]["message"]


BUILT = [name for name, entry in COMMANDS.items() if find_spec(f"lmi_deploy.cli.commands.{entry.module}")]


@pytest.mark.parametrize("name", BUILT)
def test_every_command_has_help(app: LocalApp, name: str) -> None:
    result = app.lmi(name, "--help")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"Usage: lmi {name}")
    assert "--json" in result.out or "COMMAND [ARGS]" in result.out


def test_mistyped_command_gets_a_suggestion(app: LocalApp) -> None:
    result = app.lmi("stauts")
    assert (result.code, result.out) == (2, "")
    assert "did you mean 'status'?" in result.err


@pytest.mark.parametrize(
    ("word", "command"), [("deploy", "up"), ("destroy", "down"), ("predict", "invoke"), ("ps", "ls")]
)
def test_word_of_another_tool_gets_the_command_of_this_one(app: LocalApp, word: str, command: str) -> None:
    assert f"did you mean {command!r}?" in app.lmi(word).err


def test_no_arguments_show_the_help(app: LocalApp) -> None:
    result = app.lmi()
    assert result.code == 2
    assert "lmi up RECIPE" in result.err


def test_closed_pipe_prints_no_error(app: LocalApp) -> None:
    app.lmi("up", "--yes")
    reading, writing = os.pipe()
    os.close(reading)
    story = io.StringIO()
    with os.fdopen(writing, "w") as out, redirect_stdout(out):
        code = run(lmi, ["logs", "tiny"], given=DependenciesFactory(app.deps))
    assert code == 128 + 13
    assert story.getvalue() == ""


def test_unknown_or_invalid_deployment_name_is_an_error(app: LocalApp) -> None:
    assert app.lmi("status", "No_Name").code == 2
    assert app.lmi("logs", "nobody").code == 1
    result = app.lmi("invoke", "nobody", "hi")
    assert result.code == 1
    assert "next: `lmi ls`" in result.err


@pytest.mark.parametrize("argv", [("rollback",), ("extend", "3h")])
def test_rollback_and_extend_report_a_missing_local_deployment(app: LocalApp, argv: tuple[str, ...]) -> None:
    command, *rest = argv
    absent = app.lmi(command, "tiny", *rest)
    assert absent.code == 1
    assert "error: tiny: no such deployment on this machine\n" in absent.err
    app.lmi("up", "--yes")
    existing = app.lmi(command, "tiny", *rest)
    assert existing.code == 2
    assert "on target local do not expire" in existing.err or "keeps no earlier generations" in existing.err


def test_only_recipe_in_the_folder_names_the_deployment(app: LocalApp) -> None:
    assert app.lmi("status").out.startswith("tiny: absent")
    Path("tiny.yaml").unlink()
    result = app.lmi("status")
    assert result.code == 2
    assert "this machine has none" in result.err


def test_ambiguous_deployment_name_is_an_error(app: LocalApp) -> None:
    app.lmi("up", "--yes")
    Path("other.yaml").write_text(RECIPE.replace("name: tiny", "name: other"))
    assert app.lmi("up", "other.yaml", "--yes").code == 0
    for argv in (("status",), ("down",), ("logs",), ("invoke",)):
        result = app.lmi(*argv)
        assert result.code == 2, argv
        assert "this machine has 2: other, tiny" in result.err
    assert app.lmi("down", "other.yaml", "--yes").code == 0
    assert app.observed(REF).serving
    first, second = (launch.port for launch in app.servers.started)
    assert first != second


def test_ambiguous_recipe_is_an_error(app: LocalApp) -> None:
    Path("other.yaml").write_text(RECIPE)
    result = app.lmi("plan")
    assert result.code == 2
    assert "other.yaml, tiny.yaml" in result.err
    assert "recipes here: other.yaml, tiny.yaml" in app.lmi("plan", "absent.yaml").err


def test_overlay_makes_a_deployment_of_its_own(app: LocalApp) -> None:
    Path("tiny.yaml").write_text(RECIPE + "overlays: {prod: {options: {dtype: fp32}}}\n")
    app.lmi("up", "--yes")
    assert app.lmi("up", "--yes", "--overlay", "prod").code == 0
    assert [line.split()[0] for line in app.lmi("ls").out.splitlines()[1:]] == ["tiny", "tiny-prod"]


def test_recipe_can_be_read_from_stdin(app: LocalApp) -> None:
    result = app.lmi("plan", "-", stdin=RECIPE.encode())
    assert result.code == 0
    assert MODEL in result.out
