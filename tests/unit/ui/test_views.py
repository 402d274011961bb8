"""The same events as text and as JSON: on which stream, in which words."""

from __future__ import annotations

import io
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lmi_deploy.domain.action import Phase
from lmi_deploy.domain.events import Answered, Event, Finished, Line, Notice, Progress, Started
from lmi_deploy.domain.local_actions import StopServer
from lmi_deploy.domain.plan import Change, Estimate, Plan
from lmi_deploy.errors import DeployFailed, RecipeError
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.ui.json_view import MachineView, kebab, parse_event
from lmi_deploy.ui.text_view import HumanView

KEY = "FetchWeights:org/m"
EVENTS: list[Event] = [
    Started(key=KEY, title="fetch org/m", phase=Phase.STORE),
    Progress(key=KEY, done=50, total=100, unit="bytes", note="a\x1b[31m.bin"),
    Line(key=KEY, text="somebody \x1b[1mshouts\x1b[0m"),
    Finished(key=KEY, title="fetch org/m", phase=Phase.STORE, seconds=1.25, outcome="1 file"),
    Notice(text="by the way"),
    Answered(prompt="Say OK", answer=" OK\x07 then ", seconds=0.5),
]
BROKEN = RecipeError(
    [Problem(origin="a.yaml", line=3, column=1, key="enigne", what="unknown key", hint="engine?")]
)


class People:
    """A text view on streams that can be read back."""

    def __init__(self) -> None:
        self.out, self.story = io.StringIO(), io.StringIO()
        self.view = HumanView(self.out, self.story, live=False)


@pytest.fixture
def people() -> People:
    return People()


def json_lines(*events: Event) -> list[dict[str, Any]]:
    out = io.StringIO()
    view = MachineView(out)
    for event in events:
        view.show(event)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_events_are_printed_as_lines_for_people(people: People) -> None:
    for event in EVENTS:
        people.view.show(event)
    assert people.out.getvalue() == ""
    assert people.story.getvalue() == (
        "... fetch org/m\n"
        "    50 B of 100 B  a.bin\n"
        "    somebody shouts\n"
        "ok  fetch org/m (1.2 s, 1 file)\n"
        "by the way\n"
        "    asked: Say OK\n"
        "    answered: OK? then\n"
    )


def test_events_are_json_lines_for_programs() -> None:
    lines = json_lines(*EVENTS)
    assert [line["event"] for line in lines] == [
        "started",
        "progress",
        "line",
        "finished",
        "notice",
        "answered",
    ]
    assert lines[1] == {
        "event": "progress",
        "key": KEY,
        "done": 50,
        "total": 100,
        "unit": "bytes",
        "note": "a\x1b[31m.bin",
    }
    assert lines[3]["seconds"] == 1.25


def test_progress_without_a_terminal_is_printed_in_tenths(people: People) -> None:
    for done in range(0, 101):
        people.view.show(Progress(key=KEY, done=done, total=100, unit="bytes"))
    assert people.story.getvalue().count("\n") == 10


def test_waiting_without_a_terminal_is_printed_every_five_seconds(people: People) -> None:
    for tick in range(0, 200):
        people.view.show(Progress(key=KEY, done=tick / 10, total=None, unit="seconds", note="loading"))
    assert people.story.getvalue().splitlines() == [f"    {seconds}.0 s  loading" for seconds in (5, 10, 15)]


def test_only_the_result_is_on_stdout(people: People) -> None:
    people.view.note("a note")
    people.view.result({"address": "x"}, "http://x")
    assert (people.out.getvalue(), people.story.getvalue()) == ("http://x\n", "a note\n")


def test_cost_column_omits_the_calculation(people: People) -> None:
    people.view.rows(
        [{"name": "a", "costs": "$0.23 an hour (1 x ml.m5.xlarge; AWS's price list, 2026-09-28)"}]
    )
    assert people.out.getvalue() == "name  costs\na     $0.23 an hour\n"


