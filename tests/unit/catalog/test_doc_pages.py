"""The pages travel with the package, and are found by name and by word."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from lmi_deploy.catalog.doc_pages import doc_pages, find_page, search_pages

ROOT = Path(__file__).resolve().parents[3]


def test_every_page_of_the_navigation_is_a_page() -> None:
    text = (ROOT / "docs" / "index.md").read_text()
    listed = {
        line.strip()
        for block in re.findall(r"```\{toctree\}(.*?)```", text, re.DOTALL)
        for line in block.splitlines()
        if line.strip() and not line.startswith(":")
    }
    assert listed == {f"{page.section}/{page.name}".removeprefix("/") for page in doc_pages()}
    assert len({page.name for page in doc_pages()}) == len(doc_pages()), "a name is enough"


def test_wheel_has_every_page() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    shipped = [source for source in build["wheel"]["force-include"] if source.startswith("docs")]
    assert all(
        target == source.replace("docs", "lmi_deploy/_docs", 1)
        for source, target in build["wheel"]["force-include"].items()
        if source in shipped
    )
    for page in doc_pages():
        path = f"docs/{page.section}/{page.name}.md".replace("//", "/")
        assert path in shipped or path.rpartition("/")[0] in shipped
    assert "docs" in build["sdist"]["include"], "a wheel is built from the sdist, too"


def test_page_is_found_by_name_path_and_address() -> None:
    names = ("recipe", "reference/recipe.md", "docs/reference/recipe.md#endpoint", "Recipe")
    assert {page.title for name in names if (page := find_page(name))} == {"The recipe"}
    assert find_page("no-such-page") is None


def test_marks_of_the_tests_are_no_part_of_a_page() -> None:
    assert not [page.name for page in doc_pages() if "<!-- run" in page.text]


@pytest.mark.parametrize(
    ("question", "page"),
    [
        ("roll back", "roll-back"),
        ("delete automatically weekend", "control-costs"),
        ("pin image version upgrade vllm", "images"),
        ("private VPC no internet KMS", "use-networks-and-keys"),
        ("endpoint failed reason", "failures"),
        ("stream tokens with the openai client", "use-openai-clients"),
    ],
)
def test_search_finds_the_part_with_most_of_the_words_first(question: str, page: str) -> None:
    assert search_pages(question.split())[0].page == page


def test_search_for_words_of_no_page_finds_nothing() -> None:
    assert not search_pages(["qwertyuiop"])
    assert not search_pages(["qwertyuiop", "asdfghjkl", "region"])
