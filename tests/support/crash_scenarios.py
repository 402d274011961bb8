"""Situations that together contain every action of target sagemaker, each with a command to interrupt."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmi_deploy.domain.inference_http import HttpRequest, ResponseHead
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.record import KEPT_GENERATIONS, Record
from lmi_deploy.domain.sagemaker.foreign_endpoint import ForeignScaling
from lmi_deploy.domain.sagemaker.resource_settings import (
    TAG_DASHBOARD,
    TAG_EXPIRES,
    EndpointConfigSettings,
    ModelSettings,
)
from lmi_deploy.domain.sagemaker.transfer_job import COMPILE_JOB
from lmi_deploy.ports.cloud import BucketServices
from tests.support.action_failures import Killed, failing, failing_compiler
from tests.support.adapters import SHAPE, adapter_files
from tests.support.cloud_app import RECIPE, CloudApp, write_recipe
from tests.support.crash_injection import Crash, CrashingCloud, CrashInjector
from tests.support.fake_hosting import NO_CAPACITY, ok_response
from tests.support.fakes import model_files
from tests.support.local_app import MODEL, Ran, folder_in_memory

CHANGED = RECIPE + "options: {dtype: fp32}\n"
SCALED = RECIPE + "endpoint: {autoscaling: {min: 1, max: 3, invocations_per_instance: 50}}\n"
STEPPED = RECIPE + (
    "endpoint: {autoscaling: {min: 1, max: 3, steps: {queue: {namespace: Chat, metric: Queue, threshold: 20, "
    "adjustments: {0: '+1'}}}, scheduled: {day: {schedule: cron(0 8 ? * * *), min: 2}}}}\n"
)
POOLED = SCALED.replace("endpoint: {", "endpoint: {instance_pools: {}, ")
SCHEDULED = RECIPE + "ttl: 8h\nendpoint: {scheduler_role: lmi-scheduler}\n"
TOPIC = "arn:aws:sns:us-east-1:123456789012:on-call"
WATCHED = RECIPE + f"endpoint: {{alarms: {{topic: '{TOPIC}'}}}}\n"
ASYNC = RECIPE + "endpoint: {asynchronous: {}}\n"
SHARED = (
    RECIPE.replace("[ml.g5.xlarge, ml.g6.xlarge]", "ml.g5.12xlarge\ntensor_parallel_degree: 1")
    + "endpoint: {share: team}\n"
)
WITH_ADAPTERS = """\
name: tiny
model_id: org/base
engine: vllm
instance_type: ml.g5.12xlarge
tensor_parallel_degree: 1
adapters: {french: org/french, english: org/english}
endpoint: {share: team}
"""
OTHER_ADAPTERS = WITH_ADAPTERS.replace(
    "french: org/french, english: org/english", "french: org/english, danish: org/danish"
)
SHARED_CHANGED = SHARED + "options: {dtype: fp32}\n"
TRIED = RECIPE.replace("[ml.g5.xlarge, ml.g6.xlarge]", "ml.g5.xlarge") + (
    "endpoint: {candidate: {set: {options.dtype: fp32}, traffic_percent: 10}}\n"
)
SHARED_SCALED = SHARED.replace(
    "share: team",
    "share: team, instance_scaling: {min: 0, max: 2}, "
    "autoscaling: {min: 0, max: 3, concurrent_requests_per_model: 8}",
)
BY_JOB = RECIPE + "weights: {via: job}\n"
ADAPTED = """\
name: tiny
model_id: org/base
engine: vllm
instance_type: ml.g5.xlarge
adapters: {french: org/french}
options: {speculative_config: '{"model": "org/draft", "num_speculative_tokens": 3}'}
"""
COMPILED = RECIPE + "compile: {script: compile.py, instance_type: ml.m5.4xlarge}\n"
BUILT = RECIPE + "container: {build: ./image}\n"
BUILT_AND_SCALED = SCALED + "container: {build: ./image}\n"
UP, DOWN, ADOPT = ("up", "--yes"), ("down", "tiny", "--yes"), ("adopt", "tiny", "--take", "--yes")
LOCK = "deployments/tiny/lock.json"
STAYS = ("weights/", "manifests/", f"jobs/{COMPILE_JOB}")
"""A compile job that ended before it was stopped leaves its result for the next `lmi compile`, or for `lmi gc`."""
Snapshot = tuple[Any, Mapping[Path, bytes]]


@dataclass
class CrashApp(CloudApp):
    """Its account, its clock and its local index can be reset to an earlier state."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cloud: CrashingCloud = CrashingCloud(self.clock)
        self._employ()
        self.write_image()
        self.hub.models |= {
            "org/base": model_files(**SHAPE),
            "org/draft": model_files(**SHAPE),
            "org/french": adapter_files(),
            "org/english": adapter_files(rank=8),
            "org/danish": adapter_files(rank=16),
        }

    def write_image(self, text: str = "") -> None:
        """The folder of `container.build`."""
        (self.root / "image").mkdir(exist_ok=True)
        (self.root / "image" / "Dockerfile").write_text(f"FROM scratch\n{text}")

    def crashed(self, crash: Crash | None, *argv: str) -> Ran | None:
        """Runs a command with a crash; None if it died. What it did is in `app.cloud.injector` until the
        next."""
        injector = self.cloud.injector = CrashInjector(crash, suspended=self._taken_over)
        self.target = lambda target: failing(target, injector)
        self.compiler = lambda compiler: failing_compiler(compiler, injector)
        try:
            return self.lmi(*argv)
        except Killed:
            return None
        finally:
            self._mark_process_as_ended()
            self.target, self.compiler = (lambda target: target), (lambda compiler: compiler)
            self.story, self.cloud.injector = injector, CrashInjector()

    def snapshot(self) -> Snapshot:
        remembered = {path: path.read_bytes() for path in (self.root / "state").rglob("*") if path.is_file()}
        return copy.deepcopy((self.cloud, self.clock)), remembered

    def restore(self, state: Snapshot) -> None:
        (self.cloud, self.clock), remembered = copy.deepcopy(state[0]), state[1]
        self._employ()
        for path in (self.root / "state").rglob("*.json"):
            path.unlink()
        for path, content in remembered.items():
            place = self.root / path.relative_to(
                path.parents[len(path.parts) - 1 - path.parts.index("state")]
            )
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)

    def remaining(self) -> dict[str, Any]:
        """All resources of the deployment, without times."""
        account, record = self.cloud.account_state, self.plain_record()
        return {
            "endpoints": {
                name: (
                    e.observed.status,
                    e.observed.config,
                    e.observed.desired_count,
                    e.observed.candidate,
                )
                for name, e in account.endpoints.items()
            },
            "components": {
                name: (c.observed.status, c.observed.settings, c.observed.artifact)
                for name, c in account.components.items()
            },
            "configs": sorted(account.configs),
            "models": sorted(account.models),
            "tags": {arn: _timeless(tags) for arn, tags in account.tags.items() if "-job/" not in arn},
            "scaling": dict(self.cloud.scalers.targets),
            "copies": dict(self.cloud.scalers.components),
            "foreign scaling": sorted(account.scaled),
            "alarms": {name: found.settings for name, found in self.cloud.alarms.found.items()},
            "schedules": {name: schedule.role for name, schedule in self.cloud.schedules.found.items()},
            "images": {name: sorted(images) for name, images in self.cloud.images.images.items()},
            "jobs": [job for job in self.jobs_at_work() if not job.startswith(COMPILE_JOB)],
            # A lock of a dead process has no owner; the files of a job, and a probe that was cut off, are deleted
            # with the deployment.
            "objects": [
                key
                for key in self.objects()
                if not key.startswith(("jobs/", "async/")) and "lock.json" not in key
            ],
            "generations": [(g.server, g.artifact, g.spec) for g in record.generations] if record else [],
            "coming": record.coming if record else None,
        }

    def plain_record(self) -> Record | None:
        exists = self.bucket in self.cloud.stores
        return self.cloud.without_crashes(self.bucket).records.read("tiny") if exists else None

    def objects(self) -> list[str]:
        return [key for store in self.cloud.stores.values() for key in sorted(store.objects)]

    def jobs_at_work(self) -> list[str]:
        jobs = self.cloud.jobs
        return [name for name in jobs.started if name not in jobs.ended]

    def left(self) -> list[str]:
        """What a `down` should have deleted, without the weights."""
        state, objects = self.remaining(), [key for key in self.objects() if not key.startswith(STAYS)]
        things = [
            *state["endpoints"],
            *state["components"],
            *state["configs"],
            *state["models"],
            *state["tags"],
            *self.jobs_at_work(),
        ]
        things += [
            *self.cloud.scalers.targets,
            *self.cloud.scalers.components,
            *self.cloud.account_state.scaled,
            *self.cloud.schedules.found,
            *self.cloud.dashboards.found,
            *self.cloud.alarms.found,
        ]
        return [*things, *objects, *self.lmi("ls").out.split()]

    def _employ(self) -> None:
        self.cloud.jobs.work = self.run_job
        self.cloud.jobs.look = self.run_load_machines
        self.cloud.optimizations.work = self.run_optimization

    def depot_of_a_job(self) -> BucketServices:
        """The instances of a job are not ended by the crash."""
        return self.cloud.without_crashes(self.bucket)

    def _taken_over(self) -> None:
        """Another process, on another machine, takes the lock over after it expires; the writes until then
        are kept."""
        self.clock.sleep(97)
        self.written = len(self.cloud.injector.writes)
        store = self.cloud.stores[self.bucket]
        owner = json.loads(store.objects[LOCK])
        expected = {
            **owner,
            "id": "theirs",
            "command": "lmi down",
            "host": "elsewhere",
            "machine": "elsewhere",
        }
        store.put(LOCK, json.dumps(expected).encode())

    def _mark_process_as_ended(self) -> None:
        """The process counts as ended: its pid belongs to another one."""
        for store in self.cloud.stores.values():
            for key in [key for key in store.objects if key.endswith("/lock.json")]:
                owner = json.loads(store.objects[key])
                store.put(key, json.dumps({**owner, "started": "somebody else"}).encode())