ROW = {
    "name": "smollm2-g5",
    "target": "sagemaker us-east-1",
    "standing": "in-step",
    "address": "https://runtime.sagemaker.us-east-1.amazonaws.com/endpoints/smollm2-g5/invocations",
    "model": "HuggingFaceTB/SmolLM2-360M-Instruct",
    "memory": "",
    "costs": "$1.41 an hour (1 x ml.g5.xlarge)",
    "since": "2026-11-21T16:39:22+00:00",
}


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [40, 64, 80, 100, 120, 240])
def test_table_fits_the_terminal_and_is_complete_in_a_pipe(
    people: People, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    rows, spare = [ROW, {**ROW, "name": "b"}], ("address", "since", "memory")
    screen = Screen()
    HumanView(screen, io.StringIO(), live=False).rows(rows, spare=spare)
    lines = screen.getvalue().splitlines()
    assert len(lines) == 3
    assert columns < 64 or max(map(len, lines)) <= columns
    assert lines[1].startswith("smollm2-g5  ")
    assert (ROW["model"] in lines[1], ROW["address"] in lines[1]) == (columns >= 100, columns >= 240)
    people.view.rows(rows, spare=spare)
    assert max(map(len, people.out.getvalue().splitlines())) > 190


def test_paths_in_a_table_are_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    screen = Screen()
    HumanView(screen, io.StringIO(), live=False).rows([{"name": "a", "path": "/" + "x" * 90}])
    assert "x" * 90 in screen.getvalue()


def test_rows_are_printed_as_a_table(people: People) -> None:
    people.view.rows(
        [{"name": "a", "memory": 1500, "model": ""}, {"name": "longer", "memory": 0, "model": None}]
    )
    assert people.out.getvalue() == "name    memory   model\na       1.50 kB  -\nlonger  0 B      -\n"
    people.view.rows([])


def test_error_shows_details_message_and_hint(people: People) -> None:
    people.view.fail(DeployFailed("it failed: why", hint="do this", details=["line\x1b[0m 1", "line 2"]))
    assert people.story.getvalue() == "  line 1\n  line 2\nerror: it failed: why\n  next: do this\n"
    assert people.out.getvalue() == ""


def test_lines_already_shown_to_people_are_not_repeated(people: People) -> None:
    people.view.show(Line(key=KEY, text="Traceback"))
    assert people.view.unshown_lines(["an older line", "Traceback"]) == ("an older line",)
    assert MachineView(io.StringIO()).unshown_lines(["Traceback"]) == ("Traceback",)


def test_long_figures_of_a_plan_get_one_line_each(people: People) -> None:
    figures = (("cost", "$1.41 an hour"), ("image", "x" * 100))
    actions = (StopServer(server="s1"),)
    people.view.plan(Plan(deployment="m", actions=actions), Estimate(figures=figures))
    assert people.story.getvalue().splitlines()[-2:] == ["  cost: $1.41 an hour", f"  image: {'x' * 100}"]


def test_multi_line_response_is_shown_on_one_line(people: People) -> None:
    people.view.show(Answered(prompt="{}", answer='{\n  "echo": {}\n}', seconds=1.0))
    assert people.story.getvalue() == '    asked: {}\n    answered: { "echo": {} }\n'


def test_json_notice_has_no_layout() -> None:
    out = io.StringIO()
    MachineView(out).note("\n  by the way\n")
    assert json.loads(out.getvalue())["text"] == "by the way"


def test_recipe_errors_start_with_file_line_and_column(people: People) -> None:
    people.view.fail(BROKEN)
    assert people.story.getvalue().splitlines() == [
        "a.yaml:3:1: enigne: unknown key, engine?",
        "error: 1 mistake in the recipe",
    ]


def test_recipe_errors_are_json_data() -> None:
    out = io.StringIO()
    MachineView(out).fail(BROKEN)
    result = json.loads(out.getvalue())
    assert (result["event"], result["ok"], result["error"]["exit_code"]) == ("result", False, 2)
    assert result["problems"] == [
        {
            "origin": "a.yaml",
            "line": 3,
            "column": 1,
            "key": "enigne",
            "what": "unknown key",
            "hint": "engine?",
        }
    ]


def test_plan_shows_actions_and_changes(people: People) -> None:
    changes = (Change(field="model", before="a", after="b"), Change(field="option.x", before="", after="1"))
    actions = (StopServer(server="s1"),)
    plan = Plan(deployment="m", actions=actions, changes=changes)
    people.view.plan(plan, Estimate(figures=(("weights", "1500"),)))
    assert people.story.getvalue() == (
        "m: 1 action\n  - stop the model server s1\n  ~ model: a -> b\n  ~ option.x: (none) -> 1\n  weights: 1.50 "
        "kB\n"
    )


def test_empty_plan_says_so(people: People) -> None:
    people.view.plan(Plan(deployment="m", actions=()), Estimate())
    assert people.story.getvalue() == "m: nothing to do, it matches the recipe\n"


@pytest.mark.parametrize(("name", "output"), [("FetchWeights", "fetch-weights"), ("Line", "line")])
def test_class_names_become_kebab_case(name: str, output: str) -> None:
    assert kebab(name) == output


class TerminalText(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")


def test_colour_is_added_in_a_terminal_and_changes_no_word(colours: None) -> None:
    out, story = TerminalText(), TerminalText()
    view = HumanView(out, story, live=False)
    plan = Plan(
        deployment="chat",
        actions=(StopServer(server="one"),),
        changes=(Change(field="model", before="a", after="b"),),
    )
    view.plan(plan, Estimate())
    view.show(Finished(key=KEY, title="fetch org/m", phase=Phase.STORE, seconds=1.25))
    view.rows([{"name": "chat", "standing": "failed"}, {"name": "in-step-2", "standing": "in-step"}])
    view.fail(DeployFailed("it failed", hint="do that"))
    shown = story.getvalue() + out.getvalue()
    for painted in ("\x1b[31m-\x1b[0m stop", "\x1b[33m~\x1b[0m model", "\x1b[32mok\x1b[0m  fetch"):
        assert painted in shown
    assert "\x1b[31merror:\x1b[0m it failed" in shown
    assert "chat       \x1b[31mfailed\x1b[0m" in shown
    view.rows([{"name": "chat", "standing": "in-step", "expired": ""}])
    assert "standing  expired\n" in out.getvalue(), "no colour in the heads"
    plain_out, plain_story = io.StringIO(), io.StringIO()
    view = HumanView(plain_out, plain_story, live=False)
    view.plan(plan, Estimate())
    view.rows([{"name": "chat", "standing": "failed"}])
    assert "\x1b" not in plain_out.getvalue() + plain_story.getvalue()


def test_long_list_is_capped_in_a_terminal_alone() -> None:
    rows = [{"name": f"n{number}"} for number in range(200)]
    out, story = TerminalText(), io.StringIO()
    HumanView(out, story, live=False).rows(rows)
    assert len(out.getvalue().splitlines()) == 61
    assert story.getvalue() == "... and 140 more; `| cat` or --json shows all of them\n"
    pipe = io.StringIO()
    HumanView(pipe, story, live=False).rows(rows)
    assert len(pipe.getvalue().splitlines()) == 201


def test_log_of_a_failure_is_shown_once() -> None:
    log = [f"line {number}" for number in range(300)]
    view = HumanView(io.StringIO(), io.StringIO(), live=False)
    for line in log:
        view.show(Line(key=KEY, text=line))
    assert view.unshown_lines(log[-40:]) == ()
    assert view.unshown_lines([*log[:3], "new"]) == ("new",)
    moving = HumanView(io.StringIO(), TerminalText(), live=True)
    for line in log:
        moving.show(Line(key=KEY, text=line))
    moving.close()
    assert moving.unshown_lines(log[-2:]) == ("line 298", "line 299"), "a moving line is gone after a moment"


def test_times_of_a_list_are_relative() -> None:
    moment = datetime.now(UTC) - timedelta(minutes=29, seconds=5)
    out = io.StringIO()
    HumanView(out, io.StringIO(), live=False).rows(
        [{"name": "chat", "since": moment.isoformat(), "expires": ""}]
    )
    assert out.getvalue().splitlines()[1] == "chat  29 min ago  -"


def test_words_stay_whole_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    story = TerminalText()
    view = HumanView(io.StringIO(), story, live=False)
    view.note("  70 instance types with accelerators; prices per hour in us-east-1")
    view.fail(
        DeployFailed("x" * 50, hint="aws service-quotas request-service-quota-increase --desired-value 4")
    )
    assert story.getvalue().splitlines() == [
        "  70 instance types with accelerators;",
        "    prices per hour in us-east-1",
        "error:",
        "  " + "x" * 50,
        "  next: aws service-quotas",
        "    request-service-quota-increase",
        "    --desired-value 4",
    ]
    pipe = io.StringIO()
    HumanView(io.StringIO(), pipe, live=False).note("word " * 30)
    assert pipe.getvalue() == "word " * 30 + "\n"


def test_events_of_several_deployments_name_theirs() -> None:
    events = [
        Started(key=KEY, title="wait", phase=Phase.WAIT),
        Progress(key=KEY, done=7.0, total=None, unit="seconds"),
        Finished(key=KEY, title="wait", phase=Phase.WAIT, seconds=8.0),
    ]
    story, out = io.StringIO(), io.StringIO()
    for event in events:
        for name in ("one", "two"):
            HumanView(io.StringIO(), story, live=False).show(event, name)
        MachineView(out).show(event, "one")
    assert story.getvalue().splitlines()[-2:] == ["ok  one: wait (8.0 s)", "ok  two: wait (8.0 s)"]
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert {line["deployment"] for line in lines} == {"one"}
    assert [parse_event(line) for line in lines] == events
    assert parse_event({"event": "row", "name": "x"}) is None


def test_mistakes_and_prose_break_between_words_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out, story = TerminalText(), TerminalText()
    view = HumanView(out, story, live=False)
    what = "is not a valid deployment name: use lower case letters"
    view.fail(RecipeError([Problem(origin="a.yaml", line=1, column=7, key="name", what=what)]))
    assert story.getvalue().splitlines()[:3] == [
        "a.yaml:1:7: name: is not a valid",
        "  deployment name: use lower case",
        "  letters",
    ]
    columns = "name            a value that is in a second column"
    view.words(["fit: cannot tell, because lmi cannot judge it", columns, "+" + "x y" * 20])
    assert out.getvalue().splitlines() == [
        "fit: cannot tell, because lmi cannot",
        "  judge it",
        columns,
        "+" + "x y" * 20,
    ]


def test_commands_to_copy_are_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    story = TerminalText()
    command = '  curl -s http://127.0.0.1:8080/invocations -d \'{"inputs": "a b c"}\''
    HumanView(io.StringIO(), story, live=False).note(command, copied=True)
    assert story.getvalue() == f"{command}\n"


@pytest.mark.parametrize("title", ["wait until chat is in service", "push " + "a-long-name/" * 9])
def test_moving_line_leaves_room_for_the_echo_of_ctrl_c(colours: None, title: str) -> None:
    story = TerminalText()
    view = HumanView(io.StringIO(), story, live=True)
    view.show(Started(key=KEY, title=title, phase=Phase.WAIT))
    note = "Creating: provisioning an instance, pulling the image, starting the container"
    view.show(Progress(key=KEY, done=1, total=None, unit="seconds", note=note))
    view.close()
    lines = [re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", part) for part in re.split(r"[\r\n]", story.getvalue())]
    assert 60 < max(map(len, lines)) <= 77
