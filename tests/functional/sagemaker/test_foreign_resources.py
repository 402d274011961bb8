"""In an account full of foreign resources, no command changes any of them."""

from __future__ import annotations

import os
from copy import deepcopy
from pathlib import Path
from random import Random

import pytest

from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.resource_names import is_resource_name
from lmi_deploy.domain.sagemaker.resource_settings import (
    TAG,
    EndpointConfigSettings,
    ModelSettings,
    ObservedEndpoint,
    ObservedEndpointConfig,
    ObservedModel,
)
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from tests.support.cloud_app import RECIPE, CloudApp
from tests.support.fake_cloud import LOGS
from tests.support.fake_hosting import Endpoint
from tests.support.fake_store import FakeStore

SIMILAR_NAMES = ("tiny2", "tiny-2", "tin", "tiny-prod", "atiny", "tiny-00112233aa-x", "other")
"""Names of other deployments that start or end like ours."""
NAMES = (
    *SIMILAR_NAMES,
    *(f"{name}-0011223344" for name in ("tiny", *SIMILAR_NAMES)),
    "tiny-ffffffffff",
    "TINY-ffffffffff",
)
KEYS = (
    *("artifacts/tiny2/0011/serving.properties", "artifacts/tiny-2/x/y", "artifacts/tin", "artifacts/tinyx"),
    *("deployments/tiny2/notes", "deployments/tiny-2/lock.json", "deployments/tin/notes"),
    *("weights/resnet/2019/model.pt", "weights/notes", "manifest"),
    *("jobs/tiny-2-0011223344/in/order.json", "jobs/tiny2-0011223344/lmi/x", "jobs/tin-0011223344/y"),
    *("tiny", "artifacts", "somebody/else/artifacts/tiny/x", "weights-of-mine/a"),
)
SETTINGS = EndpointConfigSettings(model="m", instance="ml.g5.xlarge", count=1, model_download=60, startup=60)
COMMANDS = (
    ("up", "tiny.yaml", "--yes"),
    ("up", "tiny.yaml", "--yes", "--set", "options.dtype=fp32"),
    ("up", "tiny.yaml", "--yes", "--set", "endpoint.count=2"),
    ("up", "scaled.yaml", "--yes"),
    ("up", "tiny.yaml", "--yes", "--set", "weights.deliver=artifact"),
    ("rollback", "tiny", "--yes"),
    ("gc", "--yes"),
    ("down", "tiny", "--yes", "--purge", "--logs"),
    ("down", "tiny", "--yes"),
    ("ls", "--all"),
    ("status", "tiny"),
)


class ForeignResources:
    """Foreign resources, created at random."""

    def __init__(self, app: CloudApp, chance: Random) -> None:
        self.app, self.chance = app, chance
        self.living = chance.sample(SIMILAR_NAMES, 2)
        self.names = {*self.living, *chance.sample(NAMES, 10)}
        for name in sorted(self.names):
            self._resources(name)
        for bucket in ("somebodys-models", app.bucket):
            app.cloud.account.buckets[bucket] = "111122223333/us-east-1"
            for key in chance.sample(KEYS, 12):
                self._opened(bucket).put(key, chance.randbytes(20))
        self.objects = {
            (bucket, stored.key, stored.etag)
            for bucket in self._stores
            for stored in self._stores[bucket].list("")
        }

    @property
    def _stores(self) -> dict[str, FakeStore]:
        return self.app.cloud.stores

    def _opened(self, bucket: str) -> FakeStore:
        self.app.cloud.opened(bucket)
        return self._stores[bucket]

    def _tags(self, name: str) -> Pairs:
        """None, foreign tags, another deployment's, ours on a name of another form, or tags that resemble
        ours."""
        if name in self.living:
            return ((TAG, name),)
        # In ARNs, which the tag search returns, SageMaker writes names in lower case.
        copied = () if is_resource_name("model", name.lower(), "tiny") else (((TAG, "tiny"),),)
        return self.chance.choice(
            (
                *copied,
                (),
                (("team", "blue"),),
                ((TAG, self.chance.choice(self.living)),),
                (("Name", "tiny"), ("lmi-deployment", "tiny")),
            )
        )

    def _resources(self, name: str) -> None:
        account, tags = self.app.cloud.account_state, self._tags(name)
        model = ModelSettings(role="r", image="i", environment=(), artifact="s3://somebodys-models/x/")
        now = account.clock.now().isoformat()
        if self.chance.random() < 0.8:
            account.models[name] = ObservedModel(name=name, arn=account.arn("model", name), settings=model)
            account.tagged("model", name, tags)
        if self.chance.random() < 0.8:
            arn = account.arn("endpoint-config", name)
            account.configs[name] = ObservedEndpointConfig(name=name, arn=arn, settings=SETTINGS, created=now)
            account.tagged("endpoint-config", name, tags)
        if name in self.living or (self.chance.random() < 0.8 and "-00112233" not in name):
            status = self.chance.choice(("InService", "Failed", "Updating", "Deleting", "Creating"))
            arn = account.arn("endpoint", name)
            account.endpoints[name] = Endpoint(
                ObservedEndpoint(name=name, arn=arn, status=status, config=name, created=now, modified=now)
            )
            account.tagged("endpoint", name, tags)
            self.app.cloud.scalers.targets[name] = Scaling(least=1, most=2, invocations=5)
        self.app.cloud.logs.groups[f"{LOGS}{name}"] = ("a line of theirs",)

    def state(self) -> object:
        """All foreign resources as they are now."""
        cloud, account = self.app.cloud, self.app.cloud.account_state
        arns = {
            account.arn(kind, name)
            for name in self.names
            for kind in ("endpoint", "endpoint-config", "model")
        }  # type: ignore[arg-type]
        return deepcopy(
            (
                {name: account.endpoints.get(name) for name in sorted(self.names)},
                {name: account.configs.get(name) for name in sorted(self.names)},
                {name: account.models.get(name) for name in sorted(self.names)},
                {arn: tags for arn, tags in account.tags.items() if arn in arns},
                {name: cloud.scalers.targets.get(name) for name in sorted(self.names)},
                {name: cloud.logs.groups.get(f"{LOGS}{name}") for name in sorted(self.names)},
                {
                    (bucket, key, etag)
                    for bucket, key, etag in self.objects
                    if self._exists(bucket, key, etag)
                },
                dict(cloud.account.buckets),
            )
        )

    def missing(self) -> list[str]:
        """Foreign objects that are gone or changed."""
        return sorted(
            f"{bucket}/{key}" for bucket, key, etag in self.objects if not self._exists(bucket, key, etag)
        )

    def _exists(self, bucket: str, key: str, etag: str) -> bool:
        found = self._stores[bucket].head(key)
        return found is not None and found.etag == etag


