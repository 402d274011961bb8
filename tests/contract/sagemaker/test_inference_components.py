"""The port InferenceComponents: the same tests on the emulator, through our adapter, and on the fake."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.domain.recipe_endpoint_keys import Vpc
from lmi_deploy.domain.recipe_scaling_keys import InstanceScaling, StepScaling
from lmi_deploy.domain.sagemaker.component_settings import (
    COMPONENT_HEADER,
    AdapterSettings,
    ComponentPlace,
    ComponentSettings,
    ObservedComponent,
)
from lmi_deploy.domain.sagemaker.resource_settings import TAG_ADAPTER, EndpointConfigSettings, ModelSettings
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.errors import CloudError, Conflict, NoCopies, NotFound
from lmi_deploy.ports.cloud import Cloud
from tests.support.emulator_process import SETTLED, Emulated, emulator
from tests.support.fake_cloud import FakeCloud
from tests.support.fakes import FakeClock
from tests.support.sagemaker_fixtures import FULL_SPEED, TAGS, model_settings

EMPTY_ARCHIVE = gzip.compress(bytes(10240))


@dataclass
class Side:
    """The fake or the emulator."""

    cloud: Cloud
    model: ModelSettings
    settled: Callable[[str], None]
    """Wait until an endpoint is in service."""
    pass_time: Callable[[], None]
    archive: Callable[[str], str] = lambda name: f"s3://b/{name}/adapter.tar.gz"
    """The address of the tar.gz of an adapter."""

    def shared(self, name: str) -> None:
        hosting = self.cloud.hosting
        hosting.create_endpoint_config(name, self.config(), TAGS)
        hosting.create_endpoint(name, name, TAGS)
        self.settled(name)

    def config(self) -> EndpointConfigSettings:
        return EndpointConfigSettings(
            model="", instance="ml.g5.12xlarge", count=1, model_download=0, startup=0, role=self.model.role
        )

    def settings(self, endpoint: str, model: str, *, copies: int = 1) -> ComponentSettings:
        if self.cloud.hosting.model(model) is None:
            self.cloud.hosting.create_model(model, self.model, TAGS)
        place = ComponentPlace(endpoint=endpoint, copies=copies, accelerators=1, memory_mb=1024, cpus=2)
        return ComponentSettings(model=model, place=place, model_download=600, startup=300)

    def ended(self, name: str) -> ObservedComponent | None:
        """Once no change of it is in progress; None: it is gone."""
        for _ in range(2000):
            observed = self.cloud.components.component(name)
            if observed is None or observed.status in ("InService", "Failed"):
                return observed
            self.pass_time()
        raise AssertionError(name)


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    """Its clock moves only as the tests move it: a change is in progress until then, however busy this machine is."""
    with emulator(tmp_path_factory.mktemp("aws"), *FULL_SPEED, "--speed", "0.001") as running:
        yield running


def settle(aws: Emulated, name: str) -> None:
    while aws.described(name)["EndpointStatus"] not in SETTLED:
        aws.advance(10)


@pytest.fixture(params=["emulator", "fake"])
def side(request: pytest.FixtureRequest) -> Side:
    if request.param == "fake":
        clock = FakeClock()
        settings = ModelSettings(role="r", image="i", environment=(), artifact="s3://b/a/")
        return Side(
            FakeCloud(clock).cloud(), settings, lambda name: clock.sleep(1000), lambda: clock.sleep(10)
        )
    aws: Emulated = request.getfixturevalue("aws")
    return Side(
        cloud=request.getfixturevalue("cloud"),
        model=model_settings(aws),
        settled=lambda name: settle(aws, name),
        pass_time=lambda: aws.advance(10),
        archive=lambda name: aws.upload(name, {"adapter.tar.gz": EMPTY_ARCHIVE}) + "adapter.tar.gz",
    )


def test_component_reads_back_equal_and_is_listed_with_its_endpoint(side: Side) -> None:
    side.shared("equal")
    settings, components = side.settings("equal", "equal-m", copies=2), side.cloud.components
    components.create_component("equal-1", settings, TAGS)
    observed = side.ended("equal-1")
    assert observed is not None
    assert (observed.status, observed.settings, observed.copies) == ("InService", settings, 2)
    assert side.cloud.hosting.tags(observed.arn) == TAGS
    assert [one.name for one in components.listed("equal")] == ["equal-1"]
    assert list(components.listed("nobody")) == []
    tagged = [one for one in side.cloud.tagged.of("chat") if one.kind == "inference-component"]
    assert "equal-1" in [one.name for one in tagged]
    with pytest.raises(Conflict):
        components.create_component("equal-1", settings, TAGS)


def test_config_of_a_shared_endpoint_reads_back_equal(side: Side) -> None:
    vpc, instances = Vpc(subnets=("subnet-1",), security_groups=("sg-1",)), InstanceScaling(min=0, max=2)
    settings = replace(side.config(), vpc=vpc, instance_scaling=instances)
    side.cloud.hosting.create_endpoint_config("shared-config", settings, TAGS)
    found = side.cloud.hosting.endpoint_config("shared-config")
    assert found is not None
    assert (found.settings, found.models) == (settings, ())


def test_update_changes_one_component_and_keeps_the_old_one_until_then(side: Side) -> None:
    side.shared("changed")
    components = side.cloud.components
    for name in ("changed-1", "changed-2"):
        components.create_component(name, side.settings("changed", "changed-m"), TAGS)
        side.ended(name)
    other = components.component("changed-2")
    settings = side.settings("changed", "changed-n")
    components.update_component("changed-1", settings)
    with pytest.raises(Conflict):
        components.delete_component("changed-1")
    observed = side.ended("changed-1")
    assert observed is not None
    assert observed.settings == settings
    assert components.component("changed-2") == other


def test_copies_are_set_and_scaled_alone(side: Side) -> None:
    side.shared("copied")
    components, scalers = side.cloud.components, side.cloud.scalers
    components.create_component("copied-1", side.settings("copied", "copied-m"), TAGS)
    side.ended("copied-1")
    components.set_copies("copied-1", 2)
    observed = side.ended("copied-1")
    assert observed is not None
    assert (observed.copies, observed.requested_copies) == (2, 2)
    components.set_copies("copied-1", 0)
    side.ended("copied-1")
    request = HttpRequest(body=b'"x"', headers=(("Content-Type", "application/json"),))
    with pytest.raises(NoCopies, match="no copy of the model runs now"):
        list(side.cloud.hosting.invoke("copied", request, timeout=10, component="copied-1"))
    step = StepScaling(
        name="from-zero",
        namespace="AWS/SageMaker",
        metric="NoCapacityInvocationFailures",
        threshold=1.0,
        adjustments=(("0", "+1"),),
        statistic="Sum",
        dimensions=(("InferenceComponentName", "copied-1"),),
        minutes=1,
        cooldown=60,
    )
    scaling = Scaling(least=0, most=3, invocations=60, concurrency=4.0, steps=(step,))
    assert scalers.scaling("copied-1", "component") is None
    scalers.scale("copied-1", scaling, "component")
    assert scalers.scaling("copied-1", "component") == scaling
    scalers.remove("copied-1", "component")
    scalers.remove("copied-1", "component")
    assert scalers.scaling("copied-1", "component") is None


def test_endpoint_with_components_is_not_deleted(side: Side) -> None:
    side.shared("used")
    components, hosting = side.cloud.components, side.cloud.hosting
    components.create_component("used-1", side.settings("used", "used-m"), TAGS)
    side.ended("used-1")
    with pytest.raises(CloudError, match="used-1"):
        hosting.delete_endpoint("used")
    components.delete_component("used-1")
    assert side.ended("used-1") is None
    components.delete_component("used-1")
    hosting.delete_endpoint("used")


def test_adapter_is_a_component_of_its_model(side: Side) -> None:
    side.shared("lora")
    components = side.cloud.components
    components.create_component("lora-base", side.settings("lora", "lora-m"), TAGS)
    side.ended("lora-base")
    adapter = AdapterSettings(component="lora-a", artifact=side.archive("lora-1"))
    components.create_adapter("lora", "lora-base", adapter, (*TAGS, (TAG_ADAPTER, "a")))
    observed = side.ended("lora-a")
    assert observed is not None
    assert (observed.status, observed.base, observed.adapter) == ("InService", "lora-base", adapter)
    assert observed.settings.place.endpoint == "lora"
    tagged = [one.name for one in side.cloud.tagged.of("chat") if one.kind == "adapter-component"]
    assert "lora-a" in tagged
    changed = replace(adapter, artifact=side.archive("lora-2"))
    components.update_adapter("lora-base", changed)
    observed = side.ended("lora-a")
    assert observed is not None
    assert (observed.status, observed.adapter) == ("InService", changed)
    headers = (("Content-Type", "application/json"), (COMPONENT_HEADER, "lora-a"))
    head, *_ = side.cloud.hosting.invoke(
        "lora", HttpRequest(body=b"1", headers=headers), timeout=10, component="lora-base"
    )
    assert isinstance(head, ResponseHead)
    assert head.status == 200
    with pytest.raises(Conflict):
        components.create_adapter("lora", "lora-base", changed, TAGS)
    with pytest.raises(NotFound):
        components.create_adapter("lora", "nobody", replace(changed, component="lora-b"), TAGS)
    with pytest.raises(CloudError):
        components.delete_component("lora-base")
    for name in ("lora-a", "lora-base"):
        components.delete_component(name)
        assert side.ended(name) is None


def test_missing_endpoint_and_missing_component(side: Side) -> None:
    assert side.cloud.components.component("nobody") is None
    with pytest.raises(NotFound) as refused:
        side.cloud.components.create_component("alone", side.settings("nowhere", "alone-m"), TAGS)
    assert ":endpoint/nowhere" in refused.value.arn
    with pytest.raises(NotFound):
        side.cloud.components.update_component("nobody", side.settings("nowhere", "alone-m"))


def test_invocation_names_the_component(side: Side) -> None:
    side.shared("asked")
    side.cloud.components.create_component("asked-1", side.settings("asked", "asked-m"), TAGS)
    side.ended("asked-1")
    request = HttpRequest(body=json.dumps("x").encode(), headers=(("Content-Type", "application/json"),))
    head, *body = side.cloud.hosting.invoke("asked", request, timeout=10, component="asked-1")
    assert isinstance(head, ResponseHead)
    assert head.status == 200
    assert body
    endpoint = side.cloud.hosting.inference_endpoint("asked", "asked-1")
    assert "/endpoints/asked/" in endpoint.url
