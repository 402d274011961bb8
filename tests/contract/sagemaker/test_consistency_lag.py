"""Eventual consistency through the ports: the same tests on the emulator with `--lag` and on the fake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from lmi_deploy.domain.sagemaker.resource_settings import ModelSettings
from lmi_deploy.domain.sagemaker.transfer_job import JobSettings
from lmi_deploy.errors import Conflict, NotFound, RoleNotAssumable
from lmi_deploy.ports.cloud import Cloud
from tests.support.emulator_process import IMAGE, Emulated, emulator
from tests.support.fake_cloud import FakeCloud
from tests.support.fakes import FakeClock
from tests.support.sagemaker_fixtures import TAGS, config_settings, model_settings

ROLES, READS, TAGGED = 600.0, 60.0, 300.0


@dataclass
class Side:
    cloud: Cloud
    model: ModelSettings
    advance: Callable[[float], None]

    def tagged(self, name: str) -> bool:
        return any(resource.name == name for resource in self.cloud.tagged.of("chat"))

    def job(self) -> JobSettings:
        return JobSettings(
            role=self.model.role,
            image=IMAGE,
            instance="ml.m5.large",
            count=1,
            volume_gb=1,
            command=("true",),
            environment=(),
            inputs=(),
            timeout=600,
        )


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulated]:
    lag = f"roles={ROLES},reads={READS},tags={TAGGED}"
    with emulator(tmp_path_factory.mktemp("lag"), "--speed", "0.001", "--lag", lag) as running:
        yield running


@pytest.fixture(params=["emulator", "fake"])
def side(request: pytest.FixtureRequest) -> Side:
    if request.param == "emulator":
        aws: Emulated = request.getfixturevalue("aws")
        return Side(request.getfixturevalue("cloud"), model_settings(aws), aws.advance)
    clock = FakeClock()
    fake = FakeCloud(clock)
    fake.account_state.role_lag, fake.account_state.read_lag, fake.account_state.tag_lag = (
        ROLES,
        READS,
        TAGGED,
    )
    model = ModelSettings(role="r", image="i", environment=(), artifact="s3://b/a/")
    return Side(fake.cloud(), model, clock.sleep)


def test_new_role_model_and_config_are_invisible_until_reads_catch_up(side: Side) -> None:
    hosting, jobs, config = side.cloud.hosting, side.cloud.jobs, config_settings("late")
    with pytest.raises(RoleNotAssumable, match="Could not assume role"):
        hosting.create_model("late", side.model, TAGS)
    with pytest.raises(RoleNotAssumable, match="Could not assume role"):
        jobs.start("late", side.job(), TAGS)
    side.advance(ROLES + 1)

    hosting.create_model("late", side.model, TAGS)
    assert hosting.model("late") is None
    with pytest.raises(Conflict):
        hosting.create_model("late", side.model, TAGS)
    with pytest.raises(NotFound) as absent:
        hosting.create_endpoint_config("late", config, TAGS)
    assert absent.value.arn.endswith(":model/late")
    side.advance(READS + 1)
    model = hosting.model("late")
    assert model is not None

    hosting.create_endpoint_config("late", config, TAGS)
    assert hosting.endpoint_config("late") is None
    with pytest.raises(NotFound) as absent:
        hosting.create_endpoint("late", "late", TAGS)
    assert absent.value.arn.endswith(":endpoint-config/late")
    side.advance(READS + 1)
    hosting.create_endpoint("late", "late", TAGS)
    assert hosting.endpoint("late") is not None

    jobs.start("late", side.job(), TAGS)
    assert jobs.job("late") is not None
    assert hosting.tags(model.arn) == TAGS
    assert not side.cloud.tagged.of("other")


def test_tag_search_lags_and_list_tags_does_not(side: Side) -> None:
    hosting, own = side.cloud.hosting, dict(TAGS)
    side.advance(ROLES + 1)
    hosting.create_model("tagged", side.model, TAGS)
    assert not side.tagged("tagged")
    side.advance(TAGGED + 1)
    assert side.tagged("tagged")
    model = hosting.model("tagged")
    assert model is not None
    hosting.tag(model.arn, (("team", "red"),))
    assert dict(hosting.tags(model.arn)) == {**own, "team": "red"}
    assert [dict(r.tags) for r in side.cloud.tagged.of("chat") if r.name == "tagged"] == [own]
    hosting.delete_model("tagged")
    side.advance(TAGGED - 1)
    assert hosting.model("tagged") is None
    assert side.tagged("tagged")
    side.advance(2)
    assert not side.tagged("tagged")
