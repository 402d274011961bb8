"""The inputs of a plan (the model, the user's own files): what is missing or broken is reported with its
place."""

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
    "a config that is no JSON": ({"config.json": b"{"}, 2, "org/tiny: config.json is not JSON"),
    "a config that is deep": ({"config.json": b"[" * 200_000}, 2, "org/tiny: config.json is not JSON"),
    "an index with a shard too many": (
        {INDEX: json.dumps({"weight_map": {"a": "model-9.safetensors"}}).encode()},
        2,
        "lists 1 files, 1 are missing: model-9.safetensors",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_repository_is_reported_before_any_download(app: LocalApp, what: str) -> None:
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
def test_malformed_config_json_counts_as_missing(app: LocalApp, config: bytes) -> None:
    app.hub.models[MODEL]["config.json"] = config
    app.hub.models[MODEL][INDEX] = b'{"weight_map": [1]}'
    result = app.lmi("plan")
    assert result.code == 2
    assert "probe: missing; engine accelerate with task unknown has no default probe" in result.err


def test_missing_model_is_an_error(app: LocalApp) -> None:
    result = app.lmi("plan", "--set", "model_id=org/absent")
    assert (result.code, result.out) == (1, "")
    assert "error: org/absent: no such model\n  next: check its spelling" in result.err


def test_own_files_are_relative_to_the_recipe(app: LocalApp) -> None:
    Path("sub").mkdir()
    Path("sub/r.yaml").write_text(OWN)
    result = app.lmi("plan", "sub/r.yaml")
    assert result.code == 2
    assert "handler.file: own.py: No such file or directory, write the path relative to" in result.err
    Path("sub/own.py").write_text("def handle(inputs): ...\n")
    assert app.lmi("plan", "sub/r.yaml").code == 0


def test_probe_response_must_contain_the_expected_text(app: LocalApp) -> None:
    Path("own.py").write_text("def handle(inputs): ...\n")
    Path("tiny.yaml").write_text(OWN)
    assert app.lmi("up", "--yes").code == 0
    result = app.lmi("up", "--yes", "--set", "probe.expect=NEVER")
    assert (result.code, result.out) == (1, "")
    assert "the probe failed: the response does not contain 'NEVER'" in result.err


def test_status_ls_invoke_logs_and_down_need_no_hub_or_recipe(app: LocalApp) -> None:
    app.lmi("up", "--yes")
    app.hub.models.clear()
    Path("tiny.yaml").unlink()
    for argv in (("status",), ("ls",), ("invoke", "hi"), ("logs",), ("down", "tiny", "--yes")):
        assert app.lmi(*argv).code == 0, argv


class CorruptSource(FakeHub):
    """This machine's copy of the weights is corrupt."""

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


def test_corrupt_cached_header_is_read_from_the_hub(app: LocalApp) -> None:
    app.hub = CorruptSource(app.root, app.hub.models)
    assert app.lmi("plan").code == 0