@contextmanager
def crash_app() -> Iterator[CrashApp]:
    """In a folder of its own, which is the current one until then."""
    with folder_in_memory() as folder, chdir(folder):
        yield CrashApp(Path(folder))


@dataclass(frozen=True)
class Scenario:
    """`before` prepares the state; `recipe` is the desired one from then on, `command` is interrupted. Undisturbed, it
    ends with `code`.
    """

    recipe: str
    command: tuple[str, ...] = UP
    before: Callable[[CrashApp], None] = lambda app: None
    code: int = 0
    repeated: bool = False
    """Whether the command is run again after a crash, before anything else: until it is complete, the endpoint is not
    lmi's.
    """


@dataclass
class Ups:
    """One `up` per recipe."""

    recipes: tuple[str, ...]
    then: Callable[[CrashApp], None] = field(default=lambda app: None)
    first: Callable[[CrashApp], None] = field(default=lambda app: None)

    def __call__(self, app: CrashApp) -> None:
        self.first(app)
        for recipe in self.recipes:
            write_recipe(recipe)
            app.up()
        self.then(app)


def _timeless(tags: Pairs) -> Pairs:
    """And without what the recipe does not say: a dashboard that `down` was about to delete."""
    return tuple(
        (key, "a time" if key == TAG_EXPIRES else value) for key, value in tags if key != TAG_DASHBOARD
    )


