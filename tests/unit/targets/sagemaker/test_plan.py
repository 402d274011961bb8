"""Whatever is seen on SageMaker, the plan's end is what the spec says, and nothing foreign is touched on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.observed import CloudHeld, CloudObserved, Price
from lmi_deploy.domain.plan import Action, Plan, PutArtifact, RemoveArtifact, RemoveDeployment, key
from lmi_deploy.domain.recipe import Pairs
from lmi_deploy.domain.record import DeploymentRef, Generation, Intent, Record
from lmi_deploy.domain.sagemaker.actions import (
    AwaitService,
    CreateEndpoint,
    CreateEndpointConfig,
    CreateModel,
    DeleteEndpoint,
    DeleteEndpointConfig,
    DeleteLogs,
    DeleteModel,
    DeleteWeights,
    MakeBucket,
    ProbeEndpoint,
    PushWeights,
    RemoveScaling,
    SetExpiry,
    SetScaling,
    StopTransferJob,
    TagEndpoint,
    UntagEndpoint,
    UpdateEndpoint,
)
from lmi_deploy.domain.sagemaker.s3_layout import stored_id
from lmi_deploy.domain.sagemaker.settings import Resource, ResourceKind, Scaling, SeenEndpoint
from lmi_deploy.domain.sagemaker.tags import stamp, tags_of
from lmi_deploy.domain.spec import Spec
from lmi_deploy.errors import NotFound, Refused
from lmi_deploy.planning.render import render
from lmi_deploy.targets.plan import diff, generation, rollback, teardown
from lmi_deploy.targets.sagemaker.desired_state import wanted_of
from tests.support.cloud_factories import placed_spec
from tests.support.hypothesis_settings import examples

SCALED = Scaling(least=1, most=4, invocations=100)
SPECS = {
    "plain": placed_spec(),
    "scaled": placed_spec(scaling=SCALED),
    "mounted": placed_spec(delivery="mount"),
    "in the artifact": placed_spec(delivery="artifact"),
    "for a while": placed_spec(ttl=3600),
}
SPEC = SPECS["plain"]
ARTIFACT = render(SPEC)
REF = SPEC.ref
MANY = examples(100)
STATUSES = (
    *("Creating", "Updating", "SystemUpdating", "RollingBack", "InService"),
    *("OutOfService", "Deleting", "Failed", "UpdateRollbackFailed"),
)
READY = CloudHeld(bucket=True, weights=True)
OLD = "m-0123456789"


def resource(kind: ResourceKind, name: str, tags: Pairs = ()) -> Resource:
    return Resource(kind=kind, name=name, arn=f"arn:{kind}/{name}", tags=(*tags, ("lmi:deployment", "m")))


def served(spec: Spec = SPEC, **changes: object) -> CloudObserved:
    """A deployment of `spec` that is in service, in step and recorded."""
    wanted, artifact = wanted_of(spec, render(spec)), render(spec)
    name = wanted.configs[0].name
    found = CloudObserved(
        ref=REF,
        record=None,
        endpoint=SeenEndpoint(name="m", arn="arn:endpoint/m", status="InService", config=name, count=1),
        resources=(
            resource("endpoint", "m", tags_of(spec)),
            resource("endpoint-config", name),
            resource("model", wanted.model),
        ),
        artifacts=(stored_id(spec, artifact),),
    )
    told = generation(spec, artifact, Plan(deployment="m", actions=()), found, since="")
    return replace(found, record=Record(ref=REF, generations=(told,)), **changes)  # type: ignore[arg-type]


def ttl_tag(spec: Spec) -> Pairs:
    """What an endpoint is created with, and SetExpiry writes."""
    return (("lmi:ttl", str(spec.cloud.ttl)),) if spec.cloud.ttl else ()


def past(server: str, instance: str = "ml.g5.xlarge", scaling: str = "") -> Generation:
    said = {"sagemaker_model": f"{server}-model", "scaling": scaling, "probe": "{}"}
    return Generation(
        server=server,
        spec="s",
        artifact=f"artifact-{server}",
        runtime="sagemaker",
        host="us-east-1",
        port=0,
        summary=said,
        since="",
        instance=instance,
    )


@st.composite
def worlds(draw: st.DrawFn, spec: Spec) -> CloudObserved:
    """An endpoint in any status, on any config of ours, and any part of what lies around it."""
    artifact = render(spec)
    wanted = wanted_of(spec, artifact)
    configs = [wanted.configs[0].name, wanted.configs[1].name, OLD]
    status = draw(st.none() | st.sampled_from(STATUSES))
    live = draw(st.sampled_from(configs))
    pending = draw(st.sampled_from(configs)) if status == "Updating" else ""
    endpoint = SeenEndpoint(name="m", arn="a", status=status or "", config=live, pending=pending)
    names = {*draw(st.lists(st.sampled_from([*configs, "m-9999999999"]), unique=True)), live, pending} - {""}
    models = draw(st.lists(st.sampled_from([wanted.model, f"{OLD}-model", "m-8888888888"]), unique=True))
    tags = draw(st.sampled_from([tags_of(spec), (), (("lmi:spec", "other"),), (("lmi:ttl", "60"),)]))
    generations = draw(st.lists(st.sampled_from(configs), unique=True))
    scaled = draw(st.sampled_from(["", "1 to 2 instances, 7 invocations a minute each"]))
    kinds = (CreateEndpoint, UpdateEndpoint, SetScaling, DeleteEndpoint)
    begun = {*draw(st.lists(st.sampled_from(kinds), unique=True))} | (
        {DeleteEndpoint} if status == "Deleting" else set()
    )
    intents = tuple(Intent(action=kind.__name__, names={}, outcome=None) for kind in kinds if kind in begun)
    told = tuple(past(name, scaling=scaled) for name in generations)
    record = Record(ref=REF, generations=told, intents=intents)
    whole = stored_id(spec, artifact)
    return CloudObserved(
        ref=REF,
        record=record if generations or intents or draw(st.booleans()) else None,
        endpoint=endpoint if status else None,
        resources=(
            *((resource("endpoint", "m", tags),) if status else ()),
            *(resource("endpoint-config", name) for name in sorted(names)),
            *(resource("model", name) for name in models),
        ),
        artifacts=tuple(draw(st.lists(st.sampled_from([whole, "b" * 16]), unique=True))),
        expired=draw(st.booleans()) if status else False,
    )


HELD = st.builds(
    CloudHeld,
    bucket=st.booleans(),
    weights=st.booleans(),
    avoid=st.sampled_from([(), ("ml.g5.xlarge",), ("ml.g5.xlarge", "ml.m5.xlarge")]),
).map(lambda held: replace(held, weights=held.weights and held.bucket))
CASES = st.sampled_from([*SPECS]).flatmap(
    lambda name: st.tuples(st.just(SPECS[name]), worlds(SPECS[name]), HELD)
)


class World:
    """The effects of a plan's actions on what is seen; what SageMaker would refuse is an error here."""

    def __init__(self, seen: CloudObserved, held: CloudHeld) -> None:
        self.seen, self.held = seen, held
        self.scaled = bool(seen.record and seen.record.current and seen.record.current.summary.get("scaling"))
        self.named = {(r.kind, r.name) for r in seen.resources}
        self.stored = {*seen.artifacts}
        self.probed = False

    def play(self, plan: Plan) -> World:
        for action in plan.actions:
            self._act(action)
        return self

    def _act(self, action: Action) -> None:  # noqa: C901 (matched to the end)
        match action:
            case MakeBucket():
                self.held = replace(self.held, bucket=True)
            case PushWeights():
                assert self.held.bucket
                self.held = replace(self.held, weights=True)
            case PutArtifact(artifact=name):
                assert self.held.weights
                self.stored.add(name)
            case CreateModel(model=name, settings=settings):
                assert settings.artifact.split("/")[-2] in self.stored
                self._add("model", name)
            case CreateEndpointConfig(config=name, settings=settings):
                assert ("model", settings.model) in self.named
                self._add("endpoint-config", name)
            case DeleteEndpoint():
                assert self.seen.endpoint is not None
                self.named.discard(("endpoint", "m"))
                self.seen = replace(self.seen, endpoint=None, expired=False)
            case CreateEndpoint(config=config):
                assert self.seen.endpoint is None
                assert ("endpoint-config", config) in self.named
                self._add("endpoint", "m")
                self._endpoint("Creating", config, "")
            case UpdateEndpoint(config=config, keep_count=keep):
                assert self.seen.endpoint is not None
                assert self.seen.endpoint.status not in ("Failed", "Deleting", "OutOfService")
                assert ("endpoint-config", config) in self.named
                assert not keep or self.scaled
                self._endpoint("Updating", self.seen.endpoint.config, config)
            case AwaitService(config=config):
                assert self.seen.endpoint is not None
                assert config in (self.seen.endpoint.pending, self.seen.endpoint.config)
                self._endpoint("InService", config, "")
            case ProbeEndpoint():
                assert self.seen.serving
                self.probed = True
            case SetScaling():
                assert self.seen.endpoint is not None
                assert self.seen.serving
                self.scaled = True
            case RemoveScaling():
                self.scaled = False
            case TagEndpoint(tags=tags):
                assert tags
            case UntagEndpoint(names=names):
                assert names
            case SetExpiry():
                assert self.seen.endpoint is not None
                self.seen = replace(self.seen, expired=False)
            case DeleteEndpointConfig(config=name):
                assert self.seen.endpoint is None or self.seen.endpoint.config != name
                self.named.remove(("endpoint-config", name))
            case DeleteModel(model=name):
                self.named.remove(("model", name))
            case RemoveArtifact(artifact=name):
                self.stored.remove(name)
            case RemoveDeployment():
                self.seen = replace(self.seen, record=None)
            case StopTransferJob() | DeleteLogs() | DeleteWeights():
                pass

    def _add(self, kind: ResourceKind, name: str) -> None:
        assert (kind, name) not in self.named, "it is there already"
        self.named.add((kind, name))

    def _endpoint(self, status: str, config: str, pending: str) -> None:
        seen = SeenEndpoint(name="m", arn="a", status=status, config=config, pending=pending)
        self.seen = replace(self.seen, endpoint=seen)

    def observed(self, spec: Spec, plan: Plan) -> CloudObserved:
        """The world, its record settled, its endpoint tagged as a created or tagged one is."""
        artifact = render(spec)
        resources = tuple(
            resource(kind, name, (*tags_of(spec), *ttl_tag(spec)) if kind == "endpoint" else ())
            for kind, name in sorted(self.named)
        )
        told = generation(spec, artifact, plan, self.seen, since="")
        known = self.seen.record.generations if self.seen.record else ()
        generations = (*(g for g in known if g.server != told.server), told)[-5:]
        return replace(
            self.seen,
            record=Record(ref=REF, generations=generations),
            resources=resources,
            artifacts=tuple(sorted(self.stored)),
        )


