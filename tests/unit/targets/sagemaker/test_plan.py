"""From any observed state on SageMaker the plan reaches the spec, and changes no foreign resource."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.local_actions import PutArtifact, RemoveArtifact, RemoveDeployment
from lmi_deploy.domain.observed_state import CloudInventory, CloudObserved, Price
from lmi_deploy.domain.plan import Action, Plan
from lmi_deploy.domain.recipe_keys import Pairs
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
    SetExpiry,
    TagEndpoint,
    UntagEndpoint,
    UpdateEndpoint,
)
from lmi_deploy.domain.sagemaker.job_actions import StopCompileJob, StopTransferJob
from lmi_deploy.domain.sagemaker.resource_settings import Delivery, ObservedEndpoint, Resource, ResourceKind
from lmi_deploy.domain.sagemaker.s3_layout import artifact_id
from lmi_deploy.domain.sagemaker.scaling_actions import RemoveScaling, SetInstanceCount, SetScaling
from lmi_deploy.domain.sagemaker.scaling_settings import Scaling
from lmi_deploy.domain.sagemaker.tags import spec_digest, tags_of
from lmi_deploy.domain.target_spec import JobPlace
from lmi_deploy.errors import NotFound, Refused
from lmi_deploy.planning.render import render
from lmi_deploy.targets.sagemaker.desired_state import desired_state
from lmi_deploy.targets.sagemaker.download_time import late_start
from lmi_deploy.targets.sagemaker.plan.deploy import diff
from lmi_deploy.targets.sagemaker.plan.rollback import rollback
from lmi_deploy.targets.sagemaker.plan.summary import estimate, generation
from lmi_deploy.targets.sagemaker.plan.teardown import teardown
from tests.support.cloud_factories import placed_spec
from tests.support.factories import SAGEMAKER, serving
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
READY = CloudInventory(bucket=True, weights=True)
OLD = "m-0123456789"


def resource(kind: ResourceKind, name: str, tags: Pairs = ()) -> Resource:
    return Resource(kind=kind, name=name, arn=f"arn:{kind}/{name}", tags=(*tags, ("lmi:deployment", "m")))


def served(spec: Spec = SPEC, **changes: object) -> CloudObserved:
    """A deployment of `spec` that is in service, in step and recorded."""
    desired, artifact = desired_state(spec, render(spec)), render(spec)
    name = desired.configs[0].name
    found = CloudObserved(
        ref=REF,
        record=None,
        endpoint=ObservedEndpoint(name="m", arn="arn:endpoint/m", status="InService", config=name, count=1),
        resources=(
            resource("endpoint", "m", tags_of(spec)),
            resource("endpoint-config", name),
            resource("model", desired.model),
        ),
        artifacts=(artifact_id(spec, artifact),),
    )
    deployed = generation(spec, artifact, Plan(deployment="m", actions=()), found, since="")
    return replace(found, record=Record(ref=REF, generations=(deployed,)), **changes)  # type: ignore[arg-type]


def ttl_tag(spec: Spec) -> Pairs:
    """The tags an endpoint is created with, and those SetExpiry writes."""
    return (("lmi:ttl", str(spec.cloud.ttl)),) if spec.cloud.ttl else ()


def past(server: str, instance: str = "ml.g5.xlarge", scaling: Scaling | None = None) -> Generation:
    place = replace(SAGEMAKER, model=f"{server}-model", scaling=scaling)
    return Generation(
        server=server,
        spec="s",
        artifact=f"artifact-{server}",
        runtime="sagemaker",
        host="us-east-1",
        port=0,
        serving=serving(place),
        since="",
        instance=instance,
    )


@st.composite
def observed_states(draw: st.DrawFn, spec: Spec) -> CloudObserved:
    """An endpoint in any status, on any of our configs, and any subset of the other resources."""
    artifact = render(spec)
    desired = desired_state(spec, artifact)
    configs = [desired.configs[0].name, desired.configs[1].name, OLD]
    status = draw(st.none() | st.sampled_from(STATUSES))
    live = draw(st.sampled_from(configs))
    pending = draw(st.sampled_from(configs)) if status == "Updating" else ""
    count = draw(st.sampled_from([0, 1, 3]))
    endpoint = ObservedEndpoint(
        name="m", arn="a", status=status or "", config=live, pending=pending, desired_count=count
    )
    names = {*draw(st.lists(st.sampled_from([*configs, "m-9999999999"]), unique=True)), live, pending} - {""}
    models = draw(st.lists(st.sampled_from([desired.model, f"{OLD}-model", "m-8888888888"]), unique=True))
    tags = draw(st.sampled_from([tags_of(spec), (), (("lmi:spec", "other"),), (("lmi:ttl", "60"),)]))
    generations = draw(st.lists(st.sampled_from(configs), unique=True))
    scaled = draw(st.sampled_from([None, Scaling(least=1, most=2, invocations=7)]))
    kinds = (CreateEndpoint, UpdateEndpoint, SetInstanceCount, SetScaling, DeleteEndpoint)
    started = {*draw(st.lists(st.sampled_from(kinds), unique=True))} | (
        {DeleteEndpoint} if status == "Deleting" else set()
    )
    intents = tuple(Intent(action=kind.kind, names={}, outcome=None) for kind in kinds if kind in started)
    deployed = tuple(past(name, scaling=scaled) for name in generations)
    record = Record(ref=REF, generations=deployed, intents=intents)
    text = artifact_id(spec, artifact)
    return CloudObserved(
        ref=REF,
        record=record if generations or intents or draw(st.booleans()) else None,
        endpoint=endpoint if status else None,
        resources=(
            *((resource("endpoint", "m", tags),) if status else ()),
            *(resource("endpoint-config", name) for name in sorted(names)),
            *(resource("model", name) for name in models),
        ),
        artifacts=tuple(draw(st.lists(st.sampled_from([text, "b" * 16]), unique=True))),
        expired=draw(st.booleans()) if status else False,
        count_by_hand=count if status == "InService" and not scaled and draw(st.booleans()) else None,
    )


INVENTORIES = st.builds(
    CloudInventory,
    bucket=st.booleans(),
    weights=st.booleans(),
    avoid=st.sampled_from([(), ("ml.g5.xlarge",), ("ml.g5.xlarge", "ml.m5.xlarge")]),
).map(lambda inventory: replace(inventory, weights=inventory.weights and inventory.bucket))
CASES = st.sampled_from([*SPECS]).flatmap(
    lambda name: st.tuples(st.just(SPECS[name]), observed_states(SPECS[name]), INVENTORIES)
)


class AccountCase:
    """The effects of a plan's actions on the observed state; what SageMaker would refuse is an error here."""

    def __init__(self, observed: CloudObserved, inventory: CloudInventory) -> None:
        self.now_observed, self.inventory = observed, inventory
        self.scaled = bool(
            observed.record and observed.record.current and observed.record.current.serving.cloud.scaling
        )
        self.named = {(r.kind, r.name) for r in observed.resources}
        self.stored = {*observed.artifacts}
        self.probed = False

    def play(self, plan: Plan) -> AccountCase:
        for action in plan.actions:
            self._act(action)
        return self

    def _act(self, action: Action) -> None:  # noqa: C901 (matched to the end)
        match action:
            case MakeBucket():
                self.inventory = replace(self.inventory, bucket=True)
            case PushWeights():
                assert self.inventory.bucket
                self.inventory = replace(self.inventory, weights=True)
            case PutArtifact(artifact=name):
                assert self.inventory.weights
                self.stored.add(name)
            case CreateModel(model=name, settings=settings):
                assert settings.artifact.split("/")[-2] in self.stored
                self._add("model", name)
            case CreateEndpointConfig(config=name, settings=settings):
                assert ("model", settings.model) in self.named
                self._add("endpoint-config", name)
            case DeleteEndpoint():
                assert self.now_observed.endpoint is not None
                self.named.discard(("endpoint", "m"))
                self.now_observed = replace(self.now_observed, endpoint=None, expired=False)
            case CreateEndpoint(config=config):
                assert self.now_observed.endpoint is None
                assert ("endpoint-config", config) in self.named
                self._add("endpoint", "m")
                self._endpoint("Creating", config, "")
            case UpdateEndpoint(config=config, keep_count=keep):
                assert self.now_observed.endpoint is not None
                assert self.now_observed.endpoint.status not in ("Failed", "Deleting", "OutOfService")
                assert ("endpoint-config", config) in self.named
                assert not keep or self.scaled
                self._endpoint("Updating", self.now_observed.endpoint.config, config)
            case AwaitService(config=config):
                assert self.now_observed.endpoint is not None
                assert config in (self.now_observed.endpoint.pending, self.now_observed.endpoint.config)
                self._endpoint("InService", config, "")
            case ProbeEndpoint():
                assert self.now_observed.serving
                self.probed = True
            case SetInstanceCount(count=count):
                assert self.now_observed.serving
                assert not self.scaled
                assert count != (self.now_observed.count_by_hand or self.now_observed.endpoint.desired_count)
                self.now_observed = replace(self.now_observed, count_by_hand=None)
            case SetScaling():
                assert self.now_observed.endpoint is not None
                assert self.now_observed.serving
                self.scaled = True
            case RemoveScaling():
                self.scaled = False
            case TagEndpoint(tags=tags):
                assert tags
            case UntagEndpoint(names=names):
                assert names
            case SetExpiry():
                assert self.now_observed.endpoint is not None
                self.now_observed = replace(self.now_observed, expired=False)
            case DeleteEndpointConfig(config=name):
                assert self.now_observed.endpoint is None or self.now_observed.endpoint.config != name
                self.named.remove(("endpoint-config", name))
            case DeleteModel(model=name):
                self.named.remove(("model", name))
            case RemoveArtifact(artifact=name):
                self.stored.remove(name)
            case RemoveDeployment():
                self.now_observed = replace(self.now_observed, record=None)
            case StopTransferJob() | StopCompileJob() | DeleteLogs() | DeleteWeights():
                pass

    def _add(self, kind: ResourceKind, name: str) -> None:
        assert (kind, name) not in self.named, "it is there already"
        self.named.add((kind, name))

    def _endpoint(self, status: str, config: str, pending: str) -> None:
        before = self.now_observed.endpoint
        count = before.desired_count if before and not before.pending and before.config == config else 0
        observed = ObservedEndpoint(
            name="m", arn="a", status=status, config=config, pending=pending, desired_count=count
        )
        by_hand = self.now_observed.count_by_hand if count else None
        self.now_observed = replace(self.now_observed, endpoint=observed, count_by_hand=by_hand)

    def observed(self, spec: Spec, plan: Plan) -> CloudObserved:
        """The state after the record was committed and the endpoint tagged."""
        artifact = render(spec)
        resources = tuple(
            resource(kind, name, (*tags_of(spec), *ttl_tag(spec)) if kind == "endpoint" else ())
            for kind, name in sorted(self.named)
        )
        deployed = generation(spec, artifact, plan, self.now_observed, since="")
        known = self.now_observed.record.generations if self.now_observed.record else ()
        generations = (*(g for g in known if g.server != deployed.server), deployed)[-5:]
        return replace(
            self.now_observed,
            record=Record(ref=REF, generations=generations),
            resources=resources,
            artifacts=tuple(sorted(self.stored)),
        )


