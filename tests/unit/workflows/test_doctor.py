"""The order of the checks: what fails hides nothing, and what needs it does not repeat it."""

from __future__ import annotations

import io
from collections.abc import Iterable

from lmi_deploy.domain.events import Progress
from lmi_deploy.domain.setup_findings import ExaminedCheck, SetupFinding, absent
from lmi_deploy.errors import AccessError
from lmi_deploy.ui.colour import Paint
from lmi_deploy.ui.setup_text import setup_lines, setup_rows
from lmi_deploy.workflows.doctor import SetupCheck, examine


def refused() -> Iterable[SetupFinding]:
    raise AccessError("the key is refused", hint="new keys", details=["and more"])


def fine() -> Iterable[SetupFinding]:
    yield SetupFinding("ok", "all well")


def none_found() -> Iterable[SetupFinding]:
    yield absent("none found", "log in", required=False)


CHECKS = (
    SetupCheck(area="AWS", name="credentials", run=refused),
    SetupCheck(area="AWS", name="identity", run=fine, online=True, needs="credentials"),
    SetupCheck(area="Hub", name="token", run=fine, online=True),
    SetupCheck(area="Hub", name="profile", run=none_found),
    SetupCheck(area="Hub", name="model", run=fine, needs="profile"),
)


def outcome(*, offline: bool = False) -> tuple[list[str], tuple[ExaminedCheck, ...]]:
    events, notes = examine(CHECKS, offline=offline), []
    try:
        while True:
            event = next(events)
            assert isinstance(event, Progress)
            notes.append(event.note)
    except StopIteration as end:
        return notes, end.value


def test_failed_check_stops_only_those_that_need_it() -> None:
    notes, found = outcome()
    assert [[finding.state for finding in check.findings] for check in found] == [
        ["broken", "broken"],
        ["not-checked"],
        ["ok"],
        ["warning"],
        ["not-checked"],
    ]
    assert notes == ["AWS: identity", "Hub: token"]
    assert found[0].findings[0] == SetupFinding("broken", "the key is refused", "new keys")
    assert found[0].findings[1].text == "and more"


def test_offline_runs_nothing_that_sends_requests() -> None:
    notes, found = outcome(offline=True)
    assert notes == []
    assert [check.name for check in found if check.findings[0].text.endswith("(--offline)")] == [
        "identity",
        "token",
    ]


def test_report_has_a_line_for_each_finding_in_words_and_colour_only_where_it_is_shown() -> None:
    _, found = outcome()
    lines = [*setup_lines(found, Paint(io.StringIO(), {}), 80)]
    assert lines[:3] == [
        "AWS",
        "  broken       credentials  the key is refused",
        "                            next: new keys",
    ]
    assert lines[-1] == "2 broken, 1 warning, 1 ok, 2 not checked"
    coloured = [*setup_lines(found, Paint(io.StringIO(), {"FORCE_COLOR": "1"}), 80)]
    assert coloured[1] == "  \x1b[31mbroken\x1b[0m       credentials  the key is refused"
    assert [*setup_lines(found, Paint(io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}), 80)] == lines


def test_command_of_a_remedy_stays_whole_at_any_width() -> None:
    command = (
        "aws s3api put-bucket-lifecycle-configuration --bucket lmi-123456789012-us-east-1-an --rules '{\n  }'"
    )
    finding = SetupFinding("warning", "never removed", f"add a rule of the bucket:\n\n{command}")
    found = (ExaminedCheck(area="AWS", name="bucket", findings=(finding,)),)
    lines = [*setup_lines(found, Paint(io.StringIO(), {}), 60)]
    assert lines[2].strip() == "next: add a rule of the bucket:"
    assert lines[3:5] == [f"    {line}" for line in command.splitlines()]


def test_addresses_are_shown_without_passwords() -> None:
    finding = SetupFinding("warning", "requests go to http://me:canary@host/", "unset http://me:canary@host/")
    found = (ExaminedCheck(area="AWS", name="addresses", findings=(finding,)),)
    assert "canary" not in "\n".join([*setup_lines(found, Paint(io.StringIO(), {}), 80)])
    assert "canary" not in str(setup_rows(found))
