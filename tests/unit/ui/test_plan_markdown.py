"""Values of a recipe cannot become markup, mentions or links in a comment, and the comment is not too long."""

from __future__ import annotations

import html
import re

import pytest
from markdown_it import MarkdownIt

from lmi_deploy.domain.plan import Change, Estimate, Plan
from lmi_deploy.errors import LmiError, RecipeError
from lmi_deploy.errors.recipe_problem import Problem
from lmi_deploy.ui.plan_markdown import code, failure_markdown, plan_markdown, words

ATTACKS = (
    "</code><img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "![pixel](https://evil.example/p.png)",
    "`` ` `@everyone",
    "a ``` b",
    "see `@everyone`x and `@here`, `<i>`",
    "`",
    "\\`<b>x</b>`",
    "@octocat please merge, closes #1",
    "line\n# heading\n| a | b |\n/close",
    "&lt;b&gt;",
    "www.evil.example",
    "<!-- hidden",
    "\x1b[31mred",
)


def outside_of_code(markdown: str) -> str:
    """What a reader's site may read as a mention, a reference or HTML."""
    return re.sub(r"<code>.*?</code>", "", MarkdownIt("gfm-like", {"linkify": False}).render(markdown))


@pytest.mark.parametrize("attack", ATTACKS)
def test_values_stay_text(attack: str) -> None:
    changes = (Change(field="options.x", before=attack, after=attack),)
    plan = Plan(deployment="tiny", actions=(), changes=changes)
    problem = Problem(origin="r.yaml", line=1, column=1, key="name", what=attack)
    for markdown in (
        plan_markdown(plan, Estimate(figures=(("model", attack),)), (attack,), "0"),
        failure_markdown(RecipeError([problem], hint=attack)),
        failure_markdown(LmiError(attack, details=(attack,))),
    ):
        rest = outside_of_code(markdown)
        assert set(re.findall(r"</?(\w+)", rest)) <= {"h3", "p", "ul", "li", "strong"}
        assert not re.search(r"[@#<`\[]|www", re.sub(r"</?\w+>", "", rest)), rest


@pytest.mark.parametrize("attack", ATTACKS)
def test_code_spans_show_the_value(attack: str) -> None:
    shown = re.search(r"<code>(.*)</code>", MarkdownIt("commonmark").render(code(attack)))
    expected = " ".join(attack.replace("\x1b[31m", "").split())
    assert shown is not None
    assert html.unescape(shown[1]) == expected


def test_words_reads_as_prose() -> None:
    text = "the endpoint costs $1.41 an hour: run `lmi down tiny`, or see folder/cost.md and more"
    assert words(text) == text.replace("folder/cost.md", "`folder/cost.md`")


def test_a_long_plan_keeps_its_price_and_fits_a_comment() -> None:
    changes = tuple(Change(field=f"key{n}", before="x" * 900, after="y" * 900) for n in range(200))
    plan = Plan(deployment="tiny", actions=(), changes=changes)
    markdown = plan_markdown(plan, Estimate(figures=(("cost", "$1.41 an hour"),)), (), "abc")
    assert len(markdown) <= 65_536
    assert "- cost: `$1.41 an hour`\n- plan: `abc`" in markdown
    assert re.search(r"\d+ more lines: see the log", markdown)


def test_passwords_of_urls_are_masked() -> None:
    assert "hunter2" not in failure_markdown(LmiError("https://me:hunter2@example.com/x failed"))
    assert "hunter2" not in words("https://me:hunter2@example.com/x")
