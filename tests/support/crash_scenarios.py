"""Situations that between them hold every action of target sagemaker, each with a command that is to end early."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmi_deploy.domain.recipe import Pairs
from lmi_deploy.domain.record import KEPT_GENERATIONS, Record
from lmi_deploy.domain.sagemaker.settings import TAG_EXPIRES
from lmi_deploy.ports.cloud import Depot
from tests.support.action_failures import Killed, TroubledTarget
from tests.support.cloud_app import RECIPE, CloudHouse, write_recipe
from tests.support.crash_injection import Blow, Fate, FatedCloud
from tests.support.fake_hosting import NO_CAPACITY
from tests.support.local_app import Ran

CHANGED = RECIPE + "options: {dtype: fp32}\n"
SCALED = RECIPE + "endpoint: {autoscaling: {min: 1, max: 3, invocations_per_instance: 50}}\n"
BY_JOB = RECIPE + "weights: {via: job}\n"
UP, DOWN = ("up", "--yes"), ("down", "tiny", "--yes")
LOCK = "deployments/tiny/lock.json"
STAYS = ("weights/", "manifests/")
Photo = tuple[Any, Mapping[Path, bytes]]


@dataclass
class CrashHouse(CloudHouse):
    """Its account, its clock and what this machine remembers can be put back to how they were."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cloud: FatedCloud = FatedCloud(self.clock)
        self.cloud.jobs.work = self.carry

    def struck(self, blow: Blow | None, *argv: str) -> Ran | None:
        """A command that meets its fate; None where it died. What it did is in `house.cloud.fate` until the next."""
        fate = self.cloud.fate = Fate(blow, suspended=self._taken_over)
        self.target = lambda target: TroubledTarget(target, fate)
        try:
            return self.lmi(*argv)
        except Killed:
            return None
        finally:
            self._bury()
            self.target = lambda target: target
            self.told, self.cloud.fate = fate, Fate()

    def photograph(self) -> Photo:
        remembered = {path: path.read_bytes() for path in (self.root / "state").rglob("*") if path.is_file()}
        return copy.deepcopy((self.cloud, self.clock)), remembered

    def restore(self, photo: Photo) -> None:
        (self.cloud, self.clock), remembered = copy.deepcopy(photo[0]), photo[1]
        self.cloud.jobs.work = self.carry
        for path in (self.root / "state").rglob("*.json"):
            path.unlink()
        for path, content in remembered.items():
            place = self.root / path.relative_to(
                path.parents[len(path.parts) - 1 - path.parts.index("state")]
            )
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)

    def standing(self) -> dict[str, Any]:
        """All that there is of the deployment, without the times of day."""
        world, record = self.cloud.world, self.plain_record()
        return {
            "endpoints": {
                name: (e.seen.status, e.seen.config, e.seen.wanted_count)
                for name, e in world.endpoints.items()
            },
            "configs": sorted(world.configs),
            "models": sorted(world.models),
            "tags": {arn: _timeless(tags) for arn, tags in world.tags.items() if "processing-job" not in arn},
            "scaling": dict(self.cloud.scalers.kept),
            "jobs": self.jobs_at_work(),
            # A lock that a dead process left is nobody's, and what a job was handed goes with the deployment.
            "objects": [
                key for key in self.objects() if not key.startswith("jobs/") and "lock.json" not in key
            ],
            "generations": [(g.server, g.artifact, g.spec) for g in record.generations] if record else [],
            "coming": record.coming if record else None,
        }

    def plain_record(self) -> Record | None:
        there = self.bucket in self.cloud.stores
        return self.cloud.plainly(self.bucket).records.read("tiny") if there else None

    def objects(self) -> list[str]:
        return [key for store in self.cloud.stores.values() for key in sorted(store.objects)]

    def jobs_at_work(self) -> list[str]:
        jobs = self.cloud.jobs
        return [name for name in jobs.started if name not in jobs.ended]

    def left(self) -> list[str]:
        """What a `down` should not have left, weights aside."""
        state, objects = self.standing(), [key for key in self.objects() if not key.startswith(STAYS)]
        things = [*state["endpoints"], *state["configs"], *state["models"], *state["tags"], *state["jobs"]]
        return [*things, *self.cloud.scalers.kept, *objects, *self.lmi("ls").out.split()]

    def depot_of_a_job(self) -> Depot:
        """Nobody's crash ends what its instances do."""
        return self.cloud.plainly(self.bucket)

    def _taken_over(self) -> None:
        """Another process, of another machine, takes the lock after its time; what had been written by then is kept."""
        self.clock.sleep(97)
        self.written = len(self.cloud.fate.writes)
        store = self.cloud.stores[self.bucket]
        holder = json.loads(store.objects[LOCK])
        theirs = {
            **holder,
            "id": "theirs",
            "command": "lmi down",
            "host": "elsewhere",
            "machine": "elsewhere",
        }
        store.put(LOCK, json.dumps(theirs).encode())

    def _bury(self) -> None:
        """The process has ended, for all to see: its number belongs to another one."""
        for store in self.cloud.stores.values():
            for key in [key for key in store.objects if key.endswith("/lock.json")]:
                holder = json.loads(store.objects[key])
                store.put(key, json.dumps({**holder, "started": "somebody else"}).encode())


