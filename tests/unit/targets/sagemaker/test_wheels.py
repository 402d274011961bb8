"""Our installation as wheels: their contents run without other packages."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

from lmi_deploy.targets.sagemaker.transfer_job.wheels import LEFT_OUT, wheelhouse

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import boto3, huggingface_hub
import lmi_deploy.sources.hub.client, lmi_deploy.aws.s3.object_store, lmi_deploy.weights.transfer_job_shard
import lmi_deploy.cli
assert lmi_deploy.cli.__file__.startswith(sys.argv[1]), lmi_deploy.cli.__file__
assert boto3.__file__.startswith(sys.argv[1]), boto3.__file__
"""


def test_packed_wheels_run_without_installed_packages(tmp_path: Path) -> None:
    found = wheelhouse()
    for content in found.values():
        with zipfile.ZipFile(io.BytesIO(content)) as wheel:
            assert not [name for name in wheel.namelist() if name.endswith((".so", ".pyc", ".pth"))]
            wheel.extractall(tmp_path)
    # -S: without this interpreter's site-packages.
    result = subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_wheelhouse_is_reproducible_and_pure_python() -> None:
    found = wheelhouse()
    assert found == wheelhouse()
    assert all(name.endswith("-py3-none-any.whl") for name in found)
    assert not [name for name in found if name.split("-")[0].replace("_", "-").lower() in LEFT_OUT]