@MANY
@given(CASES)
def test_applied_plan_leaves_nothing_to_do(case: tuple[Spec, CloudObserved, CloudInventory]) -> None:
    spec, observed, inventory = case
    artifact = render(spec)
    plan = diff(spec, artifact, observed, inventory)
    account = AccountCase(observed, inventory).play(plan)
    then = account.observed(spec, plan)
    assert then.endpoint is not None
    assert then.endpoint.status in ("InService", "SystemUpdating")
    assert desired_state(spec, artifact).endpoint_config(then.endpoint.config)
    assert not inventory.avoid or account.inventory.avoid == inventory.avoid
    again = diff(spec, artifact, then, replace(account.inventory, avoid=()))
    assert again.empty, again.actions


@MANY
@given(CASES)
def test_teardown_removes_all_own_resources(case: tuple[Spec, CloudObserved, CloudInventory]) -> None:
    _, observed, inventory = case
    account = AccountCase(observed, inventory).play(teardown(observed))
    assert (account.named, account.stored, account.now_observed.endpoint, account.now_observed.record) == (
        set(),
        set(),
        None,
        None,
    )
    left = replace(account.now_observed, resources=(), artifacts=())
    assert not left.exists
    assert teardown(left).empty


@MANY
@given(CASES)
def test_every_action_of_a_plan_has_a_unique_key(case: tuple[Spec, CloudObserved, CloudInventory]) -> None:
    spec, observed, inventory = case
    for plan in (diff(spec, render(spec), observed, inventory), teardown(observed)):
        keys = [action.key for action in plan.actions]
        assert len({*keys}) == len(keys)


