"""The port StackExporter of target sagemaker: the text is pure, the objects in the bucket are not."""

from __future__ import annotations

from dataclasses import dataclass

from lmi_deploy.domain.deployment_artifact import Artifact
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.plan import Plan
from lmi_deploy.domain.sagemaker.exported_stack import StackFormat, claim_key, exported_id
from lmi_deploy.errors import UsageRefused
from lmi_deploy.targets.sagemaker.export.cloudformation import cloudformation
from lmi_deploy.targets.sagemaker.export.header import required_objects
from lmi_deploy.targets.sagemaker.export.stack import stack_of
from lmi_deploy.targets.sagemaker.export.terraform import terraform
from lmi_deploy.targets.sagemaker.plan.storage_actions import export_actions
from lmi_deploy.targets.sagemaker.target import SageMakerTarget
from lmi_deploy.targets.stack_exporter import StackText
from lmi_deploy.targets.target import Hubs, Perform


@dataclass(frozen=True, slots=True, kw_only=True)
class SageMakerExporter:
    target: SageMakerTarget

    def export(
        self, spec: Spec, artifact: Artifact, stack_format: StackFormat, *, with_environment: bool
    ) -> StackText:
        if spec.candidate is not None:
            raise UsageRefused(
                "endpoint.candidate: not yet in an exported stack: its share of the requests is set after the probe, "
                "by requests that a stack does not make",
                hint="remove it from the recipe, for example by an overlay, or use `lmi up`",
            )
        stack = stack_of(spec, artifact, with_environment=with_environment)
        match stack_format:
            case "cloudformation":
                text, resources, names = cloudformation(stack)
            case "terraform":
                text, resources, names = terraform(stack)
        required = (each.default is None for each in stack.parameters)
        return StackText(
            text=text,
            resources=resources,
            parameters=names,
            without_default=tuple(name for name, given in zip(names, required, strict=True) if given),
            objects=required_objects(spec, artifact),
        )

    def upload_plan(self, spec: Spec, artifact: Artifact, hubs: Hubs) -> Plan:
        observed, inventory = self.target.observe(spec.ref), self.target.inventory(spec, hubs)
        depot = self.target.depot(self.target.cloud(spec.cloud.region), spec.cloud.bucket)
        claim = claim_key(spec.name, exported_id(spec, artifact))
        claimed = depot is not None and depot.store.head(claim) is not None
        actions = export_actions(spec, artifact, observed, inventory, claimed=claimed)
        return Plan(deployment=spec.name, actions=tuple(actions))

    def upload_actions(self, spec: Spec, artifact: Artifact, hubs: Hubs) -> Perform:
        return self.target.deploy_actions(spec, artifact, hubs)
