"""`lmi explain` and `lmi docs`, for people and for programs."""

from __future__ import annotations

import pytest

from tests.support.local_app import LocalApp


def test_key_is_explained_in_words_and_as_data(app: LocalApp) -> None:
    result = app.lmi("explain", "endpoint.region")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[:2] == ["endpoint.region: recipe key", "  The AWS region."]
    meaning = app.lmi("explain", "5", "--json").result["meanings"][0]
    assert (meaning["kind"], meaning["facts"]["errors"]) == ("exit code", "Refused")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("OOM", "failure"),
        ("CUDA out of memory", "failure"),
        ("ResourceLimitExceeded", "failure"),
        ("vllm", "engine"),
        ("exit-codes", "page"),
    ],
)
def test_text_of_a_log_an_engine_and_a_page_are_explained(app: LocalApp, text: str, kind: str) -> None:
    assert app.lmi("explain", text, "--json").result["meanings"][0]["kind"] == kind
    assert app.lmi("explain", *text.split()).code == 0


def test_unknown_key_is_bad_usage(app: LocalApp) -> None:
    result = app.lmi("explain", "regoin")
    assert result.code == 2
    assert "did you mean region?" in result.err


def test_page_is_printed_as_markdown_into_a_pipe(app: LocalApp) -> None:
    result = app.lmi("docs", "exit-codes")
    assert result.code == 0
    assert result.out.startswith("# Exit codes\n")
    assert app.lmi("docs", "exit-codes", "--json").result["title"] == "Exit codes"


def test_pages_are_listed_and_searched(app: LocalApp) -> None:
    listed = [line.split() for line in app.lmi("docs").out.splitlines()]
    assert ["troubleshooting", "Troubleshooting"] in listed
    found = app.lmi("docs", "execution", "role")
    assert found.code == 0
    assert len([line for line in found.out.splitlines() if not line.startswith(" ")]) <= 16
    assert app.lmi("docs", "execution", "role", "--json").result["hits"]


def test_word_of_no_page_is_an_error(app: LocalApp) -> None:
    result = app.lmi("docs", "trubleshooting")
    assert result.code == 1
    assert "did you mean `lmi docs troubleshooting`?" in result.err