@MANY
@given(CASES)
def test_serving_endpoint_is_never_deleted(
    case: tuple[Spec, CloudObserved, CloudInventory],
) -> None:
    spec, observed, inventory = case
    plan = diff(spec, render(spec), observed, inventory)
    if observed.serving:
        assert not [action for action in plan.actions if isinstance(action, DeleteEndpoint)]


def kinds(plan: Plan) -> list[str]:
    return [action.kind for action in plan.actions]


def test_first_deployment_creates_resources_in_order() -> None:
    observed = CloudObserved(ref=REF, record=None, endpoint=None)
    plan = diff(SPEC, ARTIFACT, observed, CloudInventory(bucket=False, weights=False))
    assert kinds(plan) == [
        *("MakeBucket", "PushWeights", "PutArtifact", "CreateModel", "CreateEndpointConfig"),
        *("CreateEndpoint", "AwaitService", "ProbeEndpoint"),
    ]


def test_deployment_in_step_needs_nothing_with_any_placement() -> None:
    assert diff(SPEC, ARTIFACT, served(), READY).empty
    second = desired_state(SPEC, ARTIFACT).configs[1]
    observed = served()
    assert observed.endpoint
    observed = replace(
        observed,
        endpoint=replace(observed.endpoint, config=second.name),
        resources=(*observed.resources, resource("endpoint-config", second.name)),
    )
    assert diff(SPEC, ARTIFACT, observed, READY).empty


