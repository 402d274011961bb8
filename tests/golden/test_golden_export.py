"""What `lmi export` writes, for each kind of recipe."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.errors import Refused
from lmi_deploy.planning.render import render
from lmi_deploy.targets.sagemaker.export.cloudformation import cloudformation
from lmi_deploy.targets.sagemaker.export.stack import stack_of
from lmi_deploy.targets.sagemaker.export.terraform import terraform
from tests.golden.test_golden_sagemaker import HERE, of_recipe, resolved

Golden = Callable[[str, dict[str, bytes]], None]
SECURED = (
    "endpoint.tags={team: search}",
    "endpoint.kms_key=alias/models",
    "endpoint.vpc.subnets=[subnet-0123456789abcdef0, subnet-0123456789abcdef1]",
    "endpoint.vpc.security_groups=[sg-0123456789abcdef0]",
    "container.environment={OMP_NUM_THREADS: 4, SEARCH_API_SECRET_NAME: search-api}",
)
SCALED = (
    "endpoint.count=2",
    *("endpoint.autoscaling.min=2", "endpoint.autoscaling.max=4"),
    *("endpoint.autoscaling.invocations_per_instance=60", "endpoint.autoscaling.scale_in=false"),
    *("endpoint.update.policy=canary", "endpoint.update.wait=5m", "endpoint.update.alarms=[chat-errors]"),
)
SCALED_BY_ALL = (
    *("endpoint.autoscaling.min=1", "endpoint.autoscaling.max=4"),
    *(
        "endpoint.autoscaling.invocations_per_instance=60",
        "endpoint.autoscaling.concurrent_requests_per_model=8",
    ),
    *("endpoint.autoscaling.scale_in_cooldown=10m", "endpoint.autoscaling.scale_out_cooldown=1m"),
    "endpoint.autoscaling.metric.namespace=/aws/sagemaker/Endpoints",
    *("endpoint.autoscaling.metric.name=GPUUtilization", "endpoint.autoscaling.metric.target=70"),
    "endpoint.autoscaling.steps={queue: {namespace: Chat, metric: Queue, threshold: 20, "
    "adjustments: {0: '+1', 50: '+3'}}, calm: {namespace: AWS/SageMaker, metric: Invocations, threshold: 5, "
    "when: below, adjustments: {0: '-1'}, minutes: 10}}",
    "endpoint.autoscaling.scheduled={night: {schedule: 'cron(0 20 ? * MON-FRI *)', timezone: Europe/Berlin, min: 1, "
    "max: 1}, often: {schedule: 'rate(2 hours)', max: 3}}",
)
SCALED_TO_ZERO = (
    "endpoint.asynchronous.max_concurrent_per_instance=4",
    *("endpoint.autoscaling.min=0", "endpoint.autoscaling.max=4"),
    "endpoint.autoscaling.backlog_per_instance=5",
)
ASYNCHRONOUS = (
    "endpoint.asynchronous.max_concurrent_per_instance=4",
    "endpoint.asynchronous.error_topic=arn:aws:sns:us-east-1:111122223333:failed",
    "endpoint.asynchronous.kms_key=alias/answers",
)
CAPTURED = (
    "endpoint.data_capture.output=s3://captured/chat/",
    "endpoint.data_capture.percentage=20",
    *("endpoint.count=3", "endpoint.update.policy=rolling"),
)
CASES = {
    "plain": ("smollm2-g5", ()),
    "secured": ("qwen2.5-7b-vllm", SECURED),
    "scaled": ("smollm2-g5", SCALED),
    "scaled-by-all": ("smollm2-g5", SCALED_BY_ALL),
    "scaled-to-zero": ("smollm2-g5", SCALED_TO_ZERO),
    "asynchronous": ("smollm2-g5", ASYNCHRONOUS),
    "captured": ("smollm2-g5", CAPTURED),
    "in-the-artifact": ("smollm2-g5", ("weights.deliver=artifact",)),
}
MOUNTED = ("weights.deliver=mount",)


def exported(spec: Spec, *, with_environment: bool = False) -> dict[str, bytes]:
    stack = stack_of(spec, render(spec), with_environment=with_environment)
    return {
        "stack.template.yaml": cloudformation(stack)[0].encode(),
        "stack.tf": terraform(stack)[0].encode(),
    }


@pytest.mark.parametrize("case", CASES)
def test_export_matches_golden_files(golden: Golden, case: str) -> None:
    name, sets = CASES[case]
    golden(f"export/{case}", exported(resolved(name, *sets)))


def test_export_of_adapters_and_draft_model_matches_golden_files(golden: Golden) -> None:
    """SageMaker mounts the draft model, which CloudFormation cannot express."""
    spec = of_recipe(HERE / "recipes" / "sagemaker" / "adapters-and-draft.yaml", "adapters-and-draft")
    stack = stack_of(spec, render(spec), with_environment=False)
    golden("export/adapters-and-draft", {"stack.tf": terraform(stack)[0].encode()})
    with pytest.raises(Refused, match="the draft model, which SageMaker mounts: CloudFormation's") as refused:
        cloudformation(stack)
    assert "--format terraform" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("sets", "remedy"),
    [((), "weights.deliver=s3"), (("endpoint.network_isolation=true",), "weights.deliver=artifact")],
)
def test_cloudformation_refuses_mounts_and_terraform_names_the_provider(
    sets: tuple[str, ...], remedy: str
) -> None:
    spec = resolved("smollm2-g5", *MOUNTED, *sets)
    stack = stack_of(spec, render(spec), with_environment=False)
    with pytest.raises(
        Refused, match=r"weights\.deliver: mount: .* no AdditionalModelDataSources"
    ) as refused:
        cloudformation(stack)
    assert remedy in str(refused.value.hint)
    text = terraform(stack)[0]
    assert 'version = ">= 6.22.0"' in text
    assert 'channel_name = "weights"' in text


def test_environment_values_are_written_on_request_alone() -> None:
    spec = resolved("smollm2-g5", "container.environment={FEATURE_SERVER: canary-4711}")
    hidden, shown = exported(spec), exported(spec, with_environment=True)
    for name, text in hidden.items():
        assert b"canary-4711" not in text
        assert b"canary-4711" in shown[name]
    assert b"NoEcho: true" in hidden["stack.template.yaml"]
    assert b"sensitive   = true" in hidden["stack.tf"]
    assert b"NoEcho" not in shown["stack.template.yaml"]
    assert b"sensitive" not in shown["stack.tf"]


def test_name_of_terraforms_resources_follows_the_settings() -> None:
    """A model and an endpoint configuration cannot be changed: another setting must be another name."""
    texts = [
        exported(resolved("smollm2-g5", *sets))["stack.tf"].decode()
        for sets in ((), ("options.dtype=fp32",), ("endpoint.count=2",), ("ttl=1h",))
    ]
    names = [next(line for line in text.splitlines() if "versioned_name" in line) for text in texts]
    assert len({*names[:3]}) == 3
    assert names[3] == names[0]


@pytest.mark.parametrize("case", CASES)
def test_no_export_has_a_tag_of_lmi(case: str) -> None:
    """By such a tag `lmi down` and `lmi gc` would delete the resources of the stack."""
    name, sets = CASES[case]
    for text in exported(resolved(name, *sets)).values():
        assert b"lmi:" not in text
        assert b"exported-by" in text