@dataclass(frozen=True)
class Scenario:
    """`before` prepares the world; `recipe` is what is wanted from then on, `command` what ends early."""

    recipe: str
    command: tuple[str, ...] = UP
    before: Callable[[CrashHouse], None] = lambda house: None


@dataclass
class Ups:
    """One `up` a recipe."""

    recipes: tuple[str, ...]
    then: Callable[[CrashHouse], None] = field(default=lambda house: None)

    def __call__(self, house: CrashHouse) -> None:
        for recipe in self.recipes:
            write_recipe(recipe)
            house.up()
        self.then(house)


def _timeless(tags: Pairs) -> Pairs:
    return tuple((key, "a time" if key == TAG_EXPIRES else value) for key, value in tags)


def _without_first_choice(house: CrashHouse) -> None:
    house.cloud.world.trouble.reasons["ml.g5.xlarge"] = NO_CAPACITY


def _failed(house: CrashHouse) -> None:
    reasons = house.cloud.world.trouble.reasons
    reasons |= dict.fromkeys(
        ("ml.g5.xlarge", "ml.g6.xlarge"), "The container did not pass the ping health check."
    )
    assert house.lmi(*UP).code == 1
    reasons.clear()


def _job_at_work(house: CrashHouse) -> None:
    write_recipe(BY_JOB)
    house.cloud.jobs.seconds = 1e9
    assert house.lmi(*UP).code == 1
    assert house.jobs_at_work()


def _has_printed(house: CrashHouse) -> None:
    house.cloud.world.prints["tiny"] = ("a line",)


SCENARIOS: dict[str, Scenario] = {
    "first up": Scenario(RECIPE),
    "first up, by a job": Scenario(BY_JOB),
    "first up, next instance type": Scenario(RECIPE, before=_without_first_choice),
    "changed recipe": Scenario(CHANGED, before=Ups((RECIPE,))),
    "other count": Scenario(RECIPE + "endpoint: {count: 2}\n", before=Ups((RECIPE,))),
    "scaling on": Scenario(SCALED, before=Ups((RECIPE,))),
    "scaling off": Scenario(RECIPE, before=Ups((SCALED,))),
    "scaled, other instance type": Scenario(
        SCALED.replace("[ml.g5.xlarge, ml.g6.xlarge]", "ml.g6.xlarge"), before=Ups((SCALED,))
    ),
    "tags changed": Scenario(
        RECIPE + "endpoint: {tags: {team: blue}}\n",
        before=Ups((RECIPE + "endpoint: {tags: {shift: night}}\n",)),
    ),
    "ttl changed": Scenario(RECIPE + "ttl: 8h\n", before=Ups((RECIPE + "ttl: 1h\n",))),
    "failed endpoint": Scenario(RECIPE, before=_failed),
    "one generation too many": Scenario(
        CHANGED,
        before=Ups(
            tuple(RECIPE + f"options: {{max_new_tokens: {n + 1}}}\n" for n in range(KEPT_GENERATIONS))
        ),
    ),
    "rollback": Scenario(CHANGED, ("rollback", "tiny", "--yes"), Ups((RECIPE, CHANGED))),
    "rollback to what was not scaled": Scenario(
        SCALED, ("rollback", "tiny", "--yes"), Ups((RECIPE + "options: {dtype: fp32}\n", SCALED))
    ),
    "rollback to what was scaled": Scenario(
        RECIPE, ("rollback", "tiny", "--yes"), Ups((SCALED + "options: {dtype: fp32}\n", RECIPE))
    ),
    "down": Scenario(CHANGED, DOWN, Ups((CHANGED,))),
    "down, scaled, logs and weights too": Scenario(
        SCALED, (*DOWN, "--purge", "--logs"), Ups((SCALED,), _has_printed)
    ),
    "down while a job is at work": Scenario(BY_JOB, DOWN, _job_at_work),
}


def prepared(house: CrashHouse, scenario: Scenario, *, lagging: bool = False) -> None:
    """With `lagging` the tag search is a quarter of an hour behind, and reads and the role a third of a minute."""
    if lagging:
        world = house.cloud.world
        world.tag_lag, world.read_lag, world.role_lag = 900.0, 20.0, 20.0
    write_recipe(scenario.recipe)
    scenario.before(house)
    write_recipe(scenario.recipe)


def steps(house: CrashHouse, scenario: Scenario) -> Fate:
    """What the command does when nothing happens to it."""
    ran = house.struck(None, *scenario.command)
    assert ran is not None
    assert ran.code == 0, ran.err
    return house.told


def converged(house: CrashHouse) -> dict[str, Any]:
    """One more `up`, after which there is nothing to do: what stands then."""
    house.cloud.jobs.seconds = 600.0
    house.up()
    assert house.lmi("status", "tiny").code == 0
    assert house.lmi("plan", "--exit-code").code == 0
    return house.standing()


def ended(house: CrashHouse, command: tuple[str, ...]) -> None:
    ran = house.lmi(*command)
    assert ran.code == 0, ran.err
    assert house.left() == []