def test_changed_count_creates_only_a_config() -> None:
    plan = diff(placed_spec(count=3), ARTIFACT, served(), READY)
    assert kinds(plan) == [
        "CreateEndpointConfig",
        "UpdateEndpoint",
        "AwaitService",
        "ProbeEndpoint",
        "TagEndpoint",
    ]
    response = {change.field: (change.before, change.after) for change in plan.changes}
    assert response == {"count": ("1", "3")}


def test_changed_scaling_touches_neither_model_nor_config() -> None:
    assert kinds(diff(SPECS["scaled"], ARTIFACT, served(), READY)) == ["SetScaling", "TagEndpoint"]
    observed = served(SPECS["scaled"])
    assert kinds(diff(SPECS["scaled"], ARTIFACT, observed, READY)) == []
    assert observed.endpoint
    one = replace(observed, endpoint=replace(observed.endpoint, desired_count=SPEC.cloud.count))
    assert kinds(diff(SPEC, ARTIFACT, one, READY)) == ["RemoveScaling", "TagEndpoint"]
    none = replace(observed, endpoint=replace(observed.endpoint, desired_count=0))
    assert kinds(diff(SPEC, ARTIFACT, none, READY))[:2] == ["RemoveScaling", "SetInstanceCount"]


def test_scaling_is_removed_while_the_instance_type_changes() -> None:
    other = placed_spec(scaling=SCALED, placements=SPEC.cloud.placements[1:])
    assert kinds(diff(other, ARTIFACT, served(SPECS["scaled"]), READY)) == [
        *("CreateEndpointConfig", "RemoveScaling", "UpdateEndpoint", "AwaitService", "ProbeEndpoint"),
        *("SetScaling", "TagEndpoint"),
    ]


def test_ttl_is_a_change_of_its_own() -> None:
    """Of the tag `lmi:ttl` alone: only `lmi extend` moves the expiry."""
    hour = placed_spec(ttl=3600)
    assert spec_digest(hour) == spec_digest(SPEC)
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


