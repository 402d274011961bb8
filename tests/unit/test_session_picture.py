"""The recorded session of README: what a terminal shows of it, and the picture that plays it."""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tools.recording import CAST, STEPS, SVG, Keys, Recorder, Step, draw, without_redraws
from tools.session_picture import session_svg
from tools.terminal_screen import PLAIN, Screen, Style


def shown(screen: Screen) -> list[str]:
    return ["".join(text for _, text, _ in screen.runs(row)) for row in range(len(screen.rows))]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("one\r\ntwo", ["one", "two"]),
        ("\x1b[32m⠋\x1b[0m wait 1\r\x1b[2K⠙ wait 2", ["⠙ wait 2"]),
        ("above\r\nmoving\r\n\x1b[?25h\r\x1b[1A\x1b[2Kok", ["above", "ok", ""]),
        ("123456789012", ["1234567890", "12"]),
        ("abc\b\bX", ["aXc"]),
        ("abcdef\r\x1b[3C\x1b[K", ["abc"]),
        ("one\r\ntwo\r\n\x1b[2A\x1b[J", [""]),
    ],
)
def test_text_on_the_screen(text: str, rows: list[str]) -> None:
    screen = Screen(10)
    screen.feed(text)
    assert shown(screen) == rows


def test_styles() -> None:
    screen = Screen(40)
    screen.feed("a\x1b[1;32mok\x1b[0m \x1b[2mdim\x1b[22m\x1b[91mred\x1b[39m\x1b[38;5;237mg\x1b[38;2;1;2;3mt")
    styles = {text: style for _, text, style in screen.runs(0)}
    assert styles["a"] == PLAIN
    assert styles["ok"] == Style("green", bold=True)
    assert styles["dim"] == Style(dim=True)
    assert styles["red"] == Style("bright red")
    assert (styles["g"].colour, styles["t"].colour) == ("#3a3a3a", "#010203")


def cast(*events: tuple[float, str]) -> str:
    head = {"version": 2, "width": 20, "height": 5}
    return "\n".join([json.dumps(head), *(json.dumps([at, "o", text]) for at, text in events)])


def test_picture_shows_the_end_without_animation_and_what_was_erased_only_for_its_time() -> None:
    svg = session_svg(
        cast((0.0, "$ lmi\r\n"), (1.0, "wait <1>"), (2.0, "\r\x1b[2Kdone\r\n")), title="t", description="d"
    )
    root = ElementTree.fromstring(svg)
    texts = {
        "".join(one.itertext()).strip(): one.get("visibility", "visible")
        for one in root.iter("{http://www.w3.org/2000/svg}text")
    }
    assert texts == {"$\xa0lmi": "visible", "wait\xa0<1>": "hidden", "done": "visible"}
    assert "<script" not in svg
    assert re.search(r'to="visible" begin="s\.begin\+1\.00s" dur="1\.00s"', svg)


def test_long_wait_is_shortened_in_the_picture() -> None:
    svg = session_svg(cast((0.0, "a\r\n"), (600.0, "b\r\n"), (601.0, "c\r\n")), title="t", description="d")
    (seconds,) = re.findall(r'id="s" .* dur="([\d.]+)s"', svg)
    assert 5 < float(seconds) < 20


def test_published_picture_is_that_of_the_published_recording() -> None:
    recording = CAST.read_text(encoding="utf-8")
    assert SVG.read_text(encoding="utf-8") == draw(recording)
    head, *events = map(json.loads, recording.splitlines())
    assert head["version"] == 2
    assert [at for at, _, _ in events] == sorted(at for at, _, _ in events)
    screen = Screen(head["width"])
    for _, _, text in events:
        screen.feed(text)
    lines = shown(screen)
    assert [line for line in lines if line.startswith("$ ")] == [f"$ {step.shown}" for step in STEPS]
    text = "\n".join(lines)
    for words in ("error: interrupted", "answers at http://", "Paris", "remove the record of smollm2-g5"):
        assert words in text
    assert max(map(len, lines)) <= head["width"]
    root = ElementTree.fromstring(SVG.read_text(encoding="utf-8"))
    assert root.get("role") == "img"
    assert len(SVG.read_bytes()) < 150_000


def test_recorder_runs_a_program_in_a_terminal_and_presses_keys(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "print(sys.stdout.isatty(), flush=True)\n"
        "answer = input('go [y/N] ')\n"
        "try:\n    print('waits', answer, flush=True); import time; time.sleep(60)\n"
        "except KeyboardInterrupt:\n    sys.exit(130)\n"
    )
    recorder = Recorder({"lmi": (sys.executable, "-c", program)}, {"TERM": "xterm"}, tmp_path)
    keys = (Keys("[y/N] ", b"y\r", 0.0), Keys("waits y", b"\x03", 0.0))
    recorder.record(Step(("lmi", "up", "a b"), keys, code=130))
    screen = Screen(100)
    for _, _, text in recorder.events:
        screen.feed(text)
    assert shown(screen)[:4] == ['$ lmi up "a b"', "True", "go [y/N] y", "waits y"]
    with pytest.raises(SystemExit, match="exit code 130, not 0"):
        recorder.record(Step(("lmi", "up"), keys))


def test_redraws_of_a_moving_line_are_left_out_and_the_screen_ends_the_same() -> None:
    moving = [(number / 10, "o", f"\r\x1b[2Kwait {number}") for number in range(30)]
    events = [(0.0, "o", "a\r\n"), *moving, (3.0, "o", "\r\x1b[2Kdone\r\n"), (3.1, "o", "\r\x1b[2K")]
    kept = list(without_redraws(events))
    assert [text for _, _, text in kept][1:4] == ["\r\x1b[2Kwait 0", "\r\x1b[2Kwait 5", "\r\x1b[2Kwait 10"]
    assert len(kept) == 9
    screens = [Screen(20), Screen(20)]
    for screen, shown_events in zip(screens, (events, kept), strict=True):
        for _, _, text in shown_events:
            screen.feed(text)
    assert shown(screens[0]) == shown(screens[1]) == ["a", "done", ""]