def _without_first_choice(app: CrashApp) -> None:
    app.cloud.account_state.failures.reasons["ml.g5.xlarge"] = NO_CAPACITY


def _failed(app: CrashApp) -> None:
    reasons = app.cloud.account_state.failures.reasons
    reasons |= dict.fromkeys(
        ("ml.g5.xlarge", "ml.g6.xlarge"), "The container did not pass the ping health check."
    )
    assert app.lmi(*UP).code == 1
    reasons.clear()


def _job_at_work(app: CrashApp) -> None:
    write_recipe(BY_JOB)
    app.cloud.jobs.seconds = 1e9
    assert app.lmi(*UP).code == 1
    assert app.jobs_at_work()


def _compile_at_work(app: CrashApp) -> None:
    write_recipe(COMPILED)
    write_compile_script()
    app.cloud.jobs.seconds = 1e9
    assert app.lmi("compile", "--yes", "tiny.yaml").code == 1
    assert app.jobs_at_work()
    app.clock.sleep(1000)  # the tag search shows the job by then


def write_compile_script() -> None:
    Path("compile.py").write_text(
        "import pathlib, shutil, sys\n"
        "model, output = sys.argv[2], sys.argv[4]\n"
        "shutil.copytree(model, output, dirs_exist_ok=True)\n"
        "pathlib.Path(output, 'graph.bin').write_text('compiled')\n"
    )


