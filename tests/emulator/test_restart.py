"""With `--dir`, a restart restores all state, also after a kill.

What moto keeps is read by an emulator that is not forked: its IAM has other random numbers, and no class is imported.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import botocore.exceptions

from lmi_deploy.emulator.clock import VirtualClock
from lmi_deploy.emulator.logs.groups import LogGroups
from tests.support.emulator_process import ACCOUNT, BUCKET, REGION, TIMEOUT, Emulated, emulator
from tests.support.program_forks import run_emulator

LOGS = f"arn:aws:logs:{REGION}:{ACCOUNT}"
READ_ONLY = "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"
NOTHING = json.dumps(
    {"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Action": "*", "Resource": "*"}}
)


def test_restart_restores_endpoints_objects_logs_and_roles(tmp_path: Path) -> None:
    kept = ("--dir", str(tmp_path / "state"), "--speed", "1000000")
    with emulator(tmp_path, *kept) as aws:
        uri = aws.upload("artifacts/one", {"serving.properties": "engine=Python\n", "a b/é": "x"})
        aws.model("one", uri)
        aws.endpoint_config("one", "one")
        aws.endpoint("one")
        aws.settled("one")
        logs = aws.client("logs")
        logs.create_log_group(logGroupName="/mine", tags={"team": "nlp"})
        logs.put_retention_policy(logGroupName="/mine", retentionInDays=7)
        logs.create_log_stream(logGroupName="/mine", logStreamName="empty")
        (group,) = logs.describe_log_groups(logGroupNamePrefix="/mine")["logGroups"]
        aws.advance(1000)
        before = aws.get("/_clock")["now"]
        aws.process.kill()
        aws.process.wait()
    with emulator(tmp_path, *kept) as aws:
        assert aws.settled("one")["EndpointStatus"] == "InService"
        response = aws.client("sagemaker-runtime").invoke_endpoint(EndpointName="one", Body=b"hello")
        assert response["Body"].read() == b"hello"
        existing = aws.client("s3").get_object(Bucket=BUCKET, Key="artifacts/one/a b/é")
        assert existing["Body"].read() == b"x"
        logs = aws.client("logs")
        assert logs.describe_log_groups(logGroupNamePrefix="/mine")["logGroups"] == [group]
        assert logs.list_tags_for_resource(resourceArn=group["logGroupArn"])["tags"] == {"team": "nlp"}
        (stream,) = logs.describe_log_streams(logGroupName="/mine")["logStreams"]
        assert stream["logStreamName"] == "empty"
        logs.delete_log_group(logGroupName="/mine")
        assert not (tmp_path / "state" / "logs" / REGION / "%2Fmine").exists()
        aws.model("two", uri, role="arn:aws:iam::123456789012:role/execution")
        aws.client("sagemaker").delete_endpoint(EndpointName="one")
        aws.wait_until_deleted("one")
        assert aws.region == REGION
        assert aws.get("/_clock")["now"] > before - 1000


def test_restart_continues_a_create_in_progress(tmp_path: Path) -> None:
    kept = ("--dir", str(tmp_path / "state"))
    with emulator(tmp_path, *kept, "--speed", "0.001") as aws:
        uri = aws.upload("artifacts/one", {"serving.properties": "engine=Python\n"})
        aws.model("one", uri)
        aws.endpoint_config("one", "one")
        aws.endpoint("one")
        assert aws.described("one")["EndpointStatus"] == "Creating"
    with emulator(tmp_path, *kept, "--speed", "1000000") as aws:
        assert aws.settled("one")["EndpointStatus"] == "InService"


def test_restart_restores_inference_components_and_scaling(tmp_path: Path) -> None:
    kept = ("--dir", str(tmp_path / "state"), "--speed", "1000000")
    variant = {"VariantName": "v", "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1}
    needs = {"MinMemoryRequiredInMb": 1024}
    with emulator(tmp_path, *kept) as aws:
        aws.model("m", aws.upload("artifacts/m", {"serving.properties": "engine=Python\n"}))
        api, scaling = aws.client("sagemaker"), aws.client("application-autoscaling")
        api.create_endpoint_config(
            EndpointConfigName="e", ExecutionRoleArn=aws.role(), ProductionVariants=[variant]
        )
        aws.endpoint("e")
        aws.settled("e")
        api.create_inference_component(
            InferenceComponentName="c",
            EndpointName="e",
            VariantName="v",
            Specification={"ModelName": "m", "ComputeResourceRequirements": needs},
            RuntimeConfig={"CopyCount": 1},
        )
        scaling.register_scalable_target(
            ServiceNamespace="sagemaker",
            ResourceId="endpoint/e/variant/v",
            ScalableDimension="sagemaker:variant:DesiredInstanceCount",
            MinCapacity=1,
            MaxCapacity=2,
        )
        aws.process.kill()
        aws.process.wait()
    rename_fields_to_earlier_names(tmp_path / "state")
    with emulator(tmp_path, *kept) as aws:
        deadline = time.monotonic() + TIMEOUT
        api, scaling = aws.client("sagemaker"), aws.client("application-autoscaling")
        while (
            api.describe_inference_component(InferenceComponentName="c")["InferenceComponentStatus"]
            != "InService"
        ):
            assert time.monotonic() < deadline, aws.log.read_text()
        response = aws.client("sagemaker-runtime").invoke_endpoint(
            EndpointName="e", InferenceComponentName="c", Body=b"hello"
        )
        assert response["Body"].read() == b"hello"
        assert scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]


def rename_fields_to_earlier_names(state: Path) -> None:
    """The names under which an earlier emulator stored a component's specification."""
    (path,) = state.glob("tables/*/*/c.json")
    text = path.read_text("utf-8")
    old = text.replace('"description"', '"told"').replace('"specifications"', '"several"')
    assert old != text
    path.write_text(old, "utf-8")


