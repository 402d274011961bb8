"""What the roles of existing deployments have to allow, by their records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lmi_deploy.domain.permissions import Condition, PolicyStatement
from lmi_deploy.domain.recipe_endpoint_keys import Asynchronous
from lmi_deploy.domain.record import DeploymentRef, Generation
from lmi_deploy.domain.role_setup import Document
from lmi_deploy.domain.s3_address import read_prefix
from lmi_deploy.domain.sagemaker.async_layout import async_prefix
from lmi_deploy.domain.sagemaker.s3_layout import artifact_prefix
from lmi_deploy.domain.weights import weights_prefix
from lmi_deploy.targets.sagemaker.permissions import merged
from lmi_deploy.targets.sagemaker.permissions.arns import key_resource, log_group, repository_resource
from lmi_deploy.targets.sagemaker.permissions.policy_statements import (
    ENCRYPT,
    PULL_IMAGE,
    WRITE_RESPONSES,
    join_network,
    write_telemetry,
)


def rights_in_use(
    existing: Iterable[tuple[DeploymentRef, Generation, Asynchronous | None]],
) -> dict[str, Document]:
    """By the name of a role, what it has to allow for generations of deployments; see `rights_of`."""
    found: dict[str, list[PolicyStatement]] = {}
    for ref, generation, asynchronous in existing:
        role = generation.serving.cloud.role.rpartition("/")[2]
        if not role:  # an adopted one, whose role AWS did not show
            continue
        found.setdefault(role, []).extend(rights_of(ref, generation, asynchronous))
    return {role: merged([statements]).document for role, statements in found.items()}


def rights_of(
    ref: DeploymentRef, generation: Generation, asynchronous: Asynchronous | None = None
) -> Iterator[PolicyStatement]:
    """What its role has to allow: for its own files alone, and not, as `lmi iam` prints it, for every version that the
    recipe may have. `asynchronous`: of its endpoint config; the record has no more of it than the output.
    """
    _, partition, _, _, account, _ = generation.serving.cloud.role.split(":", 5)
    rights = _Rights(ref, generation, partition, account)
    yield from rights.of_model()
    yield from rights.of_responses(asynchronous)
    yield from rights.of_instances()


@dataclass(frozen=True, slots=True)
class _Rights:
    ref: DeploymentRef
    generation: Generation
    partition: str
    account: str

    def of_model(self) -> Iterator[PolicyStatement]:
        serving, place = self.generation.serving, self.generation.serving.cloud
        if serving.in_place is not None:
            yield self._may("ReadInPlace", ("s3:GetObject",), self._objects(serving.in_place.address))
            if serving.in_place.kms_keys:
                yield self._may("DecryptInPlace", ("kms:Decrypt",), *serving.in_place.kms_keys)
        if not self.generation.artifact:  # an adopted one, whose files are where its owner keeps them
            return
        prefixes = [artifact_prefix(self.ref.name, stored) for stored in self.generation.artifacts]
        if place.delivery != "artifact":
            prefixes += [weights_prefix(stored) for stored in serving.loaded_weights]
        if place.async_output:
            prefixes.append(async_prefix(self.ref.name))
        bucket = f"arn:{self.partition}:s3:::{self.ref.bucket}"
        yield self._may("ListModel", ("s3:ListBucket",), bucket)
        yield self._may("ReadModel", ("s3:GetObject",), *(f"{bucket}/{prefix}*" for prefix in prefixes))
        if place.kms_key:
            yield self._may_use("ReadEncrypted", ("kms:Decrypt",), place.kms_key)

    def of_responses(self, asynchronous: Asynchronous | None) -> Iterator[PolicyStatement]:
        place = self.generation.serving.cloud
        if place.async_output:
            yield self._may("WriteResponses", WRITE_RESPONSES, self._objects(place.async_output))
        if asynchronous is not None:
            topics = filter(None, (asynchronous.success_topic, asynchronous.error_topic))
            yield self._may("NotifyTopics", ("sns:Publish",), *dict.fromkeys(topics))
            if asynchronous.kms_key:
                yield self._may_use("EncryptResponses", ENCRYPT, asynchronous.kms_key)
        if (capture := place.data_capture) is not None:
            yield self._may("WriteCaptured", ("s3:PutObject",), self._objects(capture.output))
            if capture.kms_key:
                yield self._may_use("EncryptCaptured", ENCRYPT, capture.kms_key)

    def of_instances(self) -> Iterator[PolicyStatement]:
        serving, place = self.generation.serving, self.generation.serving.cloud
        repositories = (repository_resource(image, self.partition) for image in serving.images)
        yield self._may("PullImage", PULL_IMAGE, *repositories)
        if place.vpc is not None:
            yield join_network()
        group = log_group(self.ref.name, is_component=place.component is not None)
        arn = f"arn:{self.partition}:logs:{place.region}:{self.account}:{group}"
        yield from write_telemetry(arn, why="write the logs")

    def _may(
        self, sid: str, actions: tuple[str, ...], *resources: str, conditions: tuple[Condition, ...] = ()
    ) -> PolicyStatement:
        why = f"{self.ref.name} runs with it"
        return PolicyStatement(sid=sid, actions=actions, resources=resources, why=why, conditions=conditions)

    def _may_use(self, sid: str, actions: tuple[str, ...], key: str) -> PolicyStatement:
        region = self.generation.serving.cloud.region
        resource, conditions = key_resource(key, f"arn:{self.partition}:kms:{region}:{self.account}:key")
        return self._may(sid, actions, resource, conditions=conditions)

    def _objects(self, address: str) -> str:
        prefix = read_prefix(address)
        return f"arn:{self.partition}:s3:::{prefix.bucket}/{prefix.path}*"