def _scaled_by_hand(app: CrashApp) -> None:
    assert app.lmi("scale", "tiny", "2", "--yes").code == 0


def made_by_hand(app: CloudApp) -> None:
    """An endpoint as the console makes it: names, a variant and a scaling of its own, and no bucket of lmi's."""
    account, hosting = app.cloud.account_state, app.cloud.cloud().hosting
    model = ModelSettings(
        role="arn:aws:iam::111122223333:role/notebook",
        image="763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.33.0-lmi15.0.0-cu128",
        environment=(("HF_MODEL_ID", MODEL), ("OPTION_ROLLING_BATCH", "disable")),
        artifact="",
    )
    config = EndpointConfigSettings(
        model="my-model", instance="ml.g5.xlarge", count=1, model_download=900, startup=600
    )
    account.foreign["my-config"] = ("AllTraffic",)
    app.clock.sleep(60)
    hosting.create_model("my-model", model, (("team", "search"),))
    app.clock.sleep(60)
    hosting.create_endpoint_config("my-config", config, ())
    app.clock.sleep(60)
    hosting.create_endpoint("tiny", "my-config", (("team", "search"),))
    app.clock.sleep(1000)
    account.scaled["tiny", "AllTraffic"] = ForeignScaling(least=1, most=2, invocations=70)


def adopted(app: CrashApp) -> None:
    made_by_hand(app)
    assert app.lmi(*ADOPT).code == 0


def _has_printed(app: CrashApp) -> None:
    app.cloud.account_state.prints["tiny"] = ("a line",)


@dataclass
class _EmptyOnce:
    """An answer that fails the probe, then good ones."""

    left: int = 1

    def __call__(self, name: str, request: HttpRequest) -> list[ResponseHead | bytes]:
        self.left -= 1
        head, body = ok_response(name, request)
        return [head, body if self.left < 0 else b""]


def _fails_its_probe(app: CrashApp) -> None:
    app.cloud.account_state.answer = _EmptyOnce()


def _component_failed(app: CrashApp) -> None:
    account = app.cloud.account_state
    write_recipe(SHARED)
    planned = app.lmi("plan", "--json").result["actions"]
    (model,) = (action["model"] for action in planned if action["action"] == "create-model")
    account.failures.reasons[model] = "The container did not pass the ping health check."
    assert app.lmi(*UP).code == 1
    account.failures.reasons.clear()


def _shared_endpoint_failed(app: CrashApp) -> None:
    reasons = app.cloud.account_state.failures.reasons
    reasons["ml.g5.12xlarge"] = NO_CAPACITY
    write_recipe(SHARED)
    assert app.lmi(*UP).code == 1
    reasons.clear()


def _has_requests(app: CrashApp) -> None:
    app.cloud.stores[app.bucket].put("async/tiny/output/1.out", b"a response")


def _has_dashboard(app: CrashApp) -> None:
    assert app.lmi("dashboard", "tiny").code == 0


def _one_image_each(app: CrashApp) -> None:
    """As many builds as there are kept generations: the first image is unused after the next."""
    for number in range(KEPT_GENERATIONS):
        app.write_image(f"LABEL number={number}\n")
        write_recipe(BUILT)
        app.up()
    app.write_image()


