"""In an account full of other people's resources, whatever is done to ours, nothing foreign is ever touched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from lmi_deploy.domain.recipe import Pairs
from lmi_deploy.domain.sagemaker.settings import (
    TAG,
    EndpointConfigSettings,
    ModelSettings,
    Scaling,
    SeenEndpoint,
    SeenEndpointConfig,
    SeenModel,
    is_resource_name,
)
from tests.support.cloud_app import RECIPE, CloudHouse, write_recipe
from tests.support.fake_cloud import LOGS
from tests.support.fake_hosting import Endpoint
from tests.support.fake_store import FakeStore

NEAR = ("tiny2", "tiny-2", "tin", "tiny-prod", "atiny", "tiny-00112233aa-x", "other")
"""Names of other deployments, which begin or end as ours does."""
NAMES = (*NEAR, *(f"{name}-0011223344" for name in ("tiny", *NEAR)), "tiny-ffffffffff", "TINY-ffffffffff")
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


class Crowd:
    """Everything of others, made at random."""

    def __init__(self, house: CloudHouse, chance: Random) -> None:
        self.house, self.chance = house, chance
        self.living = chance.sample(NEAR, 2)
        self.names = {*self.living, *chance.sample(NAMES, 10)}
        for name in sorted(self.names):
            self._resources(name)
        for bucket in ("somebodys-models", house.bucket):
            house.cloud.account.buckets[bucket] = "111122223333/us-east-1"
            for key in chance.sample(KEYS, 12):
                self._opened(bucket).put(key, chance.randbytes(20))
        self.objects = {
            (bucket, stored.key, stored.etag)
            for bucket in self._stores
            for stored in self._stores[bucket].list("")
        }

    @property
    def _stores(self) -> dict[str, FakeStore]:
        return self.house.cloud.stores

    def _opened(self, bucket: str) -> FakeStore:
        self.house.cloud.opened(bucket)
        return self._stores[bucket]

    def _tags(self, name: str) -> Pairs:
        """None, somebody's own, another deployment's, ours on a name of another form, or ones that look like ours."""
        if name in self.living:
            return ((TAG, name),)
        # In ARNs, which is what a tag search tells, SageMaker writes names in lower case.
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
        world, tags = self.house.cloud.world, self._tags(name)
        model = ModelSettings(role="r", image="i", environment=(), artifact="s3://somebodys-models/x/")
        now = world.clock.now().isoformat()
        if self.chance.random() < 0.8:
            world.models[name] = SeenModel(name=name, arn=world.arn("model", name), settings=model)
            world.tagged("model", name, tags)
        if self.chance.random() < 0.8:
            arn = world.arn("endpoint-config", name)
            world.configs[name] = SeenEndpointConfig(name=name, arn=arn, settings=SETTINGS, created=now)
            world.tagged("endpoint-config", name, tags)
        if name in self.living or (self.chance.random() < 0.8 and "-00112233" not in name):
            status = self.chance.choice(("InService", "Failed", "Updating", "Deleting", "Creating"))
            arn = world.arn("endpoint", name)
            world.endpoints[name] = Endpoint(
                SeenEndpoint(name=name, arn=arn, status=status, config=name, created=now, modified=now)
            )
            world.tagged("endpoint", name, tags)
            self.house.cloud.scalers.kept[name] = Scaling(least=1, most=2, invocations=5)
        self.house.cloud.logs.groups[f"{LOGS}{name}"] = ("a line of theirs",)

    def state(self) -> object:
        """All of theirs, as it is now."""
        cloud, world = self.house.cloud, self.house.cloud.world
        arns = {
            world.arn(kind, name) for name in self.names for kind in ("endpoint", "endpoint-config", "model")
        }  # type: ignore[arg-type]
        return deepcopy(
            (
                {name: world.endpoints.get(name) for name in sorted(self.names)},
                {name: world.configs.get(name) for name in sorted(self.names)},
                {name: world.models.get(name) for name in sorted(self.names)},
                {arn: tags for arn, tags in world.tags.items() if arn in arns},
                {name: cloud.scalers.kept.get(name) for name in sorted(self.names)},
                {name: cloud.logs.groups.get(f"{LOGS}{name}") for name in sorted(self.names)},
                {
                    (bucket, key, etag)
                    for bucket, key, etag in self.objects
                    if self._is_there(bucket, key, etag)
                },
                dict(cloud.account.buckets),
            )
        )

    def lost(self) -> list[str]:
        """Objects of theirs that are gone, or are other ones now."""
        return sorted(
            f"{bucket}/{key}" for bucket, key, etag in self.objects if not self._is_there(bucket, key, etag)
        )

    def _is_there(self, bucket: str, key: str, etag: str) -> bool:
        found = self._stores[bucket].look(key)
        return found is not None and found.etag == etag


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudHouse]:
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        monkeypatch.chdir(folder)
        write_recipe()
        Path("scaled.yaml").write_text(
            RECIPE + "endpoint: {autoscaling: {min: 1, max: 3, invocations_per_instance: 50}}\n"
        )
        yield CloudHouse(Path(folder))


@pytest.mark.parametrize("seed", range(int(os.environ.get("LMI_STRANGERS", "40"))))
def test_nothing_of_others_is_touched(crowded: CloudHouse, seed: int) -> None:
    chance = Random(seed)
    crowd = Crowd(crowded, chance)
    before = crowd.state()
    done = [
        ("up", "tiny.yaml", "--yes"),
        *chance.choices(COMMANDS, k=6),
        ("down", "tiny", "--yes", "--purge", "--logs"),
    ]
    for command in done:
        ran = crowded.lmi(*command)
        assert crowd.lost() == [], (command, ran.err)
        assert crowd.state() == before, (command, ran.err)
        assert ran.code in (0, 1, 4, 5), (command, ran.err)
    assert ran.code == 0, ran.err
    assert not [name for name in crowded.cloud.world.endpoints if name == "tiny"]


@pytest.mark.parametrize("tags", [(), ((TAG, "tiny2"),), (("team", "blue"),)])
@pytest.mark.parametrize("command", COMMANDS)
def test_an_endpoint_of_our_name_that_is_not_ours(
    crowded: CloudHouse, tags: Pairs, command: tuple[str, ...]
) -> None:
    world, now = crowded.cloud.world, crowded.clock.now().isoformat()
    arn = world.arn("endpoint", "tiny")
    seen = SeenEndpoint(name="tiny", arn=arn, status="InService", config="c", created=now, modified=now)
    world.endpoints["tiny"] = Endpoint(seen)
    world.configs["c"] = SeenEndpointConfig(
        name="c", arn=world.arn("endpoint-config", "c"), settings=SETTINGS, created=now
    )
    world.tagged("endpoint", "tiny", tags)
    ran = crowded.lmi(*command)
    assert world.endpoints["tiny"].seen == seen
    assert world.tags[arn] == tags
    if command[0] in ("up", "rollback", "down"):
        assert ran.code == 5, ran.err


def test_what_carries_our_tag_on_another_name_is_left_alone_and_named(house: CloudHouse) -> None:
    """Somebody copied our tags to a model of theirs: neither `down` nor `gc` deletes it."""
    house.up()
    world = house.cloud.world
    settings = ModelSettings(role="r", image="i", environment=(), artifact="s3://somebodys-models/x/")
    world.models["theirs"] = SeenModel(name="theirs", arn=world.arn("model", "theirs"), settings=settings)
    world.tagged("model", "theirs", ((TAG, "tiny"),))
    ended = house.lmi("down", "tiny", "--yes")
    assert ended.code == 0
    assert (
        "model theirs: it carries the tag lmi:deployment of tiny, but not a name that lmi gives" in ended.err
    )
    assert house.lmi("gc", "--yes").code == 0
    assert list(world.models) == ["theirs"]
    assert "tiny" not in house.lmi("ls", "--all").out
