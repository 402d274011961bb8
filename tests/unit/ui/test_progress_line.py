"""The progress line on a narrow terminal."""

from __future__ import annotations

import io

import pytest

from lmi_deploy.domain.events import Progress
from lmi_deploy.ui.progress_line import LiveLine


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", ["60", "118"])
def test_elapsed_time_is_complete_on_a_narrow_terminal(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    screen = _Screen()
    line = LiveLine(screen)
    line.begin("wait until 6d2b921402 has loaded the model")
    line.progress(Progress(key="k", done=7.0, total=None, unit="seconds", note="loading"))
    line.close()
    assert " 0:00:00 wait until 6d2b921402" in screen.getvalue()


def test_each_of_several_deployments_has_its_line_until_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = _Screen()
    line = LiveLine(screen)
    for name in ("one", "two"):
        line.begin(f"{name}: wait", name)
    line.progress(Progress(key="k", done=7.0, total=None, unit="seconds", note="loading"), "two")
    assert line.end("one") is False
    assert line.end("none") is False
    assert line.end("two") is True
    line.close()
    assert "one: wait" in screen.getvalue()
    assert "two: wait" in screen.getvalue()