SCENARIOS: dict[str, Scenario] = {
    "first up": Scenario(BUILT),
    "first up, by a job": Scenario(ADAPTED + "weights: {via: job}\n"),
    "first up, with an adapter and a draft model": Scenario(ADAPTED),
    "first up, next instance type": Scenario(RECIPE, before=_without_first_choice),
    "changed recipe": Scenario(CHANGED, before=Ups((RECIPE,))),
    "changed recipe that fails its probe": Scenario(CHANGED, before=Ups((RECIPE,), _fails_its_probe), code=1),
    "scaled, other instance type that fails its probe": Scenario(
        SCALED.replace("[ml.g5.xlarge, ml.g6.xlarge]", "ml.g6.xlarge"),
        before=Ups((SCALED,), _fails_its_probe),
        code=1,
    ),
    "other count": Scenario(RECIPE + "endpoint: {count: 2}\n", before=Ups((RECIPE,))),
    "with a candidate": Scenario(TRIED, before=Ups((RECIPE,))),
    "scaling on": Scenario(SCALED, before=Ups((RECIPE,))),
    "scaling off": Scenario(RECIPE, before=Ups((SCALED,))),
    "first up, instance pools": Scenario(POOLED),
    "instance pools on, scaled": Scenario(POOLED, before=Ups((SCALED,))),
    "alarms on": Scenario(WATCHED, before=Ups((RECIPE,))),
    "alarms changed": Scenario(
        RECIPE + f"endpoint: {{alarms: {{topic: '{TOPIC}', latency: {{enabled: false}}}}}}\n",
        before=Ups((WATCHED,)),
    ),
    "alarms off": Scenario(RECIPE, before=Ups((WATCHED,))),
    "down, with alarms": Scenario(WATCHED, DOWN, Ups((WATCHED,))),
    "steps and schedules on": Scenario(STEPPED, before=Ups((SCALED,))),
    "steps and schedules off": Scenario(SCALED, before=Ups((STEPPED,))),
    "down, with steps and schedules": Scenario(STEPPED, DOWN, Ups((STEPPED,))),
    "other count by hand": Scenario(RECIPE, ("scale", "tiny", "2", "--yes"), Ups((RECIPE,))),
    "back from another count": Scenario(RECIPE, before=Ups((RECIPE,), _scaled_by_hand)),
    "scaling off, other count": Scenario(RECIPE, before=Ups((SCALED,), _scaled_by_hand)),
    "scaled, other instance type": Scenario(
        SCALED.replace("[ml.g5.xlarge, ml.g6.xlarge]", "ml.g6.xlarge"), before=Ups((SCALED,))
    ),
    "tags changed": Scenario(
        RECIPE + "endpoint: {tags: {team: blue}}\n",
        before=Ups((RECIPE + "endpoint: {tags: {shift: night}}\n",)),
    ),
    "ttl changed": Scenario(RECIPE + "ttl: 8h\n", before=Ups((RECIPE + "ttl: 1h\n",))),
    "first up, deletion scheduled": Scenario(SCHEDULED),
    "deletion scheduled": Scenario(SCHEDULED, before=Ups((RECIPE + "ttl: 1h\n",))),
    "deletion no longer scheduled": Scenario(RECIPE + "ttl: 8h\n", before=Ups((SCHEDULED,))),
    "down, deletion scheduled": Scenario(SCHEDULED, DOWN, Ups((SCHEDULED,))),
    "first up, asynchronous": Scenario(ASYNC),
    "down, asynchronous": Scenario(ASYNC, DOWN, Ups((ASYNC,), _has_requests)),
    "down, with a dashboard": Scenario(RECIPE, DOWN, Ups((RECIPE,), _has_dashboard)),
    "failed endpoint": Scenario(RECIPE, before=_failed),
    "one generation too many": Scenario(BUILT, before=_one_image_each),
    "rollback": Scenario(CHANGED, ("rollback", "tiny", "--yes"), Ups((RECIPE, CHANGED))),
    "rollback to what was not scaled": Scenario(
        SCALED, ("rollback", "tiny", "--yes"), Ups((RECIPE + "options: {dtype: fp32}\n", SCALED))
    ),
    "rollback to what was scaled": Scenario(
        RECIPE, ("rollback", "tiny", "--yes"), Ups((SCALED + "options: {dtype: fp32}\n", RECIPE))
    ),
    "adopt": Scenario(RECIPE, ADOPT, made_by_hand, repeated=True),
    "changed after an adoption": Scenario(CHANGED, before=adopted),
    "rollback to what was adopted": Scenario(
        CHANGED, ("rollback", "tiny", "--yes"), Ups((CHANGED,), lambda app: None, first=adopted)
    ),
    "first up, on a shared endpoint": Scenario(SHARED),
    "changed recipe, on a shared endpoint": Scenario(SHARED_CHANGED, before=Ups((SHARED,))),
    "changed recipe that fails its probe, on a shared endpoint": Scenario(
        SHARED_CHANGED, before=Ups((SHARED,), _fails_its_probe), code=1
    ),
    "other adapters, on a shared endpoint": Scenario(OTHER_ADAPTERS, before=Ups((WITH_ADAPTERS,))),
    "more instances of a shared endpoint": Scenario(
        SHARED.replace("share: team", "share: team, count: 2, component: {copies: 5}"), before=Ups((SHARED,))
    ),
    "failed model on a shared endpoint": Scenario(SHARED, before=_component_failed),
    "failed shared endpoint": Scenario(SHARED, before=_shared_endpoint_failed),
    "rollback, on a shared endpoint": Scenario(
        SHARED_CHANGED, ("rollback", "tiny", "--yes"), Ups((SHARED, SHARED_CHANGED))
    ),
    "down, on a shared endpoint": Scenario(SHARED, DOWN, Ups((SHARED,))),
    "scaling of copies off": Scenario(
        SHARED_SCALED.replace(", autoscaling: {min: 0, max: 3, concurrent_requests_per_model: 8}", ""),
        before=Ups((SHARED_SCALED,), _scaled_by_hand),
    ),
    "down, with scaled copies": Scenario(SHARED_SCALED, DOWN, Ups((SHARED_SCALED,))),
    "down": Scenario(CHANGED, DOWN, Ups((CHANGED,))),
    "down, scaled, logs and weights too": Scenario(
        BUILT_AND_SCALED, (*DOWN, "--purge", "--logs"), Ups((BUILT_AND_SCALED,), _has_printed)
    ),
    "down while a job is at work": Scenario(BY_JOB, DOWN, _job_at_work),
    "down while a compile job is at work": Scenario(RECIPE, DOWN, _compile_at_work),
}


def prepared(app: CrashApp, scenario: Scenario, *, lagging: bool = False) -> None:
    """With `lagging` the tag search is 15 minutes behind, and reads and the role 20 seconds."""
    if lagging:
        account = app.cloud.account_state
        account.tag_lag, account.read_lag, account.role_lag = 900.0, 20.0, 20.0
    write_recipe(scenario.recipe)
    scenario.before(app)
    write_recipe(scenario.recipe)


def steps(app: CrashApp, scenario: Scenario) -> CrashInjector:
    """What the command does undisturbed."""
    result = app.crashed(None, *scenario.command)
    assert result is not None
    assert result.code == scenario.code, result.err
    return app.story


def converged(app: CrashApp) -> dict[str, Any]:
    """One more `up`, after which there is nothing to do; returns the state."""
    app.cloud.jobs.seconds = 600.0
    app.cloud.account_state.answer = ok_response
    app.up()
    assert app.lmi("status", "tiny").code == 0
    assert app.lmi("plan", "--exit-code").code == 0
    return app.remaining()


def ended(app: CrashApp, command: tuple[str, ...]) -> None:
    result = app.lmi(*command)
    assert result.code == 0, result.err
    assert app.left() == []
