"""`lmi init` of every published model: its recipe validates, plans and fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.workflows.dependencies import Dependencies
from tests.support.cloud_app import CloudApp
from tests.support.hub import HubModels, HubState, LocalHub, serve_hub
from tests.support.hub_client import HubClient
from tests.support.published_models import MODELS, publish_model
from tests.support.recipe_parsing import parse

pytestmark = pytest.mark.landing

UNKNOWN = {name for name, model in MODELS.items() if not model["config"]}
"""Models of which no config.json is known here."""
INCOMPLETE = {
    "Qwen/Qwen2-VL-2B-Instruct",
    "Qwen/Qwen2.5-VL-7B-Instruct",
}
"""Models whose figures lack the vocabulary or the length: lmi cannot tell their fit."""


class PublishedModels(CloudApp):
    """The account of CloudApp, with models from the local Hub."""

    client: HubClient

    def deps(self) -> Dependencies:
        return replace(super().deps(), hub=lambda model_id: self.client.adapter)


@pytest.fixture(scope="module")
def running_hub() -> Iterator[LocalHub]:
    with serve_hub(state=HubState(HubModels())) as hub:
        yield hub


@pytest.fixture
def app(running_hub: LocalHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PublishedModels:
    monkeypatch.chdir(tmp_path)
    app = PublishedModels(tmp_path)
    app.client = HubClient(running_hub, tmp_path / "home", {"HF_HUB_DOWNLOAD_TIMEOUT": "30"})
    return app


def written(app: PublishedModels, name: str, *argv: str) -> dict[str, Any]:
    result = app.lmi("init", name, "--json", "-o", "model.yaml", *argv)
    assert result.code == 0, result.out
    return result.result


@pytest.mark.parametrize("name", sorted({*MODELS} - UNKNOWN))
def test_recipe_of_every_published_model_validates_plans_and_fits(
    app: PublishedModels, running_hub: LocalHub, name: str
) -> None:
    publish_model(running_hub, name)
    written(app, name)
    recipe = parse(Path("model.yaml").read_text(), "model.yaml")
    assert (recipe.endpoint.target, recipe.model_id) == ("sagemaker", name)
    assert recipe.engine == ("accelerate" if MODELS[name]["kind"] == "text2text-generation" else "vllm")
    assert app.lmi("validate", "model.yaml").code == 0
    plan = app.lmi("plan", "model.yaml")
    assert plan.code == 0, plan.err
    assert "  fit: cannot tell" in plan.out if name in INCOMPLETE else "  fit: fits" in plan.out


@pytest.mark.parametrize("name", sorted(UNKNOWN))
def test_recipe_without_config_json_says_what_is_missing(
    app: PublishedModels, running_hub: LocalHub, name: str
) -> None:
    publish_model(running_hub, name)
    found = written(app, name)
    assert found["verdict"] == "unknown"
    assert any("the task is unknown" in note for note in found["notes"])
    assert any(
        "lmi cannot compute whether the model fits (config.json is missing)" in note
        for note in found["notes"]
    )
    assert app.lmi("validate", "model.yaml").code == 0
    assert app.lmi("plan", "model.yaml").code == 0
