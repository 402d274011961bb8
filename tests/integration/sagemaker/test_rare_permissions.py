"""Permissions that an ordinary lifecycle does not use: each has a case that needs it. IAM is enforced."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.sagemaker.test_least_privilege import LATER, NOT_MET, PLAIN, SCALED, UNCHECKED
from tests.support.emulator_process import ACCOUNT, REGION, Emulated
from tests.support.least_privilege import (
    Principal,
    ReducedPermissions,
    clear_buckets,
    names,
    policies_of,
    settle,
)

pytestmark = pytest.mark.landing

UP, DOWN = ("up", "r.yaml", "--yes"), ("down", "echo", "--yes", "--purge")
BUCKET = f"lmi-{ACCOUNT}-{REGION}-an"
SERVING = PLAIN + "endpoint: {role: serving}\n"
TAG_SEARCH = {"headers": {"X-Amz-Target": "GetResources$"}, "times": None}
ENDPOINTS = {"headers": {"X-Amz-Target": "ListEndpoints$"}, "times": None}
QUOTAS = {"headers": {"X-Amz-Target": "ListServiceQuotas$"}, "times": None}
PARTS = {"method": "PUT", "path": "partNumber=2", "times": None, "do": {"answer": {"status": 403}}}


@pytest.fixture
def ada(
    enforcing: Emulated,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Principal]:
    settle(enforcing, monkeypatch, tmp_path)
    principal = Principal(enforcing, capsys, monkeypatch)
    deploying(principal, SERVING)
    yield principal
    enforcing.no_faults()
    principal.as_root()
    assert principal.lmi(*DOWN)[0] == 0
    clear_buckets(enforcing)


def deploying(ada: Principal, recipe: str) -> None:
    """A user with the permissions printed for this recipe."""
    Path("r.yaml").write_text(recipe)
    policies_of(ada, "r.yaml")
    ada.enter()
    ada.grant()


def done(ada: Principal, *command: str) -> str:
    code, output = ada.lmi(*command)
    assert code == 0, output
    return output


def require_permission(ada: Principal, less: ReducedPermissions, *command: str) -> None:
    """Denied, with the action named, without this permission; successful with it."""
    ada.grant(less, UNCHECKED)
    code, output = ada.lmi(*command)
    assert code != 0, output
    assert names(output, less, ada.name), output
    ada.grant()
    done(ada, *command)


def test_tags_are_read_with_list_tags_when_the_tag_search_lags(ada: Principal) -> None:
    done(ada, *UP)
    ada.aws.fault({**TAG_SEARCH, "do": {"answer": {"status": 200, "body": '{"ResourceTagMappingList": []}'}}})
    require_permission(
        ada, ReducedPermissions("deployer", "KeepResources", "sagemaker:ListTags"), "status", "echo"
    )


def test_default_quota_is_read_when_none_was_applied(ada: Principal) -> None:
    ada.aws.fault({**QUOTAS, "do": {"answer": {"status": 200, "body": '{"Quotas": []}'}}})
    less = ReducedPermissions("deployer", "PlanAhead", "servicequotas:ListAWSDefaultServiceQuotas")
    ada.grant(less)
    output = done(ada, "plan", "r.yaml")
    assert "not checked: the quota" in output
    assert names(output, less, ada.name), output
    ada.grant()
    assert "not checked" not in done(ada, "plan", "r.yaml")


def test_down_of_a_scaled_endpoint_reads_its_scaling_policies(ada: Principal) -> None:
    deploying(ada, PLAIN + SCALED)
    done(ada, *UP)
    require_permission(
        ada,
        ReducedPermissions("deployer", "LookAtScaling", "application-autoscaling:DescribeScalingPolicies"),
        *DOWN,
    )


def test_update_without_a_scheduled_action_deletes_it(ada: Principal) -> None:
    deploying(ada, PLAIN + SCALED)
    done(ada, *UP)
    Path("r.yaml").write_text(PLAIN + SCALED.replace(f", {LATER}", ""))
    less = ReducedPermissions("deployer", "EndScaling", "application-autoscaling:DeleteScheduledAction")
    require_permission(ada, less, *UP)


def test_bucket_whose_setup_fails_is_deleted_or_named(ada: Principal) -> None:
    actions = ("s3:PutBucketTagging", "s3:DeleteBucket")
    tagging, delete = (ReducedPermissions("deployer", "MakeBucket", action) for action in actions)
    for less, left in (((tagging,), []), ((tagging, delete), [BUCKET])):
        ada.grant(*less, UNCHECKED)
        code, output = ada.lmi(*UP)
        assert code != 0, output
        buckets = [one["Name"] for one in ada.aws.client("s3").list_buckets()["Buckets"]]
        assert buckets == left
        assert (delete.action in output) == bool(left), output


def test_no_upload_rule_advice_without_permission_to_read_rules(ada: Principal) -> None:
    write_large(Path("model/model.safetensors"))
    push, advice = ("weights", "push", "r.yaml", "--create-bucket"), "put-bucket-lifecycle-configuration"
    ada.grant(ReducedPermissions("deployer", "LookIntoBucket", "s3:GetLifecycleConfiguration"))
    assert advice not in done(ada, *push)
    clear_buckets(ada.aws)
    ada.grant()
    assert advice in done(ada, *push)


def test_multipart_upload_works_with_the_printed_policies(ada: Principal) -> None:
    """An object tag on the upload would need s3:PutObjectTagging: no model over 8 MiB could be deployed."""
    write_large(Path("model/model.safetensors"))
    output = done(ada, *UP)
    assert "not authorized" not in output
    assert not [action for action, _ in ada.requests if "Tagging" in action and "Object" in action]


def test_tagged_s3_model_is_copied_with_the_printed_policies(ada: Principal) -> None:
    """The tags are not copied: no printed policy can read them, nor write them to the copies."""
    s3 = ada.aws.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    for file in Path("model").iterdir():
        s3.put_object(Bucket=BUCKET, Key=f"m/{file.name}", Body=file.read_bytes(), Tagging="a=b")
    deploying(ada, SERVING.replace("./model", f"s3://{BUCKET}/m/"))
    done(ada, "weights", "push", "r.yaml")
    copies = s3.list_objects_v2(Bucket=BUCKET, Prefix="weights/")["Contents"]
    assert copies
    assert all(s3.get_object_tagging(Bucket=BUCKET, Key=one["Key"])["TagSet"] == [] for one in copies)


def test_resuming_an_upload_needs_permission_to_list_parts(ada: Principal) -> None:
    write_large(Path("model/model.safetensors"))
    ada.aws.fault(PARTS)
    assert ada.lmi(*UP)[0] != 0
    ada.aws.no_faults()
    require_permission(ada, ReducedPermissions("deployer", "WriteOwn", "s3:ListMultipartUploadParts"), *UP)


def test_aborting_a_duplicate_upload_needs_its_permission(ada: Principal) -> None:
    """Of two uploads of one file the more complete one continues; the other is aborted once the file is
    complete."""
    write_large(Path("model/model.safetensors"))
    ada.aws.fault(PARTS)
    assert ada.lmi(*UP)[0] != 0
    ada.aws.no_faults()
    s3 = ada.aws.client("s3")
    (started,) = s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]
    s3.create_multipart_upload(Bucket=BUCKET, Key=started["Key"])
    ada.grant(ReducedPermissions("deployer", "WriteOwn", "s3:AbortMultipartUpload"), UNCHECKED)
    code, output = ada.lmi(*UP)
    assert code != 0, output
    assert names(output, ReducedPermissions("deployer", "WriteOwn", "s3:AbortMultipartUpload"), ada.name), (
        output
    )
    ada.grant()
    done(ada, *UP)


def test_down_reads_the_records_of_other_deployments(ada: Principal) -> None:
    deploying(ada, SERVING.replace("echo", "another"))
    done(ada, *UP)
    deploying(ada, SERVING)
    done(ada, *UP)
    require_permission(ada, ReducedPermissions("deployer", "ReadShared", "s3:GetObject"), *DOWN)
    ada.as_root()
    done(ada, "down", "another", "--yes", "--purge")


def test_token_is_printed_without_a_request_and_plan_reports_its_permission(ada: Principal) -> None:
    ada.grant(ReducedPermissions("deployer", "CallWithToken", "sagemaker:CallWithBearerToken"))
    assert "lacks permissions for later steps: sagemaker:CallWithBearerToken" in done(ada, "plan", "r.yaml")
    done(ada, *UP)
    assert "sagemaker-api-key-" in done(ada, "token", "echo")


@pytest.mark.parametrize("action", ["cloudwatch:GetMetricData", "cloudwatch:ListMetrics"])
def test_gc_idle_needs_permission_to_read_metrics(ada: Principal, action: str) -> None:
    done(ada, *UP)
    endpoint = {"EndpointName": "echo", "EndpointArn": "arn", "EndpointStatus": "InService"}
    times = dict.fromkeys(("CreationTime", "LastModifiedTime"), 1.6e9)
    body = json.dumps({"Endpoints": [{**endpoint, **times}]})
    ada.aws.fault({**ENDPOINTS, "do": {"answer": {"status": 200, "body": body}}})
    require_permission(ada, ReducedPermissions("deployer", "ReadMetrics", action), "gc", "--idle", "2h")


@pytest.mark.parametrize(
    ("action", "kind"),
    [
        ("sagemaker:ListProcessingJobs", "processing-job"),
        ("sagemaker:ListOptimizationJobs", "optimization-job"),
    ],
)
def test_without_the_list_of_running_jobs_each_is_described(ada: Principal, action: str, kind: str) -> None:
    """A policy that an older lmi printed does not contain it."""
    done(ada, *UP)
    arn = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:{kind}"
    name = "lmi-compile-" + "0" * 20 if kind == "optimization-job" else "echo-0123456789"
    tags = [{"Key": "lmi:deployment", "Value": "echo"}]
    shown = [{"ResourceARN": f"{arn}/{name}-{number}", "Tags": tags} for number in range(2, 7)]
    answer = {"status": 200, "body": json.dumps({"ResourceTagMappingList": shown})}
    ada.aws.fault({**TAG_SEARCH, "do": {"answer": answer}})
    for less, described in ((), 0), ((ReducedPermissions("deployer", "FindByTag", action),), 5):
        ada.grant(*less, UNCHECKED)
        done(ada, "status", "echo")
        asked = [request for request, _ in ada.requests]
        assert asked.count(action) == 1
        assert asked.count(action.replace("List", "Describe").removesuffix("s")) == described, asked


def test_every_rare_permission_has_a_test_here() -> None:
    written = Path(__file__).read_text()
    assert [action for action in NOT_MET if f'"{action}"' not in written] == []


def write_large(file: Path) -> None:
    """More than one part of an upload."""
    count = 5_000_000
    header = json.dumps({"w": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}}).encode()
    header += b" " * (-len(header) % 8)
    file.write_bytes(struct.pack("<Q", len(header)) + header + bytes(range(250)) * (4 * count // 250))
