"""What is digested names live resources: its tags and fields stay, or every deployment is created again."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args, get_type_hints

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.plan import Action, Change
from lmi_deploy.domain.sagemaker.component_settings import ComponentSettings
from lmi_deploy.domain.sagemaker.resource_settings import EndpointConfigSettings, ModelSettings
from lmi_deploy.domain.sagemaker.transfer_job import JobSettings

NAMES_RESOURCES = (Spec, ModelSettings, EndpointConfigSettings, ComponentSettings, JobSettings)
FIELDS = {
    "Spec": "name model engine weights inputs probe place",
    "CandidateSpec": "spec artifact percent shadow",
    "Artifact": "files copied",
    "ArtifactFile": "path content slot",
    "ArtifactCopy": "path source size oid weights",
    "CandidateVariant": "model instance count model_download startup volume_gb host_ami shadow_percent",
    "ModelSpec": "model_id revision commit source task architecture max_positions",
    "EngineSpec": "name tensor_parallel_degree handler properties packages",
    "HandlerSpec": "entry_point template",
    "WeightsSpec": "files left_out",
    "FileEntry": "path size oid kind",
    "Inputs": "model_py requirements",
    "ProbeSpec": "prompt body content_type expect",
    "LocalPlace": "runtime host port device_memory device startup_timeout environment packages setup image",
    "EnvironmentSetup": "python overrides repairs check size",
    "SageMakerPlace": "account partition region bucket role image placements count environment delivery "
    "model_download startup_timeout network_isolation vpc kms_key scaling tags ttl travel token_secret job",
    "Placement": "instance volume_gb host_ami",
    "PoolSettings": "others provision_timeout",
    "Vpc": "subnets security_groups",
    "DataCapture": "output percentage content kms_key",
    "Asynchronous": "output max_concurrent_per_instance success_topic error_topic kms_key",
    "UpdatePolicy": "policy step_percent wait keep_old alarms",
    "ComponentPlace": "endpoint copies accelerators memory_mb cpus",
    "ComponentSettings": "model place model_download startup",
    "AdapterSettings": "component artifact",
    "Scaling": "least most invocations",
    "InstanceScaling": "min max",
    "EndpointAlarms": "topic notify_ok rules",
    "AlarmRule": "kind threshold statistic period evaluation_periods datapoints_to_alarm",
    "TrackedMetric": "namespace name target statistic dimensions",
    "StepScaling": "name namespace metric threshold adjustments when unit statistic dimensions minutes cooldown",
    "ScheduledBounds": "name schedule timezone min max",
    "Travel": "via engine memory",
    "ImageBuild": "context dockerfile arguments platform",
    "BuildContext": "folder digest files size",
    "LocalCompilePlace": "what environment packages requirements setup timeout",
    "CompilePlace": "what image role instance volume_gb timeout",
    "CompileSpec": "weights engine compiler image device script requirements arguments options",
    "JobPlace": "image role instance count volume_gb timeout hub",
    "ModelSettings": "role image environment artifact mounts network_isolation vpc",
    "Mount": "channel uri",
    "EndpointConfigSettings": "model instance count model_download startup volume_gb host_ami kms_key",
    "JobSettings": "role image instance count volume_gb command environment inputs timeout kms_key vpc",
    "InPlaceWeights": "address files kms_keys",
    "ObjectVersion": "path size etag version",
    "AdditionalModel": "role name model_id revision commit source files",
}
"""By tag, in any order, without fields that a later version added: these are digested only if they are set."""


def dataclasses_in(kind: Any, found: dict[type[Any], None]) -> dict[type[Any], None]:
    """`kind` and those of its fields, and of theirs."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        if kind not in found:
            found[kind] = None
            for field in dataclasses.fields(kind):
                dataclasses_in(get_type_hints(kind)[field.name], found)
    else:
        for part in get_args(kind):
            dataclasses_in(part, found)
    return found


def reached(*kinds: Any) -> list[type[Any]]:
    found: dict[type[Any], None] = {}
    for kind in kinds:
        dataclasses_in(kind, found)
    return [*found]


def test_tags_and_fields_of_digested_classes_never_change() -> None:
    actual = {
        kind.__dict__["__digest_tag__"]: {
            field.name for field in dataclasses.fields(kind) if not field.metadata.get("added")
        }
        for kind in reached(*NAMES_RESOURCES)
    }
    assert actual == {tag: set(names.split()) for tag, names in FIELDS.items()}


def test_saved_plan_classes_have_unique_tags() -> None:
    tags = [kind.__dict__["__digest_tag__"] for kind in reached(Action, Change)]
    assert len({*tags}) == len(tags)
