"""The contract of SageMaker's ports: the same tests on the emulator, through our adapters, and on the fake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from lmi_deploy.domain.recipe_scaling_keys import ScheduledBounds, StepScaling, TrackedMetric
from lmi_deploy.domain.sagemaker.resource_settings import (
    EndpointConfigSettings,
    ModelSettings,
    ObservedEndpoint,
)
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.errors import CloudError, Conflict, NotFound, QuotaExceeded
from lmi_deploy.ports.cloud import Cloud
from tests.support.emulator_process import REGION, Emulated
from tests.support.fake_cloud import FakeCloud
from tests.support.fake_hosting import NO_CAPACITY
from tests.support.fakes import FakeClock
from tests.support.sagemaker_fixtures import TAGS, config_settings, model_settings


@dataclass
class Side:
    """The fake or the emulator, with faults that a test can cause."""

    cloud: Cloud
    model: ModelSettings
    settled: Callable[[str], None]
    set_quota: Callable[[str, float], None]
    no_capacity: Callable[[str], None]

    def config(self, model: str, **more: object) -> EndpointConfigSettings:
        return config_settings(model, **more)

    def observed(self, name: str) -> ObservedEndpoint:
        observed = self.cloud.hosting.endpoint(name)
        assert observed is not None
        return observed

    def up(self, name: str, **more: object) -> ObservedEndpoint:
        hosting = self.cloud.hosting
        hosting.create_model(name, self.model, TAGS)
        hosting.create_endpoint_config(name, self.config(name, **more), TAGS)
        hosting.create_endpoint(name, name, TAGS)
        self.settled(name)
        return self.observed(name)


@pytest.fixture(params=["emulator", "fake"])
def side(request: pytest.FixtureRequest) -> Side:
    return _emulated(request) if request.param == "emulator" else _fake()


def _emulated(request: pytest.FixtureRequest) -> Side:
    aws: Emulated = request.getfixturevalue("aws")
    request.addfinalizer(aws.no_faults)

    def no_capacity(instance: str) -> None:
        reason = {"answer": {"status": 400, "body": NO_CAPACITY}}
        aws.fault({"method": "HOSTING", "path": f"^/provision/.*/{instance}", "do": reason})

    return Side(
        cloud=request.getfixturevalue("cloud"),
        model=model_settings(aws),
        settled=lambda name: aws.settled(name) and None,
        set_quota=lambda instance, value: aws.post(f"/_quotas/{REGION}", {instance: value}),
        no_capacity=no_capacity,
    )


def _fake() -> Side:
    clock = FakeClock()
    fake = FakeCloud(clock)
    return Side(
        cloud=fake.cloud(),
        model=ModelSettings(role="r", image="i", environment=(), artifact="s3://b/a/"),
        settled=lambda name: clock.sleep(1000),
        set_quota=lambda instance, value: fake.account_state.quotas.update({instance: value}),
        no_capacity=lambda instance: fake.account_state.failures.reasons.update({instance: NO_CAPACITY}),
    )


def test_lifecycle_of_model_config_and_endpoint(side: Side) -> None:
    hosting = side.cloud.hosting
    assert hosting.endpoint("life") is None
    observed = side.up("life")
    assert (observed.status, observed.config, observed.pending, observed.count) == (
        "InService",
        "life",
        "",
        1,
    )
    model = hosting.model("life")
    assert model is not None
    assert model.settings == side.model
    found = hosting.endpoint_config("life")
    assert found is not None
    assert found.settings == side.config("life")
    assert hosting.tags(observed.arn) == hosting.tags(model.arn) == hosting.tags(found.arn) == TAGS
    hosting.tag(observed.arn, (("a", "b"),))
    assert hosting.tags(observed.arn) == (("a", "b"), *TAGS)
    hosting.untag(observed.arn, ("a", "never put"))
    assert hosting.tags(observed.arn) == TAGS
    assert {resource.kind for resource in side.cloud.tagged.of("chat") if resource.name == "life"} == {
        "endpoint",
        "endpoint-config",
        "model",
    }
    for again in (lambda: hosting.create_model("life", side.model, TAGS), lambda: side.up("life")):
        with pytest.raises(Conflict):
            again()
    hosting.delete_endpoint("life")
    hosting.delete_endpoint_config("life")
    hosting.delete_model("life")
    assert hosting.endpoint_config("life") is None
    assert hosting.model("life") is None
    hosting.delete_endpoint_config("life")
    hosting.delete_model("life")


def test_listed_endpoints_have_their_status_and_are_ordered_by_name(side: Side) -> None:
    for name in ("listed-b", "listed-a"):
        side.up(name)
    listed = [one for one in side.cloud.hosting.endpoints() if one.name.startswith("listed-")]
    assert [(one.name, one.status) for one in listed] == [
        ("listed-a", "InService"),
        ("listed-b", "InService"),
    ]
    assert [one.created for one in listed] == [side.observed(one.name).created for one in listed]


def test_creating_from_a_missing_resource_is_not_found(side: Side) -> None:
    with pytest.raises(NotFound):
        side.cloud.hosting.create_endpoint_config("none", side.config("none"), TAGS)
    with pytest.raises(NotFound):
        side.cloud.hosting.create_endpoint("none", "none", TAGS)
    with pytest.raises(NotFound):
        side.cloud.hosting.update_endpoint("none", "none", keep_count=False)


def test_update_changes_the_config_and_may_keep_the_count(side: Side) -> None:
    side.up("grows")
    side.cloud.hosting.create_endpoint_config("grows-2", side.config("grows", count=2), TAGS)
    side.cloud.hosting.update_endpoint("grows", "grows-2", keep_count=False)
    side.settled("grows")
    assert (side.observed("grows").config, side.observed("grows").count) == ("grows-2", 2)
    side.cloud.hosting.update_endpoint("grows", "grows", keep_count=True)
    side.settled("grows")
    assert (side.observed("grows").config, side.observed("grows").count) == ("grows", 2)


def test_failed_endpoint_explains_why_and_cannot_be_updated(side: Side) -> None:
    side.no_capacity("ml.g6.xlarge")
    observed = side.up("fails", instance="ml.g6.xlarge")
    assert observed.status == "Failed"
    assert "InsufficientInstanceCapacity" in observed.reason
    with pytest.raises(CloudError, match="Failed"):
        side.cloud.hosting.update_endpoint("fails", "fails", keep_count=False)


def test_failed_update_rolls_back(side: Side) -> None:
    side.up("back")
    side.no_capacity("ml.g6.xlarge")
    config = side.config("back", instance="ml.g6.xlarge")
    side.cloud.hosting.create_endpoint_config("back-2", config, TAGS)
    side.cloud.hosting.update_endpoint("back", "back-2", keep_count=False)
    side.settled("back")
    observed = side.observed("back")
    assert (observed.status, observed.config) == ("InService", "back")
    assert "InsufficientInstanceCapacity" in observed.reason


def test_exceeded_quota_is_reported(side: Side) -> None:
    side.set_quota("ml.g5.48xlarge", 0)
    with pytest.raises(QuotaExceeded, match=r"ml\.g5\.48xlarge for endpoint usage"):
        side.up("much", instance="ml.g5.48xlarge")
    quota = side.cloud.limits.endpoint_instances("ml.g5.48xlarge")
    assert quota is not None
    assert quota.value == 0
    of_jobs = side.cloud.limits.processing_instances("ml.g5.48xlarge")
    assert of_jobs is not None
    assert (of_jobs.name, of_jobs.value) == ("ml.g5.48xlarge for processing job usage", 100)


def test_scaling_is_created_updated_and_deleted(side: Side) -> None:
    autoscaling = side.cloud.scalers
    side.up("scales")
    assert autoscaling.scaling("scales") is None
    scaling = Scaling(least=1, most=3, invocations=120)
    autoscaling.scale("scales", scaling)
    assert autoscaling.scaling("scales") == scaling
    autoscaling.scale("scales", Scaling(least=2, most=4, invocations=60))
    assert autoscaling.scaling("scales") == Scaling(least=2, most=4, invocations=60)
    whole = Scaling(
        least=1,
        most=6,
        invocations=0,
        concurrency=7.5,
        metric=TrackedMetric(
            namespace="Chat", name="Queue", target=9.0, statistic="Maximum", dimensions=(("Service", "chat"),)
        ),
        backlog=5.0,
        steps=(
            StepScaling(
                name="few",
                namespace="Chat",
                metric="Queue",
                threshold=2.0,
                adjustments=(("0", "-1"), ("1.5", "-2")),
                when="below",
                statistic="Maximum",
                minutes=5,
                cooldown=60,
            ),
            StepScaling(
                name="many",
                namespace="Chat",
                metric="Queue",
                threshold=20.0,
                adjustments=(("0", "3"),),
                unit="exact",
                dimensions=(("Service", "chat"),),
            ),
        ),
        scale_in=False,
        scale_in_cooldown=60,
        scale_out_cooldown=0,
        scheduled=(
            ScheduledBounds(name="day", schedule="cron(0 8 ? * * *)", timezone="Europe/Berlin", min=2, max=5),
            ScheduledBounds(name="rest", schedule="rate(2 days)", max=3),
        ),
    )
    autoscaling.scale("scales", whole)
    assert autoscaling.scaling("scales") == whole
    less = replace(whole, metric=None, scheduled=whole.scheduled[:1], steps=whole.steps[1:], scale_in=True)
    autoscaling.scale("scales", less)
    assert autoscaling.scaling("scales") == less
    autoscaling.remove("scales")
    autoscaling.remove("scales")
    assert autoscaling.scaling("scales") is None
    autoscaling.scale("scales", scaling)
    side.cloud.hosting.delete_endpoint("scales")
    assert autoscaling.scaling("nobody") is None


def test_missing_log_group_is_no_error_where_it_is_optional(side: Side) -> None:
    logs = side.cloud.logs
    assert logs.group("nobody") == ""
    with pytest.raises(NotFound, match="no such log group"):
        list(logs.lines("/aws/sagemaker/Endpoints/nobody"))
    logs.remove("/aws/sagemaker/Endpoints/nobody")
    follow = logs.follow("/aws/sagemaker/Endpoints/nobody")
    assert [next(follow), next(follow)] == ["", ""]
