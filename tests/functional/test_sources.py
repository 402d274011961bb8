"""What a plan reads (the model, the user's own files): what is missing or broken is told with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmi_deploy.domain.gathered_facts import ModelListing
from tests.support.fakes import FakeHub, safetensors
from tests.support.local_app import MODEL, RECIPE, LocalApp

OWN = RECIPE.replace("accelerate", "custom") + "handler: {file: own.py}\nprobe: {body: '{}', expect: OK}\n"
INDEX = "model.safetensors.index.json"
BROKEN: dict[str, tuple[dict[str, bytes], int, str]] = {
    "a header that is cut": (
        {"model.safetensors": safetensors()[:-1]},
        6,
        "model.safetensors: tensors need 8 bytes",
    ),
    "a Git LFS pointer": (
        {"model.safetensors": b"version https://git-lfs.github.com/spec/v1\noid"},
        6,
        "LFS pointer",
    ),
    "an empty file": ({"model.safetensors": b""}, 6, "model.safetensors: 0 bytes: too short"),
    "a config that is no JSON": ({"config.json": b"{"}, 2, "config.json of org/tiny is not JSON"),
    "a config that is deep": ({"config.json": b"[" * 200_000}, 2, "config.json of org/tiny is not JSON"),
    "an index with a shard too many": (
        {INDEX: json.dumps({"weight_map": {"a": "model-9.safetensors"}}).encode()},
        2,
        "lists 1 files, 1 are missing: model-9.safetensors",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_repository_is_reported_before_anything_moves(app: LocalApp, what: str) -> None:
    files, code, words = BROKEN[what]
    app.hub.models[MODEL] |= files
    result = app.lmi("up", "--yes")
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert "  next: " in result.err
    assert app.artifacts_left() == []


@pytest.mark.parametrize(
    "config", [b"[]", b"3", b'{"architectures": 5, "auto_map": 0}', b'{"architectures": [{}]}']
)
def test_a_config_of_another_form_is_as_good_as_none(app: LocalApp, config: bytes) -> None:
    app.hub.models[MODEL]["config.json"] = config
    app.hub.models[MODEL][INDEX] = b'{"weight_map": [1]}'
    result = app.lmi("plan")
    assert result.code == 2
    assert "probe: missing; engine accelerate with task unknown has no default probe" in result.err


def test_a_model_that_is_not_there(app: LocalApp) -> None:
    result = app.lmi("plan", "--set", "model_id=org/absent")
    assert (result.code, result.out) == (1, "")
    assert "error: org/absent: no such model\n  next: check its spelling" in result.err


def test_own_files_start_at_the_recipes_folder(app: LocalApp) -> None:
    Path("sub").mkdir()
    Path("sub/r.yaml").write_text(OWN)
    result = app.lmi("plan", "sub/r.yaml")
    assert result.code == 2
    assert "handler.file: own.py: No such file or directory, write the path relative to" in result.err
    Path("sub/own.py").write_text("def handle(inputs): ...\n")
    assert app.lmi("plan", "sub/r.yaml").code == 0


def test_the_response_must_hold_what_the_recipe_expects(app: LocalApp) -> None:
    Path("own.py").write_text("def handle(inputs): ...\n")
    Path("tiny.yaml").write_text(OWN)
    assert app.lmi("up", "--yes").code == 0
    result = app.lmi("up", "--yes", "--set", "probe.expect=NEVER")
    assert (result.code, result.out) == (1, "")
    assert "the probe failed: the response does not contain 'NEVER'" in result.err


def test_the_status_needs_neither_hub_nor_recipe(app: LocalApp) -> None:
    app.lmi("up", "--yes")
    app.hub.models.clear()
    Path("tiny.yaml").unlink()
    for argv in (("status",), ("ls",), ("invoke", "hi"), ("logs",), ("down", "tiny", "--yes")):
        assert app.lmi(*argv).code == 0, argv


class CorruptSource(FakeHub):
    """What this machine keeps of the weights makes no sense."""

    def read(
        self,
        listing: ModelListing,
        path: str,
        *,
        start: int = 0,
        length: int | None = None,
        refresh: bool = False,
    ) -> bytes:
        content = super().read(listing, path, start=start, length=length, refresh=refresh)
        return content if refresh or not path.endswith(".safetensors") else bytes(len(content))


def test_a_header_that_makes_no_sense_is_read_past_the_cache(app: LocalApp) -> None:
    app.hub = CorruptSource(app.root, app.hub.models)
    assert app.lmi("plan").code == 0
