"""The input of every command: ports, opened once by `composition`. Tests pass in fakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lmi_deploy.domain.gathered_facts import AvailableRuntimes, Machine
from lmi_deploy.domain.recipe_endpoint_keys import TargetName
from lmi_deploy.domain.recipe_keys import Recipe
from lmi_deploy.domain.record import NOT_KNOWN, Author, DeploymentRef
from lmi_deploy.domain.sagemaker.load_job_options import LoadJobOptions
from lmi_deploy.domain.serving_record import ServingRecord
from lmi_deploy.domain.weights import BucketRequest
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.ports.compiled_models import CompiledModels
from lmi_deploy.ports.environments import Environments
from lmi_deploy.ports.hub import Hub
from lmi_deploy.ports.image_builder import ImageBuilder
from lmi_deploy.ports.journal import Journal
from lmi_deploy.ports.load_machines import LoadMachines
from lmi_deploy.ports.lock import Lock
from lmi_deploy.ports.message_callback import Notify, ignore
from lmi_deploy.ports.model_server import ModelServer
from lmi_deploy.ports.price_cache import PriceCache
from lmi_deploy.ports.prices import PriceList
from lmi_deploy.ports.source import Source
from lmi_deploy.ports.weights import WeightsStore
from lmi_deploy.recipe.checks.issue import Issue
from lmi_deploy.targets.endpoint_adopter import EndpointAdopter
from lmi_deploy.targets.model_compiler import ModelCompiler
from lmi_deploy.targets.stack_exporter import StackExporter
from lmi_deploy.targets.target import AnyTarget, TrialTarget

LoadMachinesOf = Callable[[DeploymentRef, ServingRecord, LoadJobOptions], LoadMachines]
"""The machines in AWS that may send load to a deployment. UsageRefused if none can reach it."""


@dataclass(slots=True, kw_only=True)
class LockWait:
    """How long a command waits for another one that changes the deployment, and whether it has."""

    seconds: int = 0
    notify: Notify = ignore
    waited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """`hub` selects the source of a model id; `target_issues` is what the recipe's target would refuse of it; `trial`
    is the target on which a handler for another one is tried; `runtimes` gets the recipe's own image; `cloud` a
    region, empty for the default of AWS's own chain; `for_profile` the same with the credentials of an AWS profile.
    """

    hub: Callable[[str], Hub]
    files: Callable[[Path], Source]
    weights: Callable[[BucketRequest, int | None], WeightsStore]
    target_issues: Callable[[Recipe], Iterable[Issue]]
    targets: Mapping[TargetName, AnyTarget]
    trial: TrialTarget[Any, Any]
    compilers: Mapping[TargetName, ModelCompiler]
    exporters: Mapping[TargetName, StackExporter]
    adopter: Callable[[], EndpointAdopter]
    servers: Mapping[str, ModelServer]
    environments: Environments
    images: ImageBuilder
    compiled_models: CompiledModels
    journal: Callable[[DeploymentRef], Journal]
    lock: Callable[[DeploymentRef], Lock]
    cloud: Callable[[str], Cloud]
    for_profile: Callable[[str], Dependencies]
    price_cache: PriceCache
    price_list: PriceList
    clock: Clock
    machine: Callable[[], Machine]
    load_machines: LoadMachinesOf
    runtimes: Callable[[str | None], AvailableRuntimes]

    lock_wait: LockWait = field(default_factory=LockWait)
    recipe_author: Callable[[str], Author] = lambda _: NOT_KNOWN
    """Machine, repository and revision of a recipe's file."""

    def who(self, ref: DeploymentRef, recipe: str = "") -> Author:
        """Who changes the deployment, from this recipe's file; unknown of one on this machine."""
        if ref.is_here:
            return NOT_KNOWN
        return replace(self.recipe_author(recipe), arn=self.cloud(ref.region).caller.arn)