def rights(iam: Any) -> dict[str, Any]:
    """The permissions as a client reads them, without times."""
    description = {
        "attached": iam.list_attached_role_policies(RoleName="execution")["AttachedPolicies"],
        "inline": iam.list_role_policies(RoleName="execution")["PolicyNames"],
        "holders": iam.list_entities_for_policy(PolicyArn=READ_ONLY)["PolicyRoles"],
        "theirs": iam.get_policy(PolicyArn=READ_ONLY)["Policy"],
        "ours": iam.list_policies(Scope="Local")["Policies"],
        "summary": iam.get_account_summary()["SummaryMap"],
    }
    shown: dict[str, Any] = json.loads(json.dumps(description, default=str))
    return shown


def test_restart_restores_permissions_from_a_small_state(tmp_path: Path) -> None:
    kept = ("--dir", str(tmp_path / "state"))
    with emulator(tmp_path, *kept) as aws:
        aws.role()
        iam = aws.client("iam")
        own = iam.create_policy(PolicyName="own", PolicyDocument=NOTHING)["Policy"]["Arn"]
        for arn in (READ_ONLY, own):
            iam.attach_role_policy(RoleName="execution", PolicyArn=arn)
        before = rights(iam)
        count = len(iam.list_policies(Scope="AWS", MaxItems=1000)["Policies"])
        aws.process.kill()
        aws.process.wait()
    files = list((tmp_path / "state" / "moto" / "iam").iterdir())
    assert 0 < sum(path.stat().st_size for path in files) < 32 * 1024
    with emulator(tmp_path, *kept, forked=False) as aws:
        iam = aws.client("iam")
        assert rights(iam) == before
        assert len(iam.list_policies(Scope="AWS", MaxItems=1000)["Policies"]) == count
        iam.detach_role_policy(RoleName="execution", PolicyArn=READ_ONLY)
        assert iam.get_policy(PolicyArn=READ_ONLY)["Policy"]["AttachmentCount"] == 0


def test_read_only_call_writes_no_state(tmp_path: Path) -> None:
    with emulator(tmp_path, "--dir", str(tmp_path / "state")) as aws:
        aws.role()
        path = tmp_path / "state" / "moto" / "iam" / "aws.state"
        before = path.stat().st_mtime_ns
        aws.client("iam").list_roles()
        assert path.stat().st_mtime_ns == before
        aws.role("another")
        assert path.stat().st_mtime_ns != before


def test_everything_acknowledged_before_a_kill_is_restored(tmp_path: Path) -> None:
    """Killed in the middle of changes by several concurrent clients."""
    kept = ("--dir", str(tmp_path / "state"))
    created: list[str] = []
    with emulator(tmp_path, *kept) as aws:
        clients = [threading.Thread(target=make_roles, args=(aws, f"client-{n}", created)) for n in range(3)]
        for client in clients:
            client.start()
        deadline = time.monotonic() + TIMEOUT
        while len(created) < 30:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        aws.process.kill()
        aws.process.wait()
        for client in clients:
            client.join()
    (tmp_path / "state" / "moto" / "iam" / ".aws.state.1.partial").write_bytes(b"half of")
    with emulator(tmp_path, *kept) as aws:
        found = {role["RoleName"] for role in aws.client("iam").list_roles(MaxItems=1000)["Roles"]}
        assert set(created) <= found
    assert list((tmp_path / "state").rglob("*.partial")) == []


