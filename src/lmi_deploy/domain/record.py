"""The history of a deployment. If it differs from the observed state, the observed state counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lmi_deploy.domain.action import ActionBase
from lmi_deploy.domain.recipe_endpoint_keys import TargetName
from lmi_deploy.domain.sagemaker.resource_settings import ObservedEndpoint, ObservedEndpointConfig
from lmi_deploy.domain.serving_record import SageMakerServing, ServingRecord
from lmi_deploy.domain.settings_digest import ADDED

SCHEMA = 2
KEPT_GENERATIONS = 5
DeploymentStatus = Literal["in-step", "drifted", "absent", "failed", "starting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentRef:
    """Enough to find a deployment again without its recipe."""

    name: str
    target: TargetName
    region: str = ""
    """SageMaker: empty for the default of AWS's own chain."""
    bucket: str = ""
    """SageMaker: empty for the account's default, or the one that the endpoint's tags name."""
    account: str = ""
    """SageMaker: empty for the one of the credentials, whichever that is."""
    shared: str = field(default="", metadata=ADDED)
    """SageMaker: the endpoint of which it is an inference component; empty: the endpoint of its own name."""

    @property
    def endpoint(self) -> str:
        """SageMaker: the endpoint that its requests go to."""
        return self.shared or self.name

    @property
    def component(self) -> str:
        """SageMaker: the inference component that its requests name; empty for an endpoint of its own."""
        return self.name if self.shared else ""

    def command(self, verb: str) -> str:
        return command_for(verb, self.name, "" if self.is_here else self.region)

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine."""
        return self.target == "local"

    @property
    def place(self) -> str:
        """Its location, in words."""
        if self.is_here:
            return "this machine"
        account = f"account {self.account}" if self.account else ""
        return ", ".join(filter(None, (account, self.region))) or "this account and region"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One deployed spec.

    On SageMaker `server` is the endpoint config, `runtime` is "sagemaker", `host` the region and `port` 0.
    """

    server: str
    spec: str
    artifact: str
    runtime: str
    host: str
    port: int
    serving: ServingRecord
    since: str
    """ISO 8601, UTC."""
    took: int = 0
    """Seconds from the request to its service; 0 if not measured."""
    instance: str = ""
    """SageMaker: the type that it runs on, of those that the recipe allows."""

    @property
    def types(self) -> tuple[str, ...]:
        """SageMaker: `instance`, and those of its other instance pools. Empty if it is unknown."""
        if not self.instance:
            return ()
        places = self.serving.cloud.placements
        return next((one.types for one in places if one.instance == self.instance), (self.instance,))

    @property
    def artifacts(self) -> tuple[str, ...]:
        """The stored artifacts of all its variants."""
        candidate = self.serving.candidate
        return (self.artifact, *((candidate.artifact,) if candidate else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Author:
    """Who made a change, where, and from which recipe. Empty as far as it is unknown."""

    arn: str = ""
    host: str = ""
    """The name of the machine."""
    repository: str = ""
    """Host and path of the git remote `origin` of the recipe's working tree."""
    path: str = ""
    """Of the recipe in it, if git tracks the file."""
    revision: str = ""
    """The commit, with a + if files of the working tree differ from it."""

    def is_other_recipe(self, before: Author) -> bool:
        """Whether it is known to be another file than that one's, or a file of another repository."""
        if not self.repository or not before.repository:
            return False
        moved = bool(self.path and before.path) and self.path != before.path
        return self.repository != before.repository or moved

    @property
    def recipe(self) -> str:
        """The recipe and its revision, in words."""
        file = f"{self.path} of " if self.path else ""
        at = f" at {self.revision}" if self.revision else ""
        return f"{file}{self.repository}{at}" if self.repository else ""

    @property
    def words(self) -> str:
        on = f"{self.arn} on {self.host}" if self.arn and self.host else self.arn or self.host
        return ", from ".join(filter(None, (on, self.recipe)))


NOT_KNOWN = Author()
ChangeKind = Literal["up", "rollback", "adopt", "scale", "other"]
"""How a version, or its number of instances, came to be; `other`: not by lmi."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPeriod:
    """The version that is deployed from a moment until the next one's, and the instances that are billed for it."""

    since: str
    """ISO 8601, UTC."""
    server: str
    change: ChangeKind = "up"
    by: Author = NOT_KNOWN
    types: tuple[str, ...] = ()
    """SageMaker: its instance type, and those of its other pools; empty if a shared endpoint has the instances."""
    count: int = 0
    """Where it scales, the lowest number."""
    autoscaled: bool = False
    candidate_type: str = ""
    candidate_count: int = 0

    @classmethod
    def of(cls, generation: Generation, change: ChangeKind = "up", by: Author = NOT_KNOWN) -> ServingPeriod:
        begun = cls(since=generation.since, server=generation.server, change=change, by=by)
        serving, candidate = generation.serving, generation.serving.candidate
        if not isinstance(serving.place, SageMakerServing) or serving.cloud.component is not None:
            return begun
        scaling = serving.cloud.scaling
        return replace(
            begun,
            types=generation.types,
            count=scaling.lowest if scaling else serving.cloud.count,
            autoscaled=scaling is not None,
            candidate_type=candidate.instance if candidate else "",
            candidate_count=candidate.serving.cloud.count if candidate else 0,
        )

    def runs_as(self, other: ServingPeriod) -> bool:
        """Whether the same version runs, on the same instances."""
        return replace(self, since=other.since, change=other.change, by=other.by) == other

    def followed_by(
        self, endpoint: ObservedEndpoint, config: ObservedEndpointConfig | None
    ) -> ServingPeriod | None:
        """What runs since something else than lmi changed the instances of the endpoint; None if nothing did, or an
        update is in progress. `config`: the endpoint's, as far as it was read.
        """
        types = config.settings.types if config and config.name != self.server else self.types
        is_known = endpoint.status == "InService" and self.types and not self.autoscaled
        if not is_known or (types, endpoint.count) == (self.types, self.count):
            return None
        return replace(
            self,
            since=endpoint.modified,
            server=endpoint.config,
            types=types,
            count=endpoint.count,
            change="other",
            by=NOT_KNOWN,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingChange:
    """A change of the deployed version or of its instances, for the history."""

    kind: ChangeKind = "up"
    by: Author = NOT_KNOWN
    at: str = ""
    """ISO 8601, UTC; empty: when the generation began."""
    before: ServingPeriod | None = None
    """What ran until then, if no change of the history explains it."""
    count: int | None = None
    """The number of instances, if it is not the generation's."""


AN_UP = ServingChange()


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A started action; `outcome` is None until its end is known."""

    action: str
    names: dict[str, Any]
    outcome: str | None

    @property
    def weights(self) -> tuple[str, ...]:
        """Names of the weights that the action moves; a transfer job moves several."""
        moved = (str(model.get("weights", "")) for model in self.names.get("models", ()))
        return (str(self.names.get("weights", "")), *moved)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    ref: DeploymentRef
    generations: tuple[Generation, ...] = ()
    intents: tuple[Intent, ...] = ()
    coming: Generation | None = None
    """The generation of an `up` that has not finished."""
    history: tuple[ServingPeriod, ...] = field(default=(), metadata=ADDED)
    """Nothing of it is ever changed or removed; empty in a record of an earlier lmi."""
    accepted: str = field(default="", metadata=ADDED)
    """The generation that last met the objectives of a pipeline; empty: none ever has."""

    @property
    def periods(self) -> tuple[ServingPeriod, ...]:
        """All that has served, the oldest first."""
        return self.history or tuple(ServingPeriod.of(generation) for generation in self.generations)

    @property
    def left_by_rollback(self) -> str:
        """The generation that the last change, a rollback, left; empty if the last change was none."""
        last = self.periods[-2:]
        return last[0].server if len(last) == 2 and last[1].change == "rollback" else ""

    @property
    def recipe_author(self) -> Author:
        """Who last deployed it from a recipe whose repository is known."""
        known = (one.by for one in reversed(self.periods) if one.by.repository)
        return next(known, NOT_KNOWN)

    @property
    def current(self) -> Generation | None:
        return self.generations[-1] if self.generations else None

    @property
    def known(self) -> tuple[Generation, ...]:
        """Its generations, and the pending one."""
        return (*self.generations, *((self.coming,) if self.coming else ()))

    @property
    def artifact_digests(self) -> dict[str, str]:
        """SageMaker: the start of the digest of the files, by the name of the stored artifact."""
        servings = {one.artifact: one.serving for one in self.known}
        servings |= {one.artifact: one.serving for each in self.known if (one := each.serving.candidate)}
        return {name: serving.artifact for name, serving in servings.items()}

    @property
    def weights(self) -> tuple[str, ...]:
        """SageMaker: names of weights, of its generations and of the actions that were started."""
        served = (name for generation in self.known for name in generation.serving.stored_weights)
        started = (name for intent in self.intents for name in intent.weights)
        return tuple(sorted({*served, *started} - {""}))

    def started(self, *kinds: type[ActionBase]) -> Iterator[Intent]:
        """The actions of these kinds that were started since a generation was last settled."""
        names = {kind.kind for kind in kinds}
        return (intent for intent in self.intents if intent.action in names)


def command_for(verb: str, name: str, region: str) -> str:
    """`lmi VERB` of a deployment, to copy on any machine, whatever its default region. `region`: empty on this one."""
    return f"lmi {verb} {name}" + (f" --region {region}" if region else "")
