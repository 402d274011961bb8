"""Every way of delivery works: the container in the emulator reports the files in its weights folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.emulator_process import Emulated, emulator
from tests.support.least_privilege import clear_buckets, write_model

RECIPE = """\
name: {name}
model_id: ./model
engine: custom
instance_type: ml.m5.xlarge
handler: {{file: model.py}}
probe: {{body: '{{"inputs": "OK"}}'}}
"""
PRINTING_HANDLER = '''\
import hashlib, os, pathlib, urllib.error, urllib.request
from djl_python import Input, Output


def handle(inputs: Input) -> Output:
    """Where the weights lie, what they are, and whether a Hub or AWS would answer."""
    if inputs.is_empty():
        told = inputs.get_properties()
        handle.folder = told.get("model_id") or told["model_dir"]
        return None
    folder = pathlib.Path(handle.folder)
    found = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir() if p.is_file()}
    try:
        urllib.request.urlopen(os.environ.get("AWS_ENDPOINT_URL", "http://127.0.0.1:9") + "/_clock", timeout=5)
        reaches = True
    except urllib.error.HTTPError:
        reaches = True  # it asks for its key
    except OSError:
        reaches = False
    return Output().add_as_json({"folder": str(folder), "files": found, "reaches": reaches})
'''


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    with emulator(tmp_path_factory.mktemp("aws"), "--speed", "1000000", containers=True) as running:
        yield running


@pytest.mark.parametrize(
    ("extra", "place", "reaches"),
    [
        ("", "/tmp/download/", True),
        ("endpoint: {network_isolation: true}\n", "/opt/ml/additional-model-data-sources/weights", False),
        ("weights: {deliver: artifact}\n", "/opt/ml/model", True),
    ],
    ids=["s3", "mount", "artifact"],
)
def test_container_reads_the_weights_by_every_delivery(
    aws: Emulated,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    extra: str,
    place: str,
    reaches: bool,
) -> None:
    for name, value in aws.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    clear_buckets(aws)
    name = f"d{len(extra)}"
    write_model(tmp_path / "model", more={"tokens.txt": name.encode()})
    Path("model.py").write_text(PRINTING_HANDLER)
    Path("r.yaml").write_text(RECIPE.format(name=name) + extra)
    assert run(lmi, ["up", "r.yaml", "--yes"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run(lmi, ["invoke", name, "--body", '{"inputs": "x"}']) == 0
    result = json.loads(capsys.readouterr().out)
    own = {path.name: path for path in (tmp_path / "model").iterdir()}
    assert place in result["folder"], result
    assert result["files"].keys() >= own.keys()
    assert result["files"]["tokens.txt"] == _sha256(own["tokens.txt"])
    assert result["files"]["model.safetensors"] == _sha256(own["model.safetensors"])
    assert result["reaches"] == reaches
    assert run(lmi, ["down", name, "--yes", "--purge"]) == 0


@pytest.mark.parametrize(
    ("deliver", "place"),
    [("s3", "/tmp/download/"), ("mount", "/opt/ml/additional-model-data-sources/weights")],
)
def test_container_reads_weights_in_place_and_lmi_never_changes_them(
    aws: Emulated,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    deliver: str,
    place: str,
) -> None:
    for variable, value in aws.environment(tmp_path).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    clear_buckets(aws)
    name = f"in-place-{deliver}"
    write_model(tmp_path / "model", more={"tokens.txt": name.encode()})
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="models-of-ours")
    s3.put_bucket_versioning(Bucket="models-of-ours", VersioningConfiguration={"Status": "Enabled"})
    for path in (tmp_path / "model").iterdir():
        s3.put_object(Bucket="models-of-ours", Key=f"echo/{path.name}", Body=path.read_bytes())
    Path("model.py").write_text(PRINTING_HANDLER)
    recipe = RECIPE.format(name=name).replace("./model", "s3://models-of-ours/echo")
    Path("r.yaml").write_text(f"{recipe}weights: {{in_place: true, deliver: {deliver}}}\n")
    assert run(lmi, ["up", "r.yaml", "--yes"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert run(lmi, ["invoke", name, "--body", '{"inputs": "x"}']) == 0
    result = json.loads(capsys.readouterr().out)
    assert place in result["folder"], result
    own = {path.name: _sha256(path) for path in (tmp_path / "model").iterdir()}
    assert {path: result["files"].get(path) for path in own} == own
    verified = s3.head_object(Bucket="models-of-ours", Key="echo/tokens.txt")["VersionId"]
    s3.put_object(Bucket="models-of-ours", Key="echo/tokens.txt", Body=b"changed")
    assert run(lmi, ["status", name]) == 4
    assert f"tokens.txt was replaced (its verified version is {verified})" in capsys.readouterr().out
    assert run(lmi, ["down", name, "--yes", "--purge"]) == 0
    versions = s3.list_object_versions(Bucket="models-of-ours")
    assert (len(versions["Versions"]), versions.get("DeleteMarkers", [])) == (len(own) + 1, [])
    for one in versions["Versions"]:
        s3.delete_object(Bucket="models-of-ours", Key=one["Key"], VersionId=one["VersionId"])


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