def test_path_of_a_model_folder_changes_nothing() -> None:
    local = replace(SPEC, model=replace(SPEC.model, model_id="/home/one/m"))
    existing = replace(SPEC, model=replace(SPEC.model, model_id="/srv/two/m"))
    assert spec_digest(local) == spec_digest(existing)


def test_next_placement_is_used_when_the_first_is_avoided() -> None:
    observed = CloudObserved(ref=REF, record=None, endpoint=None)
    plan = diff(SPEC, ARTIFACT, observed, replace(READY, avoid=("ml.g5.xlarge",)))
    created = next(action for action in plan.actions if isinstance(action, CreateEndpointConfig))
    assert (created.settings.instance, created.settings.volume_gb) == ("ml.m5.xlarge", 30)


def test_foreign_endpoint_is_refused_and_not_torn_down() -> None:
    observed = replace(
        served(),
        not_owned_reason="m: an endpoint of that name was not created by lmi",
        record=None,
        resources=(),
        artifacts=(),
    )
    with pytest.raises(Refused, match="not created by lmi"):
        diff(SPEC, ARTIFACT, observed, READY)
    assert teardown(observed).empty


@pytest.mark.parametrize("status", ["Creating", "Updating"])
def test_endpoint_being_changed_by_another_run_is_refused(status: str) -> None:
    observed = served()
    assert observed.endpoint
    foreign = replace(observed.endpoint, status=status, config="theirs", pending="theirs")
    with pytest.raises(Refused, match=f"{status}, to theirs"):
        diff(SPEC, ARTIFACT, replace(observed, endpoint=foreign), READY)


def test_endpoint_being_deleted_by_another_run_is_refused() -> None:
    observed = served()
    assert observed.endpoint
    with pytest.raises(Refused, match="another process is deleting its endpoint"):
        diff(SPEC, ARTIFACT, replace(observed, endpoint=replace(observed.endpoint, status="Deleting")), READY)


def test_unfinished_up_is_continued() -> None:
    observed = served()
    assert observed.endpoint
    observed = replace(observed, endpoint=replace(observed.endpoint, status="Creating"), record=None)
    assert kinds(diff(SPEC, ARTIFACT, observed, READY)) == ["AwaitService", "ProbeEndpoint"]


@pytest.mark.parametrize("status", ["Failed", "OutOfService"])
def test_endpoint_that_cannot_be_updated_is_created_again(status: str) -> None:
    observed = served()
    assert observed.endpoint
    observed = replace(observed, endpoint=replace(observed.endpoint, status=status))
    assert kinds(diff(SPEC, ARTIFACT, observed, READY)) == [
        *("DeleteEndpoint", "CreateEndpoint", "AwaitService", "ProbeEndpoint")
    ]


def test_five_generations_are_kept_and_older_ones_deleted() -> None:
    observed = served()
    assert observed.record
    old = [f"m-{number:010}" for number in range(6)]
    around = [(resource("endpoint-config", name), resource("model", f"{name}-model")) for name in old]
    observed = replace(
        observed,
        record=replace(observed.record, generations=(*map(past, old[-5:]), *observed.record.generations)),
        resources=(*observed.resources, *(one for pair in around for one in pair)),
        artifacts=(*observed.artifacts, *(f"artifact-{name}" for name in old)),
    )
    assert kinds(diff(SPEC, ARTIFACT, observed, READY)) == [
        *["DeleteEndpointConfig"] * 2,
        *["DeleteModel"] * 2,
        *["RemoveArtifact"] * 2,
    ]


def test_estimate_has_price_and_source() -> None:
    price = Price(hourly=1.408, currency="USD", source="AWS price list, 2026-11-01")
    inventory = CloudInventory(bucket=True, weights=False, prices={"ml.g5.xlarge": price})
    response = dict(estimate(SPEC, inventory).figures)
    assert response["cost"] == "$1.41 an hour (1 x ml.g5.xlarge; AWS price list, 2026-11-01)"
    assert response["to move"] == "10"
    scaled = dict(estimate(SPECS["scaled"], inventory).figures)
    assert scaled["cost"].startswith("$1.41 to $5.63 an hour (1 to 4 x ml.g5.xlarge at $1.41;")
    other = Price(hourly=0.23, currency="USD", source="AWS price list, 2026-11-01")
    both = replace(inventory, prices={**inventory.prices, "ml.m5.xlarge": other})
    assert response["alternatives"] == "ml.m5.xlarge: unknown: no source has the price"
    listed = dict(estimate(SPEC, both).figures)
    assert listed["alternatives"] == "$0.23 an hour (1 x ml.m5.xlarge)"
    assert "cost" not in dict(estimate(SPEC, replace(READY, priced=False)).figures)
    unknown = dict(estimate(SPEC, READY).figures)
    assert unknown["cost"] == "unknown: no source has the price"


