"""Every ending has one of the exit codes, in text and in JSON."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmi_deploy import errors
from lmi_deploy.errors import EXIT_CODES, LmiError, RecipeError
from lmi_deploy.errors.recipe_problem import Problem
from tests.support.action_failures import ActionFailures, failing
from tests.support.local_app import LocalApp

SOURCE = Path(errors.__file__).parents[1]
CODES = {
    "RecipeError": 2,
    "Unresolvable": 2,
    "UsageRefused": 2,
    "AccessError": 1,
    "NotFound": 1,
    "CloudError": 1,
    "Conflict": 1,
    "TransferFailed": 1,
    "DeployFailed": 1,
    "CompileFailed": 1,
    "SetupBroken": 1,
    "NotCompiled": 2,
    "DiskRefused": 1,
    "Overdue": 1,
    "LockLost": 1,
    "Refused": 5,
    "IntegrityError": 6,
    "ObjectiveMissed": 7,
    "Undecided": 8,
    "Bug": 3,
    "Interrupted": 130,
}
RAISED = re.compile(rf"\b({'|'.join(CODES)})(\.of)?\(")
NOT_YET = {"Conflict"}
"""The S3 adapter raises it as its own subclass `Unmet`; tests/contract/object_store raises it on every
store."""


def _error_named(name: str) -> LmiError:
    kind: type[LmiError] = getattr(errors, name)
    if kind is RecipeError:
        return RecipeError([Problem(origin="a.yaml", line=1, column=2, key="name", what="bad")])
    return kind("it happened: because", hint="do that", details=["in detail"])


def test_table_of_exit_codes_is_complete() -> None:
    assert {kind.__name__: kind.exit_code for kind in LmiError.__subclasses__()} == CODES
    assert {*CODES.values()} <= {*EXIT_CODES}


@pytest.mark.parametrize("name", CODES)
def test_every_error_has_its_exit_code_in_text_and_json(app: LocalApp, name: str) -> None:
    error = _error_named(name)
    app.hub.failure = error
    result = app.lmi("plan")
    assert (result.code, result.out) == (CODES[name], "")
    assert f"error: {error.message}\n" in result.err
    assert all(detail in result.err for detail in error.details)
    assert not error.hint or f"  next: {error.hint}\n" in result.err
    result = app.lmi("plan", "--json")
    assert (result.code, result.err) == (CODES[name], "")
    assert result.result["ok"] is False
    assert result.result["error"] == {
        "kind": name,
        "exit_code": CODES[name],
        "message": error.message,
        "hint": error.hint,
        "details": list(error.details),
    }


def _raised() -> Iterator[tuple[str, ast.Call, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if not RAISED.search(text):  # most modules: they need not be parsed
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            match node.func:
                case ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name), attr="of") if name in CODES:
                    yield name, node, f"{path.relative_to(SOURCE)}:{node.lineno}"


def test_every_error_class_is_raised_and_has_a_hint_or_reason() -> None:
    raised = list(_raised())
    assert {*CODES} - {name for name, _, _ in raised} <= NOT_YET
    bare = [
        place
        for name, call, place in raised
        if name != "RecipeError"
        and not any(keyword.arg in ("hint", "details", None) for keyword in call.keywords)
        and ": " not in ast.unparse(call.args[0])
    ]
    assert bare == []


def test_ctrl_c_during_an_up_ends_with_130_and_a_hint(app: LocalApp) -> None:
    failures = ActionFailures(at=5, when="before", error=KeyboardInterrupt)
    app.target = lambda target: failing(target, failures)
    result = app.lmi("up", "--yes")
    assert (result.code, result.out) == (130, "")
    assert result.err.endswith(
        "error: interrupted\n  next: the steps so far are recorded: `lmi status` shows them, `lmi up` continues, "
        "`lmi down` deletes them\n"
    )
    failures.count = 4
    result = app.lmi("up", "--yes", "--json")
    assert (result.code, result.err) == (130, "")
    assert result.result["error"]["kind"] == "Interrupted"
    app.target = lambda target: target
    assert app.lmi("up", "--yes").code == 0


@pytest.mark.parametrize("command", ["plan", "up"])
def test_ctrl_c_before_the_first_action_reports_that_nothing_changed(app: LocalApp, command: str) -> None:
    app.hub.failure = KeyboardInterrupt()
    result = app.lmi(command, *(["--yes"] if command == "up" else []))
    assert (result.code, result.out) == (130, "")
    assert "recorded" not in result.err
    assert result.err == "error: interrupted\n" + "  next: nothing was changed. Run the command again\n" * (
        command == "up"
    )


def test_ctrl_c_while_a_class_is_made_is_no_bug(app: LocalApp) -> None:
    """Python 3.11 makes a RuntimeError of it (PEP 487); 3.12 does not."""
    error = RuntimeError("Error calling __set_name__ on 'cached_property' instance")
    error.__cause__ = KeyboardInterrupt()
    app.hub.failure = error
    result = app.lmi("up", "--yes")
    assert (result.code, result.err.splitlines()[0]) == (130, "error: interrupted")


def test_ctrl_c_during_a_probe_reports_that_nothing_changed(app: LocalApp) -> None:
    assert app.lmi("up", "--yes").code == 0
    app.target = lambda target: failing(target, ActionFailures(at=0, when="before", error=KeyboardInterrupt))
    result = app.lmi("up", "--yes")
    assert result.code == 130
    assert "nothing was changed" in result.err


def test_bug_report_contains_no_user_values(app: LocalApp) -> None:
    def burst() -> BaseException:
        return ZeroDivisionError("with hf_secret in it")

    app.target = lambda target: failing(target, ActionFailures(at=0, when="before", error=burst))
    result = app.lmi("up", "tiny.yaml", "--yes", "--set", "properties.private=s3cr3t")
    assert (result.code, result.out) == (3, "")
    assert "error: ZeroDivisionError" in result.err
    found = re.search(r"(\S+lmi-report-\S+\.txt)", result.err)
    assert found
    report = Path(found[1])
    text = report.read_text()
    report.unlink()
    assert "command: lmi up ... --yes --set ...\n" in text
    assert "apply.py" in text
    assert "ZeroDivisionError" in text
    assert "secret" not in text
    assert "s3cr3t" not in text
    result = app.lmi("up", "--yes", "--json")
    assert (result.code, result.err) == (3, "")
    assert (result.result["error"]["kind"], result.result["error"]["exit_code"]) == ("Bug", 3)
    report = re.search(r"(\S+lmi-report-\S+?\.txt)", result.out)
    assert report
    Path(report[1]).unlink()


BROKEN_OFF = """
import sys
moment = sys.argv.pop(1)
class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            sys.meta_path.remove(self)
            raise KeyboardInterrupt
sys.meta_path.insert(0, CtrlC())
from lmi_deploy.cli import main
main()
"""


@pytest.mark.parametrize(
    "while_importing", ["click", "lmi_deploy.cli.error_boundary", "lmi_deploy.cli.commands.up"]
)
def test_ctrl_c_during_start_up_prints_one_line(while_importing: str) -> None:
    def response(*argv: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-c", BROKEN_OFF, while_importing, *argv]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    result = response("up", "tiny.yaml")
    assert (result.returncode, result.stdout) == (130, "")
    assert result.stderr == "error: interrupted\n  next: nothing was changed. Run the command again\n"
    result = response("up", "tiny.yaml", "--json")
    assert (result.returncode, result.stderr) == (130, "")
    assert json.loads(result.stdout)["error"]["kind"] == "Interrupted"
