"""`lmi plan --markdown FILE`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.cloud_app import CloudApp


def test_a_first_plan_shows_price_actions_and_digest(app: CloudApp) -> None:
    result = app.lmi("plan", "--markdown", "plan.md", "--json")
    assert result.code == 0, result.out
    text = Path("plan.md").read_text()
    assert text.startswith("### `tiny`: ")
    assert "- cost: `$1.41 an hour" in text
    assert "**Create**\n\n- `" in text
    assert "**Check**\n\n- `" in text
    assert "**Destroy**" not in text
    assert f"- plan: `{json.loads(result.out.splitlines()[-1])['digest']}`" in text


def test_a_change_and_no_change(app: CloudApp) -> None:
    app.up()
    assert app.lmi("plan", "--markdown", "plan.md", "--exit-code").code == 0
    assert Path("plan.md").read_text().startswith("### `tiny`: nothing to do\n")
    assert app.lmi("plan", "--markdown", "plan.md", "--exit-code", "--set", "options.dtype=fp32").code == 4
    text = Path("plan.md").read_text()
    assert "**Change**" in text
    assert "**Settings**\n\n- `" in text
    assert "- `artifact`: `" in text


def test_the_file_says_why_there_is_no_plan(app: CloudApp) -> None:
    assert app.lmi("plan", "--markdown", "plan.md", "--set", "engien=vllm").code == 2
    text = Path("plan.md").read_text()
    assert text.startswith("### No plan\n")
    assert "engien" in text


def test_a_plan_that_up_refuses(app: CloudApp) -> None:
    assert app.lmi("plan", "--markdown", "plan.md", "--max-hourly", "0.01").code == 5
    text = Path("plan.md").read_text()
    assert text.startswith("### `tiny`: ")
    assert "**`lmi up` refuses it**\n\n`--max-hourly" in text
    assert text.index("refuses it") < text.index("**Create**")


def test_a_place_that_cannot_be_written(app: CloudApp) -> None:
    result = app.lmi("plan", "--markdown", "nowhere/plan.md")
    assert (result.code, "nowhere/plan.md: No such file" in result.err) == (2, True)
