"""`lmi images`: the packaged table, one address for scripts, and SageMaker's SDK where it is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lmi_deploy.catalog import images
from tests.support.local_app import LocalApp, on_terminal

SDK = '''
"""As much of sagemaker.core.image_uris as is asked, with its own words for what it refuses."""

TWO = {"g5": "2.0-gpu", "c5": "2.0-cpu"}
TAGS = {"2.0": TWO, "2": TWO, "10.0": {None: "10.0-neuronx"}}


def list_frameworks():
    return ["djl-lmi", "two"]


def list_versions(framework):
    return list(TAGS)


def retrieve(framework, region, version=None, instance_type=None):
    family = instance_type.split(".")[1] if instance_type else None
    if region != "us-east-1":
        raise ValueError(f"Unsupported region: {region}.")
    if family not in TAGS[version]:
        raise ValueError("Unsupported processor")
    return f"1.dkr.ecr.{region}.amazonaws.com/two:{TAGS[version][family]}"
'''


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package `sagemaker` with recorded answers of the real one."""
    package = tmp_path / "sdk" / "sagemaker" / "core"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "image_uris.py").write_text(SDK)
    monkeypatch.syspath_prepend(tmp_path / "sdk")
    for name in [each for each in sys.modules if each.split(".")[0] == "sagemaker"]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("sagemaker", "sagemaker.core", "sagemaker.core.image_uris"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.fixture(autouse=True)
def _no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


def test_images_lists_the_families(app: LocalApp) -> None:
    result = app.lmi("images")
    assert result.code == 0
    assert len(result.out.splitlines()) == 1 + len(images.families())
    assert "26 in us-east-1; from sagemaker-core" in result.err


@pytest.mark.parametrize(
    ("argv", "heads"),
    [((), ["family", "versions", "latest"]), (("djl-lmi",), ["family", "version", "device"])],
)
def test_narrow_terminal_leaves_the_addresses_out_and_says_how_to_get_them(
    app: LocalApp,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: tuple[str, ...],
    heads: list[str],
) -> None:
    for width, shown in ("80", False), ("200", True):
        monkeypatch.setenv("COLUMNS", width)
        lines = on_terminal(app, "images", *argv)
        assert lines[0].split() == [*heads, "cuda", *["image"] * shown]
        assert max(map(len, lines)) <= int(width)
        assert ("--version V` prints one" in capsys.readouterr().err) == (not shown)


def test_images_lists_every_version_of_a_family(app: LocalApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "cn-north-1")
    completed = app.lmi("images", "djl-lmi", "--json")
    rows, result = completed.lines[:-2], completed.result
    assert [row["version"] for row in rows] == list(images.versions("djl-lmi"))
    assert rows[1]["image"].endswith("cn-north-1.amazonaws.com.cn/djl-inference:0.36.0-lmi27.0.0-cu130")
    assert (result["images"], result["region"], result["date"]) == (10, "cn-north-1", images.source()[1])


def test_images_prints_one_uri_for_scripts(app: LocalApp) -> None:
    result = app.lmi("images", "djl-lmi", "--version", "latest", "--region", "eu-west-1")
    assert (result.code, result.err) == (0, "")
    assert result.out == images.image("djl-lmi", "", "eu-west-1").uri + "\n"


@pytest.mark.parametrize(
    ("argv", "code", "output"),
    [
        (("djl-deepspeed", "--version", "0.28.0"), 2, "DJLServing 0.28 removed DeepSpeed"),
        (("djl",), 2, "unknown image family 'djl'"),
        (("--version", "latest"), 2, "--version needs a family"),
        (("djl-lmi", "--version", "latest", "--source", "sdk"), 2, "cannot be combined with --source sdk"),
        (("djl-lmi", "--region", "eu-west-9"), 1, "eu-west-9: AWS publishes no images"),
    ],
)
def test_unknown_image_is_an_error(app: LocalApp, argv: tuple[str, ...], code: int, output: str) -> None:
    result = app.lmi("images", *argv)
    assert (result.code, result.out) == (code, "")
    assert output in result.err
    assert "next: " in result.err


def test_images_from_the_sdk_without_it_says_how_to_install_it(app: LocalApp) -> None:
    result = app.lmi("images", "--source", "sdk")
    assert result.code == 2
    assert "the package sagemaker is not installed" in result.err
    assert "[sagemaker]'" in result.err.partition("-m pip install ")[2]


@pytest.mark.usefixtures("sdk")
def test_images_can_come_from_the_installed_sdk(app: LocalApp) -> None:
    assert app.lmi("images", "--source", "sdk").out.split() == ["family", "djl-lmi", "two"]
    result = app.lmi("images", "two", "--source", "sdk", "--json")
    assert [(row["version"], row["image"].rpartition(":")[2]) for row in result.lines[:-2]] == [
        ("10.0", "10.0-neuronx"),
        ("2.0", "2.0-gpu"),
        ("2.0", "2.0-cpu"),
    ]


@pytest.mark.usefixtures("sdk")
def test_image_unknown_to_the_sdk_is_reported(app: LocalApp) -> None:
    assert "the SDK lists no images of 'three'" in app.lmi("images", "three", "--source", "sdk").err
    assert "0 in eu-west-1" in app.lmi("images", "two", "--source", "sdk", "--region", "eu-west-1").err
