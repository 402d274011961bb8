"""An endpoint that boto3 made is adopted, updated, rolled back and deleted, with the rights that `lmi` prints."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lmi_deploy.cli.command_group import lmi
from lmi_deploy.cli.error_boundary import run
from tests.support.emulator_process import IMAGE, Emulated, emulator
from tests.support.least_privilege import HANDLER, ROLE, Principal, settle

NAMED = {"ServiceNamespace": "sagemaker", "ScalableDimension": "sagemaker:variant:DesiredInstanceCount"}
BODY = ("--body", '{"inputs": "x"}')


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    options = ("--speed", "1000000", "--enforce-iam")
    with emulator(tmp_path_factory.mktemp("aws"), *options, containers=True) as running:
        yield running


@pytest.fixture
def user(
    aws: Emulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Principal:
    settle(aws, monkeypatch, tmp_path)
    return Principal(aws, capsys, monkeypatch)


def archive() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, text in (
            ("serving.properties", "engine=Python\noption.predict_timeout=40\n"),
            ("model.py", HANDLER),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return file.getvalue()


def by_hand(aws: Emulated, name: str) -> None:
    """As a notebook does it: a model.tar.gz, and names with a date."""
    sagemaker = aws.client("sagemaker")
    bucket = f"notebooks-{name}"
    uri = aws.upload("models", {"model.tar.gz": archive()}, bucket=bucket) + "model.tar.gz"
    role = aws.role(ROLE)
    model, config = f"{name}-2026-11-01-model", f"{name}-2026-11-01"
    sagemaker.create_model(
        ModelName=model, ExecutionRoleArn=role, PrimaryContainer={"Image": IMAGE, "ModelDataUrl": uri}
    )
    variant = {"VariantName": "AllTraffic", "ModelName": model, "InstanceType": "ml.m5.xlarge"}
    sagemaker.create_endpoint_config(
        EndpointConfigName=config, ProductionVariants=[{**variant, "InitialInstanceCount": 1}]
    )
    tags = [{"Key": "team", "Value": "search"}]
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=config, Tags=tags)
    assert aws.settled(name)["EndpointStatus"] == "InService", aws.log.read_text()
    aws.client("application-autoscaling").register_scalable_target(
        ResourceId=f"endpoint/{name}/variant/AllTraffic", MinCapacity=1, MaxCapacity=2, **NAMED
    )


def printed(user: Principal, *argv: str) -> dict[str, Any]:
    """The JSON that a command prints to stdout."""
    code = run(lmi, [*argv])
    out, err = user.capsys.readouterr()
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def done(result: tuple[int, str]) -> str:
    code, output = result
    assert code == 0, output
    return output


def test_endpoint_made_by_hand_becomes_a_deployment(aws: Emulated, user: Principal) -> None:
    user.as_root()
    by_hand(aws, "shop")
    done(user.lmi("adopt", "shop", "-o", "shop.yaml", "--model", "./model"))
    text = Path("shop.yaml").read_text()
    assert "engine: custom" in text
    assert Path("shop/model.py").read_text() == HANDLER
    assert "handler: {file: ./shop/model.py}" in text
    assert '  tags: {"team": "search"}' in text
    assert "the next `lmi up` ends the scaling" in text
    done(user.lmi("validate", "shop.yaml"))
    added = printed(user, "adopt", "shop", "--policy")["Statement"]
    user.documents = printed(user, "iam", "shop.yaml")
    user.documents["deployer"]["Statement"] += added
    user.enter()
    user.grant()
    done(user.lmi("adopt", "shop", "-o", "shop.yaml", "--take", "--yes"))
    done(user.lmi("status", "shop"))
    done(user.lmi("invoke", "shop", *BODY))
    done(user.lmi("logs", "shop"))
    done(user.lmi("extend", "shop", "2h"))
    plan = done(user.lmi("plan", "shop.yaml"))
    assert "update the endpoint shop" in plan, plan
    done(user.lmi("up", "shop.yaml", "--yes"))
    done(user.lmi("invoke", "shop", *BODY))
    done(user.lmi("rollback", "shop", "--yes"))
    assert aws.described("shop")["EndpointConfigName"] == "shop-2026-11-01"
    done(user.lmi("down", "shop", "--yes", "--logs"))
    assert aws.gone("shop")
    sagemaker = aws.client("sagemaker")
    assert sagemaker.list_endpoint_configs()["EndpointConfigs"] == []
    assert sagemaker.list_models()["Models"] == []
    used = {action for action, _ in user.requests}
    needed = {action for statement in added for action in statement["Action"]}
    assert needed <= used, sorted(needed - used)