def with_size(size: int, *, job: bool = False) -> Spec:
    (first, *_) = SPEC.weights.files
    cloud = SPEC.cloud
    if job:
        machines = JobPlace(
            image="i", role="r", instance="ml.m5.4xlarge", count=7, volume_gb=30, timeout=3600, hub=""
        )
        cloud = replace(cloud, job=machines, travel=replace(cloud.travel, via="job"))
    return replace(SPEC, weights=replace(SPEC.weights, files=(replace(first, size=size),)), place=cloud)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (5_900_000_000, None),
        (673_000_000_000, "about 1 h 53 min at 100 MB/s, an assumed rate of this machine"),
    ],
)
def test_estimate_has_the_time_of_a_long_transfer(size: int, words: str | None) -> None:
    spec = with_size(size)
    assert dict(estimate(spec, replace(READY, weights=False)).figures).get("transfer time") == words
    assert "transfer time" not in dict(estimate(spec, READY).figures)


def test_transfer_job_is_as_fast_as_its_instances() -> None:
    spec = with_size(673_000_000_000, job=True)
    found = dict(estimate(spec, replace(READY, weights=False)).figures)
    assert found["transfer time"] == "about 5 min 00 s at 2.80 GB/s, an assumed rate of 7 instances"


@pytest.mark.parametrize(
    ("delivery", "startup", "size", "words"),
    [
        ("s3", 3600, 10_000_000_000, ""),
        ("s3", 3600, 673_000_000_000, "7,523 s to download and load 673 GB"),
        ("mount", 3600, 673_000_000_000, "6,850 s to load 673 GB"),
        (
            "mount",
            600,
            100_000_000_000,
            "SageMaker ends the start after 600 s: raise timeouts.container_startup, or",
        ),
    ],
)
def test_start_that_may_be_longer_than_sagemaker_waits_is_a_notice(
    delivery: Delivery, startup: int, size: int, words: str
) -> None:
    placement = replace(SPEC.cloud.placements[0], instance="ml.p5.48xlarge")
    place = replace(
        SPEC.cloud,
        placements=(placement,),
        delivery=delivery,
        model_download=startup,
        startup_timeout=startup,
    )
    assert words in late_start(place, size)
    assert bool(late_start(place, size)) == bool(words)


def test_rollback_is_one_update_to_the_previous_generation() -> None:
    observed = served()
    assert observed.record
    before = replace(
        observed,
        record=replace(observed.record, generations=(past(OLD), *observed.record.generations)),
        resources=(*observed.resources, resource("endpoint-config", OLD), resource("model", f"{OLD}-model")),
    )
    plan, previous = rollback(before)
    assert kinds(plan) == [
        *("UpdateEndpoint", "AwaitService", "ProbeEndpoint"),
        *("TagEndpoint", "UntagEndpoint"),
    ]
    assert previous.server == OLD
    with pytest.raises(NotFound, match="no earlier generation"):
        rollback(observed)


def test_weights_and_logs_are_deleted_only_on_request() -> None:
    observed = served(log_group="/aws/sagemaker/Endpoints/m")
    assert {"DeleteLogs", "DeleteWeights"}.isdisjoint(kinds(teardown(observed)))
    requests = kinds(teardown(observed, logs=True, purge=("org--m/1",)))
    assert requests[-3:] == ["DeleteLogs", "DeleteWeights", "RemoveDeployment"]
    result = DeploymentRef(
        name="m", target="sagemaker", region="us-east-1", bucket=SPEC.cloud.bucket, account="123456789012"
    )
    assert result == REF