@MANY
@given(CASES)
def test_after_the_plan_nothing_is_left_to_do(case: tuple[Spec, CloudObserved, CloudHeld]) -> None:
    spec, seen, held = case
    artifact = render(spec)
    plan = diff(spec, artifact, seen, held)
    world = World(seen, held).play(plan)
    then = world.observed(spec, plan)
    assert then.endpoint is not None
    assert then.endpoint.status in ("InService", "SystemUpdating")
    assert wanted_of(spec, artifact).endpoint_config(then.endpoint.config)
    assert not held.avoid or world.held.avoid == held.avoid
    again = diff(spec, artifact, then, replace(world.held, avoid=()))
    assert again.empty, again.actions


@MANY
@given(CASES)
def test_after_a_teardown_nothing_of_ours_is_there(case: tuple[Spec, CloudObserved, CloudHeld]) -> None:
    _, seen, held = case
    world = World(seen, held).play(teardown(seen))
    assert (world.named, world.stored, world.seen.endpoint, world.seen.record) == (set(), set(), None, None)
    left = replace(world.seen, resources=(), artifacts=())
    assert not left.exists
    assert teardown(left).empty


@MANY
@given(CASES)
def test_every_action_has_a_key_of_its_own(case: tuple[Spec, CloudObserved, CloudHeld]) -> None:
    spec, seen, held = case
    for plan in (diff(spec, render(spec), seen, held), teardown(seen)):
        keys = [key(action) for action in plan.actions]
        assert len({*keys}) == len(keys)


