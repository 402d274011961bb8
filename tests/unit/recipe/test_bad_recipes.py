"""Bad recipes and the exact messages: `bad/NAME.yaml` with `bad/NAME.txt`.

A first line that starts with `$` gives the command line's --overlay and --set.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from lmi_deploy.errors import RecipeError
from tests.support.recipe_parsing import parse

INVALID = Path(__file__).parent / "bad"
FILES = sorted(INVALID.glob("*.yaml"))


def refused(raw: bytes, origin: str, command: str) -> list[str]:
    words = shlex.split(command)
    flags = list(zip(words[::2], words[1::2], strict=True))
    overlay = next((value for flag, value in flags if flag == "--overlay"), None)
    with pytest.raises(RecipeError) as caught:
        parse(raw, origin, overlay=overlay, sets=[value for flag, value in flags if flag == "--set"])
    assert caught.value.exit_code == 2
    return [str(problem) for problem in caught.value.problems]


def expected(file: Path) -> tuple[str, list[str]]:
    lines = file.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    return (lines[0][1:], lines[1:]) if lines[0].startswith("$") else ("", lines)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_bad_recipe_gives_exactly_these_messages(file: Path) -> None:
    command, messages = expected(file)
    assert refused(file.read_bytes(), file.name, command) == messages


def test_line_endings_and_byte_order_mark_change_no_message() -> None:
    for file in FILES:
        command, messages = expected(file)
        windows = b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n")
        assert refused(windows, file.name, command) == messages, file.name


def test_every_bad_recipe_has_its_messages() -> None:
    assert {file.stem for file in FILES} == {file.stem for file in INVALID.glob("*.txt")}
    assert len(FILES) > 60


def test_no_position_is_reported_twice() -> None:
    for file in FILES:
        messages = expected(file)[1]
        places = [message.split(": ")[0:2] for message in messages]
        assert len({tuple(place) for place in places}) == len(places) or file.stem in ("tags", "sets"), (
            file.name
        )
