"""The man pages: one for each command, and man reads them without a warning."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from lmi_deploy.cli.command_group import COMMANDS
from lmi_deploy.errors import EXIT_CODES
from tools.man_pages import man_pages

ROOT = Path(__file__).resolve().parents[2]
PAGES = man_pages()


def test_every_command_has_its_page_and_no_other_is_left() -> None:
    assert {*PAGES} == {"lmi.1", *(f"lmi-{name}.1" for name in COMMANDS)}
    assert {path.name for path in (ROOT / "man").iterdir()} == {*PAGES}, (
        "delete the page of a removed command"
    )


def test_overview_has_the_commands_and_exit_codes() -> None:
    text = PAGES["lmi.1"]
    assert all(f".BR lmi\\-{name} (1)" in text for name in COMMANDS)
    assert all(f".B {code}\n" in text for code in EXIT_CODES)


def test_page_of_a_group_has_its_commands() -> None:
    assert ".SS lmi weights push [OPTIONS]" in PAGES["lmi-weights.1"]


def test_wheel_has_the_pages_where_man_looks() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["shared-data"] == {"man": "share/man/man1"}


@pytest.mark.parametrize("name", ["lmi.1", "lmi-up.1", "lmi-weights.1", "lmi-completion.1"])
def test_groff_reads_a_page_without_a_warning(name: str) -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        [groff, "-man", "-Tutf8", "-ww"], input=PAGES[name], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "SYNOPSIS" in re.sub(".\x08", "", done.stdout), "bold is a letter over itself"