@MANY
@given(CASES)
def test_what_serves_is_deleted_only_where_no_update_would_help(
    case: tuple[Spec, CloudObserved, CloudHeld],
) -> None:
    spec, seen, held = case
    plan = diff(spec, render(spec), seen, held)
    if seen.serving:
        assert not [action for action in plan.actions if isinstance(action, DeleteEndpoint)]


def kinds(plan: Plan) -> list[str]:
    return [type(action).__name__ for action in plan.actions]


def test_a_first_deployment_in_order() -> None:
    seen = CloudObserved(ref=REF, record=None, endpoint=None)
    plan = diff(SPEC, ARTIFACT, seen, CloudHeld(bucket=False, weights=False))
    assert kinds(plan) == [
        *("MakeBucket", "PushWeights", "PutArtifact", "CreateModel", "CreateEndpointConfig"),
        *("CreateEndpoint", "AwaitService", "ProbeEndpoint"),
    ]


def test_what_is_in_step_needs_nothing_whichever_placement_it_has() -> None:
    assert diff(SPEC, ARTIFACT, served(), READY).empty
    second = wanted_of(SPEC, ARTIFACT).configs[1]
    seen = served()
    assert seen.endpoint
    seen = replace(
        seen,
        endpoint=replace(seen.endpoint, config=second.name),
        resources=(*seen.resources, resource("endpoint-config", second.name)),
    )
    assert diff(SPEC, ARTIFACT, seen, READY).empty


