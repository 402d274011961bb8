"""An external S3 server instead of the built-in one."""

from __future__ import annotations

from pathlib import Path

from tests.emulator.conftest import FULL_SPEED
from tests.server.handlers import MANY_WAYS
from tests.support.emulator_process import Emulated, emulator


def test_endpoint_loads_its_artifact_from_an_external_s3_server(aws: Emulated, tmp_path: Path) -> None:
    """The S3 server is a second emulator: a separate program at another address."""
    files = {"model.py": MANY_WAYS, "serving.properties": "engine=Python\nminWorkers=1\nmaxWorkers=1\n"}
    uri = aws.upload("artifacts/outside", files)
    outside = (*FULL_SPEED, "--s3", aws.url)
    with emulator(tmp_path, *outside, containers=True, variables=aws.keys) as inside:
        inside.model("outside", uri)
        inside.endpoint_config("outside", "outside")
        inside.endpoint("outside")
        assert inside.settled("outside")["EndpointStatus"] == "InService"
        response = inside.client("sagemaker-runtime").invoke_endpoint(
            EndpointName="outside", ContentType="application/json", Body=b'{"do": "echo", "text": "a"}'
        )
        assert response["Body"].read() == b"a"
