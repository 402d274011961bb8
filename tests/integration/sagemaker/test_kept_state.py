"""What older versions of lmi wrote is read by this one: records, plans, the index on this machine. tests/kept has what
`python -m tools.keep_state` took from them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.emulator_process import Emulated, emulator
from tests.support.json_output import require_described
from tests.support.kept_state import create_account
from tests.support.least_privilege import HANDLER, write_model
from tests.support.program_forks import forked_lmi

pytestmark = pytest.mark.landing

KEPT = Path(__file__).resolve().parents[2] / "kept"


class OldDeployment:
    """The deployment `echo` of an older version, with its recipe, its saved plan and its state folder."""

    def __init__(self, aws: Emulated, folder: Path, kept: Path) -> None:
        self.aws, self.folder = aws, folder
        write_model(folder / "model")
        (folder / "model.py").write_text(HANDLER)
        for file in ("recipe.yaml", "plan.json"):
            shutil.copy(kept / file, folder / file)
        shutil.copytree(kept / "state", folder / "state")
        self.environment = {**os.environ, **aws.environment(folder)}
        create_account(aws, json.loads((kept / "aws.json").read_text()))

    def lmi(self, *arguments: str) -> tuple[int, dict[str, Any], str]:
        """Exit code, result, and all that it printed."""
        done = subprocess.run(
            [forked_lmi() / "lmi", *arguments, "--json"], cwd=self.folder, env=self.environment, text=True,
            capture_output=True, check=False,
        )  # fmt: skip
        require_described([*arguments, "--json"], done.stdout)
        return done.returncode, json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr

    @property
    def instance_type(self) -> str:
        found = self.aws.client("sagemaker").describe_endpoint_config(
            EndpointConfigName=self.aws.described("echo")["EndpointConfigName"]
        )
        return str(found["ProductionVariants"][0]["InstanceType"])


@pytest.fixture(params=sorted(path.name for path in KEPT.iterdir()))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OldDeployment]:
    with emulator(tmp_path, "--speed", "6000") as aws:
        yield OldDeployment(aws, tmp_path, KEPT / request.param)


def test_deployment_of_an_older_version_is_known_and_in_step(old: OldDeployment) -> None:
    code, status, output = old.lmi("status", "echo")
    assert (code, status["standing"]) == (0, "in-step"), output
    code, _, output = old.lmi("ls")
    assert (code, '"echo"' in output) == (0, True), output
    # The same recipe is the same deployment: nothing is replaced by the upgrade of lmi itself. It may add tags.
    code, planned, output = old.lmi("plan", "recipe.yaml", "--exit-code")
    assert code in (0, 4), output
    assert {action["action"] for action in planned["actions"]} <= {"tag-endpoint"}, output


def test_saved_plan_of_an_older_version_is_carried_out_or_refused_as_stale(old: OldDeployment) -> None:
    code, result, output = old.lmi("up", "plan.json", "--yes")
    if code == 0:
        assert old.instance_type == "ml.m5.4xlarge", output
    else:
        assert code == 5, output
        assert "lmi plan" in result["error"]["hint"], output
        assert old.instance_type == "ml.m5.xlarge"


def test_deployment_of_an_older_version_is_changed_rolled_back_and_deleted(old: OldDeployment) -> None:
    code, _, output = old.lmi("up", "recipe.yaml", "--set", "instance_type=ml.m5.4xlarge", "--yes")
    assert (code, old.instance_type) == (0, "ml.m5.4xlarge"), output
    # To what the old version served before: its generations are in the record that it wrote.
    for options, expected in (((), "ml.m5.xlarge"), (("--to", "2"), "ml.m5.2xlarge")):
        code, _, output = old.lmi("rollback", "echo", "--yes", *options)
        assert (code, old.instance_type) == (0, expected), output
    code, _, output = old.lmi("down", "echo", "--yes", "--purge")
    assert code == 0, output
    sagemaker = old.aws.client("sagemaker")
    assert sagemaker.list_endpoints()["Endpoints"] == []
    assert sagemaker.list_endpoint_configs()["EndpointConfigs"] == []
    assert sagemaker.list_models()["Models"] == []
    left = old.aws.client("s3").list_objects_v2(Bucket="lmi-123456789012-us-east-1-an").get("Contents", [])
    assert [item["Key"] for item in left if "/deployments/" in item["Key"]] == []