@pytest.fixture
def crowded(app: CloudApp) -> CloudApp:
    Path("scaled.yaml").write_text(
        RECIPE + "endpoint: {autoscaling: {min: 1, max: 3, invocations_per_instance: 50}}\n"
    )
    return app


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=() if seed < 10 else pytest.mark.long)
        for seed in range(int(os.environ.get("LMI_STRANGERS", "40")))
    ],
)
def test_resources_of_others_are_never_changed(crowded: CloudApp, seed: int) -> None:
    chance = Random(seed)
    deployments = ForeignResources(crowded, chance)
    before = deployments.state()
    done = [
        ("up", "tiny.yaml", "--yes"),
        *chance.choices(COMMANDS, k=6),
        ("down", "tiny", "--yes", "--purge", "--logs"),
    ]
    for command in done:
        result = crowded.lmi(*command)
        assert deployments.missing() == [], (command, result.err)
        assert deployments.state() == before, (command, result.err)
        assert result.code in (0, 1, 4, 5), (command, result.err)
    assert result.code == 0, result.err
    assert not [name for name in crowded.cloud.account_state.endpoints if name == "tiny"]


@pytest.mark.parametrize("tags", [(), ((TAG, "tiny2"),), (("team", "blue"),)])
@pytest.mark.parametrize("command", COMMANDS)
def test_foreign_endpoint_of_the_same_name_is_left_unchanged(
    crowded: CloudApp, tags: Pairs, command: tuple[str, ...]
) -> None:
    account, now = crowded.cloud.account_state, crowded.clock.now().isoformat()
    arn = account.arn("endpoint", "tiny")
    observed = ObservedEndpoint(
        name="tiny", arn=arn, status="InService", config="c", created=now, modified=now
    )
    account.endpoints["tiny"] = Endpoint(observed)
    account.configs["c"] = ObservedEndpointConfig(
        name="c", arn=account.arn("endpoint-config", "c"), settings=SETTINGS, created=now
    )
    account.tagged("endpoint", "tiny", tags)
    result = crowded.lmi(*command)
    assert account.endpoints["tiny"].observed == observed
    assert account.tags[arn] == tags
    if command[0] in ("up", "rollback", "down"):
        assert result.code == 5, result.err


def test_resources_with_our_tag_but_another_name_are_left_alone_and_listed(app: CloudApp) -> None:
    """A user copied our tags to their own model: neither `down` nor `gc` deletes it."""
    app.up()
    account = app.cloud.account_state
    settings = ModelSettings(role="r", image="i", environment=(), artifact="s3://somebodys-models/x/")
    account.models["theirs"] = ObservedModel(
        name="theirs", arn=account.arn("model", "theirs"), settings=settings
    )
    account.tagged("model", "theirs", ((TAG, "tiny"),))
    ended = app.lmi("down", "tiny", "--yes")
    assert ended.code == 0
    assert "model theirs: it has the tag lmi:deployment of tiny, but not a name that lmi gives" in ended.err
    assert app.lmi("gc", "--yes").code == 0
    assert list(account.models) == ["theirs"]
    assert "tiny" not in app.lmi("ls", "--all").out


def test_model_of_the_planned_name_and_settings_is_not_taken_over(app: CloudApp) -> None:
    account = app.cloud.account_state
    app.up()
    ((name, model),) = account.models.items()
    assert app.lmi("down", "tiny", "--yes").code == 0
    account.models[name] = model
    result = app.lmi("up", "--yes")
    assert (result.code, f"{name}: a model of that name exists and was not created by lmi" in result.err) == (
        5,
        True,
    ), result.err