def test_another_count_is_another_config_of_the_same_model() -> None:
    plan = diff(placed_spec(count=3), ARTIFACT, served(), READY)
    assert kinds(plan) == [
        "CreateEndpointConfig",
        "UpdateEndpoint",
        "AwaitService",
        "ProbeEndpoint",
        "TagEndpoint",
    ]
    told = {change.field: (change.before, change.after) for change in plan.changes}
    assert told == {"count": ("1", "3")}


def test_scaling_alone_touches_neither_model_nor_config() -> None:
    assert kinds(diff(SPECS["scaled"], ARTIFACT, served(), READY)) == ["SetScaling", "TagEndpoint"]
    seen = served(SPECS["scaled"])
    assert kinds(diff(SPECS["scaled"], ARTIFACT, seen, READY)) == []
    assert kinds(diff(SPEC, ARTIFACT, seen, READY)) == ["RemoveScaling", "TagEndpoint"]


def test_an_instance_type_is_changed_without_a_scalable_target() -> None:
    other = placed_spec(scaling=SCALED, placements=SPEC.cloud.placements[1:])
    assert kinds(diff(other, ARTIFACT, served(SPECS["scaled"]), READY)) == [
        *("CreateEndpointConfig", "RemoveScaling", "UpdateEndpoint", "AwaitService", "ProbeEndpoint"),
        *("SetScaling", "TagEndpoint"),
    ]


def test_the_time_to_live_is_a_change_of_its_own() -> None:
    """Of the tag `lmi:ttl` alone: when it expires is `lmi extend`'s to move."""
    hour = placed_spec(ttl=3600)
    assert stamp(hour) == stamp(SPEC)
    added = diff(hour, ARTIFACT, served(), READY)
    assert added.actions == (SetExpiry(endpoint="m", ttl=3600),)
    assert [(c.field, c.before, c.after) for c in added.changes] == [("ttl", "", "1h")]
    tags = (*tags_of(hour), ("lmi:ttl", "3600"), ("lmi:expires-at", "2030-01-01"))
    kept = served()
    kept = replace(kept, resources=(resource("endpoint", "m", tags), *kept.resources[1:]))
    assert diff(hour, ARTIFACT, kept, READY).empty
    assert diff(placed_spec(ttl=60), ARTIFACT, kept, READY).actions == (SetExpiry(endpoint="m", ttl=60),)
    assert diff(SPEC, ARTIFACT, kept, READY).actions == (SetExpiry(endpoint="m", ttl=0),)
    expired = replace(kept, expired=True, expires="2030-01-01")
    assert diff(hour, ARTIFACT, expired, READY).actions == (SetExpiry(endpoint="m", ttl=3600),)


def test_a_models_folder_changes_nothing() -> None:
    here = replace(SPEC, model=replace(SPEC.model, model_id="/home/one/m"))
    there = replace(SPEC, model=replace(SPEC.model, model_id="/srv/two/m"))
    assert stamp(here) == stamp(there)


def test_the_next_placement_where_the_first_could_not_be_had() -> None:
    seen = CloudObserved(ref=REF, record=None, endpoint=None)
    plan = diff(SPEC, ARTIFACT, seen, replace(READY, avoid=("ml.g5.xlarge",)))
    made = next(action for action in plan.actions if isinstance(action, CreateEndpointConfig))
    assert (made.settings.instance, made.settings.volume_gb) == ("ml.m5.xlarge", 30)


def test_a_stranger_is_refused_and_left_alone() -> None:
    seen = replace(
        served(), stranger="m: an endpoint of that name is not ours", record=None, resources=(), artifacts=()
    )
    with pytest.raises(Refused, match="not ours"):
        diff(SPEC, ARTIFACT, seen, READY)
    assert teardown(seen).empty


@pytest.mark.parametrize("status", ["Creating", "Updating"])
def test_what_somebody_else_changes_is_refused(status: str) -> None:
    seen = served()
    assert seen.endpoint
    foreign = replace(seen.endpoint, status=status, config="theirs", pending="theirs")
    with pytest.raises(Refused, match=f"{status}, to theirs"):
        diff(SPEC, ARTIFACT, replace(seen, endpoint=foreign), READY)


