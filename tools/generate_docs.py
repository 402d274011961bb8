"""Write docs/recipe.schema.json and docs/recipe.md from the recipe's declaration; a test compares them."""

from __future__ import annotations

from pathlib import Path

from lmi_deploy.decide.reference import reference_page
from lmi_deploy.decide.schema import text

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    """Rewrite both."""
    DOCS.mkdir(exist_ok=True)
    (DOCS / "recipe.schema.json").write_text(text(), encoding="utf-8")
    (DOCS / "recipe.md").write_text(reference_page(), encoding="utf-8")
    print("docs/recipe.schema.json, docs/recipe.md: written")


if __name__ == "__main__":
    main()
