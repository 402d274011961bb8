"""With a folder, everything is as it was after a restart, a hard one included."""

from __future__ import annotations

from pathlib import Path

from tests.support.emulated import BUCKET, REGION, emulator


def test_a_restart(tmp_path: Path) -> None:
    kept = ("--dir", str(tmp_path / "state"), "--speed", "1000000")
    with emulator(tmp_path, *kept) as aws:
        uri = aws.upload("artifacts/one", {"serving.properties": "engine=Python\n", "a b/é": "x"})
        aws.model("one", uri)
        aws.endpoint_config("one", "one")
        aws.endpoint("one")
        aws.settled("one")
        aws.client("logs").create_log_group(logGroupName="/mine")
        aws.advance(1000)
        before = aws.get("/_clock")["now"]
        aws.process.kill()
        aws.process.wait()
    with emulator(tmp_path, *kept) as aws:
        assert aws.settled("one")["EndpointStatus"] == "InService"
        answer = aws.client("sagemaker-runtime").invoke_endpoint(EndpointName="one", Body=b"hello")
        assert answer["Body"].read() == b"hello"
        held = aws.client("s3").get_object(Bucket=BUCKET, Key="artifacts/one/a b/é")
        assert held["Body"].read() == b"x"
        aws.model("two", uri, role="arn:aws:iam::123456789012:role/execution")
        aws.client("sagemaker").delete_endpoint(EndpointName="one")
        aws.until_gone("one")
        assert aws.region == REGION
        assert aws.get("/_clock")["now"] > before - 1000


def test_what_was_under_way_goes_on(tmp_path: Path) -> None:
    kept = ("--dir", str(tmp_path / "state"))
    with emulator(tmp_path, *kept, "--speed", "0.001") as aws:
        uri = aws.upload("artifacts/one", {"serving.properties": "engine=Python\n"})
        aws.model("one", uri)
        aws.endpoint_config("one", "one")
        aws.endpoint("one")
        assert aws.described("one")["EndpointStatus"] == "Creating"
    with emulator(tmp_path, *kept, "--speed", "1000000") as aws:
        assert aws.settled("one")["EndpointStatus"] == "InService"
