"""Unsafe file names are refused with the reason, ordinary ones pass."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.safe_paths import case_collisions, check_relative_path


@pytest.mark.parametrize(
    "path",
    [
        "config.json",
        "a/b/c.safetensors",
        ".gitattributes",
        "..hidden",
        "x..",
        "Modell-ä.bin",
        "a b",
        "x" * 255,
    ],
)
def test_ordinary_path_is_accepted(path: str) -> None:
    assert check_relative_path(path) is None


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "is empty"),
        ("/etc/passwd", "is absolute"),
        ("../../.ssh/authorized_keys", "has a part '..'"),
        ("a/../b", "has a part '..'"),
        ("a/./b", "has a part '.'"),
        ("a//b", "has an empty part"),
        ("a/", "has an empty part"),
        ("a\0b", "has a NUL"),
        ("a\\b", "has a backslash"),
        ("..\\x", "has a backslash"),
        ("a\nb", "has a control character (U+000A)"),
        ("a\x1b[2Jb", "has a control character (U+001B)"),
        ("\ud800", "is not valid Unicode"),
        ("x" * 256, "has a part of 256 bytes, at most 255"),
        ("ä" * 128, "has a part of 256 bytes, at most 255"),
        ("/".join(["x" * 200] * 6), "is 1205 bytes long, at most 1024"),
    ],
)
def test_unsafe_path_is_refused_with_the_reason(path: str, why: str) -> None:
    assert check_relative_path(path) == why


@given(st.text())
def test_accepted_path_stays_below_its_folder(path: str) -> None:
    if check_relative_path(path) is None:
        joined = os.path.normpath(f"/srv/models/{path}")
        assert joined == f"/srv/models/{path}"


def test_paths_that_differ_only_in_case_collide() -> None:
    found = case_collisions(["Config.json", "config.json", "other", "a/X", "A/x"])
    assert found == (("A/x", "a/X"), ("Config.json", "config.json"))


def test_path_that_is_a_file_and_a_folder_collides() -> None:
    assert case_collisions(["weights", "weights/part-1"]) == (("weights", "weights/part-1"),)


def test_two_unicode_forms_of_one_letter_collide() -> None:
    assert len(case_collisions(["\u00e9.bin", "e\u0301.bin"])) == 1


def test_different_paths_do_not_collide() -> None:
    assert case_collisions(["a", "b", "a/../c", "a.b"]) == (("a", "a/../c"),)
    assert case_collisions([]) == ()