def test_what_somebody_else_deletes_is_refused() -> None:
    seen = served()
    assert seen.endpoint
    with pytest.raises(Refused, match="being deleted, by somebody else"):
        diff(SPEC, ARTIFACT, replace(seen, endpoint=replace(seen.endpoint, status="Deleting")), READY)


def test_an_unfinished_up_is_gone_on_with() -> None:
    seen = served()
    assert seen.endpoint
    seen = replace(seen, endpoint=replace(seen.endpoint, status="Creating"), record=None)
    assert kinds(diff(SPEC, ARTIFACT, seen, READY)) == ["AwaitService", "ProbeEndpoint"]


@pytest.mark.parametrize("status", ["Failed", "OutOfService"])
def test_an_endpoint_that_no_update_mends_is_made_anew(status: str) -> None:
    seen = served()
    assert seen.endpoint
    seen = replace(seen, endpoint=replace(seen.endpoint, status=status))
    assert kinds(diff(SPEC, ARTIFACT, seen, READY)) == [
        *("DeleteEndpoint", "CreateEndpoint", "AwaitService", "ProbeEndpoint")
    ]


def test_the_last_five_generations_stay_and_older_ones_go() -> None:
    seen = served()
    assert seen.record
    old = [f"m-{number:010}" for number in range(6)]
    around = [(resource("endpoint-config", name), resource("model", f"{name}-model")) for name in old]
    seen = replace(
        seen,
        record=replace(seen.record, generations=(*map(past, old[-5:]), *seen.record.generations)),
        resources=(*seen.resources, *(one for pair in around for one in pair)),
        artifacts=(*seen.artifacts, *(f"artifact-{name}" for name in old)),
    )
    assert kinds(diff(SPEC, ARTIFACT, seen, READY)) == [
        *["DeleteEndpointConfig"] * 2,
        *["DeleteModel"] * 2,
        *["RemoveArtifact"] * 2,
    ]


def test_the_figures_name_price_and_source() -> None:
    price = Price(hourly=1.408, currency="USD", source="AWS price list, 2026-11-01")
    held = CloudHeld(bucket=True, weights=False, prices={"ml.g5.xlarge": price})
    seen = CloudObserved(ref=REF, record=None, endpoint=None)
    told = dict(diff(SPEC, ARTIFACT, seen, held).figures)
    assert told["cost"] == "$1.41 an hour (1 x ml.g5.xlarge; AWS price list, 2026-11-01)"
    assert told["to move"] == "10"
    scaled = dict(diff(SPECS["scaled"], ARTIFACT, seen, held).figures)
    assert scaled["cost"].startswith("$1.41 to $5.63 an hour (1 to 4 x ml.g5.xlarge at $1.41;")
    other = Price(hourly=0.23, currency="USD", source="AWS price list, 2026-11-01")
    both = replace(held, prices={**held.prices, "ml.m5.xlarge": other})
    assert told["alternatives"] == "ml.m5.xlarge: unknown: nobody could tell the price"
    listed = dict(diff(SPEC, ARTIFACT, seen, both).figures)
    assert listed["alternatives"] == "$0.23 an hour (1 x ml.m5.xlarge)"
    assert "cost" not in dict(diff(SPEC, ARTIFACT, served(), replace(READY, priced=False)).figures)
    unknown = dict(diff(SPEC, ARTIFACT, seen, READY).figures)
    assert unknown["cost"] == "unknown: nobody could tell the price"


def test_a_rollback_is_one_update_to_the_generation_before() -> None:
    seen = served()
    assert seen.record
    before = replace(
        seen,
        record=replace(seen.record, generations=(past(OLD), *seen.record.generations)),
        resources=(*seen.resources, resource("endpoint-config", OLD), resource("model", f"{OLD}-model")),
    )
    plan, previous = rollback(before)
    assert kinds(plan) == [
        *("UpdateEndpoint", "AwaitService", "ProbeEndpoint"),
        *("TagEndpoint", "UntagEndpoint"),
    ]
    assert previous.server == OLD
    with pytest.raises(NotFound, match="no earlier generation"):
        rollback(seen)


def test_weights_and_logs_go_only_when_asked() -> None:
    seen = served(log_group="/aws/sagemaker/Endpoints/m")
    assert {"DeleteLogs", "DeleteWeights"}.isdisjoint(kinds(teardown(seen)))
    asked = kinds(teardown(seen, logs=True, purge=("org--m/1",)))
    assert asked[-3:] == ["DeleteLogs", "DeleteWeights", "RemoveDeployment"]
    told = DeploymentRef(
        name="m", target="sagemaker", region="us-east-1", bucket=SPEC.cloud.bucket, account="123456789012"
    )
    assert told == REF