def make_roles(aws: Emulated, prefix: str, created: list[str]) -> None:
    """Creates roles until the emulator is gone."""
    iam = aws.client("iam", fresh=True)
    with suppress(botocore.exceptions.BotoCoreError):
        for number in range(100_000):
            name = f"{prefix}-{number}"
            iam.create_role(RoleName=name, AssumeRolePolicyDocument=NOTHING)
            created.append(name)


def test_log_file_with_a_truncated_last_line_is_continued(tmp_path: Path) -> None:
    LogGroups(LOGS, clock := VirtualClock(), tmp_path).append("/mine", "one", [(1, "first"), (2, "second")])
    (path,) = tmp_path.rglob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-5])
    LogGroups(LOGS, clock, tmp_path).append("/mine", "one", [(3, "third")])
    lines = LogGroups(LOGS, clock, tmp_path).groups["/mine"].streams["one"].lines
    assert [line.text for line in lines] == ["first", "third"]


def test_restart_restores_every_moto_service(tmp_path: Path) -> None:
    """Every kind of resource that moto keeps as an object."""
    kept = ("--dir", str(tmp_path / "state"))
    with emulator(tmp_path, *kept) as aws:
        iam, s3, kms = aws.client("iam"), aws.client("s3"), aws.client("kms")
        iam.create_user(UserName="ada")
        key = iam.create_access_key(UserName="ada")["AccessKey"]
        assumed = aws.client("sts").assume_role(RoleArn=aws.role(), RoleSessionName="s")["Credentials"]
        secrets = aws.client("secretsmanager")
        secrets.create_secret(Name="mine", SecretString="a", Tags=[{"Key": "k", "Value": "v"}])
        secrets.put_secret_value(SecretId="mine", SecretString="b")
        signing = kms.create_key(KeySpec="RSA_2048", KeyUsage="SIGN_VERIFY")["KeyMetadata"]["KeyId"]
        kms.create_alias(AliasName="alias/mine", TargetKeyId=signing)
        before = kms.get_public_key(KeyId="alias/mine")["PublicKey"]
        aws.client("ssm").put_parameter(Name="/mine", Value="1", Type="String")
        aws.upload("deep", {"large": bytes(range(256)) * 100})
        s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        s3.put_object(Bucket=BUCKET, Key="twice", Body=b"1", Tagging="a=b", Metadata={"m": "1"})
        s3.put_object(Bucket=BUCKET, Key="twice", Body=b"2")
        s3.delete_object(Bucket=BUCKET, Key="twice")
        started = s3.create_multipart_upload(Bucket=BUCKET, Key="parts")["UploadId"]
        where = {"Bucket": BUCKET, "Key": "parts", "UploadId": started}
        tag = s3.upload_part(**where, PartNumber=1, Body=b"part")["ETag"]
        s3.complete_multipart_upload(**where, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]})
        versions = s3.list_object_versions(Bucket=BUCKET)
        aws.process.kill()
        aws.process.wait()
    with emulator(tmp_path, *kept, forked=False) as aws:
        s3 = aws.client("s3")
        assert aws.client("sts", key=key).get_caller_identity()["Arn"].endswith(":user/ada")
        assert ":assumed-role/" in aws.client("sts", key=assumed).get_caller_identity()["Arn"]
        assert aws.client("secretsmanager").get_secret_value(SecretId="mine")["SecretString"] == "b"
        assert aws.client("kms").get_public_key(KeyId="alias/mine")["PublicKey"] == before
        assert aws.client("ssm").get_parameter(Name="/mine")["Parameter"]["Value"] == "1"
        again = s3.list_object_versions(Bucket=BUCKET)
        for kind in ("Versions", "DeleteMarkers"):
            assert [one["VersionId"] for one in again[kind]] == [one["VersionId"] for one in versions[kind]]
        assert s3.get_object(Bucket=BUCKET, Key="deep/large")["Body"].read() == bytes(range(256)) * 100
        assert s3.get_object(Bucket=BUCKET, Key="parts")["Body"].read() == b"part"


def test_state_folder_of_another_user_or_version_is_refused(tmp_path: Path) -> None:
    def refused(folder: Path) -> str:
        code, _, err = run_emulator(tmp_path, "--dir", str(folder))
        assert code in (2, 5), err
        return err

    probe = tmp_path / "was-run"
    old = tmp_path / "old" / "moto" / "iam"
    old.mkdir(parents=True)
    (old / "aws.pickle").write_bytes(b"cos\nsystem\n(S'touch " + str(probe).encode() + b"'\ntR.")
    assert "an earlier version of the emulator wrote this" in refused(tmp_path / "old")
    assert not probe.exists()
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert "other users of this machine may write to it" in refused(tmp_path / "open")
