"""The permissions of an endpoint's role: read its model, pull its image, write its logs. It writes no
object but those of Data Capture and the responses of an asynchronous endpoint.
"""

from __future__ import annotations

from collections.abc import Iterator

from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.in_place_weights import InPlaceWeights
from lmi_deploy.domain.permissions import Condition, PolicyStatement
from lmi_deploy.domain.recipe_endpoint_keys import Asynchronous, DataCapture, UpdatePolicy
from lmi_deploy.targets.sagemaker.permissions.arns import Arns
from lmi_deploy.targets.sagemaker.permissions.policy_statements import (
    ENCRYPT,
    WRITE_RESPONSES,
    decrypt_in_place,
    join_network,
    pull_image,
    write_telemetry,
)


def execution(spec: Spec, arns: Arns) -> Iterator[PolicyStatement]:
    place = spec.cloud
    yield from _storage(spec, arns)
    yield from pull_image(arns, place.image)
    yield from write_telemetry(arns.group, why="write the logs; without it a failure has no log")
    if spec.weights.in_place is not None:
        yield from _in_place(spec.weights.in_place, arns)
    if place.kms_key:
        yield _key(arns)
    if place.data_capture is not None:
        yield from _captured(place.data_capture, arns)
    if place.asynchronous is not None:
        yield from _asynchronous(place.asynchronous, arns)
    if place.update is not None and place.update.alarms:
        yield _alarms(place.update, arns)
    if place.vpc is not None:
        yield join_network()


def _storage(spec: Spec, arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="ListModel",
        actions=("s3:ListBucket",),
        resources=tuple(dict.fromkeys((arns.bucket, *_buckets(spec, arns)))),
        why="list the files before SageMaker and the container's s5cmd download them",
    )
    weights = arns.loaded_weights
    yield PolicyStatement(
        sid="ReadModel",
        actions=("s3:GetObject",),
        resources=arns.objects(arns.artifacts, *weights),
        why="the artifact" + (f" and the weights (delivery {spec.cloud.delivery})" if weights else ""),
    )


def _buckets(spec: Spec, arns: Arns) -> tuple[str, ...]:
    return (arns.bucket_of(spec.weights.in_place.address),) if spec.weights.in_place else ()


def _in_place(weights: InPlaceWeights, arns: Arns) -> Iterator[PolicyStatement]:
    yield PolicyStatement(
        sid="ReadInPlace",
        actions=("s3:GetObject",),
        resources=(arns.objects_under(weights.address),),
        why="the weights, where their owner keeps them",
    )
    if weights.kms_keys:
        yield decrypt_in_place(weights)


def _captured(capture: DataCapture, arns: Arns) -> Iterator[PolicyStatement]:
    """Source: SageMaker developer guide, "SageMaker AI roles": PutObject for the output of an endpoint."""
    yield PolicyStatement(
        sid="WriteCaptured",
        actions=("s3:PutObject",),
        resources=(arns.objects_under(capture.output),),
        why="write captured requests and responses; without it SageMaker captures nothing and reports no error",
    )
    if capture.kms_key:
        yield _encrypt("EncryptCaptured", "captured requests and responses", arns.key_of(capture.kms_key))


def _asynchronous(given: Asynchronous, arns: Arns) -> Iterator[PolicyStatement]:
    """Source: SageMaker developer guide, "Asynchronous inference: Complete the prerequisites"."""
    output = given.output or ""
    yield PolicyStatement(
        sid="ReadRequests",
        actions=("s3:GetObject",),
        resources=arns.objects(arns.requests),
        why="read the bodies of asynchronous requests",
    )
    own = not arns.is_foreign(output)
    yield PolicyStatement(
        sid="WriteResponses",
        actions=WRITE_RESPONSES,
        resources=arns.objects(arns.requests) if own else (arns.objects_under(output),),
        why="write their responses, and the texts of failures",
    )
    topics = tuple(topic for topic in (given.success_topic, given.error_topic) if topic)
    if topics:
        yield PolicyStatement(
            sid="NotifyTopics",
            actions=("sns:Publish",),
            resources=tuple(dict.fromkeys(topics)),
            why="notify the recipe's topics of responses and failures",
        )
    if given.kms_key:
        yield _encrypt("EncryptResponses", "the responses", arns.key_of(given.kms_key))


def _encrypt(sid: str, what: str, key: tuple[str, tuple[Condition, ...]]) -> PolicyStatement:
    resource, conditions = key
    return PolicyStatement(
        sid=sid,
        actions=ENCRYPT,
        resources=(resource,),
        why=f"encrypt {what} with the recipe's key",
        conditions=conditions,
    )


def _alarms(update: UpdatePolicy, arns: Arns) -> PolicyStatement:
    """Source: SageMaker developer guide, "Auto-Rollback Configuration and Monitoring"."""
    return PolicyStatement(
        sid="WatchAlarms",
        actions=("cloudwatch:DescribeAlarms",),
        resources=tuple(arns.of("cloudwatch", f"alarm:{alarm}") for alarm in update.alarms),
        why="read the alarms that roll an update back",
    )


def _key(arns: Arns) -> PolicyStatement:
    key, conditions = arns.key
    return PolicyStatement(
        sid="ReadEncrypted",
        actions=("kms:Decrypt",),
        resources=(key,),
        why="decrypt model files that are encrypted with the recipe's key",
        conditions=conditions,
    )
